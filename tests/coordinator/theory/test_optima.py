"""Lower bounds against optimal numbers of steps; `scripts/optima` computed these with a solver and none of this code.

The optima are of all connected networks of up to five nodes; a row without `steps` was not decided by the solver.
"""

from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any, Final

import networkx as nx
import pytest

from coordinator.planning.claims import fault_free_claims
from coordinator.theory.lower_bounds import RequiredTraffic, lower_bounds
from emunode.algorithms.registry import algorithms
from emunode.errors import ScenarioError
from emunode.model import Collective, Duplex, PortModel
from emunode.topologies.table import TableTopology
from tests.helpers.any_network_support import connected_graphs
from tests.helpers.scenarios import Case
from tests.helpers.support import golden_rows

Row = dict[str, str]

OPTIMA = list(golden_rows("any", "optima"))
NETWORKS = sorted({row["links"] for row in OPTIMA}, key=lambda links: (len(links), links))
REVERSE = {"broadcast": "reduce", "scatter": "gather", "allgather": "reduce-scatter"}
"""Collectives that are schedules of another one backwards, with as many steps."""
FROM_ROOT: Final = ("broadcast", "reduce", "scatter", "gather")
COLLECTIVES: Final = (*FROM_ROOT, "allgather", "reduce-scatter", "allreduce", "alltoall")
SETTINGS: Final = (*((ports.value, "full") for ports in PortModel), ("all-port", "half"))


def network_of(links: str) -> TableTopology:
    pairs = [(int(link[0]), int(link[2])) for link in links.split()]
    return TableTopology("graph", map(str, range(1 + max(map(max, pairs)))), pairs)


def rows_of(links: str) -> list[Row]:
    return [row for row in OPTIMA if row["links"] == links and row["steps"]]


def bound_on_steps(network: TableTopology, row: Row, collective: str) -> int:
    """Return the bound that holds for every algorithm on one segment a message."""
    traffic = RequiredTraffic(
        Collective(collective),
        int(row["source"]),
        segments=int(row["messages"]),
        size=60,
        port_model=PortModel(row["port_model"]),
        duplex=Duplex(row["duplex"]),
        capacity=int(row["capacity"]) or None,
        pairs=((int(row["source"]), int(row["target"])),) if collective == "unicast" else (),
    )
    (claim,) = [claim for claim in lower_bounds(network, traffic) if claim.name == "steps"]
    assert isinstance(claim.predicted, int)
    return claim.predicted


def test_optima_cover_all_connected_networks_of_five_nodes() -> None:
    assert len(NETWORKS) == len(list(connected_graphs(5))) == 30
    graphs = [nx.Graph([(int(link[0]), int(link[2])) for link in links.split()]) for links in NETWORKS]
    assert not any(nx.is_isomorphic(one, other) for i, one in enumerate(graphs) for other in graphs[:i])


def test_some_optima_are_known() -> None:
    """From a leaf of K_{1,3} four messages take 4 + 1 steps, from its centre one message with one port takes 3."""
    found = {tuple(list(row.values())[1:-1]): row["steps"] for row in OPTIMA}
    tripod, complete = "0-3 1-3 2-3", "0-1 0-2 0-3 1-2 1-3 2-3"
    assert found[tripod, "broadcast", "0", "-1", "all-port", "full", "1", "4"] == "5"
    assert found[tripod, "broadcast", "3", "-1", "one-port", "full", "1", "1"] == "3"
    assert found[complete, "broadcast", "0", "-1", "one-port", "full", "1", "1"] == "2"
    assert found[complete, "alltoall", "0", "-1", "one-port", "full", "1", "1"] == "3"


@pytest.mark.parametrize("links", NETWORKS)
def test_no_bound_exceeds_an_optimum(links: str) -> None:
    network = network_of(links)
    for row in rows_of(links):
        for collective in filter(None, (row["collective"], REVERSE.get(row["collective"]))):
            bound = bound_on_steps(network, row, collective)
            assert bound <= int(row["steps"]), (collective, row)


