"""Reliable links and signs of life under the timed clock: their settings, what they are refused for, and their claims."""

from collections.abc import Iterable, Iterator
from math import prod
from typing import Final

from coordinator.planning.costs import costs_of
from coordinator.scenario.model import Scenario, format_duration, knowledge_of, parse_duration
from emunode.algorithms.base import Algorithm, LocalView
from emunode.algorithms.claims import DELIVERY, Claim
from emunode.algorithms.tree_collective import ForwardRule, TreeCollective
from emunode.errors import ScenarioError
from emunode.faults.effects import Alters, Duplicates, Loses, Slows, Stops
from emunode.faults.timeline import FaultTimeline
from emunode.model import FOLDING, Collective, CollectiveSpec, PortModel, ReliableLinks
from emunode.protocols.base import CONTROL_BYTES
from emunode.timed.cost_model import NANO, LinearCostModel
from emunode.topologies.base import Topology

RELIABLE = "reliable links"
WALKED: Final = 10_000
"""Nodes of the largest network whose tree is walked for a claim."""
DETECTION = "detection by silence"
SERVED: Final = frozenset(DELIVERY) - {"duplicates", "relays"}
"""Metrics of what arrived that count no copies of segments: these hold whatever is sent again."""


def reliable_links(scenario: Scenario, topology: Topology, spec: CollectiveSpec) -> ReliableLinks:
    """The settings of reliable links, with times in nanoseconds; ScenarioError for a time-out that is too short."""
    costs = costs_of(scenario)
    data, answer = costs.nanoseconds(spec.message_bytes), costs.nanoseconds(CONTROL_BYTES)
    after = scenario.retransmit_after
    if isinstance(after, int):
        raise ScenarioError("retransmit_after", after, "under the timed clock a time such as 5ms")
    if after is not None:
        nanoseconds = round(parse_duration(after) * NANO)
        least = costs.nanoseconds(1) + answer
        if nanoseconds <= least:
            reason = f"the shortest segment and its acknowledgement take {format_duration(least / NANO)}"
            raise ScenarioError("retransmit_after", after, reason)
    else:
        # A whole message and its acknowledgement, each behind another packet of its kind on the same port; over one port
        # behind those of all links.
        ahead = 2 if spec.port_model is PortModel.ALL_PORT else 1 + topology.degree * scenario.window
        nanoseconds = ahead * (data + answer)
    return ReliableLinks(max(1, nanoseconds), scenario.attempts, scenario.window, scenario.back_off)


def require_detection(scenario: Scenario, algorithm: Algorithm) -> None:
    """Refuse settings of detection that do not fit the clock, and signs of life where they would do harm."""
    _, detects = knowledge_of(scenario)
    timed = scenario.clock == "timed"
    if scenario.keep_alive is not None and (detects is None or not timed):
        reason = "only --fault-knowledge detect:K under --clock timed has signs of life that take time"
        raise ScenarioError("keep_alive", format_duration(scenario.keep_alive), reason)
    if detects is None or not timed:
        return
    if scenario.keep_alive is None:
        reason = "under the timed clock nodes give signs of life at intervals: give --keep-alive TIME"
        raise ScenarioError("fault_knowledge", scenario.fault_knowledge, reason)
    spec, one_port = algorithm.spec, algorithm.spec.port_model is PortModel.ONE_PORT
    signs = costs_of(scenario).nanoseconds(CONTROL_BYTES) * (algorithm.topology.degree if one_port else 1)
    if detects.interval <= signs:
        what = "the signs of life of a node take" if one_port else "a sign of life takes"
        reason = f"{what} {format_duration(signs / NANO)}; the interval has to be longer"
        raise ScenarioError("keep_alive", format_duration(scenario.keep_alive), reason)
    if spec.port_model not in (PortModel.ALL_PORT, PortModel.ONE_PORT):
        reason = "it leaves no port for signs of life; detection under the timed clock needs all-port or one-port"
        raise ScenarioError("port_model", str(spec.port_model), reason)
    if not algorithm.tolerates_delay or (spec.collective in FOLDING and spec.reliable is None):
        reason = f"{algorithm.name} counts on the step in which a packet arrives, and signs of life make packets late"
        raise ScenarioError("fault_knowledge", scenario.fault_knowledge, reason)


