"""Contributions that ranks share: the same bits on any number of ranks in the fixed order, and other bits without it."""

from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import coordinator
from coordinator.annexes.numbers.fold_tree import FoldTree, paired
from coordinator.execution.verify import verify
from emunode.annexes.numbers.fixed_order import FixedTree
from emunode.errors import ScenarioError
from emunode.model import NumberType, RealNumbers
from tests.annexes.numbers.support import results_of
from tests.annexes.numbers.test_fixed_order import absorbed
from tests.helpers.scenarios import Case

LEAVES, ELEMENTS = 24, 240
NETWORKS = {
    "hypercube:2 bfs-tree": "all-port", "hypercube:3 sbt": "all-port", "hypercube:4 bfs-tree": "all-port",
    "hypercube:3 recursive-doubling": "exchange", "ring:6 ring": "one-port", "ring:7 bfb": "all-port",
    "complete:5 circulant-halving": "one-port", "star:4 edt": "all-port", "fat-tree:4 bfs-tree": "all-port",
}  # fmt: skip
"""Network and algorithm, with the port model: 4 to 24 ranks, whose runs of contributions are of equal and unequal length."""


@cache
def case(network: str, collective: str = "allreduce", **more: Any) -> Case:
    """Return a run over the same 24 contributions, in the fixed order. Made once."""
    topology, algorithm = network.split()
    line = f"{topology} {collective} {algorithm} values=float32 port_model={NETWORKS.get(network, 'all-port')} seed=1"
    return Case(line, **{"leaves": LEAVES, "message_bytes": 4 * ELEMENTS, "fixed_order": True, **more})


def row(run: Case) -> bytes:
    """Return the bits that the lowest rank ends with."""
    results = results_of(run)
    return bytes(results.numbers[0].tobytes())


def added_in_pairs(vectors: list[np.ndarray]) -> np.ndarray:
    """Return the sum of neighbours, then of pairs of neighbours, in numpy alone."""
    while len(vectors) > 1:
        sums = [one + other for one, other in zip(vectors[::2], vectors[1::2], strict=False)]
        vectors = sums + vectors[len(sums) * 2 :]
    return vectors[0]


def claim_on_ranks(run: Case) -> dict[str, str]:
    return next(row for row in run.summary["bits"] if row["claim"] == "bits_independent_of_P")


@pytest.mark.parametrize("network", NETWORKS)
def test_any_number_of_ranks_ends_with_the_same_bits(network: str) -> None:
    run = case(network)
    vectors = [run.plan.algorithm.payloads.numbers(leaf, range(ELEMENTS)) for leaf in range(LEAVES)]  # type: ignore[attr-defined]
    assert row(run) == added_in_pairs(vectors).tobytes()
    assert run.run.verdict == "holds"
    claim = claim_on_ranks(run)
    assert claim["certified"] == "yes"
    others = {row["claim"]: row["certified"] for row in run.summary["bits"]}
    assert set(others.values()) == {"yes"}, others
    assert {"bits_independent_of_size", "bits_independent_of_segments"} < set(others)
    # A fat tree has no neighbour of few ranks to compare values with.
    assert claim["measured"] == ("-" if network.startswith("fat-tree") else "yes")


@pytest.mark.parametrize("network", NETWORKS)
def test_without_the_fixed_order_ranks_change_the_bits(network: str) -> None:
    claim = claim_on_ranks(case(network, fixed_order=False))
    if network.startswith("fat-tree"):
        assert (claim["certified"], claim["because"]) == ("-", "no other network is compared")
        return
    assert (claim["certified"], claim["measured"]) == ("no", "no")
    assert claim["because"].startswith("element 0 at ")


def test_the_violated_claim_names_element_ranks_and_trees() -> None:
    run = Case("ring:3 allreduce bfs-tree values=float32 seed=1", leaves=4, message_bytes=4 * ELEMENTS)
    claim = claim_on_ranks(run)
    assert claim["because"] == "element 0 at 0 is (((0+1)+2)+3), and at 0 of ring:4 ((0+1)+(2+3))"
    assert (claim["certified"], claim["measured"]) == ("no", "no")