def test_most_bounds_are_optimal() -> None:
    """Hold the number of bounds that equal the optimum, so that a bound that becomes weaker is found."""
    sharp, decided = Counter[str](), Counter[str]()
    for links in NETWORKS:
        network = network_of(links)
        for row in rows_of(links):
            decided[row["collective"]] += 1
            sharp[row["collective"]] += bound_on_steps(network, row, row["collective"]) == int(row["steps"])
    assert {name: (sharp[name], decided[name]) for name in sorted(decided)} == {
        "allgather": (147, 284), "allreduce": (135, 300), "alltoall": (141, 247),
        "broadcast": (862, 1168), "scatter": (538, 600), "unicast": (600, 600),
    }  # fmt: skip


def optima_of(links: str) -> dict[tuple[object, ...], int]:
    """Return the optima of a network by collective, source, port model, duplex, capacity and number of items; reverse
    ones too.
    """
    found: dict[tuple[object, ...], int] = {}
    for row in rows_of(links):
        capacity, settings = int(row["capacity"]) or None, (row["port_model"], row["duplex"])
        for collective in filter(None, (row["collective"], REVERSE.get(row["collective"]))):
            found[collective, int(row["source"]), *settings, capacity, int(row["messages"])] = int(row["steps"])
    return found


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("links", NETWORKS)
def test_no_algorithm_claims_more_or_less_than_the_optimum(links: str, tmp_path: Path) -> None:
    """No lower bound of a plan exceeds the optimum, and no number of steps that a plan promises falls below it."""
    graph = nx.Graph([(int(link[0]), int(link[2])) for link in links.split()])
    ordered = nx.Graph()
    ordered.add_nodes_from(sorted(graph))
    ordered.add_edges_from(graph.edges)
    nx.write_graphml(ordered, tmp_path / "small.graphml")
    topology = f"file:{tmp_path / 'small.graphml'}"
    network, optima, judged = network_of(links), optima_of(links), 0
    decided = {key[:4] for key in optima}
    for collective, (ports, duplex) in product(COLLECTIVES, SETTINGS):
        for algorithm in algorithms(network.family, Collective(collective)):
            for source in sorted({0, network.order - 1}) if collective in FROM_ROOT else (0,):
                if (collective, source, ports, duplex) not in decided:
                    continue  # it need not be planned
                values = {"topology": topology, "collective": collective, "algorithm": algorithm, "driver": "memory"}
                settings = {"port_model": ports, "duplex": duplex}
                settings |= {"source": str(source)} if collective in FROM_ROOT else {}
                for messages in (1, 2, 4) if collective in ("broadcast", "reduce") else (1,):
                    judged += hold_claims({**values, **settings, "messages": messages}, source, optima)
    assert judged > 20


def hold_claims(values: dict[str, Any], source: int, optima: dict[tuple[object, ...], int]) -> int:
    """Compare the claims on steps of one plan with the optimum; return how many there are."""
    try:
        plan = Case(values).plan
    except ScenarioError:
        return 0  # an algorithm that needs other links, or another port model
    algorithm, spec = plan.algorithm, plan.spec
    if algorithm.traits.negative_control or len(algorithm.block_owners) > 1:
        return 0
    segments = spec.messages * algorithm.segments_per_message
    key = (values["collective"], source, values["port_model"], values["duplex"], algorithm.link_capacity, segments)
    optimum = optima.get(key)
    if optimum is None:
        return 0
    claims = [claim for claim in fault_free_claims(plan).kept if claim.name == "steps"]
    for claim in claims:
        assert isinstance(claim.predicted, int | float), (values, claim)
        if claim.proof:
            assert claim.predicted <= optimum, (values, claim)
        elif claim.relation in ("==", "<="):
            assert claim.predicted >= optimum, (values, claim)
    return len(claims)
