"""The probe: the tree from results alone, for every tree of few ranks and for the recorded meetings of algorithms."""

import numpy as np
import pytest

from coordinator.annexes.numbers.fold_tree import FoldTree
from coordinator.annexes.numbers.probe import every_tree, meetings_of, probed_tree, tree_of_meetings
from emunode.annexes.numbers.contributions import probe_contribution
from emunode.annexes.numbers.float_types import FLOAT32, FLOAT_TYPES, FloatArray, FloatType
from emunode.errors import ScenarioError
from emunode.model import Rounding
from tests.annexes.numbers.support import TREES, evaluated
from tests.helpers.support import golden_rows


def probe_results(tree: FoldTree, kind: FloatType, rounding: Rounding, ranks: range) -> FloatArray:
    """Return the results of a probe of an implementation that adds in the order of a tree."""
    contributions = [kind.rounded(probe_contribution(kind, rounding, ranks, rank)) for rank in ranks]
    if rounding is Rounding.EACH:
        return evaluated(tree, contributions, kind)
    total = evaluated(tree, [FLOAT32.rounded(kind.exact(numbers)) for numbers in contributions], FLOAT32)
    return kind.rounded(FLOAT32.exact(total))


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_every_tree_is_recovered(count: int) -> None:
    ranks = range(count)
    for kind in FLOAT_TYPES.values():
        for tree in every_tree(ranks):
            results = probe_results(tree, kind, Rounding.EACH, ranks)
            assert probed_tree(results, kind, Rounding.EACH, ranks).canonical == tree.canonical


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("kind", FLOAT_TYPES.values(), ids=lambda kind: kind.name)
def test_trees_of_algorithms_are_recovered(name: str, kind: FloatType) -> None:
    for count in (6, 24):
        ranks, tree = range(count), TREES[name](count, count // 2)
        for rounding in Rounding if kind.item_bytes == 2 else [Rounding.EACH]:
            results = probe_results(tree, kind, rounding, ranks)
            assert probed_tree(results, kind, rounding, ranks).canonical == tree.canonical


def test_meetings_are_as_recorded() -> None:
    rows = [row for row in golden_rows("additions", "probe", rule="rank") if row["algorithm"] in TREES]
    assert len(rows) == 60
    for row in rows:
        count = int(row["P"])
        tree = TREES[row["algorithm"]](count, int(row["chunk"]))
        meetings = meetings_of(tree)
        recorded = [int(word) for word in row["leaves_below_the_meeting_point_of_each_pair"].split()]
        assert [meetings[pair] for pair in sorted(meetings)] == recorded
        assert tree_of_meetings(meetings, range(count)).canonical == tree.canonical


def test_results_of_no_tree_are_refused() -> None:
    ranks, exact = range(4), Rounding.EACH
    right = probe_results(TREES["linear"](4, 0), FLOAT32, exact, ranks)
    doubled, missing = right.copy(), right.copy()
    doubled[0], missing[3] = 3.0, np.nan
    for wrong in (doubled, missing):
        with pytest.raises(ScenarioError, match="a multiple of 1 from 0 to 2"):
            probed_tree(wrong, FLOAT32, exact, ranks)
    swapped = right.copy()
    swapped[0], swapped[5] = right[5], right[0]
    with pytest.raises(ScenarioError, match="do not come from one order"):
        probed_tree(swapped, FLOAT32, exact, ranks)
    with pytest.raises(ScenarioError, match="one result for each of 6 pairs of 4 ranks"):
        probed_tree(right[:5], FLOAT32, exact, ranks)
