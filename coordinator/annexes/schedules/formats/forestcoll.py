"""ForestColl tree XML: one spanning tree for each root and index, with the path of every send."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from coordinator.annexes.schedules.base import (
    MOST_OPERATIONS,
    FileClaim,
    FileJudgement,
    HopTimetable,
    RefusedScheduleError,
    ScheduleFormat,
    ScheduleSource,
    TimedHop,
)
from coordinator.annexes.schedules.hop_file import ChunkHop, HopFile, sorted_names
from coordinator.annexes.schedules.xml_elements import XmlElement, begins_with, parse_xml
from emunode.model import Collective, Step
from emunode.registry import register
from emunode.topologies.base import Topology

REDUCE_SCATTER: Final = frozenset({"reduce-scatter", "reducescatter", "reduce_scatter"})
MOST_NAME: Final = 100


@register
class ForestcollFormat(ScheduleFormat):
    """The trees that ForestColl writes."""

    name = "forestcoll"
    suffixes = (".xml",)

    def recognises(self, source: ScheduleSource) -> bool:
        return begins_with(source.data, "Algo")

    def read(self, source: ScheduleSource) -> "ForestcollFile":
        algo = parse_xml(source.data)
        if algo.tag != "Algo":
            raise RefusedScheduleError(f"<Algo> expected, found <{algo.tag:.40}>")
        return ForestcollFile(algo, source.collective)


class TreeSend(NamedTuple):
    """One send of a tree."""

    sender: str
    receiver: str
    path: tuple[str, ...]
    line: int


UnitSend = tuple[int, str, TreeSend, int, int]
"""One chunk of a send: its place in the file, root, send, chunk, and links of the path that it has crossed."""


@dataclass(frozen=True)
class FileTree:
    """One spanning tree of a file."""

    root: str
    number: int
    chunks: int
    height: int
    line: int
    sends: Sequence[TreeSend]

    @property
    def name(self) -> str:
        """The name of the tree in messages: root and index."""
        return f"tree {self.root}/{self.number}"


class ForestcollFile(HopFile):
    """The trees of a file; an allgather, or with all sends reversed a reduce-scatter."""

    format = ForestcollFormat.name

    def __init__(self, algo: XmlElement, collective: str) -> None:
        if collective and collective != "allgather" and collective not in REDUCE_SCATTER:
            raise RefusedScheduleError(f"trees are an allgather or a reduce-scatter, not {collective:.40}")
        self.reversed = collective in REDUCE_SCATTER
        self.collective = Collective.REDUCE_SCATTER if self.reversed else Collective.ALLGATHER
        self.claimed = algo.natural("Algo", "nchunkspernode", MOST_OPERATIONS)
        self.trees = [_tree(element) for element in algo.named("tree")]
        units = sum(tree.chunks * max(1, len(each.path) - 1) for tree in self.trees for each in tree.sends)
        if not units:
            raise RefusedScheduleError("no tree sends: nothing to check")
        if units > MOST_OPERATIONS:
            raise RefusedScheduleError(f"its trees have {units:,} hops of chunks; at most {MOST_OPERATIONS:,} are read")
        if (chunks := sum(tree.chunks for tree in self.trees)) > MOST_OPERATIONS:
            raise RefusedScheduleError(f"its trees have {chunks:,} chunks; at most {MOST_OPERATIONS:,} are read")
        self.nodes = sorted_names(tree.root for tree in self.trees)
        names = {
            name for tree in self.trees for each in tree.sends for name in (each.sender, each.receiver, *each.path)
        }
        self.switches = frozenset(names - set(self.nodes))
        self.scheduled = lru_cache(2)(self._scheduled)

    def sends(self) -> Iterable[tuple[str, str]]:
        for tree in self.trees:
            for each in tree.sends:
                way = list(pairwise(each.path))
                # All sends of a reduce-scatter go the other way.
                yield from (pair[::-1] if self.reversed else pair for pair in way)

    def require_network(self, topology: Topology) -> None:
        rank_of = self.ranks_on(topology)
        for tree in self.trees:
            for each in tree.sends:
                for one, other in pairwise(each.path):
                    if rank_of[other] not in {peer for _, peer in topology.adjacent(rank_of[one])}:
                        raise RefusedScheduleError(f"{tree.name}: {one} sends to {other}, and no link joins them")

    # --- steps

    def _scheduled(self, capacity: int | None) -> list[ChunkHop]:
        """Return the hops as soon as possible: a link carries `capacity` chunks in a step, in the order of the file.

        A send starts in the step after its sender has the chunk, and crosses one link of its path in each step.
        """
        hops, first = [], Counter[str]()
        ready: list[UnitSend] = []
        children: dict[tuple[int, int, str], list[UnitSend]] = {}
        order = 0
        for place, tree in enumerate(self.trees):
            base = first[tree.root]
            first[tree.root] += tree.chunks
            for unit in range(tree.chunks):
                for each in tree.sends:
                    entry: UnitSend = (order, tree.root, each, base + unit, 0)
                    order += 1
                    if each.sender == tree.root:
                        ready.append(entry)
                    else:
                        children.setdefault((place, unit, each.sender), []).append(entry)
        step: Step = 0
        waiting = sorted(ready)
        owner = self._units()
        while waiting:
            step += 1
            room: Counter[tuple[str, str]] = Counter()
            left, moved = [], []
            for entry in waiting:
                number, root, each, chunk, at = entry
                link = each.path[at], each.path[at + 1]
                if capacity is not None and room[link] >= capacity:
                    left.append(entry)
                    continue
                room[link] += 1
                hops.append(ChunkHop(step, *link, root, chunk))
                if at + 2 < len(each.path):
                    moved.append((number, root, each, chunk, at + 1))
                else:
                    place, unit = owner[root, chunk]
                    moved += children.pop((place, unit, each.receiver), [])
            waiting = sorted(left + moved)
        return hops

    def _units(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Return the tree and unit of every (root, chunk)."""
        first: Counter[str] = Counter()
        found = {}
        for place, tree in enumerate(self.trees):
            for unit in range(tree.chunks):
                found[tree.root, first[tree.root] + unit] = place, unit
            first[tree.root] += tree.chunks
        return found

    @cached_property
    def hops(self) -> Sequence[ChunkHop]:  # type: ignore[override]
        """The hops over links without a limit."""
        return self.scheduled(None)

    # --- judgement

    def judge(self, capacity: int | None = None) -> FileJudgement:
        hops = self.scheduled(capacity)
        found = self.counted(hops, ((hop.sender, hop.receiver) for hop in hops))
        for tree in self.trees:
            for reason, line in self._defects(tree):
                found = found.violated(f"{tree.name}: {reason}", line)
        sent: Counter[str] = Counter()
        for tree in self.trees:
            sent[tree.root] += tree.chunks
        right = sum(_height(tree) == tree.height for tree in self.trees)
        heights = FileClaim("trees of the stated height", len(self.trees), right)
        found = replace(found, claims=(heights, FileClaim("chunks of a node", self.claimed, max(sent.values()))))
        for root in self.nodes:
            if sent[root] != self.claimed:
                found = found.violated(f"{root} sends {sent[root]} chunks, {self.claimed} are claimed")
        return found

    def _defects(self, tree: FileTree) -> Iterator[tuple[str, int]]:
        depth = {tree.root: 0}
        for each in tree.sends:
            if (each.path[0], each.path[-1]) != (each.sender, each.receiver):
                yield f"the path of {each.sender} to {each.receiver} is {','.join(each.path):.60}", each.line
            if each.receiver in depth:
                yield f"{each.receiver} has two parents", each.line
            elif each.sender not in depth:
                yield f"{each.sender} sends before it is reached", each.line
            else:
                depth[each.receiver] = depth[each.sender] + 1
        for root in self.nodes:
            if root not in depth:
                yield f"{root} is not reached", tree.line
        if max(depth.values()) != tree.height:
            yield f"height {tree.height} is claimed, it is {max(depth.values())}", tree.line

    def timetable(self, capacity: int | None = None) -> HopTimetable:
        if not self.reversed:
            self.hops = self.scheduled(capacity)
            return super().timetable(capacity)
        if self.switches or any(len(each.path) > 2 for tree in self.trees for each in tree.sends):
            raise RefusedScheduleError("a reduce-scatter over paths of several links is judged, and not run")
        hops = self.scheduled(capacity)
        last = max(hop.step for hop in hops)
        rank = {label: place for place, label in enumerate(self.labels)}
        backwards = [
            TimedHop(
                last + 1 - hop.step,
                rank[hop.receiver],
                rank[hop.sender],
                rank[hop.receiver],
                rank[hop.origin],
                hop.chunk,
            )
            for hop in reversed(hops)
        ]
        return HopTimetable(Collective.REDUCE_SCATTER, 0, len(self.labels), self.claimed, backwards)


