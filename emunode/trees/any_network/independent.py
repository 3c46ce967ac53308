"""Independent spanning trees of any network: the paths from the root to a node share no inner node, nor a link.

Every 2-connected graph has two such trees, by an st-numbering (Itai and Rodeh 1988, numbers by Tarjan 1986). Every
3-connected graph has three, by non-separating ears (Cheriyan and Maheshwari 1988). When any k - 1 nodes or links fail, k
trees reach every node that is left. Parents are chosen for low trees: every choice that the constructions leave open is
independent.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import permutations, product
from typing import Final, NamedTuple

from emunode.model import Rank
from emunode.trees.any_network.checks import NO_PARENT, Parents, depths
from emunode.trees.any_network.parents import Adjacency, distances, shallowest_first

TRIED_LINKS: Final = 1 << 18
"""Links times attempts to find lower trees; the first attempt is made in any case."""
EAR_WORK: Final = 1 << 22
"""Most nodes times links of a network where three trees are searched for; about two seconds."""
TRIED_WORK: Final = 1 << 20
"""Nodes times links times attempts to find three lower trees; the first attempt is made in any case."""
EAR_PATHS: Final = 1 << 16
"""Most paths that are tried as ears of one attempt."""


class CutNode(NamedTuple):
    """A node whose removal disconnects the graph."""

    rank: Rank


def independent_trees(adjacency: Adjacency) -> tuple[Parents, ...] | CutNode:
    """Return three independent spanning trees at rank 0 where they are found, else two.

    A network with a cut node has only one tree, and the cut node is returned. The graph has at least three nodes.
    """
    two = two_trees(adjacency)
    if isinstance(two, CutNode):
        return two
    return three_trees(adjacency) or two


# --- two trees -----------------------------------------------------------------------------------------------------------


def two_trees(adjacency: Adjacency) -> tuple[Parents, ...] | CutNode:
    """Return the lowest two trees over several st-numberings, from rank 0 to each of its neighbours."""
    pairs: list[Sequence[Parents]] = []
    links = sum(map(len, adjacency)) // 2
    upwards = [list(neighbours) for neighbours in adjacency]
    downwards = [neighbours[::-1] for neighbours in upwards]
    for attempt, (order, last) in enumerate(product((upwards, downwards), adjacency[0])):
        if pairs and attempt * links > TRIED_LINKS:
            break
        numbered = st_order(order, last)
        if isinstance(numbered, CutNode):
            return numbered
        pairs.append(tuple(_trees_of_order(adjacency, numbered)))
    return shallowest_first(min(pairs, key=_heights))


def _heights(trees: Iterable[Parents]) -> list[int]:
    """Return the heights that trees are compared by, the largest first."""
    return sorted((max(depths(parents)) for parents in trees), reverse=True)


def st_order(neighbours: Sequence[Sequence[Rank]], last: Rank) -> list[Rank] | CutNode:
    """Return all ranks in an order from 0 to its neighbour `last`, or a cut node.

    Every other rank has neighbours before and after it.
    """
    visited = _low_points(neighbours, last)
    return visited if isinstance(visited, CutNode) else _ordered(*visited, last)


ByRank = dict[Rank, Rank]
"""The parent, or the low point, of every visited rank."""


def _low_points(neighbours: Sequence[Sequence[Rank]], last: Rank) -> tuple[list[Rank], ByRank, ByRank] | CutNode:
    """Return the ranks as a search depth first visits them, `last` right after 0.

    Also returned are the parent and the low point of each.
    """
    first = 0
    number, parent, low = {first: 0}, {first: NO_PARENT}, {first: first}
    todo = {first: iter([last, *(rank for rank in neighbours[first] if rank != last)])}
    visited, stack = [first], [first]
    # The low point of a rank: the one visited first among those that it and the ranks below it are linked to.
    while stack:
        top = stack[-1]
        for rank in todo[top]:
            if rank not in number:
                number[rank], parent[rank], low[rank] = len(visited), top, top
                todo[rank] = iter(neighbours[rank])
                visited.append(rank)
                stack.append(rank)
                break
            if rank != parent[top] and number[rank] < number[low[top]]:
                low[top] = rank
        else:
            stack.pop()
            above = parent[top]
            if above == NO_PARENT:
                break
            if top != last and number[low[top]] >= number[above]:
                # No rank that was visited below `top` has a link past `above`.
                return CutNode(above)
            if number[low[top]] < number[low[above]]:
                low[above] = low[top]
    return visited, parent, low


def _ordered(visited: Sequence[Rank], parent: ByRank, low: ByRank, last: Rank) -> list[Rank]:
    """Return the st-order of visited ranks.

    Each goes just before or after its parent, on the side of its low point.
    """
    first = 0
    after, before = {first: last, last: NO_PARENT}, {last: first, first: NO_PARENT}
    minus = {first}
    for rank in visited[2:]:
        above = parent[rank]
        if low[rank] in minus:
            left, right = before[above], above
            minus.discard(above)
        else:
            left, right = above, after[above]
            minus.add(above)
        before[rank], after[rank] = left, right
        if left != NO_PARENT:
            after[left] = rank
        if right != NO_PARENT:
            before[right] = rank
    order = [first]
    while after[order[-1]] != NO_PARENT:
        order.append(after[order[-1]])
    return order


def _trees_of_order(
    adjacency: Adjacency, order: Sequence[Rank], ears: Sequence[int] | None = None
) -> Iterator[list[Rank]]:
    """Yield tree 1 and tree 2 of an st-order.

    In tree 1 the paths from a rank fall in `order` to the root, in tree 2 they rise to the last rank. With `ears`, paths
    stay within ears that are not later than the ear of the rank where they start.
    """
    root, last = order[0], order[-1]
    place = {rank: index for index, rank in enumerate(order)}
    ear_of = ears or [0] * len(order)
    # The first links of trees 2 and 3 at the root: no other tree may use them.
    reserved = {last, max(range(len(order)), key=ear_of.__getitem__)} if ears else {last}
    for sign in (1, -1):
        parents, depth = [NO_PARENT] * len(order), [0] * len(order)
        if sign < 0:
            parents[last], depth[last] = root, 1
        for rank in order[1:] if sign > 0 else order[-2:0:-1]:
            parents[rank] = min(
                (
                    other
                    for other in adjacency[rank]
                    if (place[other] - place[rank]) * sign < 0
                    and ear_of[other] <= ear_of[rank]
                    and not (other == root and rank in reserved)
                ),
                key=lambda other: (depth[other], place[other]),
            )
            depth[rank] = depth[parents[rank]] + 1
        yield parents


# --- three trees ---------------------------------------------------------------------------------------------------------


def three_trees(adjacency: Adjacency) -> tuple[Parents, ...] | None:
    """Return the lowest three trees over several choices of the links at the root.

    They exist in every 3-connected graph. The search is limited by `EAR_WORK` and `EAR_PATHS`, and the result is None if
    it finds none.
    """
    links = sum(map(len, adjacency)) // 2
    if min(map(len, adjacency)) < 3 or len(adjacency) * links > EAR_WORK:
        return None
    triples: list[Sequence[Parents]] = []
    for attempt, (sign, (last, final)) in enumerate(product((1, -1), permutations(adjacency[0], 2))):
        if attempt and attempt * len(adjacency) * links > TRIED_WORK:
            break
        ears = Ears(adjacency, last, final, sign)
        if ears.complete():
            triples.append(tuple(ears.trees()))
    return shallowest_first(min(triples, key=_heights)) if triples else None


class Ears:
    """Ears of a 3-connected graph.

    The first ear is a cycle through the link 0-`last`. Then come paths, and at the end `final` alone. When an ear is
    placed, the ranks that are left are connected, and each rank of the ear has one of them as a neighbour. So from any
    rank there is a path through later and later ears to `final`, a neighbour of rank 0.
    """

    def __init__(self, adjacency: Adjacency, last: Rank, final: Rank, sign: int = 1) -> None:
        """Begin with the root alone.

        With `sign` -1, of ranks at the same distance from rank 0 the highest is placed first.
        """
        self.adjacency = adjacency
        self.last = last
        self.final = final
        self.order: list[Rank] = [0]
        """The placed ranks in st-order: an ear is inserted between its two attachments, just after the lower one."""
        self.ear_of = [-1] * len(adjacency)
        """By rank: the number of its ear; -1 for ranks that are left."""
        self.ear_of[0] = 0
        self._count = 0
        self._paths_left = EAR_PATHS
        near = distances(adjacency, 0)
        self._by_distance = sorted(range(1, len(adjacency)), key=lambda rank: (near[rank], sign * rank))

    def complete(self) -> bool:
        """Place all ears; False if one is not found."""
        cycle = self._shortest([self.last], lambda path: len(path) > 1 and 0 in self.adjacency[path[-1]])
        if cycle is None:
            return False
        self._place(cycle[::-1], 0)
        while len(self.order) < len(self.adjacency) - 1:
            ear = self._single() or self._shortest(self._starts(), self._attached)
            if ear is None:
                return False
            one, other = self._attachments(ear)
            if self.order.index(one) > self.order.index(other):
                ear, one = ear[::-1], other
            self._place(ear, self.order.index(one))
        self._place([self.final], min(map(self.order.index, self._placed(self.final) - {0})))
        return True

    def trees(self) -> Iterator[list[Rank]]:
        """Yield the trees.

        Trees 1 and 2 stay in ears that are not later than the ear of a rank. Tree 3 leads through later ears to `final`.
        """
        yield from _trees_of_order(self.adjacency, self.order, self.ear_of)
        parents, depth = [NO_PARENT] * len(self.order), [0] * len(self.order)
        parents[self.final], depth[self.final] = 0, 1
        for rank in sorted(self.order, key=self.ear_of.__getitem__, reverse=True)[1:]:
            if rank:
                later = (other for other in self.adjacency[rank] if self.ear_of[other] > self.ear_of[rank])
                parents[rank] = min(later, key=lambda other: (depth[other], other))
                depth[rank] = depth[parents[rank]] + 1
        yield parents

    def _placed(self, rank: Rank) -> set[Rank]:
        return {other for other in self.adjacency[rank] if self.ear_of[other] >= 0}

    def _place(self, ear: Sequence[Rank], after: int) -> None:
        for rank in ear:
            self.ear_of[rank] = self._count
        self.order[after + 1 : after + 1] = ear
        self._count += 1

    def _attachments(self, ear: Sequence[Rank]) -> tuple[Rank, Rank]:
        """Return two different placed neighbours of the ends of an ear.

        They are far from each other in order. Raises ValueError if there are none.
        """
        ends = self._placed(ear[0]), self._placed(ear[-1])
        place = self.order.index
        _, one, other = max(
            (abs(place(one) - place(other)), one, other) for one, other in product(*ends) if one != other
        )
        return one, other

    def _attached(self, ear: Sequence[Rank]) -> bool:
        return any(one != other for one, other in product(self._placed(ear[0]), self._placed(ear[-1])))

    def _starts(self) -> list[Rank]:
        """Return the ranks that are left and have a placed neighbour, nearest to the root first."""
        return [
            rank for rank in self._by_distance if self.ear_of[rank] < 0 and rank != self.final and self._placed(rank)
        ]

    def _single(self) -> list[Rank] | None:
        """Return an ear of one rank."""
        return next(([rank] for rank in self._starts() if len(self._placed(rank)) > 1 and self._keeps([rank])), None)

    def _keeps(self, ear: Sequence[Rank]) -> bool:
        """Return whether the remaining ranks keep what an ear needs.

        Each rank of the ear must have a neighbour among them, and they must stay connected.
        """
        ear_of, inside = self.ear_of, set(ear)
        border: set[Rank] = set()
        for rank in ear:
            outside = {other for other in self.adjacency[rank] if ear_of[other] < 0 and other not in inside}
            if not outside:
                return False
            border |= outside
        # Every part of what is left touches the ear, so only its border has to be connected.
        queue = [min(border)]
        seen = inside | set(queue)
        border -= seen
        for rank in queue:
            if not border:
                break
            for other in self.adjacency[rank]:
                if ear_of[other] < 0 and other not in seen:
                    seen.add(other)
                    border.discard(other)
                    queue.append(other)
        return not border

    def _shortest(self, starts: Sequence[Rank], ends: Callable[[Sequence[Rank]], bool]) -> list[Rank] | None:
        """Return a shortest path of remaining ranks that is an ear.

        None if none is among the first `EAR_PATHS`.
        """
        paths = [[rank] for rank in starts]
        for path in paths:  # breadth first
            self._paths_left -= 1
            if self._paths_left < 0:
                return None
            if ends(path) and self._keeps(path):
                return path
            paths += [
                [*path, other]
                for other in self.adjacency[path[-1]]
                if self.ear_of[other] < 0 and other != self.final and other not in path
            ]
        return None
