"""Scattering and gathering on the star graph by the three shortest-path trees of Fragopoulou and Akl (TR 93-346,
sections 5 and 6).

Only the source has a timetable: all other nodes forward at once, and two messages never need the same link in one step.
A gather is a scatter run backwards. At most one message crosses a directed link per step.
"""

from abc import abstractmethod
from collections.abc import Iterator
from functools import cached_property
from math import factorial

from emunode.algorithms.base import Need
from emunode.algorithms.claims import Claim
from emunode.algorithms.routed_collective import Route, RoutedCollective, TreeRoutedCollective
from emunode.algorithms.star.bounds import REPORT, total_distance, unit_bounds
from emunode.algorithms.transforms import backwards
from emunode.errors import ScenarioError
from emunode.model import Collective, PortModel, Rank, Step
from emunode.registry import register
from emunode.trees.star.balanced import BalancedTree, NearBalancedTree, ReplicatedTrees, ScatterTrees
from emunode.trees.star.rotation import necklace_count


class PlacesInTree(TreeRoutedCollective):
    """Messages for the nodes of one shortest-path tree; a node may have several places in it.

    The messages for a node are split evenly over its places, in runs: the first `share` by its first place, and so on.
    """

    family = "star"
    needs = frozenset({Need.TABLE})
    splits_across_trees = False
    trees: ScatterTrees
    """One tree with at most `count` places for a node."""

    @property
    def max_redundancy(self) -> int:
        return 1

    def share(self, target: Rank) -> int:
        """Return the messages for `target` by each of its places in the tree."""
        # `share` divides evenly: only ReplicatedTrees have several places, and they require a multiple of n-1
        # messages.
        return self.copies // self.trees.copies(target)

    def copies_of(self, target: Rank) -> Iterator[tuple[int, int, int]]:
        share = self.share(target)
        for segment in range(self.copies):
            # In runs, so that copy j carries messages jMp/(n-1) .. (j+1)Mp/(n-1) - 1 as in definitions 15 and 16.
            yield segment // share, segment % share, segment

    def number(self, target: Rank, route_index: int, segment: int) -> int:
        return segment % self.share(target)

    @cached_property
    def hops(self) -> int:
        # All paths are shortest, so t_n links for one message to all others.
        return self.copies * total_distance(self.topology)


class StarTreeScatter(PlacesInTree):
    """Rule 5 (all-port): on each of the root's links independently, messages for the farthest nodes leave first,
    one per step.

    Rule 8 (one-port): the same, one root link after the other. Half-duplex links suffice, because no message goes up.
    The algorithm survives no fault.
    """

    collective = Collective.SCATTER
    port_models = (PortModel.ALL_PORT, PortModel.ONE_PORT)

    def route(self, target: Rank, route_index: int, number: int) -> Route:
        start = self._starts[target, route_index] + number
        return [(port, start + hop) for hop, port in enumerate(self.trees.route(target, route_index))]

    @cached_property
    def _starts(self) -> dict[tuple[Rank, int], Step]:
        """The step when number 0 for each (target, place) leaves the root; only the root needs this table."""
        weight, places = self.topology.weight, self._places()
        starts: dict[tuple[Rank, int], Step] = {}
        step = 1
        for port in range(self.topology.degree):
            if self.spec.port_model is PortModel.ALL_PORT:
                # Rule 5: each root link starts its own queue in step 1. Rule 8: one queue for all links.
                step = 1
            # The farthest first: a message that leaves in step s has at least as far to go as every later one on its link.
            for target, route_index in sorted(places[port], key=lambda place: (-weight(place[0]), place)):
                starts[target, route_index] = step
                step += self.share(target)
        return starts

    @cached_property
    def last_step(self) -> Step:
        """Farther nodes are served earlier, so the run ends when the last message has left the root."""
        if self.spec.port_model is PortModel.ONE_PORT:
            # One message leaves the root per step, and nothing is repeated.
            return self.copies * (self.topology.order - 1)
        return self.all_port_steps[0]

    def _places(self) -> list[list[tuple[Rank, int]]]:
        """Return every place in the tree as (node, route_index), by root port."""
        places: list[list[tuple[Rank, int]]] = [[] for _ in range(self.topology.degree)]
        for target in range(1, self.topology.order):
            for route_index in range(self.trees.copies(target)):
                places[self.trees.subtree(target, route_index)].append((target, route_index))
        return places

    @property
    @abstractmethod
    def all_port_steps(self) -> tuple[int, str]:
        """Steps over all ports in closed form, and the place in the paper."""

    def claims(self) -> list[Claim]:
        one_port = self.spec.port_model is PortModel.ONE_PORT
        source = "rule 8 and table 2: M(n!-1)" if one_port else self.all_port_steps[1]
        bounds = unit_bounds(self.topology, self.spec, self.copies)
        return [
            *super().claims(),
            Claim("steps", self.last_step, "==", f"{REPORT}, {source}"),
            # The bound on transmissions is met, so the same value is claimed as an equation.
            *(Claim(bound.name, bound.predicted, "==", f"{REPORT}, table 2: M t_n") for bound in bounds[1:]),
            *bounds,
            *self.structure_claims(),
        ]

    def _tree_claims(self, substars: str, leaves: str, shortest: str) -> list[Claim]:
        """Return the claims that the three trees have in common; the arguments are places in the paper."""
        return [
            Claim("outside_own_substar", 0, "==", f"{REPORT}, {substars}: S^i is in the subtree of link i"),
            Claim("inner_home_nodes", 0, "==", f"{REPORT}, {leaves}: nodes with x_1 = 1 are leaves"),
            Claim("longest_detour", 0, "==", f"{REPORT}, {shortest}: a shortest path tree"),
        ]