def _height(tree: FileTree) -> int:
    """Return the most sends on a path from the root of a tree."""
    depth = {tree.root: 0}
    for each in tree.sends:
        depth.setdefault(each.receiver, depth.get(each.sender, 0) + 1)
    return max(depth.values())


def _tree(element: XmlElement) -> FileTree:
    at = f"line {element.line}"
    root = _name(element, at, "root")
    sends = []
    for each in element.named("send"):
        place = f"line {each.line}"
        sender, receiver = _name(each, place, "src"), _name(each, place, "dst")
        path = tuple(split_path(each.text(place, "path")))
        if len(path) < 2 or len(set(path)) < len(path):
            raise RefusedScheduleError(
                f"{place}: path={each.attributes['path']!r:.60} is not a path of two nodes or more"
            )
        if any(not 0 < len(name) <= MOST_NAME for name in path):
            raise RefusedScheduleError(
                f"{place}: a node of the path has no name, or one of more than {MOST_NAME} characters"
            )
        sends.append(TreeSend(sender, receiver, path, each.line))
    number, height = (element.natural(at, name) for name in ("index", "height"))
    chunks = element.natural(at, "nchunks", MOST_OPERATIONS)
    return FileTree(root, number, chunks, height, element.line, sends)


def split_path(text: str) -> Iterator[str]:
    """Yield the nodes of a path; commas inside parentheses belong to names."""
    depth, name = 0, deque[str]()
    for char in text:
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            yield "".join(name).strip()
            name.clear()
        else:
            name.append(char)
    yield "".join(name).strip()


def _name(element: XmlElement, at: str, name: str) -> str:
    text = element.text(at, name).strip()
    if not 0 < len(text) <= MOST_NAME:
        raise RefusedScheduleError(f"{at}: {name} is no name of 1 to {MOST_NAME} characters")
    return text
