"""Reductions of real numbers: the recorded bits on every driver and clock, refusals, faults, and the user's own data."""

from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

import coordinator
from coordinator.annexes.numbers import feature as numbers
from coordinator.execution.verify import verify
from emunode.annexes.numbers.float_types import FLOAT32
from emunode.errors import ScenarioError
from emunode.model import Rounding
from tests.annexes.numbers.support import ELEMENTS, evaluated, kind_of, reduced, results_of, ring
from tests.helpers.scenarios import Case
from tests.helpers.support import golden_rows

BFS = Case("star:4 allreduce bfs-tree values=float32 seed=1 message_bytes=960")
GOLDEN = [
    ("complete:{}", "bfb", "linear", (4, 5, 6, 8, 24)),
    ("complete:{}", "recursive-doubling", "recursive-doubling", (4, 5, 6, 8, 24)),
    ("complete:{}", "recursive-halving", "rabenseifner", (4, 8)),
    ("complete:{}", "circulant-halving", "circulant", (4, 5, 6, 8, 24)),
    ("star:{}", "bfs-tree", "bfs-star", (6, 24)),
]
"""Network, algorithm, its name in the recorded results, and the numbers of ranks."""
MODELS = {"recursive-doubling": "exchange", "recursive-halving": "exchange", "circulant-halving": "one-port"}
"""Port models of algorithms that do not run over all ports."""
ORDERS = {6: 3, 24: 4}
"""The size of the star graph with a number of nodes."""


def golden_cases() -> list[tuple[Case, dict[str, str]]]:
    found = []
    for network, algorithm, name, counts in GOLDEN:
        for row in golden_rows("additions", "results", algorithm=name, rule="rank"):
            count = int(row["P"])
            if count not in counts:
                continue
            kind, rounding = kind_of(row)
            size = ORDERS[count] if network.startswith("star") else count
            more = {"rounding": "end"} if rounding is Rounding.END else {}
            model = {"port_model": MODELS[algorithm]} if algorithm in MODELS else {}
            line = f"{network.format(size)} allreduce {algorithm} values={kind.name} seed={row['seed']}"
            found.append((Case(line, message_bytes=ELEMENTS * kind.item_bytes, **more, **model), row))
    return found


@pytest.mark.parametrize(("case", "row"), golden_cases()[::3])
def test_results_have_the_recorded_bits(case: Case, row: dict[str, str]) -> None:
    results = results_of(case)
    assert case.summary["results_hash"] == row["sha256_all_ranks"]
    assert sha256(results.numbers[0].tobytes()).hexdigest() == row["sha256_rank_0"]
    assert case.summary["tree_depth"] == int(row["max_depth"])
    assert f"{case.summary['mean_tree_depth']:.4f}" == row["mean_depth"]
    assert case.summary["worst_error_units"] == pytest.approx(float(row["max_error_in_u_sum"]), abs=1e-4)
    assert case.run.verdict == "holds"


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize(
    "more",
    [{"driver": "local"}, {"clock": "timed"}, {"driver": "local", "clock": "timed"}, {"segments": 7}],
    ids=lambda more: "-".join(map(str, more.values())),
)
def test_drivers_clocks_and_segments_change_no_bit(more: dict[str, object], fixed: bool) -> None:
    case = BFS.but(fixed_order=fixed)
    assert case.but(**more).summary["results_hash"] == case.summary["results_hash"]


def test_the_journal_does_not_depend_on_the_kind_of_values() -> None:
    plain = Case("star:4 allreduce bfs-tree seed=1 message_bytes=960")
    assert "results_hash" not in plain.summary
    assert BFS.summary["journal_hash"] == plain.summary["journal_hash"]


def test_blocks_of_a_ring_have_trees_of_their_own() -> None:
    case = Case("ring:5 allreduce ring values=float32 seed=1", message_bytes=4 * ELEMENTS, port_model="one-port")
    # This ring finishes block j at rank j, so its tree is the closed form of the next chunk.
    vectors = [case.plan.algorithm.payloads.numbers(rank, range(ELEMENTS)) for rank in range(5)]  # type: ignore[attr-defined]
    results = results_of(case)
    size = ELEMENTS // 5
    blocks = [[vector[size * block :][:size] for vector in vectors] for block in range(5)]
    expected = np.concatenate([evaluated(ring(5, block + 1), blocks[block], FLOAT32) for block in range(5)])
    np.testing.assert_array_equal(results.numbers, np.tile(expected, (5, 1)))
    assert case.summary["distinct_trees"] == 5


def test_reduce_and_reduce_scatter_have_one_row() -> None:
    rooted = Case("star:3 reduce bfs-tree values=float32 seed=1", message_bytes=4 * ELEMENTS)
    whole = Case("star:3 allreduce bfs-tree values=float32 seed=1", message_bytes=4 * ELEMENTS)
    np.testing.assert_array_equal(results_of(rooted).words, results_of(whole).words[:1])
    scattered = Case("complete:6 reduce-scatter bfb values=float32 seed=1", message_bytes=4 * ELEMENTS)
    np.testing.assert_array_equal(results_of(scattered).numbers, [reduced("linear", 6, FLOAT32, Rounding.EACH)])


FIXED = (
    "ring:{} allreduce ring port_model=one-port", "complete:{} allreduce bfb", "complete:{} reduce bfs-tree",
    "complete:{} reduce-scatter circulant-halving port_model=one-port", "ring:{} allreduce bfs-tree segments=3",
)  # fmt: skip
"""Reductions whose trees differ, if the order is not fixed."""


