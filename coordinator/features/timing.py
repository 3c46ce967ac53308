"""Times of packets under the timed clock, as protocols count on them."""

from coordinator.scenario.costs import costs_of
from coordinator.scenario.model import Scenario
from emunode.algorithms.base import Algorithm
from emunode.protocols.base import CONTROL_BYTES


def longest_packet(scenario: Scenario, algorithm: Algorithm) -> int | None:
    """Return the nanoseconds of the longest packet of data, None if a packet may hold any number of segments."""
    if algorithm.link_capacity is None:
        return None
    return costs_of(scenario).nanoseconds(algorithm.link_capacity * algorithm.largest_segment_bytes)


def control_packet(scenario: Scenario) -> int:
    """Return the nanoseconds of a control segment that crosses a link alone."""
    return costs_of(scenario).nanoseconds(CONTROL_BYTES)
