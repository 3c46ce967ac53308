"""The picture of a fold tree: contributions at the bottom in order, and an addition above the two parts that it adds."""

from html import escape
from typing import Final

from coordinator.annexes.numbers.fold_tree import FoldTree

MOST_LEAVES: Final = 64
"""Contributions of the largest tree that is drawn."""
COLUMN, LEVEL, MARGIN = 22, 26, 24
"""Pixels between two contributions, between two levels, and at the edges."""


def tree_picture(tree: FoldTree, title: str) -> str | None:
    """Return an SVG element in the colour variables of the theme; None for a tree that is too large."""
    if tree.leaf_count > MOST_LEAVES:
        return None
    # By the canonical order of operands, so that equal bits have equal pictures.
    leaves: list[int] = []
    lines: list[str] = []
    marks: list[str] = []
    bottom = MARGIN + LEVEL * tree.depth

    def draw(node: FoldTree) -> tuple[float, float]:
        """Draw a part of the tree; return the place of its top."""
        if node.parts is None:
            x = float(MARGIN + COLUMN * len(leaves))
            leaves.append(node.least)
            marks.append(f'<text class="middle" x="{x:g}" y="{bottom + 16}">{node.least}</text>')
            return x, bottom
        ends = [draw(part) for part in node.parts]
        # As high as the additions below it are many: the depth is read at the left edge.
        x, y = sum(end[0] for end in ends) / 2, bottom - LEVEL * node.depth
        lines.extend(f'<path class="axis" d="M{x:.1f} {y} L{below:.1f} {end}"/>' for below, end in ends)
        marks.append(f'<circle cx="{x:.1f}" cy="{y}" r="4" fill="var(--blue)"/>')
        return x, y

    draw(tree)
    width, height = 2 * MARGIN + COLUMN * (len(leaves) - 1), bottom + MARGIN
    return (
        f'<svg style="max-width:{width}px" class="chart" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{''.join((*lines, *marks))}</svg>"
    )
