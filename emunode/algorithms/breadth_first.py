"""Broadcast down one shortest-path tree, available on every network: the baseline for several trees."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import ClassVar, Final

from emunode.algorithms.base import LocalView, receivers_by_distance
from emunode.algorithms.claims import Claim, Relation
from emunode.algorithms.folding import FoldSend
from emunode.algorithms.tree_collective import TreeCollective
from emunode.model import Collective, Port, PortModel, Rank, Step
from emunode.registry import register
from emunode.topologies.base import CayleyTopology, Topology
from emunode.topologies.eisenstein_jacobi import EisensteinJacobi
from emunode.topologies.hypercube import Hypercube
from emunode.topologies.star import StarGraph
from emunode.trees.base import Trees
from emunode.trees.breadth_first import BreadthFirstTree, GrownTree

LISTED_LEVELS: Final = 1 << 20
"""The largest diameter with a claim about the number of receivers of each step."""


class TreeBroadcast(TreeCollective):
    """Segments follow each other down a shortest-path tree, one per step over all ports.

    Over one port a node serves its children one after the other. The source starts the next segment when it has served all
    its children, or has waited as long as the rank with the most children needs.
    """

    collective = Collective.BROADCAST
    port_models: tuple[PortModel, ...] = (PortModel.ALL_PORT, PortModel.ONE_PORT)

    @cached_property
    def last_offset(self) -> Step:
        if self.spec.port_model is PortModel.ALL_PORT:
            # All-port: level t receives in step t.
            return self.rooted.eccentricity(0)
        return max(step for _, step in self._walk(0))

    @cached_property
    def period(self) -> Step:
        translated = isinstance(self.topology, CayleyTopology) and not self.spec.broken
        if self.spec.port_model is PortModel.ALL_PORT or translated:
            return super().period
        # Elsewhere a rank may have more children than the root, and needs the time for all of them.
        return max(len(self.trees.children(rank, 0)) for rank, _ in self._walk(0))

    def claims(self) -> list[Claim]:
        claims = super().claims()
        if self.spec.port_model is PortModel.ALL_PORT:
            steps = self.last_offset + self.numbers - 1
            claims.append(Claim("steps", steps, "==", f"{self.citation}: height + segments - 1"))
            # Several segments overlap in a step, and then the receivers are not the ranks at one distance.
            if (
                self.numbers == 1
                and self.collective is Collective.BROADCAST
                and self.topology.diameter <= LISTED_LEVELS
            ):
                claims.append(
                    Claim(
                        "receivers_per_step",
                        receivers_by_distance(self),
                        "==",
                        f"{self.citation}: everybody at its distance",
                    )
                )
        else:
            claims += self._one_port_claims()
        return [*claims, *self.structure_claims()]

    def structure_claims(self) -> list[Claim]:
        # Around broken links paths may be longer than the distance.
        if self.spec.broken:
            return []
        return [Claim("longest_detour", 0, "==", f"{self.citation}: {self.shortest_paths}")]

    shortest_paths: ClassVar[str] = "shortest paths"
    """The source of the claim that all paths from the root are shortest paths."""

    def one_port_height(self) -> tuple[int, Relation, str] | None:
        """Return (steps, relation, formula) of the first segment over one port; here None, as there is no formula."""
        return None

    def _one_port_claims(self) -> list[Claim]:
        """Return the height over one port, and for every further segment one step per child of the root."""
        found = None if self.spec.broken else self.one_port_height()
        if found is None:
            return []
        height, relation, formula = found
        # The root serves all its `degree` children with one segment before it starts the next.
        steps = height + (self.numbers - 1) * self.topology.degree
        source = f"{self.citation}: one child after the other, {formula}"
        return [Claim("steps", steps, relation, f"{source} and a step per child for every further segment")]


def exact_for_successors(network: EisensteinJacobi) -> Relation:
    """Return the relation of a formula that is exact for b = a + 1 and an upper bound for other alphas."""
    return "==" if network.b == network.a + 1 else "<="


@register
class BreadthFirstBroadcast(TreeBroadcast):
    """Broadcast down the breadth-first tree where every rank's parent is behind its lowest port that leads closer.

    Over one port a node serves the child first whose subtree takes longest to inform. With b(v) = max of i + b(c_i) over the
    children c_1, c_2, .. of v in this order, one segment takes b(root) steps, and no other order takes fewer (P. J. Slater,
    E. J. Cockayne and S. T. Hedetniemi 1981, Information dissemination in trees).

    If all ranks know the faults, the tree is grown around everything that is broken in step 1, and so reaches every rank
    that is still connected to the source.
    """

    family = "any"
    name = "bfs-tree"
    citation = "breadth-first spanning tree (E. F. Moore 1959)"

    def make_trees(self, topology: Topology) -> Trees:
        if not self.spec.broken:
            return BreadthFirstTree(topology)
        source, broken = self.spec.source, self.spec.broken
        if self.folds:
            # Partial results go up the tree, against the direction of its growth.
            broken = tuple(self.topology.end(rank, port) for rank, port in broken)
        # Trees are rooted at 0: the broken links are translated with the source.
        return GrownTree(topology, {(topology.relative(rank, source), port) for rank, port in broken})

    def delays(self, relative: Rank, tree: int, ports: Sequence[Port]) -> Sequence[Step]:
        if self.spec.port_model is PortModel.ALL_PORT:
            return super().delays(relative, tree, ports)
        informed = self._steps_to_inform
        urgent = sorted(ports, key=lambda port: -informed[self.rooted.neighbour(relative, port)])
        return [1 + urgent.index(port) for port in ports]

    @cached_property
    def _steps_to_inform(self) -> Mapping[Rank, Step]:
        """Return b(v) by rank: the steps from the arrival of a segment at v to the last arrival below it."""
        down = [0]
        for rank in down:  # grows
            down += self.tree_children(rank, 0)
        steps: dict[Rank, Step] = {}
        for rank in reversed(down):
            below = sorted((steps[child] for child in self.tree_children(rank, 0)), reverse=True)
            steps[rank] = max((place + step for place, step in enumerate(below, 1)), default=0)
        return steps

    def one_port_height(self) -> tuple[int, Relation, str] | None:
        """Return (steps, relation, formula) of the first segment over one port; None if there is no formula.

        The formulas were found by enumeration: S_3 to S_9, Q_2 to Q_11, and 38 Eisenstein-Jacobi networks of one to three
        dimensions, where the last one is exact for b = a + 1.
        """
        match self.topology:
            case StarGraph() as star:
                return star.n * (star.n - 1) // 2, "==", "n(n-1)/2"
            case Hypercube() as cube:  # the tree is binomial
                return cube.degree, "==", "n"
            case EisensteinJacobi() as network:
                steps = network.diameter + 5 * network.dimensions
                return steps, exact_for_successors(network), "n(D+5)"
        return None

    @cached_property
    def last_offset(self) -> Step:
        all_port = self.spec.port_model is PortModel.ALL_PORT
        return self.trees.height(0) if self.spec.broken and all_port else super().last_offset

    def claims_with_known_faults(self, faulty: Collection[Rank]) -> list[Claim]:
        if not self.spec.broken or not self.spec.sources_live(faulty):
            return []
        source = f"{self.citation}: all that broken links leave connected to the source"
        # A reduce has one result, the fold of the connected contributions.
        due = min(1, len(self._spanned)) if self.folds else len(self.receivers)
        return [Claim("intact_deliveries", due * self.spec.messages, "==", source)]

    def fold_sends(self, view: LocalView) -> Iterator[FoldSend]:
        # A rank that is cut off has no parent.
        if not self.spec.broken or view.relative(self.spec.source) in {0, *self._spanned}:
            yield from super().fold_sends(view)
