"""Lower bounds: against golden numbers, exhaustive search over all schedules of tiny networks, and every stated run."""

from fractions import Fraction
from heapq import heappop, heappush
from itertools import combinations, product
from pathlib import Path
from random import Random

import networkx
import pytest

from coordinator.planning.claims import fault_free_claims, run_bounds, run_claims
from coordinator.theory.cuts import busiest_cut, closed_form, smallest_cuts
from coordinator.theory.lower_bounds import RequiredTraffic, distances_of, inverse_rate, lower_bounds
from emunode.algorithms.claims import sharpest
from emunode.model import Collective, Duplex, PortModel, Rank
from emunode.topologies.base import Topology
from emunode.topologies.registry import parse_topology
from tests.helpers.any_network_support import connected_graphs, golden_network, network_of_graph
from tests.helpers.command_line import Call
from tests.helpers.scenarios import Case
from tests.helpers.support import golden_rows

ATLAS = list(connected_graphs(5))
TINY = [graph for graph in ATLAS if len(graph) <= 4 and graph.number_of_edges() <= 4]


def steps(topology: Topology, collective: Collective, port_model: PortModel = PortModel.ALL_PORT) -> int:
    return bound(topology, unit(collective, port_model), "steps")


def unit(collective: Collective, port_model: PortModel = PortModel.ALL_PORT) -> RequiredTraffic:
    """Return one segment of 60 bytes for each message, one segment in a packet."""
    return RequiredTraffic(collective, 0, segments=1, size=60, port_model=port_model, capacity=1)


def bound(topology: Topology, traffic: RequiredTraffic, metric: str) -> int:
    (found,) = [claim.predicted for claim in lower_bounds(topology, traffic) if claim.name == metric]
    assert isinstance(found, int)
    return found


# --- golden numbers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", golden_rows("any", "bounds"), ids=lambda row: row["graph"])
def test_golden_bounds(row: dict[str, str]) -> None:
    network = golden_network(row["graph"])
    assert steps(network, Collective.SCATTER) == int(row["scatter_bound_0"]) <= int(row["scatter_optimum_0"])
    assert steps(network, Collective.GATHER) == int(row["scatter_bound_0"])
    assert steps(network, Collective.SCATTER, PortModel.ONE_PORT) == int(row["scatter_one_port_bound_0"])
    assert steps(network, Collective.ALLTOALL, PortModel.ONE_PORT) == int(row["alltoall_one_port_bound"])
    assert inverse_rate(network) == Fraction(row["allgather_inverse_rate"])
    # What crosses the bridge of the barbell last has one more hop to go; five steps are its optimum.
    assert steps(network, Collective.ALLGATHER) == int(row["allgather_bound"]) + (row["graph"] == "barbell_4-4")
    # Above 16 nodes the golden numbers come from distances alone.
    alltoall = steps(network, Collective.ALLTOALL)
    assert alltoall >= int(row["alltoall_bound"])
    if row["bisection"]:
        assert alltoall == int(row["alltoall_bound"])
        half = network.order // 2
        assert min(cut.links for cut in smallest_cuts(network) if cut.inside == half) == int(row["bisection"])


def test_a_cut_can_be_the_best_bound_and_is_named() -> None:
    """12 of the 24 nodes of CCC_3 have 4 links to the others; distances alone give 25 steps."""
    (found,) = [
        claim for claim in lower_bounds(parse_topology("ccc:3"), unit(Collective.ALLTOALL)) if claim.name == "steps"
    ]
    assert found.predicted == 36
    assert "the cut the first 12 nodes, 4 links" in found.source


# --- cuts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("graph", ATLAS, ids=lambda graph: graph.name)
def test_all_cuts_of_small_networks_are_found(graph: "networkx.Graph[int]") -> None:
    expected = [
        min(networkx.cut_size(graph, chosen) for chosen in combinations(graph, size)) for size in range(1, len(graph))
    ]
    assert [cut.links for cut in smallest_cuts(network_of_graph(graph))] == expected


