"""Blocks that fail together: their numbers by closed forms, and what they cost, exactly and with messages."""

from itertools import combinations
from math import comb
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from coordinator.planning.plan import Plan, make_plan
from coordinator.scenario import blocks
from coordinator.scenario.fault_draws import FaultSites, draw, every_set, set_count
from coordinator.scenario.fault_sets import parse_fault_sets
from coordinator.scenario.fault_syntax import parse_faults
from coordinator.scenario.model import make_scenario
from coordinator.theory.batch.draws import BLOCK, Draws
from coordinator.theory.batch.engine import BatchOutcome, batch_engine_of
from coordinator.theory.batch.point import PointEngine
from emunode.errors import ScenarioError
from emunode.topologies.registry import parse_topology
from tests.helpers.batch_support import run
from tests.helpers.scenarios import Case
from tests.helpers.support import golden_rows


def broadcast(topology: str, algorithm: str, redundancy: int = 1) -> Plan:
    """Return a broadcast in memory."""
    return Case(f"{topology} broadcast {algorithm}", redundancy=redundancy).plan


def evaluated(given: Plan, text: str, numbers: range | None = None) -> BatchOutcome:
    """Return the exact results of the draws of a description; by default of all its sets."""
    (fault_set,) = parse_fault_sets(text)
    sites = FaultSites(given.algorithm)
    drawn = np.array(numbers or range(set_count(fault_set, sites) or 0))
    draws = Draws(fault_set, sites, given.spec.seed)
    return PointEngine(batch_engine_of(given), given, draws, sites, lambda _number: 0).evaluate(drawn)[0]


@pytest.mark.parametrize(
    "row", golden_rows("reliability", "blocks"), ids=lambda row: f"{row['scenario']} {row['blocks']}"
)
def test_one_block_before_the_first_step(row: dict[str, str]) -> None:
    given, blocks = Case(row["scenario"]).plan, row["blocks"]
    found = evaluated(given, f"all:{blocks}")
    lost, served = (found.expected - found.intact).sum(), found.served.sum()
    numbers = (len(found.expected), found.expected.sum(), lost, served)
    assert numbers == tuple(int(row[name]) for name in ("sets", "due", "lost", "served"))
    # The same with messages, and every node that is due a message could be reached.
    (fault_set,) = parse_fault_sets(f"all:{blocks}")
    for at, specs in enumerate(every_set(fault_set, FaultSites(given.algorithm))):
        faults = parse_faults(specs, given.topology)
        assert run(given, faults, 0)[1].intact == found.intact[at]
        healthy = set(given.topology.ranks()) - {fault.rank for fault in faults}  # type: ignore[attr-defined]
        links = [(one, other) for one, _, other, _ in given.topology.links() if {one, other} <= healthy]
        assert nx.node_connected_component(nx.Graph(links), 0) == healthy
        assert found.expected[at] == len(healthy) - 1


@pytest.mark.parametrize("n", [3, 4, 5])
def test_numbers_of_blocks(n: int) -> None:
    def counts(topology: str, algorithm: str, part: str) -> tuple[int | None, ...]:
        sites = FaultSites(broadcast(topology, algorithm).algorithm)
        return tuple(set_count(parse_fault_sets(f"all:{part}{end}")[0], sites) for end in ("", ";sources"))

    assert counts(f"star:{n}", "greedy-tree", "substar=1") == ((n - 1) ** 2, n * (n - 1))
    for k in range(n + 1):
        blocks = comb(n, k) * 2 ** (n - k)
        assert counts(f"hypercube:{n}", "sbt", f"subcube=1:{k}") == (blocks - comb(n, k), blocks)
    assert counts(f"hypercube:{n}", "sbt", "links-of=1") == (2**n - 1, 2**n)
    assert counts(f"hypercube:{n}", "sbt", "dimension=1") == (n, n)
    assert counts(f"star:{n}", "greedy-tree", "dimension=1")[0] == n - 1
    network, order = f"ej:{n - 1}+{n}", parse_topology(f"ej:{n - 1}+{n}").order
    for radius in range(n - 1):
        within = 1 + 3 * radius * (radius + 1)
        assert counts(network, "improved", f"ball=1:{radius}") == (order - within, order)
    assert counts(network, "improved", "dimension=1")[0] == 3


