"""Structure metrics of journals, compared with the trees and the papers, and on altered journals."""

from collections import Counter
from math import factorial

import polars as pl
import pytest

from coordinator.planning.plan import Plan
from coordinator.results import structure as structure_metrics
from coordinator.results.structure import METRICS, Paths
from emunode.algorithms.star.multiple_trees import CongestionTwoBroadcast
from emunode.topologies.registry import parse_topology
from emunode.trees.base import Trees, levels
from emunode.trees.eisenstein_jacobi.independent import IndependentTrees
from emunode.trees.hypercube.gray import GrayPaths
from emunode.trees.hypercube.rotated import EdgeDisjointBinomialTrees, RotatedBinomialTrees
from emunode.trees.star.edge_disjoint import EdgeDisjointTrees
from emunode.trees.star.greedy import CongestionTwoTrees
from emunode.trees.star.rotation import necklace_count
from emunode.trees.statistics import arc_congestion, shared_rank
from tests.helpers.scenarios import Case
from tests.helpers.support import failures, run_scenario


def history(line: str, **more: object) -> tuple[Plan, pl.DataFrame]:
    """Return the plan and the journal of a run."""
    case = Case(line, **more)
    assert not failures(case.run)
    return case.plan, case.journal


def measured(plan: Plan, journal: pl.DataFrame, name: str) -> int:
    """Return one metric, whether it is claimed or not."""
    return METRICS[name](Paths(plan, journal.lazy()))


# Against the trees.

FAMILIES: list[tuple[str, type[Trees]]] = [
    ("star:4 broadcast edt messages=3", EdgeDisjointTrees),
    ("star:4 reduce edt messages=3", EdgeDisjointTrees),
    ("star:4 scatter edt messages=3", EdgeDisjointTrees),
    ("star:4 gather edt messages=3", EdgeDisjointTrees),
    ("star:4 broadcast congestion2-trees messages=1", CongestionTwoTrees),
    ("star:4 reduce congestion2-trees messages=1", CongestionTwoTrees),
    ("hypercube:4 broadcast nesbt messages=4", EdgeDisjointBinomialTrees),
    ("hypercube:4 gather nesbt messages=1", EdgeDisjointBinomialTrees),
    ("hypercube:4 broadcast nrsbt messages=1", RotatedBinomialTrees),
    ("ej:2+3 broadcast independent-trees messages=1", IndependentTrees),
    ("ej:1+3 scatter independent-trees messages=1", IndependentTrees),
]


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("source", [0, 5])
@pytest.mark.parametrize(("line", "family"), FAMILIES)
def test_journals_have_the_structure_of_the_trees(line: str, family: type[Trees], source: int) -> None:
    network = parse_topology(line.split(maxsplit=1)[0])
    plan, journal = history(line, source=network.label(source))
    trees = family(network)
    assert measured(plan, journal, "trees_per_arc") == arc_congestion(trees)
    assert (measured(plan, journal, "paths_per_inner_node") == 1) == (shared_rank(trees) is None)
    detours = (
        level - network.weight(rank) for tree in range(trees.count) for rank, level in levels(trees, tree).items()
    )
    assert measured(plan, journal, "longest_detour") == max(detours)


@pytest.mark.parametrize("collective", ["scatter", "broadcast"])
def test_gray_paths_are_neither_disjoint_nor_short(collective: str) -> None:
    plan, journal = history(f"hypercube:4 {collective} nrbrg")
    paths = [GrayPaths(plan.topology, 4).path(15, tree) for tree in range(4)]
    assert measured(plan, journal, "longest_detour") >= max(len(path) - 1 for path in paths) - 4 > 0
    assert measured(plan, journal, "trees_per_arc") == arc_congestion(GrayPaths(plan.topology, 4)) == 3
    passed: Counter[tuple[int, int]] = Counter()
    for rank in range(1, 16):
        for tree in range(4):
            passed.update((rank, inner) for inner in GrayPaths(plan.topology, 4).path(rank, tree)[1:-1])
    assert measured(plan, journal, "paths_per_inner_node") == max(passed.values()) > 1


