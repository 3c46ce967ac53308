"""The requirements of an algorithm: it loads, keeps the model, delivers, survives the claimed faults, and has local
rules.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import isclose
from operator import eq, ge, le
from typing import Any, Final

from coordinator.grading.confinement import REFUSED_CALL
from coordinator.grading.marks import Mark
from coordinator.grading.refereed_run import JUDGED, GradedFaults, Referee, RefereedRun, answered_sends
from coordinator.grading.submission import GradingTimeError, SubmissionEndedError, SubmissionProcess, SubmissionServer
from coordinator.theory.lower_bounds import RequiredTraffic, lower_bounds
from emunode.algorithms.base import with_target
from emunode.algorithms.claims import stated_bound
from emunode.errors import ScenarioError
from emunode.locality import sample_ranks
from emunode.model import ALL_RANKS, ROOTLESS, Collective, CollectiveSpec, Duplex, PortModel, Rank
from emunode.topologies.base import Topology

MESSAGE_BYTES: Final = 720
"""A size that divides into as many parts as any tree packing of a small network needs."""
EVERY_SOURCE: Final = 40
"""The largest order where every rank is tried as the source; larger networks have three sources."""
MOST_FAILED_RUNS: Final = 3
"""After how many runs without an end, or processes that ended or hung, the rest is not tried."""
FAULT_RUNS: Final = 500
"""Most runs with faults on one network under one redundancy; with fewer sources if every source would take more."""

RELATIONS: Final[dict[str, Callable[[Any, Any], bool]]] = {"==": eq, "<=": le, ">=": ge}

Progress = Callable[[str, int, int], None]


@dataclass(slots=True)
class AlgorithmGrader:
    """Grades one algorithm of a submission. `grade` fills `marks`."""

    server: SubmissionServer
    described: dict[str, Any]
    """The declarations of the algorithm in the submission."""
    networks: Sequence[Topology]
    port_models: Sequence[PortModel] = ()
    """Port models that are required; all that it declares if this is empty."""
    within: float | None = None
    """The largest ratio of steps to the lower bound of every algorithm that passes; None: it is reported only."""
    progress: Progress = lambda _phase, _done, _total: None
    _failed_runs: int = 0
    _process: SubmissionProcess | None = None
    _worst: list[tuple[float, str]] = field(default_factory=list)
    _redundant: list[tuple[Topology, CollectiveSpec]] = field(default_factory=list)
    marks: dict[str, Mark] = field(init=False)

    def __post_init__(self) -> None:
        meanings = {
            "limits": "answers in time; starts no process, opens no socket, changes no file, prints little",
            "model": "ports that exist, the port model, the link capacity; nothing is sent before it is received",
            "delivery": "every node receives every message that is meant for it, from every source",
            "faults": "every single fault leaves all other nodes served, where redundancy is claimed",
            "locality": "a rank alone sends the same, given the same arrivals; no clock, no random numbers, no files",
            "claims": "the algorithm's own claims agree with what the judge measures",
            "bound": "steps, as a multiple of the fewest that any algorithm needs",
        }
        self.marks = {name: Mark(name, meaning) for name, meaning in meanings.items()}
        self.marks["bound"].required = self.within is not None

    def grade(self) -> list[Mark]:
        """Return all marks; a requirement that was not checked for lack of time says so."""
        try:
            for topology in self.networks:
                self._grade_on(topology)
            for topology, spec in self._redundant:
                self._grade_faults(topology, spec)
            self._grade_locality()
        except GradingTimeError as error:
            for mark in self.marks.values():
                mark.stopped = str(error)
        finally:
            if self._process is not None:
                self._process.close()
        return self._finished()

    def _finished(self) -> list[Mark]:
        marks, bound = self.marks, self.marks["bound"]
        if not marks["limits"].findings:
            marks["limits"].add(())
        if self._worst:
            bound.notes.append(max(self._worst)[1])
        optional = {"claims": "it makes no claim that is judged here", "faults": "it claims no redundancy"}
        for name, reason in optional.items():
            if not marks[name].cases and marks[name].stopped is None:
                marks[name].required = False
                marks[name].notes.append(reason)
        if self._failed_runs >= MOST_FAILED_RUNS:
            for mark in marks.values():
                mark.notes.append(f"the rest was not tried: {MOST_FAILED_RUNS} runs or processes did not end normally")
        if not marks["model"].cases and marks["delivery"].cases and marks["limits"].findings:
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
        _, collective, name = self.described["key"]
        models = self.port_models or tuple(map(PortModel, self.described["port_models"]))
        duplexes = tuple(map(Duplex, self.described["duplexes"]))
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
        refused: dict[tuple[PortModel, Duplex], str] = {}
        ran: set[PortModel] = set()
        for number, spec in enumerate(specs):
            self.progress(f"{topology.name} {spec.port_model}", number, len(specs))
            where = _where(topology, spec)
            run = self._referee(topology, spec, GradedFaults(), where)
            if run is None:
                continue
            if run.refused is not None:
                refused.setdefault((spec.port_model, spec.duplex), run.refused)
                continue
            ran.add(spec.port_model)
            self._judge(run, where, first=number == 0)
        for (model, _), reason in refused.items():
            # An algorithm may need full-duplex links on some networks; but a port model that it declares has to run.
            if model not in ran:
                self.marks["model"].add([f"{topology.name}, {model}: refused: {reason}"])

    def _judge(self, run: RefereedRun, where: str, *, first: bool) -> None:
        marks = self.marks
        refused = [problem for problem in run.problems if REFUSED_CALL in problem]
        # A call that is not allowed costs the points of `limits`; the port model is not judged by it.
        sound = not refused and marks["model"].add(f"{where}: {problem}" for problem in run.problems)
        delivered = marks["delivery"].add(f"{where}: {problem}" for problem in run.undelivered or _stopped(run))
        if sound and delivered:
            self._judge_claims(run, where)
            self._judge_bound(run, where)
        most = run.opened.get("max_redundancy", 1)
        if first and isinstance(most, int) and run.topology.order <= EVERY_SOURCE:
            self._redundant += [
                (run.topology, run.spec._replace(redundancy=redundancy)) for redundancy in range(1, min(most, 16) + 1)
            ]

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
        for name, predicted, relation, _ in run.opened.get("claims", ()):
            if not isinstance(name, str) or name not in run.metrics:
                continue
            if not isinstance(predicted, int | float):
                self.marks["claims"].add([f"{where}: claims {name} {relation} {predicted!r}, which is not a number"])
                continue
            measured: Any = run.metrics[name]
            holds = str(relation) in RELATIONS and RELATIONS[relation](measured, predicted)
            close = isinstance(predicted, float) and isclose(measured, predicted, rel_tol=1e-9)
            self.marks["claims"].add(
                [] if holds or close else [f"{where}: claims {name} {relation} {predicted}, measured {measured}"]
            )

    def _referee(
        self, topology: Topology, spec: CollectiveSpec, faults: GradedFaults, where: str
    ) -> RefereedRun | None:
        """Play a run; None if the process ended: that is a finding."""
        if self._failed_runs >= MOST_FAILED_RUNS:
            return None
        process = self._process
        try:
            if process is None:
                process = self._process = self.server.process()
            run = Referee(topology, spec, faults).referee(process, self.described["key"])
        except SubmissionEndedError as error:
            self._end(f"{where}: {error}")
            return None
        self._note_denied(run.opened)
        self._failed_runs += run.endless
        return run

    def _end(self, finding: str) -> None:
        self._failed_runs += 1
        self.marks["limits"].add([finding])
        if self._process is not None:
            self._process.close()
            self._process = None

    def _note_denied(self, answer: dict[str, Any]) -> None:
        denied = [f"it tried {name}" for name in answer.get("denied", ())]
        if set(denied) - set(self.marks["limits"].findings):
            self.marks["limits"].add(denied)

    # --- faults ------------------------------------------------------------------------------------------------------

    def _grade_faults(self, topology: Topology, spec: CollectiveSpec) -> None:
        """Grade all single faults, if the algorithm claims to tolerate one fault with this redundancy."""
        probe = self._referee(topology, spec, GradedFaults(), _where(topology, spec))
        tolerated = 0 if probe is None or probe.refused is not None else probe.opened.get("tolerated_faults", 0)
        if not isinstance(tolerated, int) or tolerated < 1:
            return
        sources = self._fault_sources(topology, spec)
        for number, source in enumerate(sources):
            for faults in _single_faults(topology, source):
                self.progress(f"{topology.name} redundancy {spec.redundancy}", number, len(sources))
                # A unicast goes to the rank that is farthest from its source.
                job = with_target(topology, spec._replace(source=source, seed=source + 1, target=ALL_RANKS))
                where = f"{_where(topology, job)}, redundancy {spec.redundancy}, {faults.name}"
                run = self._referee(topology, job, faults, where)
                if run is not None and run.refused is None:
                    self.marks["faults"].add(f"{where}: {each}" for each in (run.problems or run.undelivered))

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

    # --- locality ----------------------------------------------------------------------------------------------------

    def _grade_locality(self) -> None:
        """Repeat a run with one rank in a process of its own."""
        by_order = sorted(self.networks, key=lambda each: each.order)
        topology = next((each for each in reversed(by_order) if each.order <= EVERY_SOURCE), by_order[0])
        spec = next(self._specs(topology))
        run = self._referee(topology, spec, GradedFaults(), _where(topology, spec))
        if run is None or run.refused is not None or not run.turns:
            return
        ranks = sample_ranks(topology, spec.source)
        for number, rank in enumerate(ranks):
            self.progress("locality", number, len(ranks))
            where = f"{_where(topology, spec)}, {topology.label(rank)} alone"
            try:
                self.marks["locality"].add(f"{where}: {each}" for each in self._alone(run, rank))
            except SubmissionEndedError as error:
                self.marks["locality"].add([f"{where}: {error}"])

    def _alone(self, run: RefereedRun, rank: Rank) -> Iterator[str]:
        spec = run.spec
        if spec.collective in (Collective.BROADCAST, Collective.SCATTER, Collective.UNICAST) and rank != spec.source:
            # Only the source has messages. Under another seed, a rank that computes them instead of receiving them sends
            # others.
            spec = spec._replace(seed=spec.seed + 1)
        with self.server.process() as process:
            answer = process.ask("open", algorithm=self.described["key"], spec=spec._asdict(), ranks=[rank], watch=True)
            # Only steps when all ranks answered: an exception is a finding already.
            for step, (inbox, sends) in enumerate(run.turns, start=1):
                if "failed" in answer or "refused" in answer:
                    yield f"alone it fails: {answer.get('failed', answer.get('refused'))}"
                    return
                mine = [box for box in inbox if box[0] == rank]
                answer = process.ask("step", step=step, inbox=mine)
                found = [[port, parts] for _, port, parts in answered_sends(answer)]
                expected = [[port, parts] for sender, port, parts in sends if sender == rank]
                if "failed" not in answer and sorted(found) != sorted(expected):
                    yield (
                        f"in step {step} it sends on ports {sorted(port for port, _ in expected)} in the network, and on "
                        f"{sorted(port for port, _ in found)} alone, with the same arrivals"
                    )
                    break
            if "failed" in answer and run.turns:
                yield f"alone it fails: {answer['failed']}"
            yield from (f"it calls {call}" for call in answer.get("forbidden", ()))


def require_judged(described: dict[str, Any]) -> None:
    """Raise ScenarioError for a collective that cannot be graded."""
    if described["key"][1] not in JUDGED:
        raise ScenarioError("algorithm", described["key"][2], f"a submission is for one of {', '.join(JUDGED)}")


def undeclared(described: dict[str, Any]) -> Iterator[str]:
    """Yield unknown port models and kinds of links that an algorithm declares."""
    for field_name, kind in (("port_models", PortModel), ("duplexes", Duplex)):
        known = list(map(str, kind))
        unknown = [value for value in described[field_name] if value not in known]
        if unknown or not described[field_name]:
            found = repr(unknown[0]) if unknown else "none"
            yield f"{described['key'][2]}: {field_name} has {found}; expected some of {', '.join(known)}"


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
    capacity = run.opened.get("link_capacity")
    traffic = RequiredTraffic(
        spec.collective,
        spec.source,
        spec.messages * int(run.opened["segments_per_message"]),
        spec.messages * spec.message_bytes,
        spec.port_model,
        spec.duplex,
        capacity if isinstance(capacity, int) else None,
        pairs=((spec.source, spec.target),) if spec.collective is Collective.UNICAST else (),
        cut=int(run.opened["segments_per_message"]),
    )
    bound, reasons = stated_bound(lower_bounds(run.topology, traffic), "steps")
    return (bound, reasons) if bound else None
