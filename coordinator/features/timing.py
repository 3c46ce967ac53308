"""Times of packets that protocols rely on under the timed clock."""

from coordinator.scenario.model import Scenario, costs_of
from emunode.algorithms.base import Algorithm
from emunode.model import Collective
from emunode.protocols.base import CONTROL_BYTES
from emunode.topologies.base import Topology


def longest_packet(scenario: Scenario, algorithm: Algorithm) -> int | None:
    """Return the nanoseconds of the longest packet of data, None if a packet may hold any number of segments."""
    if algorithm.link_capacity is None:
        return None
    return costs_of(scenario).nanoseconds(algorithm.link_capacity * algorithm.largest_sent_bytes)


def control_packet(scenario: Scenario) -> int:
    """Return the nanoseconds of a control segment that crosses a link alone."""
    return costs_of(scenario).nanoseconds(CONTROL_BYTES)


def longest_news(scenario: Scenario, topology: Topology) -> int:
    """Return the nanoseconds of a packet with all possible news: every link, and a reopening of every node."""
    # Every link has two ends, and every control segment has the same size.
    ends = sum(len(topology.ports(rank)) for rank in topology.ranks())
    return costs_of(scenario).nanoseconds(CONTROL_BYTES * (ends // 2 + topology.order))


def bound_on_packets(scenario: Scenario, algorithm: Algorithm) -> int:
    """Return the nanoseconds of the longest packet of data, or of all data where no capacity bounds a packet."""
    longest = longest_packet(scenario, algorithm)
    if longest is not None:
        return longest
    spec, order = algorithm.spec, algorithm.topology.order
    # Each rank may have a message of its own for each other one.
    targets = order if spec.collective in (Collective.ALLTOALL, Collective.SCATTER) else 1
    messages = len(algorithm.sources) * targets * spec.messages * spec.redundancy * max(1, spec.blocks)
    size = messages * algorithm.segments_per_message * algorithm.largest_sent_bytes
    return costs_of(scenario).nanoseconds(size)