def has_timed_protocols(scenario: Scenario, spec: CollectiveSpec) -> bool:
    """Whether nodes go by events, since they have protocols or give signs of life under the timed clock."""
    return scenario.clock == "timed" and spec.has_control


def is_perfect(scenario: Scenario, algorithm: Algorithm, timeline: FaultTimeline) -> bool:
    """Whether no live neighbour is ever suspected: two signs of life never end more than k intervals apart.

    A sign may wait for one packet that has begun, a slow node gives its signs f times as far apart, and all of it may take
    F times as long: K h >= f h + F c + (F - 1) c_h, where c is the longest packet and c_h a sign of life.
    """
    detects, spec = algorithm.spec.detection, algorithm.spec
    if detects is None:
        return True
    # What does not end: afterwards a silent node would be live, and not heard yet.
    lasting = all(interval.is_endless for intervals in timeline.stops.values() for interval in intervals)
    hearable = lasting and _ranks_crash_or_slow(timeline) and timeline.effects <= {Stops, Alters, Duplicates, Slows}
    data = longest_packet(algorithm, costs_of(scenario))
    if not hearable or data is None or spec.port_model is not PortModel.ALL_PORT:
        return False
    slows = [(place, effect) for place, spells in timeline.of(Slows).items() for _, effect in spells]
    node = prod((effect.factor for place, effect in slows if isinstance(place, int)), start=1.0)
    factor = node * prod((effect.factor for place, effect in slows if not isinstance(place, int)), start=1.0)
    factor *= prod((1 + effect.spread for _, effect in slows), start=1.0)
    longest = max(data, costs_of(scenario).nanoseconds(CONTROL_BYTES))
    sign = costs_of(scenario).nanoseconds(CONTROL_BYTES)
    wait = node * detects.interval + factor * longest + (factor - 1) * sign
    return detects.after * detects.interval >= wait


def _ranks_crash_or_slow(timeline: FaultTimeline) -> bool:
    """Whether no rank does anything else: then a rank that has not crashed keeps its packets and its clock."""
    at_ranks = {type(effect) for place, _, effect in timeline if isinstance(place, int)}
    return not timeline.opaque and timeline.ranks_only_crash and at_ranks <= {Stops, Slows}


def longest_packet(algorithm: Algorithm, costs: LinearCostModel) -> int | None:
    """The duration of the longest packet of data, None if a packet may hold any number of segments."""
    if algorithm.link_capacity is None:
        return None
    return costs.nanoseconds(algorithm.link_capacity * algorithm.largest_segment_bytes)


def detection_claims(scenario: Scenario, algorithm: Algorithm, timeline: FaultTimeline) -> Iterator[Claim]:
    """Claims about the detectors: perfect where every live neighbour is heard in time; and how fast they are."""
    detects = algorithm.spec.detection
    assert detects is not None
    if is_perfect(scenario, algorithm, timeline):
        yield Claim("false_suspicions", 0, "==", f"{DETECTION}: perfect, K h >= f h + F c + (F - 1) c_h")
    heard = timeline.effects <= {Stops, Loses, Alters, Duplicates, Slows}
    if heard and _ranks_crash_or_slow(timeline) and not detects.doubling:
        # The last packet was heard before the crash at the latest.
        seconds = detects.after * detects.interval / NANO
        yield Claim("slowest_detection_seconds", seconds, "<=", f"{DETECTION}: K intervals")


