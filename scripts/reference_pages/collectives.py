"""Drawings of what each of four nodes has before and after a collective, as a run in memory leaves it."""

import re
from html import escape
from typing import Final, NamedTuple

import coordinator as tb
from coordinator.reports.theme import standalone

NETWORK: Final = "hypercube:2"
NODES: Final = 4
ALGORITHMS: Final = {
    "broadcast": "sbt", "scatter": "sbt", "gather": "sbt", "allgather": "recursive-doubling", "alltoall": "sbt",
    "reduce": "sbt", "reduce-scatter": "recursive-halving", "allreduce": "recursive-doubling",
}  # fmt: skip
"""The collectives that are drawn, and the algorithm of the run."""
FOLDING: Final = {"reduce", "reduce-scatter", "allreduce"}
COLOURS: Final = ("blue", "orange", "green", "purple")
"""Of the contributions of the nodes."""
CELL, GAP, LEFT, TOP, BETWEEN = 46, 6, 66, 34, 110
"""Pixels: side of a block, distance of blocks, space for names, space for titles, space for the arrow."""


TEXT: Final = (
    "fill:#fff;font-size:14px;font-weight:600;text-anchor:middle;paint-order:stroke;stroke:#1d2733;stroke-width:3px"
)


class Block(NamedTuple):
    """A block of data: the nodes whose contributions are in it, and the part or target that it is for."""

    origins: tuple[int, ...]
    part: int | None

    @property
    def label(self) -> str:
        """The letter of the node it comes from or a sign for a sum, and the number of its part or target."""
        name = "ABCD"[self.origins[0]] if len(self.origins) == 1 else "sum"
        return name if self.part is None else f"{name}{self.part}"


Blocks = list[dict[int, Block]]
"""By node: its blocks by their column."""


IN_PARTS: Final = {"scatter", "alltoall", "reduce-scatter"}
"""The collectives whose nodes have a block for each node at the beginning, one a column."""


def before(collective: str) -> Blocks:
    """Return what the nodes have at the beginning, by the definition of the collective."""
    held: Blocks = [{} for _ in range(NODES)]
    for node in range(NODES):
        if node and collective in ("broadcast", "scatter"):
            continue  # only node 0 has something to send
        if collective in IN_PARTS:
            held[node] = {part: Block((node,), part) for part in range(NODES)}
        else:
            held[node] = {node if collective in ("gather", "allgather") else 0: Block((node,), None)}
    return held


def after(collective: str) -> tuple[Blocks, int]:
    """Run the collective and return what the nodes have at its end, and the steps that it took."""
    folds = {"values": "float64"} if collective in FOLDING else {}
    start = getattr(tb.network(NETWORK), collective.replace("-", "_"))
    run = start(ALGORITHMS[collective], port_model="one-port", **folds)
    held: Blocks = [{} for _ in range(NODES)]
    if collective in FOLDING:
        for rank, owner, tree in run.additions().select("rank", "owner", "tree").iter_rows():
            origins = tuple(sorted(map(int, re.findall(r"\d+", tree))))
            in_parts = collective in IN_PARTS
            held[rank][owner if in_parts else 0] = Block(origins, owner if in_parts else None)
    else:
        _keep_own(collective, held)
        rows = run.journal.select("receiver", "origin", "target", "outcome").iter_rows()
        for receiver, origin, target, outcome in rows:
            if outcome == "first":
                column = {"broadcast": 0, "scatter": receiver}.get(collective, origin)
                held[receiver][column] = Block((origin,), target if collective in IN_PARTS else None)
    return held, run.summary["steps"]


def _keep_own(collective: str, held: Blocks) -> None:
    """Add the blocks of a result that a node had from the beginning: they cross no link."""
    for node, blocks in enumerate(before(collective)):
        for column, block in blocks.items():
            if block.part in (None, node) and (not node or collective != "gather"):
                held[node][node if collective == "alltoall" else column] = block


def draw_collective(collective: str) -> str:
    """Return the picture of a collective as an SVG document."""
    first = before(collective)
    last, steps = after(collective)
    columns = 1 + max(at for blocks in (*first, *last) for at in blocks)
    wide, high = columns * (CELL + GAP), NODES * (CELL + GAP)
    right = LEFT + wide + BETWEEN
    body = [
        f'<text class="title" x="{LEFT}" y="20">before</text>',
        f'<text class="title" x="{right}" y="20">after</text>',
    ]
    for node in range(NODES):
        y = TOP + node * (CELL + GAP)
        body.append(f'<text class="end" x="{LEFT - 12}" y="{y + CELL / 2 + 4:g}">node {node}</text>')
        for left, blocks in ((LEFT, first[node]), (right, last[node])):
            body += [_cell(left + at * (CELL + GAP), y, blocks.get(at)) for at in range(columns)]
    middle, arrow = LEFT + wide + BETWEEN / 2 - GAP / 2, TOP + high / 2
    body.append(
        f'<path d="M{middle - 34:g} {arrow:g}h60m-9 -7l9 7l-9 7" stroke="var(--ink)" fill="none" stroke-width="2"/>'
        f'<text class="middle" x="{middle:g}" y="{arrow - 14:g}">{steps} steps</text>'
    )
    title = escape(f"{collective} on four nodes")
    width, height = right + wide + 12, TOP + high + 6
    drawn = (
        f'<svg class="chart" viewBox="0 0 {width} {height}" role="img" aria-label="{title}"><title>{title}</title>'
        f"{''.join(body)}</svg>"
    )
    return standalone(drawn)


def _cell(x: int, y: int, block: Block | None) -> str:
    """Draw a block in the colours of its contributions, or an empty place."""
    if block is None:
        return f'<rect class="axis" x="{x}" y="{y}" width="{CELL}" height="{CELL}" rx="4"/>'
    stripe = CELL / len(block.origins)
    stripes = "".join(
        f'<rect x="{x + at * stripe:g}" y="{y}" width="{stripe:g}" height="{CELL}" fill="var(--{COLOURS[origin]})"/>'
        for at, origin in enumerate(block.origins)
    )
    text = f'<text x="{x + CELL / 2:g}" y="{y + CELL / 2 + 5:g}" style="{TEXT}">{block.label}</text>'
    return stripes + text
