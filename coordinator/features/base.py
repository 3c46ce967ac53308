"""The interface of a feature: one protocol of the nodes, and everything that plans, claims and judges need from it.

A feature holds no state of a run. `registry` lists all of them; `Plan` and the judges loop over the active ones of a
run. The methods from `rows` on read journals. They need polars, whose import takes as long as a plan, so they import it
on use.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from coordinator.scenario.model import Scenario
from coordinator.theory.dependence.outages import Outages, outages_of
from coordinator.theory.dependence.size import stated_hops
from emunode.algorithms.base import Algorithm, goes_by_arrivals
from emunode.algorithms.claims import FURTHER_METRICS, Assumption, Claim
from emunode.algorithms.tree_collective import TreeCollective, tree_count
from emunode.errors import RegistrationError
from emunode.faults.effects import Delays, Duplicates
from emunode.faults.kinds import Fault, LinkFault, Moment, NodeFault
from emunode.faults.timeline import FaultTimeline
from emunode.model import AGAIN_TREE, CONTROL_TREE, Collective, CollectiveSpec, Port, PortModel, Rank, Step
from emunode.protocols.base import NEWS_TREES
from emunode.registry import Registry
from emunode.topologies.base import Topology, switches

if TYPE_CHECKING:
    import polars as pl

    from coordinator.history.result_array import ResultArray
    from coordinator.history.timetable import Timetable
    from emunode.engine.rank_set import KeptResult

Metric = int | float | tuple[int, ...]
TimelineOf = Callable[[tuple[Fault, ...]], FaultTimeline]


class BrokenAssumption(NamedTuple):
    """An assumption of claims that fails in a run."""

    assumption: Assumption
    because: str
    bounds_hold: bool = False
    """Whether lower bounds hold nevertheless, since they bind every algorithm."""


class Repetition(NamedTuple):
    """A collective that ran again, as a run of its own on the remaining network."""

    run: "ResolvedRun"
    """On the remaining network, renumbered, without faults."""
    rows: "pl.LazyFrame"
    """Its journal."""
    strays: int
    """Rows of its trees between nodes that do not take part in the repetition."""
    ranks: Sequence[Rank]
    """By new rank, the old one."""
    before: Step
    """The last step before the repetition begins."""


class Evidence(NamedTuple):
    """The history of a run, as features judge it."""

    journal: "pl.LazyFrame"
    """All rows."""
    timetable: "Timetable | None" = None
    """The intended times of a run under the timed clock."""
    delivery_ratio: Metric = 0.0
    """The delivery ratio of the collective as it ran first."""
    measure: Callable[[Repetition], Mapping[str, Metric]] = lambda _: {}
    """Measures a collective that ran again."""
    results: "ResultArray | None" = None
    """The results of a reduction of real numbers."""
    unserved: Sequence[Rank] = ()
    """The healthy ranks that miss a message due to them, of the last run of the collective."""
    explained: bool = True
    """Whether features explain losses, which takes longer than counting them."""


class Findings(NamedTuple):
    """The measurements of a feature in one run."""

    metrics: Mapping[str, Metric] = {}
    summary: Mapping[str, object] = {}
    """Other keys of `summary.json`.

    A value is plain, or a function that returns one when the summary is made.
    """
    replaced: bool = False
    """Whether the deliveries of the first run no longer count: `repetition` replaces them, or a single node is left."""
    repetition: Repetition | None = None


class Feature(ABC):
    """One protocol. Every method but the first two has a default: the protocol changes nothing."""

    name: ClassVar[str]
    metrics: ClassVar[frozenset[str]] = frozenset()
    """The metrics that the feature adds to a run. Claims and sweeps accept them."""
    judged_anyway: ClassVar[frozenset[str]] = frozenset()
    """Metrics of the protocol itself, whose claims are judged even where the collective delivers nothing. Trials of
    campaigns measure a feature that has some, at the cost of a journal in polars for each trial."""

    unpredictable: ClassVar[str] = ""
    """Reason why the fault-free schedule does not predict this protocol; "" if it does."""

    # --- planning

    @abstractmethod
    def is_active(self, spec: CollectiveSpec) -> bool:
        """Return whether the nodes of a run have this protocol."""

    @abstractmethod
    def configure(self, scenario: Scenario, topology: Topology, spec: CollectiveSpec) -> CollectiveSpec:
        """Return `spec` with the settings of this protocol. ScenarioError if they contradict the scenario."""

    def require(self, scenario: Scenario, algorithm: Algorithm) -> None:
        """Raise ScenarioError if the protocol, or one of its options, does not fit the algorithm or the clock."""
        # `del` marks parameters that only overriding methods use, for linters.
        del scenario, algorithm

    # --- claims

    def claims(self, run: "ResolvedRun", timeline: FaultTimeline) -> Iterable[Claim]:
        """Make the claims about the protocol itself under the faults of `timeline` (may be empty)."""
        del run, timeline
        return ()

    def claims_without_faults(self, run: "ResolvedRun", claims: Sequence[Claim]) -> Iterable[Claim]:
        """Make the claims that the protocol adds to `claims`, the claims of the algorithm for a run without faults."""
        del run, claims
        return ()

    def claims_with_faults(self, run: "ResolvedRun") -> Iterable[Claim] | None:
        """Make the claims about deliveries under the harmful faults; None if the protocol has no influence on
        deliveries.
        """
        del run
        return None

    def broken(self, run: "ResolvedRun", timeline: FaultTimeline) -> Iterable[BrokenAssumption]:
        """Return the assumptions that fail in a run with this protocol under the faults of `timeline`."""
        del run, timeline
        return ()

    # --- judging

    def rows(self, run: "ResolvedRun") -> "pl.Expr | None":
        """Return the rows of a journal that only this protocol makes: such rows are illegal in a run without the
        protocol.
        """
        del run
        return None

    def measure(self, run: "ResolvedRun", evidence: Evidence) -> Findings:
        """Measure the protocol in a run that has it."""
        del run, evidence
        return Findings()

    def violations(self, run: "ResolvedRun", evidence: Evidence) -> "Iterable[pl.LazyFrame]":
        """Return the hops that the protocol rules out: queries with a row, with its `step`, for each such hop."""
        del run, evidence
        return ()

    def lines(self, run: "ResolvedRun", summary: Mapping[str, Any]) -> Iterable[str]:
        """Return what the command prints of the protocol after a run with this `summary`: lines of plain text."""
        del run, summary
        return ()

    def unproven(self, claims: Sequence[Claim], metrics: Mapping[str, Metric], spec: CollectiveSpec) -> str | None:
        """Return why the deliveries of a valid run cannot be judged, or None."""
        del claims, metrics, spec
        return None


FORMER_HOOKS: Final = (
    "adapt_faults", "claims_of_outcome", "reports", "suspicions", "files", "first_tree", "trees_to_suspects",
    "counted_in_trials", "breaks_symmetry", "delivers_late", "final_step", "settled_by",
)  # fmt: skip
"""Members of features of 0.3, refused rather than ignored."""


def _check(feature: Feature) -> None:
    if not feature.name.replace("-", "_").isidentifier():
        raise RegistrationError(f"feature {feature.name!r}: its name is not a word")
    gone = [name for name in FORMER_HOOKS if hasattr(feature, name)]
    if gone:
        raise RegistrationError(f"feature {feature.name!r} defines {', '.join(gone)}: see docs/extend/from-0.3.md")
    # A claim is valid only about a metric with a known name, so a plug-in protocol has to add the names of its own.
    FURTHER_METRICS.append(feature.metrics)


FEATURES: Final = Registry[str, Feature](
    "feature",
    Feature,
    key=lambda feature: feature.name,
    required=("name",),
    check=_check,
    instances=True,
    built_in="coordinator.features.registry",
)
"""Every feature by its name, plug-ins last. If several features make claims about deliveries, the claims of the first
feature count."""


class JudgedRun(NamedTuple):
    """The effects of the faults of a run, computed once for claims and judges."""

    timeline: FaultTimeline
    """The effects of all faults."""
    effective_faults: tuple[Fault, ...]
    """The faults that can have an effect: they begin no later than the algorithm's last step."""
    effective_timeline: FaultTimeline
    harmful_faults: tuple[Fault, ...]
    """The effective faults that change more than times. Only these have an influence on deliveries."""
    harmful_timeline: FaultTimeline
    states: Mapping[Rank, str]
    """Ranks with harmful node faults, each with the state that its last fault leaves."""
    outages: Outages | None
    """The outages that the faults amount to, or None if one of them has another effect."""
    excluded: list[Rank]
    """Ranks to which no delivery is due: those in `states`, and switches."""


