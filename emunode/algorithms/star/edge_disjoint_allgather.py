"""Multinode broadcast (allgather) over the arc-disjoint spanning trees of the star graph, depth first, controlled by a
clock or by acknowledgements.

Fragopoulou and Akl 1996 (see `edge_disjoint`), multinode broadcast. Served in l-th order, the preorders of the n-1 trees
are rotations of each other: the j-th nodes of all trees are reached over n-1 different link types, so all sources
can traverse all their trees at once.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from emunode.algorithms.base import Content, Dependence, LocalView, Need, Rule, Timing
from emunode.algorithms.claims import Claim
from emunode.algorithms.star.bounds import DISJOINT, unit_bounds
from emunode.algorithms.star.edge_disjoint import edt_structure
from emunode.algorithms.tree_collective import TreeCollective
from emunode.model import ALL_RANKS, Collective, Duplex, Port, PortPacket, Rank, ScheduledSend, Segment, Step
from emunode.registry import register
from emunode.trees.star.edge_disjoint import EdgeDisjointTrees
from emunode.trees.star.rotation import Rotation

ACKNOWLEDGEMENT = b"\x06"
"""Payload of an acknowledgement: one byte, so that it occupies its link."""


@register
class ClockedTraversal(TreeCollective):
    """Every message goes down x of the n-1 trees, depth first, by the clock: in step j the j-th node in preorder is
    reached. All-port.

    M messages take M x (n!-1)/(n-1) steps where n-1 divides M x, else as many as the next multiple, and n! M x
    (n!-1) transmissions: with x = n-1 all directed links are busy in every step. A node knows its own relative
    label and the sizes of subtrees (one convergecast, or a table of n! entries): its first child is served one step
    after itself, the next when the first one's subtree is done. It survives x - 1 faults, because no node waits
    for an acknowledgement. Fragopoulou and Akl 1996, multinode broadcast (reconstructed).
    """

    family = "star"
    name = "edt-dfs"
    collective = Collective.ALLGATHER
    needs = frozenset({Need.TABLE})
    citation = f"{DISJOINT}, multinode broadcast"
    duplexes = (Duplex.FULL,)
    disjoint_paths = True
    splits_across_trees = False
    trees: EdgeDisjointTrees
    trees_class = EdgeDisjointTrees

    def delays(self, relative: Rank, tree: int, ports: Sequence[Port]) -> Sequence[Step]:
        delays: list[Step] = []
        # The first child is served one step after its parent, as the next node in preorder.
        free = 1
        for port in ports:
            delays.append(free)
            # The next child is the child that follows the first child's whole subtree in preorder.
            free += self.subtree_size(self.topology.neighbour(relative, port), tree)
        return delays

    def subtree_size(self, relative: Rank, tree: int) -> int:
        """Return the nodes below and including `relative`; tree t is R^t of tree 0."""
        # Tree t is R^t of tree 0 and R keeps subtree sizes, so one table of n! entries serves all trees.
        return self._sizes[self._rotation.rotate(relative, -tree)]

    @cached_property
    def _rotation(self) -> Rotation:
        return Rotation(self.trees.star)

    @cached_property
    def _sizes(self) -> list[int]:
        """Number of nodes in each subtree of tree 0, by rank."""
        sizes = [1] * self.topology.order
        preorder, waiting = [], [0]
        while waiting:
            preorder.append(rank := waiting.pop())
            waiting += [self.topology.neighbour(rank, port) for port in self.trees.children(rank, 0)]
        # Preorder reversed: every subtree is complete before it is added to its parent.
        for rank in reversed(preorder[1:]):
            sizes[self.topology.neighbour(rank, self.trees.parent(rank, 0))] += sizes[rank]
        return sizes

    @cached_property
    def period(self) -> Step:
        # n! - 1 nodes, one per step; the next message of the tree starts when this traversal has ended.
        return self.topology.order - 1

    @cached_property
    def last_offset(self) -> Step:
        return self.topology.order - 1

    def claims(self) -> list[Claim]:
        others = self.topology.order - 1
        return [
            *super().claims(),
            Claim("steps", self.numbers * others, "==", f"{self.citation}: M x (n!-1)/(n-1), M x rounded up to n-1"),
            Claim("segments", (others + 1) * self.copies * others, "==", f"{self.citation}: n! M x (n!-1)"),
            Claim("max_link_segments_per_step", 1, "==", f"{self.citation}: preorders are rotations of each other"),
            *unit_bounds(self.topology, self.spec, self.copies),
            *self.structure_claims(),
        ]

    def structure_claims(self) -> list[Claim]:
        types = Claim("same_type_per_step", 1, "==", f"{self.citation}: preorders are rotations of each other")
        return [types, *edt_structure("==", disjoint=self.copies > 1)]


@register
class AcknowledgedTraversal(ClockedTraversal):
    """The traversal as the paper words it: a child is served when the one before has acknowledged its whole
    subtree. All-port.

    A negative control. A node knows its own relative label only. But an acknowledgement takes a step, so M messages
    need 2 M x (n!-1)/(n-1) steps, not the half of it that the claimed optimality implies (10, 46, 238, 1438 for n =
    3..6, one message on all trees); and a faulty node never acknowledges, so that the traversal stops there: a
    single fault cuts healthy nodes off from all x = n-1 trees, though the paper has it survive x - 1 faults
    (erratum; n = 4: 49 of 506 pairs of source and healthy node, in 10 of 23 positions of the fault; n = 5: 993 of
    14042 in 98 of 119; none for n = 3). Use edt-dfs.

    In the journal an acknowledgement is a segment of one byte with the origin, tree and number of its message. Its
    target is the node that acknowledges, so it is no delivery and counts as relayed. Fragopoulou and Akl 1996,
    multinode broadcast (reconstructed).
    """

    name = "edt-dfs-ack"
    needs = frozenset[Need]()  # acknowledgements take the place of the table
    disjoint_paths = False  # erratum: they are disjoint, but a node that does not acknowledge stops the traversal
    timing = Timing.ADAPTIVE
    dependence = Dependence.UNSTATED
    ack_bytes = len(ACKNOWLEDGEMENT)

    def rule(self, view: LocalView) -> Rule:
        return Acknowledge(self, view)

    @cached_property
    def content(self) -> Content:
        payload = self.payloads.segment
        # An acknowledgement has the acknowledging node as its target; messages have ALL_RANKS.
        return lambda origin, target, segment: (
            payload(origin, target, segment) if target == ALL_RANKS else ACKNOWLEDGEMENT
        )

    @cached_property
    def period(self) -> Step:
        # Every link of the tree is used twice, down by the message and up by the acknowledgement.
        return 2 * (self.topology.order - 1)

    def structure_claims(self) -> list[Claim]:
        """Return no claims: acknowledgements use the same arcs in the other direction, under the number of the tree."""
        return []

    def claims(self) -> list[Claim]:
        order, others = self.topology.order, self.topology.order - 1
        hops = order * self.copies * others
        return [
            Claim(
                "steps", self.numbers * 2 * others, "==", f"{self.citation}: erratum: 2(n!-1), not n!-1, a traversal"
            ),
            Claim("relays", hops, "==", f"{self.citation}: an acknowledgement for every message"),
            Claim("segments", 2 * hops, "==", f"{self.citation}: n! M x (n!-1) messages, as many acknowledgements"),
            Claim("intact_deliveries", self.spec.messages * order * others, "==", f"{self.citation}: spanning trees"),
            Claim("max_link_segments_per_step", 1, "==", f"{self.citation}: preorders are rotations of each other"),
            *unit_bounds(self.topology, self.spec, self.copies),
        ]


class Acknowledge(Rule):
    """Send a message to the first child, then to the next one after each acknowledgement, and after the last one
    acknowledge to the parent.
    """

    __slots__ = ("_algorithm", "_held", "_view")

    def __init__(self, algorithm: AcknowledgedTraversal, view: LocalView) -> None:
        self._algorithm = algorithm
        self._view = view
        self._held: dict[tuple[Rank, int, int], Segment] = {}

    def start(self) -> Iterator[ScheduledSend]:
        if self._view.rank in self._algorithm.sources:
            for tree in range(self._algorithm.trees.count):
                yield from self._begin(1, tree, 0)

    def _begin(self, step: Step, tree: int, number: int) -> Iterator[ScheduledSend]:
        """Start copy `number` of the own messages on `tree`, if it exists."""
        algorithm, me = self._algorithm, self._view.rank
        copy = number * algorithm.trees.count + tree
        if copy < algorithm.copies:
            index = copy // algorithm.spec.redundancy
            message = (me, ALL_RANKS, tree, index, algorithm.payloads.segment(me, ALL_RANKS, index))
            self._held[me, tree, index] = message
            # In EDT the root has one child in every tree, over link l.
            (only_child,) = algorithm.trees.children(0, tree)
            yield step, only_child, message

    def receive(self, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        for port, segments in packets:
            for segment in segments:
                origin, target, tree, index, _ = segment
                if target == ALL_RANKS:
                    # A message: serve the first child, or acknowledge at once if this node is a leaf.
                    self._held[origin, tree, index] = segment
                    yield self._serve(step + 1, segment, 0)
                else:
                    message = self._held.get((origin, tree, index))
                    if message is not None:  # else a repeated acknowledgement
                        yield from self._go_on(step + 1, message, port)

    def _go_on(self, step: Step, message: Segment, served: Port) -> Iterator[ScheduledSend]:
        """Continue after the child at port `served` has acknowledged."""
        origin, _, tree, index, _ = message
        algorithm, relative = self._algorithm, self._view.relative(origin)
        if relative:
            # The acknowledgement came over the port of the child that is done; the next one in l-th order is served.
            yield self._serve(step, message, algorithm.trees.children(relative, tree).index(served) + 1)
        else:
            del self._held[origin, tree, index]
            first = index * algorithm.spec.redundancy
            # Number of this copy on the tree, from the segment index; the next copy of the tree has number + 1.
            copy = first + (tree - first) % algorithm.trees.count
            yield from self._begin(step, tree, copy // algorithm.trees.count + 1)

    def _serve(self, step: Step, message: Segment, child: int) -> ScheduledSend:
        """Send to the child of this number or, if all children are served, the acknowledgement to the parent."""
        origin, _, tree, index, _ = message
        trees, relative = self._algorithm.trees, self._view.relative(origin)
        ports = trees.children(relative, tree)
        if child < len(ports):
            return step, ports[child], message
        # The last child is done: nothing more will come for this message.
        self._held.pop((origin, tree, index), None)
        return step, trees.parent(relative, tree), (origin, self._view.rank, tree, index, ACKNOWLEDGEMENT)