@pytest.mark.parametrize(
    "name",
    ["hypercube:3", "hypercube:4", "folded-hypercube:3", "folded-hypercube:4", "complete:6", "ring:8", "torus:4x3",
     "torus:2x4", "torus:4x4"],
)  # fmt: skip
def test_closed_forms_are_bisections(name: str) -> None:
    network = parse_topology(name)
    closed = closed_form(network)
    assert closed is not None
    graph = networkx.Graph([(one, other) for one, _, other, _ in network.links()])
    halves = combinations(range(1, network.order), network.order // 2 - 1)
    assert closed.links == min(networkx.cut_size(graph, (0, *half)) for half in halves)


@pytest.mark.parametrize("name", ["star:4", "ccc:3", "mesh:5x5", "fat-tree:4", "jellyfish:30,3,1"])
def test_cuts_of_larger_networks_exist(name: str) -> None:
    """A cut that is named by the first nodes can be counted again."""
    network = parse_topology(name)
    for cut in smallest_cuts(network):
        words = cut.name.split()
        if words[:2] == ["the", "first"]:
            first = int(words[2])
            crossing = sum((one < first) != (other < first) for one, _, other, _ in network.links())
            inside = sum(not network.is_switch(rank) for rank in range(first))
            assert crossing == cut.links
            assert inside in (cut.inside, cut.outside)
        assert cut.inside + cut.outside == len(network.data_ranks)


# --- exhaustive search -----------------------------------------------------------------------------------------------

State = tuple[int, ...]
"""By rank: the items that it has, as a bit mask."""


def optimum(graph: "networkx.Graph[int]", start: State, due: State, port_model: PortModel, duplex: Duplex) -> int:
    """Return the fewest steps from `start` until every rank has what is `due` there, one item a packet, over all
    schedules.
    """
    states, count = {start}, 0
    while not any(all(have & want == want for have, want in zip(state, due, strict=True)) for state in states):
        count += 1
        states = {later for state in states for later in successors(graph, state, port_model, duplex)}
    return count


def successors(graph: "networkx.Graph[int]", state: State, port_model: PortModel, duplex: Duplex) -> set[State]:
    """Return every state after one step with one item or none on each arc."""
    found = {(state, frozenset[tuple[str, Rank]]())}
    for one, other in graph.edges:
        there, back = useful(state, one, other), useful(state, other, one)
        both = product(there, back) if duplex is Duplex.FULL and port_model is not PortModel.SEND_OR_RECEIVE else ()
        found = {
            (added(later, (one, other), items), taken | used)
            for later, taken in found
            for items in [(0, 0), *((item, 0) for item in there), *((0, item) for item in back), *both]
            for used in [ports(one, other, items, port_model)]
            if not taken & used
        }
    return {later for later, _ in found}


def useful(state: State, sender: Rank, receiver: Rank) -> list[int]:
    return [1 << item for item in range(8) if state[sender] & ~state[receiver] & 1 << item]


def added(state: State, link: tuple[Rank, Rank], items: tuple[int, int]) -> State:
    (one, other), (there, back) = link, items
    return tuple(have | (there if rank == other else back if rank == one else 0) for rank, have in enumerate(state))


def ports(one: Rank, other: Rank, items: tuple[int, int], port_model: PortModel) -> frozenset[tuple[str, Rank]]:
    """Return the resource that no other link may use in the same step."""
    there, back = items
    match port_model:
        case PortModel.ONE_PORT:
            used = {("out", one), ("in", other)} if there else set()
            return frozenset(used | ({("out", other), ("in", one)} if back else set()))
        case PortModel.ALL_PORT:
            return frozenset()
    return frozenset({("any", one), ("any", other)} if there or back else ())


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("graph", TINY, ids=lambda graph: graph.name)
def test_no_schedule_of_a_tiny_network_beats_a_bound(graph: "networkx.Graph[int]") -> None:
    network, nodes = network_of_graph(graph), len(graph)
    cases = {
        (Collective.BROADCAST, 1): ((1, *[0] * (nodes - 1)), (1,) * nodes),
        (Collective.BROADCAST, 2): ((3, *[0] * (nodes - 1)), (3,) * nodes),
        (Collective.SCATTER, 1): (((1 << nodes) - 1, *[0] * (nodes - 1)), tuple(1 << rank for rank in range(nodes))),
        (Collective.ALLGATHER, 1): (tuple(1 << rank for rank in range(nodes)), ((1 << nodes) - 1,) * nodes),
    }
    if graph.number_of_edges() > 3:
        # The search would take half a minute.
        del cases[Collective.BROADCAST, 2], cases[Collective.ALLGATHER, 1]
    for (collective, segments), (start, due) in cases.items():
        for port_model, duplex in product(PortModel, Duplex):
            traffic = RequiredTraffic(collective, 0, segments, 60, port_model, duplex, 1)
            best = optimum(graph, start, due, port_model, duplex)
            assert bound(network, traffic, "steps") <= best, (collective, segments, port_model, duplex)
            # Steps with packets of one byte: any other packets can be taken apart into these.
            assert bound(network, traffic._replace(size=segments), "transfer_bytes") <= best


@pytest.mark.parametrize(
    "graph", [graph for graph in TINY if graph.number_of_edges() <= 3], ids=lambda graph: graph.name
)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_packets_of_a_tiny_network_beat_a_bound_on_bytes(graph: "networkx.Graph[int]", size: int) -> None:
    """A shortest path over what every node has, where any bytes cross each arc, and a step costs the fullest arc."""
    nodes, everything = len(graph), (1 << size) - 1
    arcs = [arc for edge in graph.edges for arc in (edge, edge[::-1])]
    start, goal = (everything, *[0] * (nodes - 1)), (everything,) * nodes
    costs, queue = {start: 0}, [(0, start)]
    while queue and queue[0][1] != goal:
        cost, state = heappop(queue)
        useful = [[items for items in range(everything + 1) if not items & ~(state[a] & ~state[b])] for a, b in arcs]
        for chosen in product(*useful):
            later = list(state)
            for (_, receiver), items in zip(arcs, chosen, strict=True):
                later[receiver] |= items
            most = cost + max(map(int.bit_count, chosen))
            if most < costs.get(after := tuple(later), most + 1):
                costs[after] = most
                heappush(queue, (most, after))
    traffic = RequiredTraffic(Collective.BROADCAST, 0, 1, size)
    assert bound(network_of_graph(graph), traffic, "transfer_bytes") <= costs[goal]


@pytest.mark.parametrize("graph", TINY, ids=lambda graph: graph.name)
def test_no_unicast_in_a_tiny_network_beats_a_bound(graph: "networkx.Graph[int]") -> None:
    network, nodes = network_of_graph(graph), len(graph)
    for target, segments, port_model in product(range(1, nodes), (1, 2), PortModel):
        traffic = RequiredTraffic(Collective.UNICAST, 0, segments, 60, port_model, Duplex.FULL, 1, pairs=((0, target),))
        items = (1 << segments) - 1
        due = tuple(items * (rank == target) for rank in range(nodes))
        best = optimum(graph, (items, *[0] * (nodes - 1)), due, port_model, Duplex.FULL)
        assert bound(network, traffic, "steps") <= best, (target, segments, port_model)


# --- runs ------------------------------------------------------------------------------------------------------------


def test_every_metric_has_one_lower_bound() -> None:
    """An algorithm that states a bound of its own gets no second one."""
    claims = fault_free_claims(Case("star:4 broadcast greedy-tree").plan).kept
    bounds = {claim.name: claim for claim in claims if claim.relation == ">="}
    assert len(bounds) == sum(claim.relation == ">=" for claim in claims)
    assert bounds["startups"].source.startswith("Tseng-Sheu 1997")
    assert (bounds["steps"].predicted, bounds["segments"].predicted) == (4, 23)


def test_a_run_has_the_ratio_to_its_bounds() -> None:
    result = Case("mesh:4x4 broadcast bfs-tree messages=3").run
    found = {each.claim.name: each for each in result.judgements if each.claim.relation == ">="}
    assert {name: each.claim.predicted for name, each in found.items()} == {
        # The far corner has two links, and is six links away: 6 - 1 + ceil(3 / 2).
        "steps": 7, "segments": 45, "startups": 6,
        # The last byte has five more links to cross once 192 bytes have come over two.
        "transfer_bytes": 96 + 5, "virtual_seconds": pytest.approx(6e-3 + 101e-6),
    }  # fmt: skip
    assert found["segments"].ratio == 1


def test_faults_and_negative_controls_have_no_bounds() -> None:
    crashed, printed = Case("star:4 broadcast flood", "crash:4321@1"), Case("ej:2+3^2 allgather three-phase-printed")
    assert not [each for each in run_claims(crashed.plan).kept if each.relation == ">="]
    assert not run_bounds(printed.plan)


def test_bounds_of_a_large_network_need_no_search() -> None:
    for name in ("star:12", "hypercube:40", "mesh:1000x1000x1000"):
        traffic = unit(Collective.BROADCAST)
        network = parse_topology(name)
        assert bound(network, traffic, "segments") == network.order - 1
    assert distances_of(parse_topology("hypercube:40")).diameter == 40


@pytest.mark.parametrize("name", ["ring:7", "mesh:2x3", "hypercube:3"])
@pytest.mark.parametrize("half_duplex", [False, True])
def test_the_busiest_cut_of_a_permutation_is_that_of_all_sets(name: str, half_duplex: bool) -> None:
    topology = parse_topology(name)
    for seed in range(4):
        shuffled = Random(seed).sample(list(topology.ranks()), topology.order)
        pairs = [(origin, target) for origin, target in enumerate(shuffled) if origin != target]
        largest = Fraction(0)
        for size in range(1, topology.order):
            for inside in map(set, combinations(topology.ranks(), size)):
                links = sum((one in inside) != (other in inside) for one, _, other, _ in topology.links())
                outwards = sum(one in inside and other not in inside for one, other in pairs)
                inwards = sum(one not in inside and other in inside for one, other in pairs)
                demand = outwards + inwards if half_duplex else max(outwards, inwards)
                largest = max(largest, Fraction(demand, links))
        cut = busiest_cut(topology, pairs, half_duplex=half_duplex)
        assert cut is not None
        assert Fraction(cut.demand(half_duplex=half_duplex), cut.links) == largest


def test_a_permutation_is_bounded_by_the_cut_it_crosses() -> None:
    result = Case("ring:12 unicast minimal permutation=reversal").run
    claims = {each.claim.name: each.claim for each in result.judgements if "messages over the cut" in each.claim.source}
    assert result.verdict == "holds"
    assert {claim.relation for claim in claims.values()} == {">="}
    assert claims.keys() == {"transfer_bytes", "virtual_seconds"}


# --- beside the bounds of an algorithm -------------------------------------------------------------------------------


def steps_claim(line: str) -> tuple[object, str]:
    """Return the one lower bound on the steps that a run without faults claims, and its source."""
    claim = sharpest(run_claims(Case(line).plan).kept, "steps")
    assert claim is not None
    return claim.predicted, claim.source


@pytest.mark.parametrize(
    "job",
    [
        "broadcast binomial",
        "broadcast circulant",
        "allgather circulant",
        "alltoall bruck",
        "allreduce recursive-doubling",
    ],
)
def test_bounds_of_one_port_are_claimed_for_one_port(job: str) -> None:
    """In K_8 with all ports a broadcast takes one step (`bfs-tree`)."""
    assert steps_claim(f"complete:8 {job} port_model=all-port")[0] == 1
    assert steps_claim(f"complete:8 {job} port_model=one-port")[0] == 3


def test_the_largest_of_several_bounds_is_claimed(tmp_path: Path) -> None:
    """Two K_5 with one link between them: 25 messages each way cross it."""
    graph = networkx.disjoint_union(networkx.complete_graph(5), networkx.complete_graph(5))
    graph.add_edge(0, 5)
    networkx.write_graphml(graph, tmp_path / "two.graphml")
    network = f"file:{tmp_path / 'two.graphml'}"
    alltoall = steps_claim(f"{network} alltoall list-schedule")
    assert alltoall[0] == 25
    assert "the cut" in alltoall[1]
    assert steps_claim(f"{network} allgather bfb")[0] == 5 + 1
    assert steps_claim("hypercube:2 broadcast bfs-tree port_model=one-port messages=4")[0] == 4 - 1 + 2


def test_bounds_on_steps_name_the_cut_into_segments() -> None:
    """`nrsbt` cuts each of four messages into four segments, and needs 7 steps at least; `nesbt` takes 5 for the four."""
    bound, source = steps_claim("hypercube:4 broadcast nrsbt messages=4")
    assert bound == 7
    assert source.startswith("lower bound of every algorithm for packets of one segment and 4 segments of a message: ")
    assert steps_claim("hypercube:4 broadcast nesbt messages=4")[1].startswith("lower bound of every algorithm: ")


def test_bounds_count_all_copies() -> None:
    plan = Case("star:4 broadcast edt", redundancy=3).plan
    bounds = {claim.name: claim for claim in run_claims(plan).kept if claim.proof}
    # Three copies of 64 bytes over three links, and the last byte crosses three more.
    assert bounds["transfer_bytes"].predicted == 64 + 3
    assert "for 3 copies of a message" in bounds["transfer_bytes"].source
    assert bounds["segments"].predicted == 69


def test_the_lower_end_of_a_range_is_no_bound() -> None:
    """Two messages over three trees: what a full round of trees takes concerns this algorithm only."""
    result = Case("star:4 alltoall edt messages=2").run
    lower = [judgement for judgement in result.judgements if judgement.claim.relation == ">="]
    own = [judgement for judgement in lower if not judgement.claim.proof]
    assert all(judgement.ratio is None for judgement in own)
    assert {judgement.claim.name for judgement in lower if judgement.ratio is not None} == {
        "steps", "segments", "startups", "transfer_bytes", "virtual_seconds",
    }  # fmt: skip
    assert not any("at most that" in judgement.claim.source for judgement in lower)


ESTIMATE = """
from emunode.algorithms.claims import Claim
from emunode.algorithms.flooding import Flood
from emunode.registry import register


@register
class Estimated(Flood):
    name = "estimated"

    def claims(self):
        return [*super().claims(), Claim("steps", 7, ">=", "my estimate", proof=PROOF)]
"""


@pytest.mark.parametrize(("proof", "ratios", "bound"), [("", {1, None}, 3), ("a proof", {1, 0.4286}, 7)])
def test_a_claim_without_a_proof_is_no_bound(proof: str, ratios: set[float | None], bound: int, call: Call) -> None:
    """The opposite corner of a cube is three steps away, whatever a plug-in states of itself."""
    name = f"estimate_{bound}"
    Path(f"{name}.py").write_text(ESTIMATE.replace("PROOF", repr(proof)).replace("estimated", name))
    given = f"--topology hypercube:3 --collective broadcast --algorithm {name} --plugin {name}.py --json"
    claims = call(f"run {given} --driver memory").data["claims"]
    stated = [each for each in claims if (each["name"], each["relation"]) == ("steps", ">=")]
    assert {each["predicted"] for each in stated} == {3, 7}
    assert {each["ratio"] for each in stated} == ratios
    (row,) = call(f"sweep {given}").data["rows"]
    assert row["bound"] == bound


def test_a_bound_says_for_which_packets_and_pieces_it_holds(tmp_path: Path) -> None:
    """Two K_4 over two nodes: 15 links. `bfb-packed` takes 5 steps, and one segment in a packet needs 7."""
    graph = networkx.disjoint_union(networkx.complete_graph(4), networkx.complete_graph(4))
    graph.add_edges_from([(3, 8), (8, 9), (9, 4)])
    networkx.write_graphml(graph, tmp_path / "two.graphml")
    job = f"file:{tmp_path / 'two.graphml'} allgather"
    assert Case(f"{job} bfb-packed").summary["steps"] == 5
    claims = [each.claim for each in Case(f"{job} bfb").run.judgements if each.claim.name == "steps"]
    assert {claim.bound for claim in claims} - {None} == {5}
    (sharp,) = [claim for claim in claims if claim.relation == ">=" and claim.predicted > 5]  # type: ignore[operator]
    assert sharp.sentence.startswith("steps for packets of one segment: at least")
    assert all("for packets of one segment" in claim.source for claim in claims if claim.condition)


@pytest.mark.parametrize(("line", "least"), [
    # 4 numbers over 3 ports: 2 over one of them; the first comes from a node at distance 4.
    ("star:4 reduce bfs-tree values=float32 message_bytes=16", (2 + 3) * 4),
    ("star:4 reduce bfs-tree message_bytes=16", 6 + 3),  # 16 bytes over 3 ports
    ("star:4 reduce greedy-tree values=float64 message_bytes=56", (3 + 3) * 8),  # 7 numbers
    ("complete:6 allreduce bfb values=float16 message_bytes=14", 4),
])  # fmt: skip
def test_no_bound_on_bytes_cuts_a_number(line: str, least: int) -> None:
    assert Case(line).predictions["transfer_bytes", ">="] == least


@pytest.mark.parametrize(
    "case",
    [
        Case("star:4 broadcast greedy-tree", "crash:2134@2", repair="next-port"),
        Case("star:4 broadcast greedy-tree", "loss:1234>2134:0.5", reliable=True),
        Case("hypercube:3 scatter nrsbt-fifo", "crash:001@2"),
    ],
    ids=["repair", "reliable links", "queues"],
)
def test_a_promise_is_no_bound(case: Case) -> None:
    promises = [claim for claim in run_claims(case.plan).kept if claim.relation == ">="]
    assert [claim.bound for claim in promises] == [None] * len(promises)
    assert not any(claim.predicted == 0 for claim in promises)
