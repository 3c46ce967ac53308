"""The bounds on a stored scenario: its file may ask for more than this machine can plan or judge."""

from typing import Final

from coordinator.scenario.model import Scenario
from coordinator.scenario.networks import network_of
from emunode.errors import ScenarioError
from emunode.model import ROOTLESS
from emunode.topologies.base import ALL_PAIRS_LIMIT, Topology, knows

MOST_NODES: Final = 500_000
MOST_MESSAGES: Final = 20_000_000
"""Most messages, times their segments and trees, of a stored run that is planned again."""
MOST_FAULTS: Final = 10_000
MOST_LINK_ENDS: Final = 20_000_000
MOST_SEARCHED: Final = 2**28
"""Most link ends that are walked over, from all nodes together, for a diameter without a formula."""


def why_too_large(scenario: Scenario) -> str | None:
    """Return why a stored scenario is not planned; None if it is small enough. Nothing is built to find out.

    ScenarioError (field `topology`) for an unknown network.
    """
    topology = network_of(scenario)
    if reason := why_network_too_large(topology):
        return reason
    if (copies := copies_due(scenario, topology.order)) > MOST_MESSAGES:
        return f"{copies} copies of segments are due; runs with at most {MOST_MESSAGES} are read"
    if len(scenario.fault) > MOST_FAULTS:
        return f"{len(scenario.fault)} faults; at most {MOST_FAULTS} are read"
    return None


def why_network_too_large(topology: Topology) -> str | None:
    """Return why a stored network is not walked over; None if it is small enough."""
    if topology.order > MOST_NODES:
        return f"a network of {topology.order} nodes; at most {MOST_NODES} are read"
    if (ends := topology.order * topology.degree) > MOST_LINK_ENDS:
        return f"a network of {ends} link ends; at most {MOST_LINK_ENDS} are read"
    steps = topology.order * ends
    if topology.order**2 <= ALL_PAIRS_LIMIT and not knows(topology, "diameter") and steps > MOST_SEARCHED:
        return f"a search of {steps} steps for the diameter of the network; at most {MOST_SEARCHED} are made"
    return None


def copies_due(scenario: Scenario, order: int) -> int:
    """Return an upper bound of the copies of segments that a run without faults delivers."""
    pairs = order**2 if scenario.collective in ROOTLESS else order
    segments = 1 if scenario.segments == "auto" else scenario.segments
    return pairs * scenario.messages * segments * scenario.redundancy


def require_small(scenario: Scenario, field: str, file: object) -> None:
    """Raise ScenarioError (`field`) if the scenario that a file stores is not planned."""
    if reason := why_too_large(scenario):
        raise ScenarioError(field, str(file), f"its scenario asks for {reason}")