@pytest.mark.parametrize("collective", ["reduce", "reduce-scatter", "allreduce"])
@pytest.mark.parametrize("kind", ["float64", "bfloat16", "float16"])
def test_every_collective_and_type_has_the_same_bits(collective: str, kind: str) -> None:
    names = {"reduce": "bfs-tree", "reduce-scatter": "bfb", "allreduce": "bfb"}
    rounding = None if kind == "float64" else "end"
    found = {
        row(case(f"{network} {names[collective]}", collective, values=kind, rounding=rounding, leaves=10))
        for network in ("ring:4", "ring:6", "hypercube:3")
    }
    assert len(found) == 1


def test_own_contributions_are_shared_in_runs(tmp_path: Path) -> None:
    rows = np.random.default_rng(5).normal(size=(7, 10)).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)

    def added(data: object, out: Path | None = None) -> coordinator.Run:
        return coordinator.network("ring:3").allreduce("bfs-tree", values="float32", leaves=7, data=data, out=out)

    run = added(rows)
    own = [rows[start] + rows[start + 1] for start in (0, 3, 5)]
    own[0] = own[0] + rows[2]
    assert run.results is not None
    np.testing.assert_array_equal(run.results[0], (own[0] + own[1]) + own[2])
    for data in (lambda leaf: rows[leaf], str(tmp_path / "rows.npy")):
        np.testing.assert_array_equal(added(data).results, run.results)
    added(rows, tmp_path / "run")
    assert verify(tmp_path / "run").findings == []
    with pytest.raises(ScenarioError, match=r"shape .7, elements., one row for each contribution, not 6x10"):
        added(rows[:6])


@pytest.mark.parametrize("more", [{"driver": "local", "ranks_per_host": 4}, {"clock": "timed"}, {"segments": 3}])
def test_drivers_clocks_and_segments_change_no_bit(more: dict[str, Any]) -> None:
    assert row(case("hypercube:3 sbt", **more)) == row(case("hypercube:2 bfs-tree"))


def test_repeated_sends_and_lost_ranks_are_judged_as_ever() -> None:
    plain = case("hypercube:3 sbt", "reduce")
    lossy = plain.but("loss:000~001:0.5", reliable=True)
    assert lossy.summary["retransmissions"] > 0
    assert row(lossy) == row(plain)
    lost = case("hypercube:3 bfs-tree").but("crash:111@1")
    assert lost.summary["missing_elements"] > 0
    assert "worst_error_units" not in lost.summary


@pytest.mark.parametrize("fixed", [False, True])
def test_a_probe_reveals_the_tree_over_contributions(fixed: bool) -> None:
    run = case("ring:4 bfs-tree", values="probe", leaves=10, message_bytes=None, fixed_order=fixed)
    assert run.summary["probe_contradictions"] == 0
    assert run.run.verdict == "holds"
    trees = set(coordinator.network("ring:4").allreduce(
        "bfs-tree", values="probe", leaves=10, fixed_order=fixed
    ).additions()["tree"])  # fmt: skip
    assert trees == {"((((0+1)+(2+3))+((4+5)+(6+7)))+(8+9))" if fixed else "((((0+1)+2)+((3+4)+5))+((6+7)+(8+9)))"}


@given(st.integers(1, 60), st.integers(0, 200))
def test_ranks_have_runs_of_equal_length(count: int, more: int) -> None:
    numbers = RealNumbers(NumberType.FLOAT32, leaves=count + more)
    runs = [list(numbers.contributions_of(rank, range(count))) for rank in range(count)]
    assert [leaf for run in runs for leaf in run] == list(range(count + more))
    assert all(0 <= len(one) - len(other) <= 1 for one, other in pairwise(runs))
    assert len(runs[0]) - len(runs[-1]) <= 1


@pytest.mark.parametrize("count", range(1, 70))
def test_the_fixed_tree_adds_in_pairs(count: int) -> None:
    assert [tree.canonical for tree in absorbed(FixedTree(count), list(range(count))).values()] == [
        paired(range(count)).canonical
    ]
    assert paired(range(count)).is_complete(range(count))
    assert isinstance(paired([3]), FoldTree)