def claims_without_faults(scenario: Scenario, algorithm: Algorithm, claims: Iterable[Claim]) -> list[Claim]:
    """The claims `claims`, which do not depend on times, as far as they hold; and those about links and detectors."""
    links, detects = algorithm.spec.reliable, algorithm.spec.detection
    kept = list(claims) if is_perfect(scenario, algorithm, FaultTimeline(())) else []
    # What makes packets late may make them overdue as well.
    asked = algorithm.spec.asks and (links is not None or detects is not None)
    if asked or (links is not None and not is_punctual(scenario, algorithm, links)):
        # Segments that are sent again are traffic, and so are those that come by another way too.
        kept = [claim for claim in kept if claim.name in SERVED]
    elif links is not None and kept:
        kept += claims_without_time_outs(kept)
    if detects is not None:
        return [*kept, *detection_claims(scenario, algorithm, FaultTimeline(()))]
    return kept if links is None or asked else [*kept, *_pipe_claims(scenario, algorithm, links)]


def claims_without_time_outs(claims: Iterable[Claim]) -> list[Claim]:
    """Claims that hold beside `claims` if every acknowledgement comes before its time-out, under either clock."""
    return [
        Claim("retransmissions", 0, "==", f"{RELIABLE}: no time-out before the acknowledgement"),
        Claim("discarded_copies", 0, "==", f"{RELIABLE}: every copy is the first"),
        *(
            Claim("acknowledgements", claim.predicted, "==", f"{RELIABLE}: one for each segment and link")
            for claim in claims
            if claim.name == "segments" and claim.relation == "=="
        ),
    ]


def is_punctual(scenario: Scenario, algorithm: Algorithm, links: ReliableLinks) -> bool:
    """Whether every acknowledgement comes before its time-out if nothing breaks.

    It may wait for a segment that goes the other way, for the acknowledgements before it, and for signs of life.
    """
    costs = costs_of(scenario)
    data, control = longest_packet(algorithm, costs), costs.nanoseconds(CONTROL_BYTES)
    if data is None or algorithm.spec.port_model is not PortModel.ALL_PORT:
        return False
    signs = 2 if algorithm.spec.detection is not None else 0
    return links.retransmit_after >= 2 * data + (links.window + signs) * control


def _pipe_claims(scenario: Scenario, algorithm: Algorithm, links: ReliableLinks) -> Iterator[Claim]:
    """When the last segment reaches the end of the longest path of a tree."""
    costs = costs_of(scenario)
    data, answer = longest_packet(algorithm, costs), costs.nanoseconds(CONTROL_BYTES)
    if data is None or algorithm.link_capacity != 1 or algorithm.spec.port_model is not PortModel.ALL_PORT:
        return
    pipe = pipe_of(algorithm)
    even = algorithm.byte_relation == "=="
    if pipe is None or not even or links.retransmit_after < data + answer or (links.window > 1 and answer > data):
        return
    segments, length = pipe
    spacing = data + answer if links.window == 1 else data
    formula = "(m - 1)(c_d + c_a) + L c_d" if links.window == 1 else "(m - 1 + L) c_d"
    seconds = ((segments - 1) * spacing + length * data) / NANO
    source = f"{RELIABLE}: {formula} for m segments over L links"
    yield Claim("completion_seconds", seconds, "==", source, derived=True)


def pipe_of(algorithm: Algorithm) -> tuple[int, int] | None:
    """The number of segments and of links on the longest path of a broadcast down one tree, whose nodes forward at once."""
    spec = algorithm.spec
    if not isinstance(algorithm, TreeCollective) or spec.collective is not Collective.BROADCAST:
        return None
    if algorithm.trees.count > 1 or algorithm.topology.order > WALKED:
        return None
    if type(algorithm.rule(LocalView(algorithm.topology, spec.source))) is not ForwardRule:
        return None
    at_once = all(delay == 1 for rank in algorithm.topology.ranks() for _, delay in algorithm.child_delays(rank, 0))
    return (algorithm.numbers, algorithm.last_offset) if at_once else None