@dataclass(frozen=True, kw_only=True)
class ResolvedRun:
    """A resolved scenario with its faults and the facts that follow from both.

    Claims and judges need to know no more of a run.
    """

    scenario: Scenario
    topology: Topology
    spec: CollectiveSpec
    algorithm: Algorithm
    faults: tuple[Fault, ...]
    """In the order of their effects."""
    features: tuple[Feature, ...]
    """The protocols of its nodes."""
    faults_may_come: bool = False
    """Whether faults may be added while the network runs (`Plan.with_faults`)."""
    in_effect: tuple[Fault, ...] | None = None
    """The faults that can have an effect, by the times of the run.

    None if that follows from the steps.
    """
    translated: Mapping[Fault, Fault] = field(default_factory=dict)
    """Faults that were given by times, with the same in steps (`results.faults_in_steps`)."""
    exact_steps: bool = True
    """Whether the steps of the faults determine the lost packets exactly.

    Times of the timed clock may not.
    """

    # --- clock and order

    @property
    def goes_by_events(self) -> bool:
        """Whether nodes have protocols or give signs of life under the timed clock."""
        return self.scenario.clock == "timed" and self.spec.has_control

    @property
    def goes_by_arrivals(self) -> bool:
        """Whether nodes pass segments on whenever they arrive.

        They do under the timed clock, if faults may make packets late.
        """
        plain = self.scenario.clock == "timed" and not self.spec.has_control
        # Without faults every packet comes in its step, so nodes may go by steps.
        return plain and bool(self.faults) and goes_by_arrivals(self.algorithm)

    @property
    def keeps_order(self) -> bool:
        """Whether the packets of a port keep their order, however late each is."""
        # Packets that come in over one port leave in the order of their arrival. With several ways in, a late packet
        # may be overtaken by a packet from another port; with one port out, packets for different links wait for each
        # other.
        return not self.goes_by_arrivals or (self.spec.port_model is PortModel.ALL_PORT and self.has_one_way_in)

    @property
    def has_one_way_in(self) -> bool:
        """Whether each rank receives by one port alone."""
        one_tree = tree_count(self.algorithm) == 1
        return one_tree and self.spec.collective in (Collective.BROADCAST, Collective.SCATTER)

    @property
    def delivers_late(self) -> bool:
        """Whether a protocol sends lost segments again, so that an outage makes a segment late."""
        return self.spec.reliable is not None or self.spec.asks

    @property
    def first_other_tree(self) -> int:
        """The first number of a tree that carries no data of the collective as it ran first."""
        return CONTROL_TREE if self.spec.agreement is None else AGAIN_TREE

    @property
    def news_trees(self) -> frozenset[int]:
        """The trees of the news of an agreement: nodes send these to suspected neighbours, too."""
        return frozenset() if self.spec.agreement is None else NEWS_TREES

    @property
    def has_only_data(self) -> bool:
        """Whether all rows of the journal carry data of the collective.

        That is so if no protocol of this run writes rows.
        """
        return not self.spec.has_control and self.first_other_tree == CONTROL_TREE

    # --- faults

    def faults_at(self, step: Step) -> tuple[Fault, ...]:
        """Return the faults that take effect at the beginning of `step`."""
        return tuple(fault for fault in self.faults if fault.step == step)

    @cached_property
    def faults_by_text(self) -> Mapping[str, Sequence[Fault]]:
        """The faults that each text in the scenario states, in the order of the scenario."""
        stated: dict[str, list[Fault]] = {text: [] for text in self.scenario.fault}
        for fault in self.faults:
            stated[fault.text].append(fault)
        return stated

    @cached_property
    def judged(self) -> JudgedRun:
        """The effects of the faults, computed once."""
        timeline_of = cache(FaultTimeline)
        effective = self._effective_faults(timeline_of)
        harmful = tuple(fault for fault in effective if not fault.slows)
        states = {fault.rank: fault.state for fault in harmful if isinstance(fault, NodeFault)}
        return JudgedRun(
            timeline=timeline_of(self.faults),
            effective_faults=effective,
            effective_timeline=timeline_of(effective),
            harmful_faults=harmful,
            harmful_timeline=timeline_of(harmful),
            states=states,
            outages=outages_of(timeline_of(effective), states, self.topology, self.spec.seed),
            excluded=[*states, *switches(self.topology)],
        )

    def _effective_faults(self, timeline_of: TimelineOf) -> tuple[Fault, ...]:
        """Return the faults that can have an effect: they begin no later than the algorithm's last step."""
        # Times decide better than steps, where they are known.
        if self.in_effect is not None:
            return self.in_effect
        last = self.algorithm.final_step
        # Reliable links prolong a run, or leave its end open.
        if self.spec.reliable is not None:
            last = None if self.goes_by_events else last_data_step(self.spec, self.algorithm)
            # The acknowledgements of the last segments cross in the step after it.
            last = None if last is None else last + 1
        # An algorithm without a stated last step may still be running when a fault comes.
        if last is None:
            return self.faults
        while True:
            early = tuple(fault for fault in self.faults if fault.step <= last or isinstance(fault.step, Moment))
            if not any(fault.breaks for fault in early):
                return early
            end = self._latest_step(early, timeline_of(early))
            # Late faults can be dropped only if it is known how long the earlier ones prolong the run.
            if end is None or end <= last:
                return self.faults if end is None else early
            last = end

    def _latest_step(self, faults: Sequence[Fault], timeline: FaultTimeline) -> Step | None:
        """Return a step after which no packet crosses under these faults; None if that is unknown."""
        last = self.algorithm.final_step
        # Over reliable links, and with repair, an outage makes a segment late, not lost; and a source that recovers may
        # send when the other nodes have ended.
        late = self.delivers_late or any(fault.revives for fault in faults)
        if last is None or late or timeline.opaque or not self.algorithm.timing.on_schedule:
            return None
        delays = sum(effect.steps for spells in timeline.of(Delays).values() for _, effect in spells)
        doubled = sum(map(len, timeline.of(Duplicates).values()))
        # Packets that are lost, altered or stopped leave all others in their steps.
        if not delays and not doubled:
            return last
        hops = stated_hops(self.algorithm)
        waits = any(not interval.is_endless for spells in timeline.stops.values() for interval in spells)
        # In every further step a packet crosses, or is on a link that delays it.
        return None if hops is None or waits else last + hops * 2**doubled * (1 + delays)

    def surviving(self, parts: "Iterable[KeptResult]") -> "Iterator[KeptResult]":
        """Yield the results of ranks that have not crashed.

        An engine may still hold the rule of a crashed rank.
        """
        return (part for part in parts if self.judged.states.get(part[0]) != "crashed")

    @property
    def claims_around_faults(self) -> list[Claim]:
        """The claims of an algorithm that builds its trees around faults in force from step 1 to the end.

        Empty for other algorithms.
        """
        # A fault that only slows nodes down changes no path, so nodes need not plan around it.
        timeline = self.judged.harmful_timeline
        lasting = timeline.is_lasting and all(first.start == 1 for first, *_ in timeline.stops.values())
        return self.algorithm.claims_with_known_faults(self.judged.states) if lasting else []

    def count_broken(self) -> tuple[int, int]:
        """Count the nodes and links that harm packets: (that lose, delay or repeat them, that alter them).

        A faulty node counts once, its links included. A link counts once for both directions.
        """
        # A place that both loses and alters counts as altering, the worse of the two: hence the flags are combined by
        # "or".
        alter = dict.fromkeys(self.judged.states, False)
        for fault in self.judged.harmful_faults:
            if isinstance(fault, NodeFault):
                alter[fault.rank] |= fault.alters_payload
        links: dict[tuple[Rank, Port], bool] = {}
        for fault in self.judged.effective_faults:
            if not isinstance(fault, LinkFault) or not fault.breaks:
                # A fault that cannot have an effect does not count.
                continue
            peer = self.topology.neighbour(fault.sender, fault.port)
            ends = [rank for rank in (fault.sender, peer) if rank in alter]
            for rank in ends:
                alter[rank] |= fault.alters_payload
            # A faulty node includes its links: such a link is not counted again.
            if not ends:
                # Both directions of a link have the same lower end, so that they are one entry.
                link = min((fault.sender, fault.port), self.topology.end(fault.sender, fault.port))
                links[link] = links.get(link, False) or fault.alters_payload
        # Algorithms tolerate fewer forgers than crashes, so the two numbers are needed apart.
        both = [*alter.values(), *links.values()]
        return both.count(False), both.count(True)

    # --- end

    @cached_property
    def last_revival(self) -> Step:
        """The last step when a source recovers and may send without receiving anything first; or 0."""
        sources = self.algorithm.sources
        return max((step for step, rank in self.judged.timeline.recoveries if rank in sources), default=0)

    def settled_by(self, step: Step) -> Step:
        """Return the step when nodes have noticed all events up to `step`.

        Nodes notice events as far as their protocols do.
        """
        detection, noticed = self.spec.detection, [step]
        if detection is not None:
            # A fault that begins in step s may silence a node from s on, and K silent steps raise the suspicion.
            noticed += [fault.step + detection.after for fault in self.faults if fault.step <= step]
        if self.spec.agreement is not None:
            # A node that is heard again learns that it is given up: its sign of life crosses in the step after the end of
            # the fault, and has been read in the next one.
            noticed += [fault.end + 2 for fault in self.faults if fault.end <= step]
        return max(noticed)

    def is_over(self, step: Step, busy: bool) -> bool:
        """Return whether a run has ended with `step`.

        A `busy` run still has unread packets or scheduled sends.
        """
        return not busy and step >= self.last_revival and step >= self.settled_by(step)


def last_data_step(spec: CollectiveSpec, algorithm: Algorithm) -> Step | None:
    """Return the last step with arrivals of data if nothing is lost.

    None where acknowledgements decide about it. Down one tree each link is a pipe: segment k follows segment k - window
    after a round trip of two steps. So m segments over L links take (m - 1)(1 + 1) + L steps for stop and wait, and m -
    1 + L steps for larger windows.
    """
    pipe = algorithm.pipe if isinstance(algorithm, TreeCollective) else None
    if spec.reliable is None or pipe is None:
        return None
    # The rule of the source may be slower than the link: then its own period separates the segments.
    return pipe.links + (pipe.segments - 1) * max(pipe.period, 2 if spec.reliable.window == 1 else 1)
