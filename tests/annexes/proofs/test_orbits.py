"""Orbits of fault sets agree with full enumeration."""

from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import networkx
import pytest

from coordinator.annexes.proofs.orbits import Orbits
from coordinator.history.journal import sorted_records
from coordinator.planning.plan import Plan, make_plan
from coordinator.results.metrics import count_trial
from coordinator.scenario.fault_draws import FaultSites, every_set
from coordinator.scenario.fault_sets import parse_fault_sets
from coordinator.theory.symmetry import Symmetry, symmetries
from emunode.errors import ScenarioError
from tests.coordinator.theory.test_symmetry import IRREGULAR
from tests.helpers.scenarios import Case
from tests.helpers.support import played


@pytest.mark.skipif(find_spec("igraph") is None, reason="igraph, which searches automorphisms, is not installed")
@pytest.mark.parametrize("graph", [graph for graph, _ in IRREGULAR])
def test_orbits_of_networks_without_translations(graph: "networkx.Graph[int]", tmp_path: Path) -> None:
    file = tmp_path / "net.edges"
    file.write_text("".join(f"{one} {other}\n" for one, other in graph.edges))
    plan = Case(f"file:{file} broadcast bfs-tree", source="0").plan
    found = symmetries(plan.algorithm)
    for text in ("nodes=1", "nodes=2", "links=1"):
        (fault_set,) = parse_fault_sets(text)
        orbits = list(Orbits(plan.algorithm, found).of(fault_set))
        every = list(every_set(fault_set, FaultSites(plan.algorithm)))
        assert sum(orbit.multiplicity for orbit in orbits) == len(every)
        assert len(orbits) < len(every)
        # Sets of one orbit lose the same number of deliveries: the representatives stand for the whole enumeration.
        lost = Counter(
            {
                each: sum(o.multiplicity for o in orbits if deliveries(plan, o.faults) == each)
                for each in range(len(graph))
            }
        )
        assert +lost == Counter(deliveries(plan, faults) for faults in every)


def deliveries(plan: Plan, faults: tuple[str, ...]) -> int:
    """Messages that arrive whole under these faults, by the message engine."""
    broken = make_plan(plan.scenario.model_copy(update={"fault": faults}))
    rows, copies = played(broken)
    return int(count_trial(broken, sorted_records([rows]), copies).metrics["intact_deliveries"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("topology", "algorithm", "redundancy", "text"),
    [
        ("star:4", "edt", 3, "all:nodes=2"),
        ("star:4", "edt", 3, "all:links=2"),
        ("star:4", "edt", 3, "all:nodes=1;links=1"),
        ("hypercube:3", "nesbt", 3, "all:nodes=3"),
        ("hypercube:3", "nesbt", 3, "all:nodes=1;links=2"),
        ("ej:1+2", "independent-trees", 6, "all:nodes=3"),
        ("ej:2+3", "independent-trees", 6, "all:links=2"),
        ("star:3", "edt", 2, "all:nodes=0"),
    ],
)
def test_orbits_are_those_of_full_enumeration(topology: str, algorithm: str, redundancy: int, text: str) -> None:
    plan = Case(f"{topology} broadcast {algorithm} x={redundancy}").plan
    (fault_set,) = parse_fault_sets(text)
    found = symmetries(plan.algorithm)
    orbits = list(Orbits(plan.algorithm, found).of(fault_set))
    seen: Counter[frozenset[str]] = Counter()
    for orbit in orbits:
        images = {moved(orbit.faults, symmetry, plan) for symmetry in found}
        assert len(images) == orbit.multiplicity
        seen.update(images)
    every = [frozenset(faults) for faults in every_set(fault_set, FaultSites(plan.algorithm))]
    assert set(seen) == set(every)
    assert set(seen.values()) == {1}
    assert sum(orbit.multiplicity for orbit in orbits) == len(every) == Orbits(plan.algorithm, found).count(fault_set)


def moved(faults: tuple[str, ...], symmetry: Symmetry, plan: Plan) -> frozenset[str]:
    """The image of a set of faults, place by place."""
    images = []
    for spec in faults:
        kind, _, where = spec.removesuffix("@1").partition(":")
        ranks = [int(symmetry.ranks[plan.topology.rank(label)]) for label in where.split("~")]
        images.append(f"{kind}:{'~'.join(map(plan.topology.label, sorted(ranks)))}@1")
    return frozenset(images)


def test_too_many_faults_and_too_many_sets_are_refused() -> None:
    plan = Case("star:4 broadcast edt x=3").plan
    orbits = Orbits(plan.algorithm, symmetries(plan.algorithm))
    with pytest.raises(ScenarioError, match="needs 24 nodes, but only 23 may fail"):
        orbits.count(parse_fault_sets("all:nodes=24")[0])
    with pytest.raises(ScenarioError, match="at most 20,000,000 can be gone through"):
        orbits.count(parse_fault_sets("all:links=9")[0])
