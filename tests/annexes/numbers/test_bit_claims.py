"""Claims on bits: certified by trees, against measured shares of changed elements and against brute force."""

from bisect import bisect_right
from collections.abc import Iterator

import numpy as np
import pytest

from coordinator.annexes.numbers.bit_claims import results_by_trees, without
from coordinator.annexes.numbers.feature import trees_of
from coordinator.annexes.numbers.fold_tree import FoldTree
from coordinator.annexes.numbers.probe import probed_tree
from emunode.annexes.numbers.float_types import FLOAT32
from emunode.model import Rounding
from tests.annexes.numbers.support import ELEMENTS, TREES, chain, chunks, kind_of, results_of
from tests.helpers.command_line import ROOT
from tests.helpers.scenarios import Case
from tests.helpers.support import golden_rows, loaded

OWN_FIRST = ROOT / "tests" / "plugins" / "own_first.py"
SIZE = 4 * ELEMENTS


@pytest.fixture(scope="module")
def plugin() -> Iterator[tuple[str, ...]]:
    with loaded(OWN_FIRST) as found:
        yield found


def certified(case: Case) -> dict[str, tuple[str, str]]:
    """Return what is certified and measured, by claim."""
    return {row["claim"]: (row["certified"], row["measured"]) for row in case.summary["bits"]}


@pytest.mark.parametrize(
    ("line", "root", "zeros", "segments"),
    [
        ("complete:6 reduce bfs-tree", "yes", "yes", "yes"),
        ("star:3 reduce bfs-tree", "no", "-", "yes"),
        ("complete:8 reduce binomial port_model=one-port", "yes", "yes", "yes"),
        ("complete:6 reduce binomial port_model=one-port", "no", "yes", "yes"),
        ("complete:6 allreduce bfb", None, "yes", "yes"),
        ("ring:6 allreduce ring port_model=one-port", None, "no", "yes"),
        ("ring:6 allreduce ring port_model=one-port fixed_order=true", None, "yes", "yes"),
        ("complete:5 allreduce recursive-doubling port_model=exchange", None, "no", "yes"),
        ("star:4 allreduce edt", None, "-", "no"),
    ],
)
def test_claims_are_certified_by_trees(line: str, root: str | None, zeros: str, segments: str) -> None:
    claims = certified(Case(f"{line} values=float32 seed=1", message_bytes=SIZE))
    assert claims.get("bits_independent_of_root", (None,))[0] == root
    assert claims["bits_independent_of_zero_ranks"][0] == zeros
    assert claims["bits_independent_of_segments"][0] == segments


def test_segments_change_bits_where_trees_say_so() -> None:
    case = Case("star:4 allreduce edt values=float32 seed=1", message_bytes=SIZE)
    assert case.but(segments=2).summary["results_hash"] != case.summary["results_hash"]
    other = Case("ring:6 allreduce ring port_model=one-port values=float32 seed=1", message_bytes=SIZE)
    assert other.but(segments=2).summary["results_hash"] == other.summary["results_hash"]


@pytest.mark.parametrize("row", [
    row for row in golden_rows("additions", "independence", values="float32") if row["algorithm"] in TREES
], ids=lambda row: f"{row['algorithm']}-{row['P']}")  # fmt: skip
def test_trees_tell_when_zero_ranks_change_bits(row: dict[str, str]) -> None:
    count, name = int(row["P"]), row["algorithm"]
    starts = [place.start for place in chunks(ELEMENTS, count)], [place.start for place in chunks(ELEMENTS, count + 4)]
    # Elements in the same chunks have the same trees.
    in_chunks = {tuple(bisect_right(each, element) - 1 for each in starts) for element in range(ELEMENTS)}
    same = True
    for few, more in in_chunks:
        left = without(TREES[name](count + 4, more), count)
        same &= left is not None and left.canonical == TREES[name](count, few).canonical
    # Equal trees give equal bits, and among 240 elements other trees show.
    assert same == (float(row["percent_changed_if_4_zero_ranks_join"]) == 0)


def test_leaves_are_taken_out_without_recursion() -> None:
    left = without(chain(range(3000)), 2000)
    assert left is not None
    assert left.canonical == chain(range(2000)).canonical
    assert without(FoldTree(5), 5) is None


@pytest.mark.parametrize("line", ["star:4 allreduce edt", "star:3 reduce bfs-tree", "complete:5 reduce-scatter bfb"])
def test_trees_evaluated_on_contributions_give_the_results(line: str) -> None:
    for more in ({}, {"fixed_order": True}, {"values": "bfloat16", "rounding": "end", "messages": 2}):
        case = Case(f"{line} values=float32 seed=3", **more)
        trees = trees_of(case.plan.algorithm)
        assert trees is not None
        assert results_by_trees(case.plan.algorithm, trees).hash == results_of(case).hash


def test_repeated_sends_leave_the_bits() -> None:
    case = Case("hypercube:3 reduce sbt values=float32 seed=1", "loss:000~001:0.5", reliable=True)
    assert certified(case)["bits_after_repair_equal"] == ("yes", "yes")
    slow = Case("star:4 allreduce bfs-tree values=float32 clock=timed", "slow:1234~2134:3")
    assert certified(slow)["bits_after_repair_equal"] == ("yes", "yes")
    assert "bits_after_repair_equal" not in certified(Case("star:4 allreduce bfs-tree values=float32", "crash:4231@2"))


@pytest.mark.parametrize("count", [4, 5, 6, 8, 24])
def test_ranks_that_add_for_themselves_are_found(count: int, plugin: tuple[str, ...]) -> None:
    rows = golden_rows("additions", "results", algorithm="local-own-first", P=str(count))
    for row in rows if count < 24 else rows[::3]:
        kind, rounding = kind_of(row)
        more = {"rounding": "end"} if rounding is Rounding.END else {}
        case = Case(
            f"complete:{count} allreduce own-first values={kind.name} seed=1", plugin=plugin,
            message_bytes=ELEMENTS * kind.item_bytes, **more,
        )  # fmt: skip
        assert case.summary["results_hash"] == row["sha256_all_ranks"]
        (judgement,) = (each for each in case.conclusion.ruling.judgements if each.claim.name == "trees_per_element")
        # Violated by the trees, even where the values are equal by luck.
        assert (judgement.verdict, judgement.measured) == ("violated", count)
        one, other = chain([*range(1, count), 0]).canonical, chain(range(count)).canonical
        if count < 6:
            assert judgement.claim.source.endswith(f"element 0 is {one} at 1, and {other} at 0")
        assert certified(case)["same_bits_on_all_ranks"] == ("no", "no" if row["equal_on_all_ranks"] == "no" else "yes")


def test_the_fixed_order_heals_ranks_that_add_for_themselves(plugin: tuple[str, ...]) -> None:
    case = Case(
        "complete:5 allreduce own-first values=float32 seed=1 fixed_order=true", plugin=plugin, message_bytes=SIZE
    )
    assert case.run.verdict == "holds"
    (row,) = golden_rows("additions", "results", algorithm="binomial", rule="rank", P="5", values="float32")
    assert case.summary["results_hash"] == row["sha256_all_ranks"]


def test_a_probe_reads_the_trees_of_a_plug_in(plugin: tuple[str, ...]) -> None:
    case = Case("complete:5 allreduce own-first values=probe", plugin=plugin)
    results = results_of(case)
    for rank, row in enumerate(results.numbers):
        tree = probed_tree(row, FLOAT32, Rounding.EACH, range(5))
        assert tree.canonical == chain([(rank + distance) % 5 for distance in range(5)]).canonical
    np.testing.assert_equal(case.summary["bits"][1]["certified"], "-")