def test_many_roots_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, journal = history("star:4 allgather mbst")
    assert Paths(plan, journal.lazy()).hops["root"].n_unique() == 24
    monkeypatch.setattr(structure_metrics, "SAMPLED_HOPS", 24 * 23 // 6)
    roots = Paths(plan, journal.lazy()).hops["root"].unique().sort().to_list()
    assert roots == [0, 6, 12, 18]
    monkeypatch.setattr(structure_metrics, "SAMPLED_HOPS", 1)
    assert Paths(plan, journal.lazy()).hops["root"].unique().to_list() == [0]


@pytest.mark.parametrize("redundancy", [1, 2])
def test_many_segments_are_sampled_from_every_tree(redundancy: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, journal = history("star:4 broadcast edt messages=12", redundancy=redundancy)
    names = ("longest_detour", "trees_per_arc", "paths_per_inner_node", "segments_per_message")
    whole = [measured(plan, journal, name) for name in names]
    monkeypatch.setattr(structure_metrics, "MOST_HOPS", 100)
    assert Paths(plan, journal.lazy()).hops["segment"].n_unique() < 12
    assert Paths(plan, journal.lazy()).hops["tree"].n_unique() == 3
    assert [measured(plan, journal, name) for name in names] == whole == [4, 1, 1, 1]


# On journals that were altered: every metric moves.


def changed(journal: pl.DataFrame, row: int, **values: int) -> pl.DataFrame:
    """Return the journal with other values in one row."""
    here = pl.int_range(pl.len()) == row
    return journal.with_columns(
        pl.when(here).then(pl.lit(value).cast(journal.schema[name])).otherwise(pl.col(name)).alias(name)
        for name, value in values.items()
    )


def test_arc_in_two_trees_is_detected() -> None:
    plan, journal = history("star:4 broadcast edt redundancy=3")
    assert measured(plan, journal, "trees_per_arc") == 1
    other = (journal["tree"][0] + 1) % 3
    doubled = pl.concat([journal, changed(journal, 0, tree=other)[:1]])
    assert measured(plan, doubled, "trees_per_arc") == 2


def test_rank_on_two_paths_is_detected() -> None:
    plan, journal = history("star:4 scatter edt redundancy=3")
    assert measured(plan, journal, "paths_per_inner_node") == 1
    longest = journal.filter(pl.col("outcome") == "relay").row(0, named=True)
    other = pl.DataFrame([{**longest, "tree": (longest["tree"] + 1) % 3}], schema=journal.schema)
    assert measured(plan, pl.concat([journal, other]), "paths_per_inner_node") == 2


def test_detour_is_detected() -> None:
    plan, journal = history("star:4 broadcast greedy-tree")
    assert measured(plan, journal, "longest_detour") == 0
    star, parents = plan.topology, set(journal["sender"])
    leaf, upper = next(
        (rank, near)
        for rank in star.ranks()
        for near in star.neighbours(rank)
        if rank not in parents and star.weight(near) == star.weight(rank) + 1
    )  # a leaf, and a neighbour that is farther away, below which it is moved
    row = journal["receiver"].to_list().index(leaf)
    assert measured(plan, changed(journal, row, sender=upper), "longest_detour") == 2


def test_cycle_terminates() -> None:
    plan, journal = history("star:3 broadcast greedy-tree")
    rows = [changed(journal, row, sender=journal["receiver"][(row + 1) % 5]) for row in range(5)]
    circle = pl.concat([rows[row][row : row + 1] for row in range(5)])
    assert measured(plan, circle, "longest_detour") == 6  # no path comes to the root
    assert measured(plan, circle, "paths_per_inner_node") > 1


def test_repeated_link_type_in_a_step_is_detected() -> None:
    plan, journal = history("star:4 allgather mbst")
    assert measured(plan, journal, "same_type_per_step") == 1
    late = journal.filter(pl.col("step") == 2).with_columns(pl.lit(1, dtype=journal.schema["step"]).alias("step"))
    assert measured(plan, pl.concat([journal, late]), "same_type_per_step") == 2


@pytest.mark.parametrize(
    "name", ["off_displacement", "off_period", "outside_own_substar", "largest_subtree", "smallest_subtree"]
)
def test_leaf_behind_another_port_is_detected(name: str) -> None:
    plan, journal = history("star:4 scatter replicated-balanced-tree messages=3")
    before = measured(plan, journal, name)
    first = journal.filter(pl.col("sender") == 0, pl.col("port") == 0, pl.col("tree") == 0)
    target = next(rank for rank in first["target"] if plan.topology.label(rank)[0] != "1")
    here = (pl.col("sender") == 0) & (pl.col("target") == target)
    moved = journal.with_columns(pl.when(here).then(1).otherwise(pl.col("port")).cast(pl.Int16).alias("port"))
    wanted = {"off_displacement", "outside_own_substar", "largest_subtree", "smallest_subtree"}
    assert (measured(plan, moved, name) != before) == (name in wanted)
    doubled = pl.concat([journal, moved.filter(here)])
    assert (
        name not in {"off_displacement", "off_period", "outside_own_substar"} or measured(plan, doubled, name) > before
    )


def test_forwarding_home_node_is_detected() -> None:
    plan, journal = history("star:4 scatter near-balanced-tree")
    assert measured(plan, journal, "inner_home_nodes") == 0
    home = next(rank for rank in plan.topology.ranks() if rank and plan.topology.label(rank)[0] == "1")
    assert measured(plan, changed(journal, len(journal) - 1, sender=home), "inner_home_nodes") == 1


def test_arc_without_its_rotation_is_detected() -> None:
    plan, journal = history("star:4 scatter replicated-balanced-tree messages=3")
    assert measured(plan, journal, "unrotated_arcs") == 0
    last = journal.filter(pl.col("receiver") == pl.col("target"), pl.col("sender") != 0).row(0, named=True)
    kept = journal.filter(~((pl.col("sender") == last["sender"]) & (pl.col("receiver") == last["receiver"])))
    assert measured(plan, kept, "unrotated_arcs") > 0


# What is claimed.


@pytest.mark.parametrize("n", range(3, 6))
@pytest.mark.parametrize("collective", ["scatter", "gather"])
def test_theorems_9_and_10(n: int, collective: str) -> None:
    scenario = {"topology": f"star:{n}", "collective": collective, "messages": n - 1}
    least = (factorial(n) - 1) // (n - 1)
    expected = {
        "balanced-tree": (-(-(factorial(n) - 1) // (n - 1)), least),
        "near-balanced-tree": (necklace_count(n), None),
        "replicated-balanced-tree": (necklace_count(n), necklace_count(n)),
    }
    for algorithm, (largest, smallest) in expected.items():
        result = run_scenario(None, **scenario, algorithm=algorithm)
        assert not failures(result)
        assert result.summary["largest_subtree"] == largest
        assert smallest in (None, result.summary.get("smallest_subtree"))
        assert result.summary["outside_own_substar"] == result.summary["inner_home_nodes"] == 0
        sources = " ".join(judgement.claim.source for judgement in result.judgements)
        theorems = {
            "near-balanced-tree": "9.1 9.2 9.3 9.4 9.5",
            "replicated-balanced-tree": "10.1 10.2 10.3 10.4 10.5 10.6 10.7",
        }
        assert all(f"theorem {number}" in sources for number in theorems.get(algorithm, "").split())


@pytest.mark.parametrize(("port_model", "theorem"), [("all-port", "theorem 1"), ("one-port", "theorem 2")])
@pytest.mark.parametrize("size", [90, 1000, 9000])
def test_theorems_1_and_2(port_model: str, theorem: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = {
        "topology": "star:4", "collective": "broadcast", "algorithm": "congestion2-trees", "message_bytes": size,
        "port_model": port_model, "startup": "1us", "per_byte": "1us",
    }  # fmt: skip
    result = run_scenario(None, **scenario, segments="auto")
    assert not failures(result)
    assert any(theorem in judgement.claim.source for judgement in result.judgements)
    worse = run_scenario(None, **scenario, segments=1)
    assert not any(theorem in judgement.claim.source for judgement in worse.judgements)
    best = CongestionTwoBroadcast.auto_segments
    monkeypatch.setattr(CongestionTwoBroadcast, "auto_segments", staticmethod(lambda *spec: best(*spec) // 2 or 1))
    wrong = run_scenario(None, **scenario, segments="auto")
    assert [line.split(":")[0] for line in failures(wrong)] == ["segments_per_message"]


def test_a_run_with_faults_measures_no_structure() -> None:
    case = Case("star:4 broadcast edt redundancy=3")
    assert "trees_per_arc" in case.summary
    broken = case.but("crash:2134@1").run
    assert "trees_per_arc" not in broken.summary
    assert not failures(broken)
