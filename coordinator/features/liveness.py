"""Liveness: once the faults have stopped changing, everything due finishes within a bound, or the run says what waits.

A run *settles* as soon as the last fault has begun or ended. From there on

* reliable links send each segment that is on its way again within their longest time-out. After that they lose nothing
  more, so the collective ends no later than if it began anew;
* a node under a rule of repair that asks has asked each of its ports one after the other, and gets the segment from
  the neighbour that healthy nodes and links connect to the source;
* nodes that shrink notice the last failure after K steps, agree within the steps of the agreement, and run again.

Sometimes nothing can be promised, for example where a crashed node forgot what others wait for. Then the run still names
each waiting rule and what it waits for (`journals.waits`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from coordinator.annexes import annex_function
from coordinator.features import journals
from coordinator.features.base import Evidence, Feature, Findings, Metric, ResolvedRun, last_data_step
from coordinator.features.options import LivenessOptions
from coordinator.features.reliable import links_of, most_segments, round_trip
from coordinator.features.timing import control_packet, longest_packet
from coordinator.scenario.fault_ends import ended
from coordinator.scenario.model import Scenario
from emunode.algorithms.base import Algorithm
from emunode.algorithms.claims import LIVENESS, Assumption, Claim
from emunode.errors import ScenarioError
from emunode.faults.effects import ALWAYS, Delays, Duplicates, Effect, Interval, Loses, Stops
from emunode.faults.kinds import Moment
from emunode.faults.timeline import FaultTimeline, Spell
from emunode.model import CollectiveSpec, PortModel, ReliableLinks
from emunode.protocols.reliable import time_out
from emunode.protocols.survivors import largest_part
from emunode.terminal import first_of
from emunode.timed.cost_model import NANO
from emunode.topologies.base import Topology

SOURCE: Final = "liveness"
SHOWN_NODES: Final = 12
"""Most nodes that a line lists."""


def ended_by_option(scenario: Scenario, topology: Topology, specs: Sequence[str]) -> tuple[str, ...]:
    """Return the texts of faults, with the end that the option names.

    Without the option they stay as they are.
    """
    at = LivenessOptions.of(scenario).heal_at
    return tuple(specs if at is None else ended(specs, topology, at))


class LivenessFeature(Feature):
    """The end of runs whose nodes get what faults have kept from them."""

    name = "liveness"
    metrics = frozenset(LIVENESS)
    judged_anyway = metrics

    def is_active(self, spec: CollectiveSpec) -> bool:
        return spec.reliable is not None or spec.asks or (spec.agreement is not None and spec.agreement.shrink)

    def configure(self, scenario: Scenario, topology: Topology, spec: CollectiveSpec) -> CollectiveSpec:
        del scenario, topology
        return spec

    def require(self, scenario: Scenario, algorithm: Algorithm) -> None:
        at = LivenessOptions.of(scenario).heal_at
        if at is None:
            return
        if not self.is_active(algorithm.spec):
            reason = "no node would send again what is lost; add --reliable, --repair RULE or --on-failure shrink"
            raise ScenarioError("heal_at", at, reason)
        if isinstance(at, str) and scenario.clock != "timed":
            raise ScenarioError("heal_at", at, "in lock-step a step, counted from 1")

    def claims(self, run: ResolvedRun, timeline: FaultTimeline) -> Iterator[Claim]:
        if not timeline or timeline.opaque:
            return
        bound = promise(run)
        if bound is None:
            return
        assumes = frozenset({Assumption.NO_WRONG_SUSPICION})
        yield Claim("waiting_nodes", 0, "==", f"{SOURCE}: {bound.why}", assumes=assumes)
        unit = "seconds" if bound.seconds else "steps"
        most = bound.most / NANO if bound.seconds else bound.most
        yield Claim(
            f"settling_{unit}", most, "<=", f"{SOURCE}: {bound.formula}", derived=bound.derived, assumes=assumes
        )

    def measure(self, run: ResolvedRun, evidence: Evidence) -> Findings:
        if not run.faults:
            return Findings()
        metrics: dict[str, Metric] = {"waiting_nodes": len(evidence.unserved)}
        calm = calm_from(run)
        last = journals.waits.settled_at(run, evidence)
        if calm is not None and last is not None:
            if calm.seconds:
                metrics["settling_seconds"] = max(0, last - calm.start) / NANO
            else:
                # The step when the faults are over is the first one of the rest.
                metrics["settling_steps"] = max(0, last - calm.start + 1)
        found = journals.waits.waits(run, evidence) if evidence.unserved and evidence.explained else ()
        return Findings(metrics, {"waiting": [each.record() for each in found]} if found else {})

    def lines(self, run: ResolvedRun, summary: Mapping[str, Any]) -> Iterator[str]:
        """Yield the rules that wait at the end of a run, each with what it waits for."""
        for each in summary.get("waiting", ()):
            nodes = first_of(each["nodes"], SHOWN_NODES)
            yield f"waiting: {nodes} (rule {each['rule']}) for {each['for']}: {each['because']}"


# --- the time without changes ------------------------------------------------------------------------------------------


class LastFaultChange(NamedTuple):
    """The time when the last fault has begun or ended."""

    start: int
    seconds: bool
    """Whether `start` is in nanoseconds, and not a step."""


def calm_from(run: ResolvedRun) -> LastFaultChange | None:
    """Return the time of the last change of a run's faults.

    None under the timed clock for faults in steps.
    """
    timeline = _timeline(run)
    if timeline is None or timeline.opaque:
        return None
    changes = [
        moment
        for spells in timeline.spells.values()
        for interval, *_ in spells
        for moment in (interval.start, interval.end)
        if moment < ALWAYS
    ]
    return LastFaultChange(max(changes, default=0), run.scenario.clock == "timed")


def _timeline(run: ResolvedRun) -> FaultTimeline | None:
    """Return the effects of the faults in the unit of the clock.

    None for faults in steps under the timed clock.
    """
    if run.scenario.clock != "timed":
        return run.judged.timeline
    faults = tuple(run.translated) or run.faults
    # From the very beginning on is the same in both units.
    if all(isinstance(fault.step, Moment) or (fault.step == 1 and fault.interval.is_endless) for fault in faults):
        return FaultTimeline(faults)
    return None


# --- what is promised --------------------------------------------------------------------------------------------------


class Bound(NamedTuple):
    """The time that everything due takes to arrive once the faults are over, and why."""

    most: int
    """Steps, or nanoseconds."""
    why: str
    formula: str
    seconds: bool = False
    derived: bool = False


def promise(run: ResolvedRun) -> Bound | None:
    """Return the bound of a run with faults.

    None if nothing is promised.
    """
    spec = run.spec
    if spec.agreement is not None:
        return _after_agreement(run)
    if spec.asks:
        after_requests: Bound | None = annex_function("time of a repair by requests")(run)
        return after_requests
    return _over_reliable_links(run)


def _over_reliable_links(run: ResolvedRun) -> Bound | None:
    """Return the bound over reliable links under faults that end, and leave each segment an attempt."""
    timeline, links = _timeline(run), links_of(run)
    crossing, trip = _crossing(run), _trip(run)
    if timeline is None or crossing is None or trip is None or run.spec.detection is not None:
        return None
    # A source sends in steps of its own, and what it does not send while it hangs is never sent.
    hanging = [place for place in timeline.spells if place in run.algorithm.sources]
    passing = all(_passes(interval, effect) for _, interval, effect in timeline)
    enough = all(
        _lost_attempts(links, spells, crossing) < links.attempts for spells in _by_link(run.topology, timeline)
    )
    rest = _from_scratch(run, links, trip)
    if hanging or not passing or not enough or rest is None or links.retransmit_after < trip:
        return None
    longest = time_out(links.retransmit_after, links.attempts, links.back_off)
    late = max((sum(each.steps for _, each in spells) for spells in timeline.of(Delays).values()), default=0)
    formula = "the longest time-out, and the collective anew over reliable links"
    return Bound(
        longest + late * crossing + rest,
        "each segment has an attempt that no fault meets",
        formula,
        run.scenario.clock == "timed",
    )


def _passes(interval: Interval, effect: Effect) -> bool:
    """Return whether the effect ends, and reliable links make up for it."""
    if isinstance(effect, Stops) and effect.forgets and interval.start > 1:
        # What the rank had received and acknowledged by then is lost.
        return False
    return isinstance(effect, Stops | Loses | Delays | Duplicates) and not interval.is_endless


def _by_link(topology: Topology, timeline: FaultTimeline) -> Iterator[list[Spell]]:
    """Yield for each direction of a link all spells that meet its packets.

    These are its own spells, and the spells of both ends.
    """
    places = set(timeline.spells)
    ranks = {place for place in places if isinstance(place, int)}
    ends = {place for place in places if not isinstance(place, int)}
    for rank in ranks:
        for port in topology.ports(rank):
            ends |= {(rank, port), topology.end(rank, port)}
    for rank, port in sorted(ends):
        yield [
            spell
            for place in ((rank, port), rank, topology.neighbour(rank, port))
            for spell in timeline.spells.get(place, ())
        ]


def _lost_attempts(links: ReliableLinks, spells: Iterable[Spell], crossing: int) -> int:
    """Return the most attempts of a segment that these spells can meet.

    Attempts are at least `retransmit_after` apart.
    """
    found = 0
    for interval, effect, _ in spells:
        if isinstance(effect, Loses) and effect.packet is not None:
            found += 1
        elif isinstance(effect, Loses | Stops):
            # A packet that is on its way when the fault begins is lost too.
            length = interval.end - interval.start + crossing - 1
            found += (length - 1) // links.retransmit_after + 1
    return found


def _crossing(run: ResolvedRun) -> int | None:
    """Return the travel time of a packet: a step, or the nanoseconds of the longest one."""
    return 1 if run.scenario.clock != "timed" else longest_packet(run.scenario, run.algorithm)


def _trip(run: ResolvedRun) -> int | None:
    """Return the longest time from the beginning of a segment to the arrival of its acknowledgement, if nothing is lost."""
    window = links_of(run).window
    if run.scenario.clock != "timed":
        return round_trip(run.spec, run.topology, window)
    data = longest_packet(run.scenario, run.algorithm)
    if data is None:
        return None
    # Each may wait for a packet of the other kind that has begun; over one port, for the packets of all links.
    ahead = 1 + window if run.spec.port_model is PortModel.ALL_PORT else 1 + run.topology.degree * window
    return ahead * (data + control_packet(run.scenario))


def _from_scratch(run: ResolvedRun, links: ReliableLinks, trip: int) -> int | None:
    """Return a bound on the time of the collective over reliable links if nothing is lost.

    None if it is not known. Down one tree segments follow each other (`last_data_step`). Elsewhere each of the steps of
    the algorithm waits at worst for all segments of its link, a window at a time.
    """
    algorithm = run.algorithm
    if (last := last_data_step(run.spec, algorithm)) is not None:
        return last if run.scenario.clock != "timed" else last * trip
    depth = algorithm.final_step
    if depth is None:
        return None
    stated = [
        int(claim.predicted)
        for claim in algorithm.claims()
        if claim.name == "max_link_segments" and claim.relation != ">=" and not isinstance(claim.predicted, tuple)
    ]
    most = min([*stated, most_segments(run.topology, algorithm)])
    return depth * -(-most // links.window) * trip


def _after_agreement(run: ResolvedRun) -> Bound | None:
    """Return the bound on an agreement on lasting crashes, with the collective that runs again."""
    agreement, detection, timeline = run.spec.agreement, run.spec.detection, run.judged.timeline
    assert agreement is not None
    assert detection is not None
    if not agreement.shrink or run.scenario.clock == "timed" or not timeline.is_lasting:
        return None
    topology, gone = run.topology, set(timeline.stops)
    ranks = {place for place in gone if isinstance(place, int)}
    if len(ranks) < len(gone) or len(ranks) >= (topology.connectivity or 1) or not run.spec.sources_live(ranks):
        return None
    # No node notices the links between two crashed nodes: a part of crashed nodes may seem to be the largest one.
    noticed = frozenset(
        min((rank, port), topology.end(rank, port))
        for rank in ranks
        for port, peer in topology.adjacent(rank)
        if peer not in ranks
    )
    again = largest_part(topology, run.spec, noticed, 0)
    if not ranks.isdisjoint(again.ranks):
        return None
    steps = 0 if again.algorithm is None else again.algorithm.final_step
    if steps is None:
        return None
    formula = "K steps of silence, the steps of the agreement, and the collective on what is left"
    return Bound(
        detection.after + agreement.steps + steps + 1, "fewer nodes fail than the connectivity", formula, derived=True
    )