@register
class StarBalancedScatter(StarTreeScatter):
    """Down the shortest-path tree that is as balanced as possible: root subtrees differ by one node at most.
    All-port or one-port.

    One message: ceil((n!-1)/(n-1)) steps over all ports, n!-1 over one, t_n transmissions: all optimal. M messages for
    each node: M times that; the all-port steps are no longer optimal then (replicated-balanced-tree is). The source
    and, for their place in the tree, all nodes need a table of (n-1)! entries. TR 93-346, section 5.1, rules 5 to 8,
    table 2.
    """

    name = "balanced-tree"
    citation = f"{REPORT}, section 5.1"
    trees_class = BalancedTree

    @property
    def all_port_steps(self) -> tuple[int, str]:
        # Root subtrees differ by one node; the largest decides.
        largest = -(-(self.topology.order - 1) // self.topology.degree)
        return self.copies * largest, "section 5.1 and table 2: ceil((n!-1)/(n-1)) a message"

    def structure_claims(self) -> list[Claim]:
        others, links = self.topology.order - 1, self.topology.degree
        source = f"{REPORT}, section 5.1: root subtrees differ by at most one node"
        return [
            Claim("largest_subtree", -(-others // links), "==", source),
            Claim("smallest_subtree", others // links, "==", source),
            *self._tree_claims(*["section 5.1"] * 3),
        ]


@register
class NearBalancedScatter(StarTreeScatter):
    """Down the shortest-path tree that is balanced within a constant factor. All-port or one-port.

    A node finds its place from its own relative label. Over all ports one step for each necklace of S_n without the
    root's own (3, 9, 33, 147, 855 for n = 3..7; the optimum is 3, 8, 30, 144, 840), over one port n!-1; t_n
    transmissions, optimal; M messages: M times that. TR 93-346, section 5.2, definitions 7 to 14, theorem 9, table
    2. Errata: see the tree.
    """

    name = "near-balanced-tree"
    citation = f"{REPORT}, section 5.2"
    trees_class = NearBalancedTree

    @property
    def all_port_steps(self) -> tuple[int, str]:
        necklaces = necklace_count(self.topology.degree + 1)
        return self.copies * necklaces, "theorem 9: the largest root subtree, one node per necklace"

    def structure_claims(self) -> list[Claim]:
        largest = 2 * factorial(self.topology.degree) - 1
        counted = f"{REPORT}, theorem 9.2: one node of every necklace"
        return [
            Claim("largest_subtree", necklace_count(self.topology.degree + 1), "==", counted),
            Claim("largest_subtree", largest, "<=", f"{REPORT}, theorem 9.5: balanced to within 2(n-1)! - 1"),
            Claim("off_displacement", 0, "==", f"{REPORT}, theorem 9.2: displacement d, subtree d + 1"),
            *self._tree_claims("theorem 9.1", "theorem 9.3", "theorem 9.4"),
        ]


@register
class ReplicatedScatter(StarTreeScatter):
    """Down the perfectly balanced shortest-path tree with repeated nodes, M a multiple of n-1 messages each.
    All-port or one-port.

    A node finds its places from its own relative label: a node whose necklace has p nodes is a leaf at (n-1)/p places,
    and each place brings Mp/(n-1) of its messages. M(n!-1)/(n-1) steps over all ports, M(n!-1) over one, M t_n
    transmissions: all optimal. Segments count as messages: n-1 segments make one message do. In the journal tree j is
    the j-th place of the target. TR 93-346, definitions 15 and 16, theorem 10, table 2. Errata: the text prints
    M(n-1)/(n-1) for the steps; for the definitions see the tree.
    """

    name = "replicated-balanced-tree"
    citation = f"{REPORT}, definition 15"

    def validate(self) -> None:
        super().validate()
        require_multiple(self, "balanced-tree")

    trees_class = ReplicatedTrees

    @property
    def all_port_steps(self) -> tuple[int, str]:
        steps = self.copies * (self.topology.order - 1) // self.topology.degree
        return steps, "theorem 10 and table 2: M(n!-1)/(n-1)"

    def structure_claims(self) -> list[Claim]:
        size = necklace_count(self.topology.degree + 1)
        balance = f"{REPORT}, theorem 10.6: perfectly balanced, one node of every necklace"
        return [
            Claim("off_period", 0, "==", f"{REPORT}, theorem 10.2: (n-1)/p places for a period of p"),
            Claim("off_displacement", 0, "==", f"{REPORT}, theorem 10.3: subtrees ip + d + 1"),
            Claim("largest_subtree", size, "==", balance),
            Claim("smallest_subtree", size, "==", balance),
            Claim("unrotated_arcs", 0, "==", f"{REPORT}, theorem 10.7: subtrees are rotations of each other"),
            *self._tree_claims("theorem 10.1", "theorem 10.4", "theorem 10.5"),
        ]


def require_multiple(algorithm: RoutedCollective, instead: str) -> None:
    """Refuse messages that cannot be split evenly over n-1 places, and name an algorithm that accepts them."""
    spec, degree = algorithm.spec, algorithm.topology.degree
    if spec.messages * spec.segments % degree:
        raise ScenarioError(
            "messages",
            spec.messages,
            f"{algorithm.name} on {algorithm.topology.name} needs a multiple of {degree} messages, or --segments {degree} "
            f"to cut each into {degree}; {instead} takes any number",
        )


register(backwards(StarBalancedScatter))
register(backwards(NearBalancedScatter))
register(backwards(ReplicatedScatter))
