"""How long everything due takes over reliable links once the faults are over."""

from collections.abc import Iterable, Iterator

from coordinator.annexes.reliable.feature import links_of, most_segments, round_trip
from coordinator.features.base import ResolvedRun, last_data_step
from coordinator.features.liveness import Bound, timeline_of
from coordinator.features.timing import control_packet, longest_packet
from emunode.annexes.reliable.layer import time_out
from emunode.faults.effects import Delays, Duplicates, Effect, Interval, Loses, Stops
from emunode.faults.timeline import FaultTimeline, Spell
from emunode.model import PortModel, ReliableLinks
from emunode.topologies.base import Topology


def time_over_links(run: ResolvedRun) -> Bound | None:
    """Return the bound over reliable links under faults that end, and leave each segment an attempt."""
    timeline, links = timeline_of(run), links_of(run)
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
    attempts = 0
    for interval, effect, _ in spells:
        if isinstance(effect, Loses) and effect.packet is not None:
            attempts += 1
        elif isinstance(effect, Loses | Stops):
            # A packet that is on its way when the fault begins is lost too.
            length = interval.end - interval.start + crossing - 1
            attempts += (length - 1) // links.retransmit_after + 1
    return attempts


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
