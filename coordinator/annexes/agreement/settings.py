"""The settings of an agreement on failures: how many steps or rounds the nodes agree for."""

from coordinator.annexes.agreement.options import AgreementOptions
from coordinator.features.timing import bound_on_packets, control_packet, longest_news
from coordinator.scenario.model import OnFailure, Scenario, knowledge_of
from emunode.algorithms.any_network.disjoint_paths import disjoint_families
from emunode.algorithms.folding import tolerates_delay
from emunode.algorithms.registry import make_algorithm
from emunode.annexes import PROGRAM
from emunode.annexes.agreement.survivors import spec_again
from emunode.errors import ScenarioError
from emunode.model import AGAIN_TREE, Agreement, CollectiveSpec, Duplex, PortModel, Step
from emunode.topologies.base import Topology, VertexTransitiveTopology

LARGEST_SEARCH = 500
"""Ports of the largest network where disjoint paths to all nodes are searched: about a second."""
SEARCHED = {"star:6": 9}
"""Larger networks whose disjoint paths were searched once; the slow tests repeat the search."""


def agreement_of(scenario: Scenario, topology: Topology, spec: CollectiveSpec) -> Agreement:
    """Return how the nodes of a scenario agree; ScenarioError if agreement contradicts the scenario."""
    value = str(scenario.on_failure)
    if knowledge_of(scenario)[1] is None:
        reason = "nodes have to notice failures by themselves: add --fault-knowledge detect:K, such as detect:1"
        raise ScenarioError("on_failure", value, reason)
    if scenario.algorithm == PROGRAM:
        raise ScenarioError("on_failure", value, "a program takes no part in an agreement")
    if spec.port_model is not PortModel.ALL_PORT or spec.duplex is not Duplex.FULL:
        reason = "news leave by all ports at once; use --port-model all-port and --duplex full"
        raise ScenarioError("on_failure", value, reason)
    if topology.order >= AGAIN_TREE:
        raise ScenarioError("on_failure", value, f"the network has {topology.order} nodes; at most {AGAIN_TREE - 1}")
    steps = AgreementOptions.of(scenario).agreement_steps or news_steps(topology)
    agreement = Agreement(steps, scenario.on_failure is OnFailure.SHRINK)
    return agreement if scenario.clock == "steps" else _in_rounds(scenario, topology, spec, agreement)


def _in_rounds(scenario: Scenario, topology: Topology, spec: CollectiveSpec, agreement: Agreement) -> Agreement:
    """Return the settings of an agreement under the timed clock; ScenarioError if the collective cannot run again there.

    News wait for one packet that has begun and for one sign of life, and then cross a link in one packet with all other
    news. Nodes do not crash between two packets here: each faulty node may hide news from all but one neighbour, at the
    cost of a round.
    """
    # News wait until the port is free, so the longest packet of either collective is part of a round.
    packets = [bound_on_packets(scenario, make_algorithm(topology, spec))]
    if agreement.shrink:
        again = make_algorithm(topology, spec_again(spec))
        if not tolerates_delay(again):
            reason = f"{again.name} counts on the step of an arrival, and runs again; use --clock steps"
            raise ScenarioError("on_failure", str(scenario.on_failure), reason)
        packets.append(bound_on_packets(scenario, again))
    news, sign = longest_news(scenario, topology), control_packet(scenario)
    # Steps that the user gives are used as they are.
    hidden = 0 if AgreementOptions.of(scenario).agreement_steps else (topology.connectivity or 1) - 1
    return agreement._replace(
        # Under the timed clock a crash may cut the packet to one neighbour after another has received it, so each of at
        # most kappa - 1 faulty nodes can delay news by a round.
        steps=agreement.steps + hidden,
        round=max(1, *packets, news, sign) + sign + news,
        longest=max(1, packets[-1]),
    )


def news_steps(topology: Topology) -> Step:
    """Return the steps that news take to every node, if fewer nodes fail than the connectivity.

    The number is the fault diameter, from the literature or by trying all sets. If the fault diameter is unknown, the
    number is the longest of as many disjoint paths to every node as the connectivity, since one of the paths is whole;
    if these are unknown, a path through all nodes.
    """
    from coordinator.annexes.invariants import base, fault_diameter  # noqa: PLC0415  # numpy starts threads

    invariant = fault_diameter.FaultDiameter()
    # Known values first: a search takes seconds to minutes, and every plan asks.
    if topology.name in SEARCHED:
        return SEARCHED[topology.name]
    if closed_form := invariant.closed_form(topology, ""):
        assert isinstance(closed_form[0], int)
        return closed_form[0]
    try:
        diameters = invariant.compute(base.InvariantNetwork(topology), "", base.Budget())
    except base.NotKnownError:
        pass
    else:
        assert isinstance(diameters, tuple)
        # The last value is for kappa - 1 faults, the most that leave the network connected for certain.
        return diameters[-1]
    if isinstance(topology, VertexTransitiveTopology) and topology.order * topology.degree <= LARGEST_SEARCH:
        return longest_disjoint_path(topology)
    # No path is longer than a path through all nodes.
    return topology.order - 1


def longest_disjoint_path(topology: Topology) -> Step:
    """Return the longest of all disjoint paths from rank 0 to any rank; the paths to each rank are of least total
    length.
    """
    return max(len(path) for rank in range(1, topology.order) for path in disjoint_families(topology, rank)[-1])
