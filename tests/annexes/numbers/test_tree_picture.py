"""Pictures of fold trees: one mark for each addition and each contribution, for trees that are small enough."""

import re

from coordinator.annexes.numbers.tree_picture import MOST_LEAVES, tree_picture
from tests.annexes.numbers.support import chain, rabenseifner, tree_of_text


def test_each_addition_and_contribution_is_drawn_once() -> None:
    drawn = tree_picture(rabenseifner(8, 0), "a <title>")
    assert drawn is not None
    assert drawn.count("<circle") == 7
    assert drawn.count("<path") == 14
    assert [int(rank) for rank in re.findall(r"<text[^>]*>(\d+)<", drawn)] == [0, 4, 2, 6, 1, 5, 3, 7]
    assert "a &lt;title&gt;" in drawn


def test_equal_bits_have_equal_pictures() -> None:
    one, other = tree_of_text("((2+0)+(3+1))"), tree_of_text("((1+3)+(0+2))")
    assert tree_picture(one, "") == tree_picture(other, "")


def test_large_trees_are_not_drawn() -> None:
    assert tree_picture(chain(range(MOST_LEAVES)), "") is not None
    assert tree_picture(chain(range(MOST_LEAVES + 1)), "") is None
