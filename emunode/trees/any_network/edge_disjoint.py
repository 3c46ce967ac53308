"""Edge-disjoint spanning trees of any network, as many as there are, by matroid union.

Split the nodes of a graph into q >= 2 parts, in every possible way. The largest number of edge-disjoint spanning trees
is the least floor(links between the parts / (q - 1)) of all these splits (Nash-Williams 1961, Tutte 1961).

The construction is that of Roskind and Tarjan 1985. Links are added one by one to k edge-disjoint forests. A link that
closes a cycle in every forest may take the place of a link of that cycle. The replaced link then goes to another forest,
and so on. A search breadth first over these exchanges finds the shortest sequence, or a *clump*: a set of nodes inside
which all k forests are trees already, so that no further link inside it can ever be added. If k trees do not exist, the
clumps are the parts of a partition that proves it.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from emunode.model import Rank
from emunode.trees.any_network.checks import NO_PARENT, Parents, arcs_of, depths
from emunode.trees.any_network.parents import Adjacency, shallowest_first

NodePair = tuple[Rank, Rank]

FLATTEN_WORK: Final = 1 << 22
"""By how much the sum of all depths is reduced at most."""


class Packing(NamedTuple):
    """Edge-disjoint spanning trees, rooted at rank 0.

    The partition proves that there are no more of them.
    """

    trees: tuple[Parents, ...]
    parts: tuple[tuple[Rank, ...], ...]
    crossing: int
    """Links between different parts: fewer than (trees + 1) times (parts - 1)."""


class UnionFind:
    """Disjoint sets of ranks that are only ever united."""

    def __init__(self, order: int) -> None:
        self._above = list(range(order))

    def find(self, rank: Rank) -> Rank:
        """Return the representative of the set of a rank."""
        above = self._above
        while above[rank] != rank:
            above[rank] = rank = above[above[rank]]
        return rank

    def unite(self, one: Rank, other: Rank) -> None:
        """Make one set of two."""
        self._above[self.find(one)] = self.find(other)


class Forests:
    """`count` edge-disjoint forests on the same nodes, each as parents towards roots that change."""

    def __init__(self, order: int, count: int) -> None:
        self.count = count
        self.links = 0
        """Links in all forests together."""
        self.parents = [[NO_PARENT] * order for _ in range(count)]
        self.components = [UnionFind(order) for _ in range(count)]
        self.clumps = UnionFind(order)
        # Entry == number of the search: the rank is in the part of the forest that the search has labelled.
        self._labelled = [[0] * order for _ in range(count)]
        self._searches = 0

    def add(self, one: Rank, other: Rank) -> bool:
        """Add a link, by exchanges if necessary.

        Returns False if the forests and this link can never be together.
        """
        if self.clumps.find(one) == self.clumps.find(other):
            return False
        for forest, components in enumerate(self.components):
            if components.find(one) != components.find(other):
                self._join(forest, one, other)
                return True
        return self._exchange(one, other)

    def _join(self, forest: int, one: Rank, other: Rank) -> None:
        """Add a link between two trees of a forest."""
        reroot(self.parents[forest], one)
        self.add_leaf(forest, one, other)

    def add_leaf(self, forest: int, child: Rank, parent: Rank) -> None:
        """Add a link from the root `child` of a tree of this forest to `parent` in another one."""
        self.components[forest].unite(child, parent)
        self.parents[forest][child] = parent
        self.links += 1

    def _exchange(self, one: Rank, other: Rank) -> bool:
        """Search for the shortest sequence of exchanges that makes room for a link, and carry it out."""
        self._searches = search = self._searches + 1
        for parents, labelled in zip(self.parents, self._labelled, strict=True):
            reroot(parents, one)
            labelled[one] = search
        # (forest, child, parent, index of the link that would take its place). A link of forest i is only tried in forest
        # i + 1, and links are labelled outwards from `one`: then every labelled part is connected, and a link is looked at
        # once (Roskind and Tarjan, cyclic scanning).
        queue = [(self.count - 1, one, other, -1)]
        for index, (forest, child, parent, _) in enumerate(queue):
            following = (forest + 1) % self.count
            components = self.components[following]
            if components.find(child) != components.find(parent):
                self._carry_out(queue, index)
                return True
            parents, labelled = self.parents[following], self._labelled[following]
            rank = parent if labelled[child] == search else child
            path = []
            while labelled[rank] != search:
                path.append(rank)
                rank = parents[rank]
            for rank in reversed(path):
                labelled[rank] = search
                queue.append((following, rank, parents[rank], index))
        # Every labelled link closes a cycle of labelled links in the next forest: all k forests are trees on these nodes.
        for _, child, parent, _ in queue:
            self.clumps.unite(child, parent)
        return False

    def _carry_out(self, queue: Sequence[tuple[int, Rank, Rank, int]], index: int) -> None:
        """Move the link at `index` to the next forest, and the link before it to its place.

        So it goes on up to the first link.
        """
        # Last exchange first: a shortest sequence has no cycle with a later exchange in it.
        while index >= 0:
            forest, child, parent, before = queue[index]
            following = (forest + 1) % self.count
            if before >= 0:
                parents = self.parents[forest]
                # An exchange in the same forest may have turned the link round.
                parents[child if parents[child] == parent else parent] = NO_PARENT
                self.links -= 1
            self._join(following, child, parent)
            index = before


def reroot(parents: list[Rank], root: Rank) -> None:
    """Make `root` the root of its tree, by turning the links on the path from it to the old root."""
    below, rank = NO_PARENT, root
    while rank != NO_PARENT:
        parents[rank], below, rank = below, rank, parents[rank]


def edge_disjoint_trees(adjacency: Adjacency) -> Packing:
    """Return the most edge-disjoint spanning trees of a connected graph, at root 0.

    The result has the proof that there are no more.
    """
    order = len(adjacency)
    links = [(one, other) for one, others in enumerate(adjacency) for other in others if one < other]
    least = min(range(order), key=lambda rank: len(adjacency[rank]))
    # The first two partitions to try: single nodes, and one node of least degree against all others.
    parts: tuple[tuple[Rank, ...], ...] = tuple((rank,) for rank in range(order))
    crossing = len(links)
    if len(adjacency[least]) < len(links) // (order - 1):
        parts = (least,), tuple(rank for rank in range(order) if rank != least)
        crossing = len(adjacency[least])
    while True:
        count = crossing // (len(parts) - 1)
        forests = pack(adjacency, links, count)
        if forests.links == count * (order - 1):
            break
        # The clumps show that even `count` is too many; they give the next bound.
        members: dict[Rank, list[Rank]] = {}
        for rank in range(order):
            members.setdefault(forests.clumps.find(rank), []).append(rank)
        parts = tuple(tuple(ranks) for ranks in members.values())
        crossing = sum(forests.clumps.find(one) != forests.clumps.find(other) for one, other in links)
    for parents in forests.parents:
        reroot(parents, 0)
    flatten(adjacency, forests.parents)
    return Packing(shallowest_first(forests.parents), parts, crossing)


class MovableTree:
    """A tree at root 0 whose ranks can be moved to other parents."""

    def __init__(self, parents: list[Rank]) -> None:
        self.parents = parents
        self.depth = depths(parents)
        self._children: list[dict[Rank, None]] = [{} for _ in parents]
        for parent, child in arcs_of(parents):
            self._children[parent][child] = None

    def below(self, rank: Rank) -> list[Rank]:
        """Return a rank and all ranks below it."""
        ranks = [rank]
        for each in ranks:
            ranks += self._children[each]
        return ranks

    def move(self, below: Sequence[Rank], parent: Rank) -> None:
        """Give a rank, the first of those `below`, a parent outside its subtree."""
        rank = below[0]
        del self._children[self.parents[rank]][rank]
        self._children[parent][rank] = None
        self.parents[rank] = parent
        lower = self.depth[parent] + 1 - self.depth[rank]
        for each in below:
            self.depth[each] += lower


def flatten(adjacency: Adjacency, trees: Sequence[list[Rank]]) -> None:
    """Make edge-disjoint trees at root 0 lower.

    This goes on as long as one rank can get a parent nearer to the root. The new link may be unused, or lead to the
    rank's parent in another tree. That tree takes the old link for it. Every change reduces the sum of all depths.
    """
    movable = [MovableTree(parents) for parents in trees]
    user = {frozenset(arc): tree for tree in movable for arc in arcs_of(tree.parents)}
    work, before = FLATTEN_WORK, -1
    while before != work > 0:
        before = work
        for tree in movable:
            for rank in sorted(range(1, len(adjacency)), key=tree.depth.__getitem__):
                work -= _raise(adjacency[rank], tree, rank, user)


def _raise(neighbours: Sequence[Rank], tree: MovableTree, rank: Rank, user: dict[frozenset[Rank], MovableTree]) -> int:
    """Give a rank the best parent that is nearer to the root, if there is one.

    Returns the decrease of the sum of all depths.
    """
    parent = tree.parents[rank]
    nearer = [other for other in neighbours if tree.depth[other] < tree.depth[parent]]
    for other in sorted(nearer, key=tree.depth.__getitem__):
        owner, below = user.get(frozenset((rank, other))), tree.below(rank)
        gain = (tree.depth[parent] - tree.depth[other]) * len(below)
        if owner is not None:
            if owner.parents[rank] != other:
                continue
            lowered = owner.below(rank)
            gain -= (owner.depth[parent] - owner.depth[other]) * len(lowered)
            if gain <= 0 or parent in lowered:
                continue
            owner.move(lowered, parent)
            user[frozenset((rank, parent))] = owner
        else:
            del user[frozenset((rank, parent))]
        tree.move(below, other)
        user[frozenset((rank, other))] = tree
        return gain
    return 0


def pack(adjacency: Adjacency, links: Sequence[NodePair], count: int) -> Forests:
    """Return as many links as possible in `count` edge-disjoint forests."""
    forests = Forests(len(adjacency), count)
    taken = grow(adjacency, forests)
    for link in links:
        if forests.links == count * (len(adjacency) - 1):
            break
        if link not in taken:
            forests.add(*link)
    return forests


def grow(adjacency: Adjacency, forests: Forests) -> set[NodePair]:
    """Start the forests as shallow trees from rank 0, and return the links.

    The trees take turns to add one link breadth first.
    """
    order, taken = len(adjacency), set[NodePair]()
    inside = [bytearray(order) for _ in forests.parents]
    queues = []
    for reached in inside:
        reached[0] = True
        queues.append([(0, other) for other in adjacency[0]])
    at = [0] * forests.count
    growing = list(range(forests.count))
    while growing:
        for forest in tuple(growing):
            queue, reached = queues[forest], inside[forest]
            while at[forest] < len(queue):
                one, other = queue[at[forest]]
                at[forest] += 1
                link = min(one, other), max(one, other)
                if not reached[other] and link not in taken:
                    taken.add(link)
                    reached[other] = True
                    forests.add_leaf(forest, other, one)
                    queue += [(other, further) for further in adjacency[other]]
                    break
            else:
                growing.remove(forest)
    return taken
