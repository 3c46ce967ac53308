"""Times of packets that protocols rely on under the timed clock."""

from coordinator.scenario.model import Scenario, costs_of
from emunode.algorithms.base import Algorithm
from emunode.model import PART_NAME_BYTES, Collective
from emunode.protocols.base import CONTROL_BYTES
from emunode.topologies.base import Topology


def longest_packet(scenario: Scenario, algorithm: Algorithm) -> int | None:
    """Return the nanoseconds of the longest packet of data, None if a packet may hold any number of segments."""
    if algorithm.link_capacity is None:
        return None
    return costs_of(scenario).nanoseconds(algorithm.link_capacity * largest_sent_bytes(algorithm))


def control_packet(scenario: Scenario) -> int:
    """Return the nanoseconds of a control segment that crosses a link alone."""
    return costs_of(scenario).nanoseconds(CONTROL_BYTES)


def longest_news(scenario: Scenario, topology: Topology) -> int:
    """Return the nanoseconds of a packet with all possible news: every link, and a reopening of every node."""
    # Every link has two ends, and every control segment has the same size.
    ends = sum(len(topology.ports(rank)) for rank in topology.ranks())
    return costs_of(scenario).nanoseconds(CONTROL_BYTES * (ends // 2 + topology.order))


def largest_sent_bytes(algorithm: Algorithm) -> int:
    """Return an upper bound on the bytes of a segment on a link: in the fixed order a partial result may have many
    parts.
    """
    numbers = algorithm.spec.numbers
    if numbers is None or not numbers.fixed_order:
        return algorithm.largest_segment_bytes
    # At worst every other contribution waits for its neighbour. Of a run of contributions of one rank, at most two sums
    # of each size do.
    ranks = len(algorithm.topology.data_ranks)
    leaves = numbers.leaves or ranks
    parts = min(-(-leaves // 2), -(-ranks // 2) * 2 * (-(-leaves // ranks)).bit_length())
    return parts * (algorithm.largest_segment_bytes + PART_NAME_BYTES)


def bound_on_packets(scenario: Scenario, algorithm: Algorithm) -> int:
    """Return the nanoseconds of the longest packet of data, or of all data where no capacity bounds a packet."""
    longest = longest_packet(scenario, algorithm)
    if longest is not None:
        return longest
    spec, order = algorithm.spec, algorithm.topology.order
    # Each rank may have a message of its own for each other one.
    targets = order if spec.collective in (Collective.ALLTOALL, Collective.SCATTER) else 1
    messages = len(algorithm.sources) * targets * spec.messages * spec.redundancy * max(1, spec.blocks)
    size = messages * algorithm.segments_per_message * largest_sent_bytes(algorithm)
    return costs_of(scenario).nanoseconds(size)