def test_blocks_of_links_spare_nodes() -> None:
    given = broadcast("star:4", "edt", 3)
    # The node whose links are down is due its message, and does not get it; nobody else misses one.
    found = evaluated(given, "all:links-of=1")
    assert (found.expected == 23).all()
    assert (found.unserved == 1).all()
    first = next(every_set(parse_fault_sets("all:links-of=1")[0], FaultSites(given.algorithm)))
    assert first == ("down:1234~2134@1", "down:2134~3124@1", "down:2134~4132@1")


@pytest.mark.parametrize(
    "text", ["substar=2", "dimension=2@2", "bernoulli:links-of=0.2", "links-of=3;dimension=1", "ball=3:1"]
)
def test_draws_are_the_same_exactly_and_with_messages(text: str) -> None:
    given, numbers = broadcast("star:4", "edt", 2), range(BLOCK - 8, BLOCK + 8)
    (fault_set,) = parse_fault_sets(text)
    draws = Draws(fault_set, FaultSites(given.algorithm), given.spec.seed)
    found = evaluated(given, text, numbers)
    for at, number in enumerate(numbers):
        specs = draws.specs(number)
        assert len(set(specs)) == len(specs)
        result = run(given, parse_faults(specs, given.topology), 0)[1]
        assert (result.expected, result.intact) == (found.expected[at], found.intact[at])


def test_two_blocks_fail_where_either_does() -> None:
    given = broadcast("star:4", "edt", 3)
    sites = FaultSites(given.algorithm)
    one, two = (list(every_set(parse_fault_sets(f"all:substar={count}")[0], sites)) for count in (1, 2))
    assert [set(each) for each in two] == [set(a) | set(b) for a, b in combinations(one, 2)]
    assert draw(parse_fault_sets("substar=1")[0], sites, 1, 0) in one
    spared = FaultSites(given.algorithm, ["crash:2134@1"])
    left = list(every_set(parse_fault_sets("all:substar=1")[0], spared))
    assert left == [each for each in one if "crash:2134@1" not in each]
    assert 0 < len(left) < len(one)


def test_racks_of_a_network_file(tmp_path: Path) -> None:
    network = nx.cycle_graph(9)
    nx.set_node_attributes(network, {node: {"rack": node // 3} if node < 8 else {} for node in network})
    nx.write_graphml(network, tmp_path / "ring.graphml")
    values = {
        "topology": f"file:{tmp_path / 'ring.graphml'}",
        "collective": "broadcast",
        "algorithm": "flood",
        "driver": "memory",
    }
    given = Case(values, source="0").plan
    sets = list(every_set(parse_fault_sets("all:rack=1")[0], FaultSites(given.algorithm)))
    assert sets == [("crash:3@1", "crash:4@1", "crash:5@1"), ("crash:6@1", "crash:7@1")]
    scenario = make_scenario({**values, "source": "0", "fault": ["random:rack=1", "random:nodes=1"]})
    assert len(make_plan(scenario).faults) in (3, 4)
    with pytest.raises(ScenarioError, match="no node of file:ring has an attribute 'row'"):
        every_set(parse_fault_sets("all:rack=1:row")[0], FaultSites(given.algorithm))


def test_large_blocks_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert blocks.MOST_MEMBERS == 2**20
    monkeypatch.setattr(blocks, "MOST_MEMBERS", 1_000)
    with pytest.raises(ScenarioError, match="more than 1,000 nodes"):
        _ = Case("hypercube:7 broadcast sbt", "random:ball=1:2").plan