@pytest.mark.parametrize("count", [5, 6, 8, 24])
def test_the_fixed_order_has_the_recorded_bits_everywhere(count: int) -> None:
    rows = golden_rows("additions", "results", algorithm="binomial", rule="rank", P=str(count))
    # Every second one of many ranks has every line of FIXED already.
    for place, row in list(enumerate(rows))[:: 2 if count == 24 else 1]:
        kind, rounding = kind_of(row)
        # A binomial reduce to rank 0 has the tree of the fixed order.
        line = FIXED[place % len(FIXED)].format(count)
        more = {"rounding": "end"} if rounding is Rounding.END else {}
        size = ELEMENTS * kind.item_bytes
        case = Case(f"{line} fixed_order=true values={kind.name} seed=1", message_bytes=size, **more)
        results = results_of(case)
        assert sha256(results.numbers[0].tobytes()).hexdigest() == row["sha256_rank_0"], line
        assert case.run.verdict == "holds"


@pytest.mark.parametrize("fault", ["crash:4231@2", "corrupt:1234~2134:1", "loss:1234~2134:0.5", "byzantine:2134"])
def test_the_fixed_order_survives_faults(fault: str) -> None:
    broken = BFS.but(fault, fixed_order=True)
    assert broken.summary["illegal_hops"] == 0
    assert broken.run.verdict == BFS.but(fault).run.verdict


def test_switches_have_no_results() -> None:
    case = Case("fat-tree:4 allreduce bfs-tree values=float32")
    results = results_of(case)
    assert len(results.numbers) == len(case.plan.topology.data_ranks) < case.plan.topology.order
    assert case.run.verdict == "holds"


def test_vectors_are_limited_as_they_are_sent() -> None:
    with pytest.raises(ScenarioError, match="at most 33554432 as they are sent"):
        _ = BFS.but(values="bfloat16", rounding="end", message_bytes=2**25).plan


@pytest.mark.parametrize(("array", "message"), [
    (np.zeros((3, 4)), "shape .24, elements., one row for each node, not 3x4"),
    (np.zeros(24), "not 24"),
    (np.zeros((24, 4), np.int64), "an array of floats, not of int64"),
    (np.array([[None]] * 24, object), "not an array of numbers"),
])  # fmt: skip
def test_files_with_other_arrays_are_refused(array: np.ndarray, message: str, tmp_path: Path) -> None:
    np.save(tmp_path / "data.npy", array)
    with pytest.raises(ScenarioError, match=message):
        _ = BFS.but(data=str(tmp_path / "data.npy"), message_bytes=None).plan


def test_own_data_are_added_and_kept(tmp_path: Path) -> None:
    array = np.arange(24 * 5, dtype=np.float32).reshape(24, 5) / 7
    np.save(tmp_path / "mine.npy", array)
    stored = BFS.but(data=str(tmp_path / "mine.npy"), message_bytes=None).stored(tmp_path / "run")
    results = np.load(tmp_path / "run" / "results.npy")
    np.testing.assert_allclose(results, np.tile(array.sum(axis=0), (24, 1)), rtol=1e-6)
    np.testing.assert_array_equal(np.load(tmp_path / "run" / "data.npy"), array)
    (tmp_path / "mine.npy").unlink()
    assert verify(stored.path).findings == []


def test_altered_results_are_found(tmp_path: Path) -> None:
    run = Case("star:3 allreduce bfs-tree values=bfloat16 rounding=end").stored(tmp_path / "run")
    assert verify(run.path).findings == []
    array = np.load(run.path / "results.npy")
    array[2, 1] ^= 1
    np.save(run.path / "results.npy", array)
    assert any("results.npy: differs" in finding for finding in verify(run.path).findings)


def test_python_gives_arrays_and_functions() -> None:
    star = coordinator.network("star:3")
    rows = np.random.default_rng(0).normal(size=(6, 8)).astype(np.float32)
    one = star.allreduce("bfs-tree", values="float32", data=rows)
    other = star.allreduce("bfs-tree", values="float32", data=lambda rank: rows[rank])
    assert one.results is not None
    np.testing.assert_array_equal(one.results, other.results)
    np.testing.assert_allclose(one.results[0], rows.sum(axis=0), rtol=1e-5)
    assert one.bits["certified"].to_list() == ["yes"] * 4 + ["-"]
    assert one.bits["measured"].to_list() == ["yes", "-", "-", "-", "-"]
    assert set(one.additions()["sha256"]) == set(one.summary["tree_digests"])


def test_signed_zeros_and_nan_survive_a_run() -> None:
    star = coordinator.network("star:3")
    data = np.zeros((6, 4), np.float32)
    data[:, 0], data[0, 1], data[1, 1], data[2, 2] = -0.0, np.inf, -np.inf, np.nan
    run = star.allreduce("bfs-tree", values="float32", data=data)
    assert run.results is not None
    assert run.results[3].view("<u4").tolist() == [0x80000000, 0x7FC00000, 0x7FC00000, 0]


def test_lost_contributions_are_not_judged_by_their_bits() -> None:
    lost = BFS.but("crash:4231@2")
    names = {claim.claim.name for claim in lost.conclusion.ruling.judgements}
    assert "least_contributions" in names
    assert not names & {"distinct_results", "worst_error_units"}
    assert lost.summary["missing_elements"] > 0
    assert "worst_error_units" not in lost.summary


def test_large_runs_are_not_certified(monkeypatch: pytest.MonkeyPatch) -> None:
    assert numbers.MOST_CERTIFIED == 4000
    for most, certified in ((36, "yes"), (35, "-")):
        monkeypatch.setattr(numbers, "MOST_CERTIFIED", most)
        case = Case("star:3 reduce-scatter bfb values=float32")
        assert case.summary["bits"][0]["certified"] == certified
