"""Writes the trees of an allgather as ForestColl XML: one tree for each root and each chunk that takes the same links."""

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import quoteattr

from coordinator.annexes.schedules.base import HopTimetable, RefusedScheduleError
from emunode.model import Collective, Rank

Arcs = tuple[tuple[Rank, Rank], ...]


def forestcoll_lines(timetable: HopTimetable, labels: Sequence[str], name: str) -> Iterator[str]:
    """Return the lines of the file; labels are by rank. Raises RefusedScheduleError unless every chunk goes down a tree."""
    if timetable.collective is not Collective.ALLGATHER:
        raise RefusedScheduleError(f"ForestColl has trees of an allgather, and no {timetable.collective}")
    arcs: dict[tuple[Rank, int], list[tuple[Rank, Rank]]] = {}
    reached: set[tuple[Rank, Rank, int]] = set()
    for hop in sorted(timetable.hops):
        key = hop.receiver, hop.origin, hop.segment
        if key in reached or hop.receiver == hop.origin:
            what = f"rank {hop.receiver} receives chunk {hop.segment} of {hop.origin} more than once"
            raise RefusedScheduleError(f"{what}, which is no tree")
        reached.add(key)
        arcs.setdefault((hop.origin, hop.segment), []).append((hop.sender, hop.receiver))
    trees: dict[tuple[Rank, Arcs], int] = {}
    for (root, _), links in sorted(arcs.items()):
        trees[root, tuple(links)] = trees.get((root, tuple(links)), 0) + 1
    return _lines(trees, timetable.messages, labels, name)


def _lines(trees: dict[tuple[Rank, Arcs], int], chunks: int, labels: Sequence[str], name: str) -> Iterator[str]:
    yield f"<!-- {name.replace('--', '- -')} -->\n"
    yield f'<Algo nchunkspernode="{chunks}">\n'
    numbers: dict[Rank, int] = {}
    for (root, links), count in trees.items():
        number = numbers[root] = numbers.get(root, -1) + 1
        depth = {root: 0}
        for sender, receiver in links:
            depth[receiver] = depth[sender] + 1
        height = max(depth.values())
        yield f'  <tree root={quoteattr(labels[root])} index="{number}" nchunks="{count}" height="{height}">\n'
        for sender, receiver in sorted(links, key=lambda link: depth[link[1]]):
            one, other = labels[sender], labels[receiver]
            path = quoteattr(f"{one},{other}")
            yield f"    <send src={quoteattr(one)} dst={quoteattr(other)} path={path}/>\n"
        yield "  </tree>\n"
    yield "</Algo>\n"
