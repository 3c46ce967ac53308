"""The cost of a packet in a scenario."""

from coordinator.scenario.model import Scenario
from emunode.timed.cost_model import LinearCostModel


def costs_of(scenario: Scenario) -> LinearCostModel:
    """The cost of a packet, which its occupancy of a port and the virtual time of a step follow from."""
    return LinearCostModel(scenario.startup, scenario.per_byte, scenario.packet_limit or 0)
