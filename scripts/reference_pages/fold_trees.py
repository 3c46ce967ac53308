"""Drawings of fold trees."""

from coordinator.annexes.numbers.tree_picture import tree_picture
from coordinator.annexes.papers.additions.orders import ALGORITHMS
from coordinator.reports.theme import standalone

RANKS = 8


def draw_fold_tree(title: str) -> str:
    """Return the fold tree of the first chunk of an algorithm on eight nodes, as an SVG document."""
    (algorithm,) = (each for each in ALGORITHMS if each.title == title)
    drawn = tree_picture(algorithm.tree(RANKS, 0), f"Order of the additions of {title} on {RANKS} nodes")
    assert drawn is not None
    return standalone(drawn)
