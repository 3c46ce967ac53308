"""Tseng and Sheu 1997: tables 1 and 2 evaluated and measured, the lemmas behind them, and figures 1 to 4 drawn.

Y.-C. Tseng and J.-P. Sheu, "Toward optimal broadcast in a star graph using multiple spanning trees", IEEE Trans.
Computers 46(5), 1997.
"""

from collections.abc import Iterator

from coordinator.annexes.papers.base import Section, described
from coordinator.annexes.papers.run_cache import RunCache
from coordinator.annexes.papers.tables import Table, notes
from coordinator.annexes.papers.tseng_sheu.any_tree import LARGEST, any_tree
from coordinator.annexes.papers.tseng_sheu.cost_tables import (
    ALLGATHER_BYTES,
    BROADCAST_BYTES,
    best_segments_row,
    excess,
    over_message_size,
    over_segments,
    table_1,
    table_2,
    without_pipelining,
)
from coordinator.annexes.papers.tseng_sheu.figures import figure_1, figure_2, figure_3, figure_4, figure_checks
from coordinator.annexes.papers.tseng_sheu.lemmas import greedy_tree, heights, level_loads

NOTES = notes("tseng_sheu", "paper_1997")
LARGEST_DRAWN = 5
"""The largest n with curves, unless it is the only size."""


def build(cache: RunCache) -> Iterator[Section]:
    """Yield tables 1 and 2 for every size, then the lemmas, then the figures."""
    for n in cache.sizes:
        title = f"Table 1, one-to-all broadcast, n = {n}, m = {BROADCAST_BYTES:,} bytes"
        yield Table(title, table_1(cache, n), NOTES["table_1"] if n == cache.sizes[-1] else ())
    drawn = max(n for n in cache.sizes if n <= LARGEST_DRAWN or len(cache.sizes) == 1)
    yield over_message_size(cache, drawn)
    yield over_segments(cache, drawn)
    pieces = (row for n in cache.sizes for row in without_pipelining(cache, n))
    yield Table("Section 6.1: one tree without pipelining", pieces)
    yield Table("Section 6.1: order of the bytes without pipelining", [excess()], NOTES["order"])
    yield Table("Section 4.1: the best number of segments", [best_segments_row(cache, n) for n in cache.sizes])
    for n in cache.sizes:
        title = f"Table 2, all-to-all broadcast, n = {n}, m = {ALLGATHER_BYTES} bytes"
        yield Table(title, table_2(cache, n), NOTES["table_2"] if n == cache.sizes[-1] else ())
    with_3 = list(dict.fromkeys((3, *cache.sizes)))
    greedy = (row for n in with_3 for row in greedy_tree(cache, n))
    yield Table("Lemmas 3 and 4: the greedy tree L, and its n - 1 shifts together", greedy, NOTES["greedy"])
    of_trees = (row for n in with_3 for row in heights(cache, n))
    yield Table("Lemmas 5 and 6: heights and congestion", of_trees, NOTES["heights"])
    loads = [level_loads(cache, n) for n in cache.sizes]
    yield Table("Lemma 7: segments on each directed link in each step", loads)
    small = [n for n in cache.sizes if n <= LARGEST]
    if small and not cache.rehearsing:
        trees = (row for n in small for row in any_tree(n))
        yield Table("Section 5.1: algorithm 2 with any spanning tree", trees, NOTES["any_tree"])
    yield figure_1()
    yield figure_2()
    yield figure_3()
    yield figure_4()
    yield Table("Figures 1 to 4: properties of their trees and cycles", figure_checks())


REPRODUCTION = described("tseng_sheu", "paper_1997", build, range(4, 7))
