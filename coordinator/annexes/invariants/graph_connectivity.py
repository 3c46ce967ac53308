"""Vertex and edge connectivity by disjoint paths (S. Even, SIAM Journal on Computing 4, 1975).

Nodes are taken in breadth-first order. If few nodes separate a network, then the first node that they cut off from an
earlier one is cut off from all earlier ones together. So one flow for each node is enough: from it to all earlier nodes at
once. Its paths are short, because neighbours of a node are mostly among the earlier ones.
"""

from collections.abc import Callable, Collection, Iterable

from emunode.model import Rank
from emunode.topologies.all_pairs import NeighbourLists

Expired = Callable[[], bool]
"""A function that reports whether the time of a computation is over. The caller, such as a command, gives it: nothing here
looks at the clock.
"""


class OutOfTimeError(Exception):
    """A computation was stopped because its time was over."""


def never() -> bool:
    """Return False: there is no time limit."""
    return False


def check_time(expired: Expired) -> None:
    """Raise OutOfTimeError if the time is over."""
    if expired():
        raise OutOfTimeError


def edge_connectivity(adjacency: NeighbourLists, expired: Expired = never) -> int:
    """Return the least number of links whose loss disconnects a connected network."""
    # The node of least degree is isolated by losing all its links, so no flow has to exceed that number.
    least = min(map(len, adjacency))
    earlier = {0}
    for rank in breadth_first_order(adjacency)[1:]:
        check_time(expired)
        least = link_disjoint_paths(adjacency, rank, earlier, least)
        earlier.add(rank)
    return least


def vertex_connectivity(adjacency: NeighbourLists, expired: Expired = never) -> int:
    """Return the least number of nodes whose loss disconnects a connected network or leaves a single node."""
    least = min(map(len, adjacency))
    earlier = set[Rank]()
    for rank in breadth_first_order(adjacency):
        check_time(expired)
        # A separator that improves the result has fewer than `least` nodes, so it leaves out an earlier node. If `rank`
        # is the first node that it cuts off, the paths to all earlier nodes at once are as few as the separator has
        # nodes.
        if len(earlier) >= least:
            least = node_disjoint_paths(adjacency, rank, earlier, least)
        else:
            # All earlier nodes may belong to the separator: each is tried alone, by paths to its neighbours.
            # Neighbours of `rank` are left out: no loss of nodes separates two nodes that share a link.
            for other in earlier.difference(adjacency[rank]):
                least = min(least, node_disjoint_paths(adjacency, rank, set(adjacency[other]), least))
        earlier.add(rank)
    return least


def breadth_first_order(adjacency: NeighbourLists) -> list[Rank]:
    """Return all ranks of a connected network by distance from rank 0."""
    order, seen = [0], {0}
    for rank in order:
        for neighbour in adjacency[rank]:
            if neighbour not in seen:
                seen.add(neighbour)
                order.append(neighbour)
    return order


def link_disjoint_paths(adjacency: NeighbourLists, source: Rank, goals: Collection[Rank], limit: int) -> int:
    """Return how many paths from `source` to any of `goals` have no link in common; at most `limit` are looked for."""
    flow = set[tuple[Rank, Rank]]()

    def steps(rank: Rank) -> Iterable[Rank]:
        # The residual network: an arc that carries flow is closed in its direction but open in the other one, so that a
        # later path can undo an earlier choice.
        return [neighbour for neighbour in adjacency[rank] if (rank, neighbour) not in flow]

    for count in range(limit):
        path = _shortest_path(source, steps, goals.__contains__)
        if path is None:
            # No further path: by the theorem of Ford and Fulkerson the flow is a maximum, and by Menger's theorem this
            # is the number of disjoint paths.
            return count
        for one, other in path:
            # Flows in both directions of a link cancel out.
            if (other, one) in flow:
                flow.remove((other, one))
            else:
                flow.add((one, other))
    return limit


def node_disjoint_paths(adjacency: NeighbourLists, source: Rank, goals: Collection[Rank], limit: int) -> int:
    """Return how many paths from `source` to different `goals` have no node but `source` in common; at most `limit`."""
    previous: dict[Rank, Rank] = {}
    """The rank before each rank on the path through it."""

    # A rank r is an entrance 2 r and an exit 2 r + 1. A path that enters a rank on an earlier path has to turn back
    # along that path. The earlier path is then joined to the rest of the new one.
    def steps(state: int) -> Iterable[int]:
        rank, is_exit = divmod(state, 2)
        if not is_exit:
            return (2 * previous.get(rank, rank) + 1,)
        onward = [
            2 * neighbour for neighbour in adjacency[rank] if previous.get(neighbour) != rank and neighbour != source
        ]
        return [*onward, 2 * rank] if rank in previous else onward

    def is_free_goal(state: int) -> bool:
        # The goals of two paths differ: a goal with a predecessor is the end of an earlier path, or inside one.
        return state % 2 == 0 and state // 2 in goals and state // 2 not in previous

    for count in range(limit):
        path = _shortest_path(2 * source + 1, steps, is_free_goal)
        if path is None:
            return count
        # The links where the new path turns back are undone first. A rank where the path has turned back gets its new
        # predecessor in the second loop, and this must not be deleted again.
        for entrance, leaving in path:
            if entrance % 2 == 0 and leaving // 2 != entrance // 2:
                del previous[entrance // 2]
        for leaving, entrance in path:
            if leaving % 2 and leaving // 2 != entrance // 2:
                previous[entrance // 2] = leaving // 2
    return limit


def _shortest_path(
    start: int, steps: Callable[[int], Iterable[int]], is_goal: Callable[[int], bool]
) -> list[tuple[int, int]] | None:
    """Return the steps from `start` to the nearest goal, or None."""
    # The start is its own predecessor, the mark that ends `_steps_to`.
    came_from = {start: start}
    queue = [start]
    for state in queue:
        for following in steps(state):
            if following not in came_from:
                came_from[following] = state
                if is_goal(following):
                    return _steps_to(following, came_from)
                queue.append(following)
    return None


def _steps_to(end: int, came_from: dict[int, int]) -> list[tuple[int, int]]:
    path = []
    while (before := came_from[end]) != end:
        path.append((before, end))
        end = before
    return path[::-1]
