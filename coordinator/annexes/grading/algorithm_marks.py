"""The requirements of an algorithm: it loads, keeps the model, delivers, survives the claimed faults, and has local
rules.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import product
from math import isclose
from operator import eq, ge, le
from typing import Any, Final

from coordinator.annexes.grading.answers import Registered
from coordinator.annexes.grading.marks import Mark
from coordinator.annexes.grading.refereed_run import JUDGED, GradedFaults, Referee, RefereedRun
from coordinator.annexes.grading.repetition import RepeatedRuns
from coordinator.annexes.grading.submission import (
    GradingTimeError,
    SubmissionEndedError,
    SubmissionProcess,
    SubmissionServer,
)
from coordinator.networks.base import Progress
from coordinator.theory.lower_bounds import RequiredTraffic, lower_bounds
from emunode.algorithms.base import with_target
from emunode.algorithms.claims import stated_bound
from emunode.errors import ScenarioError
from emunode.model import ALL_RANKS, ROOTLESS, Collective, CollectiveSpec, Duplex, PortModel, Rank
from emunode.topologies.base import Topology

MESSAGE_BYTES: Final = 720
"""A size that divides into as many parts as any tree packing of a small network needs."""
EVERY_SOURCE: Final = 40
"""The largest order where every rank is tried as the source; larger networks have three sources."""
MOST_FAILED_RUNS: Final = 3
"""After how many runs without an end, or processes that ended or hung, the rest is not tried."""
NOT_TRIED: Final = f"was not tried: {MOST_FAILED_RUNS} runs or processes did not end normally"
FAULT_RUNS: Final = 500
"""Most runs with faults on one network under one redundancy; with fewer sources if every source would take more."""

MOST_REDUNDANCY: Final = 16

RELATIONS: Final[dict[str, Callable[[Any, Any], bool]]] = {"==": eq, "<=": le, ">=": ge}


@dataclass(slots=True)
class AlgorithmGrader:
    """Grades one algorithm of a submission. `grade` fills `marks`."""

    server: SubmissionServer
    elsewhere: SubmissionServer
    """A server with other surroundings, for repetitions."""
    described: Registered
    """The declarations of the algorithm in the submission."""
    networks: Sequence[Topology]
    port_models: Sequence[PortModel] = ()
    """Port models that are required; all that it declares if this is empty."""
    within: float | None = None
    """The largest ratio of steps to the lower bound of every algorithm that passes; None: it is reported only."""
    progress: Progress = lambda _phase, _done, _total: None
    _failed_runs: int = 0
    _stopped_by_call: bool = False
    _process: SubmissionProcess | None = None
    _worst: list[tuple[float, str]] = field(default_factory=list)
    _repetition: RepeatedRuns = field(init=False)
    _redundant: list[tuple[Topology, CollectiveSpec]] = field(default_factory=list)
    marks: dict[str, Mark] = field(init=False)

    def __post_init__(self) -> None:
        meanings = {
            "limits": "answers in time; starts no process, opens no socket, changes no file, prints little",
            "model": "ports that exist, the port model, the link capacity; nothing is sent before it is received",
            "delivery": "every node receives every message that is meant for it, from every source",
            "faults": "every single fault leaves all other nodes served, where redundancy is claimed",
            "locality": "ranks send the same in other processes, alone and in another order, given the same arrivals",
            "claims": "the algorithm's own claims agree with what the judge measures",
            "bound": "steps, as a multiple of the fewest that any algorithm needs",
        }
        self.marks = {name: Mark(name, meaning) for name, meaning in meanings.items()}
        self.marks["bound"].required = self.within is not None
        self.marks["claims"].whole = True
        self._repetition = RepeatedRuns(self.elsewhere, self.described.key)

    def grade(self) -> list[Mark]:
        """Return all marks; a requirement that was not checked for lack of time says so."""
        try:
            for topology in self.networks:
                self._grade_on(topology)
            for topology, spec in self._redundant:
                self._grade_faults(topology, spec)
        except GradingTimeError as error:
            for mark in self.marks.values():
                mark.stopped = str(error)
        finally:
            self._repetition.close()
            if self._process is not None:
                self._process.close()
        return self._finished()

    def _finished(self) -> list[Mark]:
        marks, bound = self.marks, self.marks["bound"]
        if not marks["limits"].findings:
            marks["limits"].add(())
        marks["locality"].notes += [f"a hint: it calls {hint}" for hint in self._repetition.hints]
        if self._worst:
            bound.notes.append(max(self._worst)[1])
        optional = {"claims": "it makes no claim that is judged here", "faults": "it claims no redundancy"}
        for name, reason in optional.items():
            if not marks[name].cases and marks[name].stopped is None:
                marks[name].required = False
                marks[name].notes.append(reason)
        if self._failed_runs >= MOST_FAILED_RUNS:
            for mark in marks.values():
                mark.notes.append(f"the rest {NOT_TRIED}")
        if not marks["model"].cases and marks["delivery"].cases and self._stopped_by_call and marks["limits"].findings:
            marks["model"].required = False
            marks["model"].notes.append("not judged: every run ended with a call that is not allowed")
        for name in ("model", "delivery", "locality"):
            # Nothing that was not tried has passed.
            if marks[name].required and not marks[name].cases and marks[name].stopped is None:
                marks[name].add(["no case could be run"])
        return list(marks.values())

    # --- runs --------------------------------------------------------------------------------------------------------

    def _specs(self, topology: Topology) -> Iterator[CollectiveSpec]:
        """Yield the jobs on one network: every port model, kind of links and source."""
        _, collective, name = self.described.key
        models = self.port_models or tuple(map(PortModel, self.described.port_models))
        duplexes = tuple(map(Duplex, self.described.duplexes))
        sources = (0,) if collective in ROOTLESS else _sources(topology)
        for model, duplex, source in product(models, duplexes, sources):
            spec = CollectiveSpec(
                topology.name, Collective(collective), name, source, model, duplex, MESSAGE_BYTES, seed=source + 1
            )
            if collective != Collective.UNICAST:
                yield spec
            else:
                yield from (spec._replace(target=target) for target in sources if target != source)

    def _grade_on(self, topology: Topology) -> None:
        specs = list(self._specs(topology))
        seen = False
        for number, spec in enumerate(specs):
            self.progress(f"{topology.name} {spec.port_model}", number, len(specs))
            where = _where(topology, spec)
            run = self._referee(topology, spec, GradedFaults(), where)
            if run.not_run is not None:
                # The class declares what it is for, so every job is due: it does not choose among them here.
                for mark in self._due_marks():
                    mark.miss(f"{where}: {run.not_run}")
                continue
            self._judge(run, where)
            self._repeat(run, number, where)
            if not seen and run.opened is not None and topology.order <= EVERY_SOURCE:
                most = min(run.opened.max_redundancy, MOST_REDUNDANCY)
                self._redundant += [(topology, spec._replace(redundancy=each)) for each in range(1, most + 1)]
            seen = seen or run.opened is not None

    def _due_marks(self) -> Iterator[Mark]:
        """Yield the marks that every job is a case of."""
        names = ("model", "delivery", *(("bound",) if self.within is not None else ()))
        return (self.marks[name] for name in names)

    def _judge(self, run: RefereedRun, where: str) -> None:
        marks = self.marks
        self._stopped_by_call |= run.stopped_by_call
        judged = bool(run.problems) or not run.stopped_by_call
        sound = judged and marks["model"].add(f"{where}: {problem}" for problem in run.problems)
        delivered = marks["delivery"].add(f"{where}: {problem}" for problem in run.undelivered or _stopped(run))
        if sound and delivered:
            self._judge_claims(run, where)
            self._judge_bound(run, where)
        elif self.within is not None:
            marks["bound"].add([f"{where}: the run is not right, so its steps are not judged"])

    def _repeat(self, run: RefereedRun, number: int, where: str) -> None:
        """Repeat a run that came to its end in other surroundings."""
        if run.endless or not run.turns or "steps" not in run.metrics:
            return
        if self._failed_runs >= MOST_FAILED_RUNS:
            self.marks["locality"].miss(f"{where}: it {NOT_TRIED}")
            return
        try:
            self.marks["locality"].add([f"{where}, {each}" for each in self._repetition.problems(run, number)])
        except SubmissionEndedError as error:
            self._failed_runs += 1
            self.marks["locality"].miss(f"{where}, {error}")
        self._note_calls(self._repetition.refused_calls)

    def _judge_bound(self, run: RefereedRun, where: str) -> None:
        bound = fewest_steps(run)
        if bound is None:
            return
        steps, (fewest, reason) = run.steps, bound
        ratio = steps / fewest
        text = f"at worst {ratio:.2f} times the bound: {where}: {steps} steps, at least {fewest} ({reason})"
        self._worst.append((ratio, text))
        if self.within is not None:
            self.marks["bound"].add([] if ratio <= self.within else [text])

    def _judge_claims(self, run: RefereedRun, where: str) -> None:
        for name, predicted, relation, _ in run.opened.claims if run.opened else ():
            if name not in run.metrics:
                continue
            if isinstance(predicted, bool) or not isinstance(predicted, int | float):
                self.marks["claims"].add([f"{where}: claims {name} {relation} {predicted!r}, which is not a number"])
                continue
            measured: Any = run.metrics[name]
            holds = relation in RELATIONS and RELATIONS[relation](measured, predicted)
            close = isinstance(predicted, float) and isclose(measured, predicted, rel_tol=1e-9)
            self.marks["claims"].add(
                [] if holds or close else [f"{where}: claims {name} {relation} {predicted}, measured {measured}"]
            )

    def _referee(self, topology: Topology, spec: CollectiveSpec, faults: GradedFaults, where: str) -> RefereedRun:
        """Play a run; one that could not be run says why, and that its process ended is a finding."""
        if self._failed_runs >= MOST_FAILED_RUNS:
            return RefereedRun(topology, spec, not_run=f"it {NOT_TRIED}")
        try:
            if self._process is None:
                self._process = self.server.process()
                self._note_calls(self._process.load_calls)
            run = Referee(topology, spec, faults).referee(self._process, self.described.key)
        except SubmissionEndedError as error:
            self._end(f"{where}: {error}")
            return RefereedRun(topology, spec, not_run=str(error))
        self._note_calls(run.refused_calls)
        self._failed_runs += run.endless
        return run

    def _end(self, finding: str) -> None:
        self._failed_runs += 1
        self.marks["limits"].add([finding])
        if self._process is not None:
            self._note_calls(self._process.refused_calls())
            self._process.close()
            self._process = None

    def _note_calls(self, calls: Sequence[str]) -> None:
        tried = [f"it tried {name}" for name in calls]
        if set(tried) - set(self.marks["limits"].findings):
            self.marks["limits"].add(tried)

    # --- faults ------------------------------------------------------------------------------------------------------

    def _grade_faults(self, topology: Topology, spec: CollectiveSpec) -> None:
        """Grade all single faults, if the algorithm claims to tolerate one fault with this redundancy."""
        probe = self._referee(topology, spec, GradedFaults(), _where(topology, spec))
        # With redundancy 1 nothing is claimed yet.
        if probe.not_run is not None and spec.redundancy > 1:
            self.marks["faults"].miss(f"{_where(topology, spec)}, redundancy {spec.redundancy}: {probe.not_run}")
        if probe.opened is None or probe.opened.tolerated_faults < 1:
            return
        sources = self._fault_sources(topology, spec)
        for number, source in enumerate(sources):
            for faults in _single_faults(topology, source):
                self.progress(f"{topology.name} redundancy {spec.redundancy}", number, len(sources))
                # A unicast goes to the rank that is farthest from its source.
                job = with_target(topology, spec._replace(source=source, seed=source + 1, target=ALL_RANKS))
                where = f"{_where(topology, job)}, redundancy {spec.redundancy}, {faults.name}"
                run = self._referee(topology, job, faults, where)
                if run.not_run is not None:
                    self.marks["faults"].miss(f"{where}: {run.not_run}")
                else:
                    problems = run.problems or run.undelivered or _stopped(run)
                    self.marks["faults"].add(f"{where}: {each}" for each in problems)

    def _fault_sources(self, topology: Topology, spec: CollectiveSpec) -> Sequence[Rank]:
        if spec.collective in ROOTLESS:
            return (0,)
        faults = topology.order - 1 + topology.link_count
        sources = topology.data_ranks
        if len(sources) * faults <= FAULT_RUNS:
            return sources
        chosen = sources[:: -(-len(sources) * faults // FAULT_RUNS)]
        note = f"{topology.name}: every single fault from {len(chosen)} of {len(sources)} sources"
        if note not in self.marks["faults"].notes:
            self.marks["faults"].notes.append(note)
        return chosen


def require_judged(described: Registered) -> None:
    """Raise ScenarioError for a collective that cannot be graded."""
    _, collective, name = described.key
    if collective not in JUDGED:
        raise ScenarioError("algorithm", name, f"a submission is for one of {', '.join(JUDGED)}")


def undeclared(described: Registered) -> Iterator[str]:
    """Yield unknown port models and kinds of links that an algorithm declares."""
    declared: tuple[tuple[str, list[str], type[StrEnum]], ...] = (
        ("port_models", described.port_models, PortModel),
        ("duplexes", described.duplexes, Duplex),
    )
    for field_name, values, kind in declared:
        known = list(map(str, kind))
        unknown = [value for value in values if value not in known]
        if unknown or not values:
            found = repr(unknown[0]) if unknown else "none"
            yield f"{described.key[2]}: {field_name} has {found}; expected some of {', '.join(known)}"


def _sources(topology: Topology) -> Sequence[Rank]:
    ranks = topology.data_ranks
    return ranks if len(ranks) <= EVERY_SOURCE else (ranks[0], ranks[len(ranks) // 2], ranks[-1])


def _where(topology: Topology, spec: CollectiveSpec) -> str:
    links = ", half-duplex" if spec.duplex is Duplex.HALF else ""
    ends = "" if spec.collective in ROOTLESS else f", {topology.label(spec.source)}"
    to = f" to {topology.label(spec.target)}" if spec.target != ALL_RANKS else ""
    return f"{topology.name}, {spec.port_model}{links}{ends}{to}"


def _stopped(run: RefereedRun) -> list[str]:
    return [] if "deliveries" in run.metrics or "steps" in run.metrics else ["the run did not get to its end"]


def _single_faults(topology: Topology, source: Rank) -> Iterator[GradedFaults]:
    """Yield each node but the source crashed, then each link down in both directions."""
    for rank in topology.ranks():
        if rank != source:
            yield GradedFaults(crashed=frozenset({rank}), name=f"crash:{topology.label(rank)}")
    for rank, port, peer, its_port in topology.links():
        name = f"down:{topology.label(rank)}~{topology.label(peer)}"
        yield GradedFaults(down=frozenset({(rank, port), (peer, its_port)}), name=name)


def fewest_steps(run: RefereedRun) -> tuple[float, str] | None:
    """Return the lower bound of every algorithm on the steps, and its reasons; None where no bound is known.

    `link_capacity` is the capacity of a packet.
    """
    spec = run.spec
    if run.opened is None:
        return None
    traffic = RequiredTraffic(
        spec.collective,
        spec.source,
        spec.messages * run.opened.segments_per_message,
        spec.messages * spec.message_bytes,
        spec.port_model,
        spec.duplex,
        run.opened.link_capacity,
        pairs=((spec.source, spec.target),) if spec.collective is Collective.UNICAST else (),
        cut=run.opened.segments_per_message,
    )
    bound, reasons = stated_bound(lower_bounds(run.topology, traffic), "steps")
    return (bound, reasons) if bound else None
