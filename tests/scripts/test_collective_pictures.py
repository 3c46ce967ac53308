"""The pictures of collectives: the blocks that runs leave are the blocks of the definitions, and every block is drawn."""

import re

import pytest

from reference_pages.collectives import ALGORITHMS, NODES, Block, after, before, draw_collective
from tests.helpers.annex_support import needs_every_annex

pytestmark = needs_every_annex

ALL = tuple(range(NODES))
EVERY = range(NODES)
DEFINED = {
    "broadcast": [{0: Block((0,), None)}] * NODES,
    "scatter": [{i: Block((0,), i)} for i in EVERY],
    "gather": [{j: Block((j,), None) for j in EVERY}, {}, {}, {}],
    "allgather": [{j: Block((j,), None) for j in EVERY}] * NODES,
    "alltoall": [{j: Block((j,), i) for j in EVERY} for i in EVERY],
    "reduce": [{0: Block(ALL, None)}, {}, {}, {}],
    "reduce-scatter": [{i: Block(ALL, i)} for i in EVERY],
    "allreduce": [{0: Block(ALL, None)}] * NODES,
}
"""The results of the collectives by their definitions."""


@pytest.mark.parametrize("collective", ALGORITHMS)
def test_runs_leave_what_the_definition_says(collective: str) -> None:
    blocks, steps = after(collective)
    assert blocks == DEFINED[collective]
    assert steps == 2  # log2 of four nodes


@pytest.mark.parametrize("collective", ALGORITHMS)
def test_every_block_is_drawn(collective: str) -> None:
    picture = draw_collective(collective)
    labels = [block.label for blocks in (*before(collective), *DEFINED[collective]) for block in blocks.values()]
    assert sorted(re.findall(r">((?:[A-D]|sum)\d?)</text>", picture)) == sorted(labels)
    assert "var(" not in picture
