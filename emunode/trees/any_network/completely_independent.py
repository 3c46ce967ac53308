"""Completely independent spanning trees: whichever node is the root, the paths to a node share no inner node, nor a link.

k such trees exist if and only if the nodes can be divided into k connected parts such that between any two parts every
component of the links has at least as many links as nodes (Araki 2014). Tree i then has its inner nodes in part i, and every
other node hangs on it by a link of its own. Whether there is such a division is hard to decide, so the search is limited: a
failure proves nothing.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from random import Random
from typing import Final

from emunode.model import Rank
from emunode.trees.any_network.checks import NO_PARENT, Parents
from emunode.trees.any_network.parents import Adjacency, shallowest_first

ALL_DIVISIONS: Final = 1 << 13
"""Most divisions that are all tried."""
ATTEMPTS: Final = 2000
"""Random divisions that are tried."""
MOST_NODES: Final = 200
"""Largest network that is searched: random parts of larger ones hardly ever fit."""

Link = tuple[Rank, Rank]


def completely_independent_trees(adjacency: Adjacency, count: int) -> tuple[Parents, ...] | None:
    """`count` completely independent spanning trees at root 0; None if the search finds none."""
    if len(adjacency) > MOST_NODES or sum(map(len, adjacency)) // 2 < count * (len(adjacency) - 1):
        return None
    for part_of in _divisions(adjacency, count):
        links = _links(adjacency, part_of, count)
        if links:
            return shallowest_first(_rooted(tree, len(adjacency)) for tree in links)
    return None


def _divisions(adjacency: Adjacency, count: int) -> Iterator[Sequence[int]]:
    """Every division of a small network, random ones of others: the part of every rank."""
    if count ** (len(adjacency) - 1) <= ALL_DIVISIONS:
        yield from product(*[range(1 if rank == 0 else count) for rank in range(len(adjacency))])
        return
    random = Random(0)
    for _ in range(ATTEMPTS):
        part_of = _division(adjacency, count, random)
        if part_of is not None:
            yield part_of


def _division(adjacency: Adjacency, count: int, random: Random) -> list[int] | None:
    """The part of every rank: connected parts of nearly equal size, grown from random ranks; None if growth gets stuck."""
    order = len(adjacency)
    part_of = [-1] * order
    for part, seed in enumerate(random.sample(range(order), count)):
        part_of[seed] = part
    sizes = [1] * count
    for _ in range(order - count):
        for part in sorted(range(count), key=sizes.__getitem__):
            border = sorted(
                {
                    other
                    for rank in range(order)
                    if part_of[rank] == part
                    for other in adjacency[rank]
                    if part_of[other] < 0
                }
            )
            if border:
                part_of[random.choice(border)] = part
                sizes[part] += 1
                break
        else:
            return None
    return part_of


def _links(adjacency: Adjacency, part_of: Sequence[int], count: int) -> list[list[Link]] | None:
    """The links of the trees with inner nodes in these parts; None unless parts are connected and the condition holds."""
    if any(part not in part_of for part in range(count)):
        return None
    trees = [list(_spanning(adjacency, part_of, part)) for part in range(count)]
    if sum(map(len, trees)) < len(adjacency) - count:
        return None
    for one, other in combinations(range(count), 2):
        own = _own_links(adjacency, part_of, (one, other))
        if own is None:
            return None
        for rank, link in own.items():
            trees[other if part_of[rank] == one else one].append(link)
    return trees


def _spanning(adjacency: Adjacency, part_of: Sequence[int], part: int) -> Iterator[Link]:
    """The links of a breadth-first tree of one part."""
    queue = [part_of.index(part)]
    seen = set(queue)
    for rank in queue:
        for other in adjacency[rank]:
            if part_of[other] == part and other not in seen:
                seen.add(other)
                queue.append(other)
                yield rank, other


def _own_links(adjacency: Adjacency, part_of: Sequence[int], parts: Link) -> dict[Rank, Link] | None:
    """For every rank of two parts a link of its own to the other part, by augmenting paths; None if that is impossible."""
    one, other = parts
    opposite = {one: other, other: one}
    owner: dict[Link, Rank] = {}

    def assign(rank: Rank, tried: set[Link]) -> bool:
        for neighbour in adjacency[rank]:
            link = min(rank, neighbour), max(rank, neighbour)
            if part_of[neighbour] == opposite[part_of[rank]] and link not in tried:
                tried.add(link)
                if link not in owner or assign(owner[link], tried):
                    owner[link] = rank
                    return True
        return False

    ranks = [rank for rank, part in enumerate(part_of) if part in opposite]
    return {rank: link for link, rank in owner.items()} if all(assign(rank, set()) for rank in ranks) else None


def _rooted(links: Sequence[Link], order: int) -> list[Rank]:
    """The parents of a tree at root 0."""
    near: list[list[Rank]] = [[] for _ in range(order)]
    for one, other in links:
        near[one].append(other)
        near[other].append(one)
    parents = [NO_PARENT] * order
    queue = [0]
    for rank in queue:
        for other in near[rank]:
            if other != parents[rank]:
                parents[other] = rank
                queue.append(other)
    return parents
