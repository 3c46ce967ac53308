"""Total exchange on the star graph by shortest paths (Fragopoulou and Akl, TR 93-346, sections 7 and 8), one
message per link and step.

All sources do the same, relative to themselves. By theorem 2 they never collide if in every step the links used for one
source are of different types. The paths to the nodes of one necklace are rotations of each other, so they can all be used
at once.
"""

from functools import cached_property
from heapq import heappop, heappush
from typing import ClassVar

from emunode.algorithms.base import Need
from emunode.algorithms.claims import Claim
from emunode.algorithms.routed_collective import Route, RoutedCollective
from emunode.algorithms.star.bounds import REPORT, total_distance, unit_bounds
from emunode.algorithms.star.scatter import PlacesInTree, require_multiple
from emunode.model import Collective, Duplex, Port, PortModel, Rank, Step
from emunode.registry import register
from emunode.topologies.star import StarGraph
from emunode.trees.base import require
from emunode.trees.star.balanced import NearBalancedTree, ReplicatedTrees
from emunode.trees.star.rotation import Rotation


class StarTreeExchange(PlacesInTree):
    """Necklace by necklace, the closest first: groups of messages, one to each node of it (for repeated nodes: to
    each place), leave together and travel without delay; the next group starts when they have arrived.
    """

    needs = frozenset({Need.TABLE, Need.EVERY_NODE})
    collective = Collective.ALLTOALL
    duplexes = (Duplex.FULL,)
    theorem: ClassVar[str]
    """The place in the paper that states that the paths are shortest paths."""

    def route(self, target: Rank, route_index: int, number: int) -> Route:
        # The groups of one target follow each other; each takes as many steps as its path has links.
        start = self._starts[target] + number * self.topology.weight(target)
        return [(port, start + hop) for hop, port in enumerate(self.trees.route(target, route_index))]

    @cached_property
    def _starts(self) -> dict[Rank, Step]:
        """The step when the first group of every node starts; the same table at all sources."""
        starts: dict[Rank, Step] = {}
        step = 1
        together = self.spec.port_model is PortModel.ALL_PORT
        for necklace in self.trees.rotation.necklaces():
            # One-port: a group of one node, so that all sources use one link type in a step.
            for group in [necklace] if together else [(rank,) for rank in necklace]:
                for rank in group:
                    starts[rank] = step
                # The nodes of a necklace are equally far away, and have equally many places.
                step += self.share(group[0]) * self.topology.weight(group[0])
        return starts

    @cached_property
    def last_step(self) -> Step:
        weight = self.topology.weight
        return max(start + self.share(target) * weight(target) - 1 for target, start in self._starts.items())

    def claims(self) -> list[Claim]:
        t_n = self.copies * total_distance(self.topology)
        return [
            *super().claims(),
            Claim("segments", self.topology.order * t_n, "==", f"{REPORT}, table 3: M n! t_n"),
            *unit_bounds(self.topology, self.spec, self.copies),
            *self.structure_claims(),
        ]

    def structure_claims(self) -> list[Claim]:
        return exchange_structure(self.theorem)


@register
class NearBalancedExchange(StarTreeExchange):
    """Rule 9 on the tree balanced within a constant factor: all nodes of a necklace at once. All-port; one-port,
    one node at a time.

    A node finds paths by its own relative label; the order of necklaces is a table of n! entries that all sources
    share. All-port: M times the sum of distances over necklaces, 6, 26, 127, 708, 5044 for n = 3..7 (erratum: the
    paper's necklaces times average distance is only close, from below); the bound is 5, 21, 111, 689, 4938.
    One-port (section 8): in each step all nodes use one link type; M t_n steps, optimal. M n! t_n transmissions,
    optimal. No fault is survived. TR 93-346, sections 7 and 8, rule 9, table 3.
    """

    name = "near-balanced-tree"
    citation = f"{REPORT}, rule 9"
    theorem = "theorem 9.4"
    port_models = (PortModel.ALL_PORT, PortModel.ONE_PORT)
    trees_class = NearBalancedTree

    def claims(self) -> list[Claim]:
        t_n = total_distance(self.topology)
        if self.spec.port_model is PortModel.ONE_PORT:
            return [
                *super().claims(),
                Claim("steps", self.copies * t_n, "==", f"{REPORT}, section 8 and table 3: M t_n"),
            ]
        necklaces = self.trees.rotation.necklaces()
        distances = self.copies * sum(self.topology.weight(necklace[0]) for necklace in necklaces)
        return [
            *super().claims(),
            Claim("steps", distances, "==", f"{REPORT}, rule 9: sum over necklaces of the distance"),
        ]


@register
class ReplicatedExchange(StarTreeExchange):
    """Rule 10 on the tree with repeated nodes, M a multiple of n-1: every group of a necklace fills all n-1 links.
    All-port.

    A necklace of p nodes gets Mp/(n-1) groups; a group sends a message to each of the n-1 places of its nodes,
    rotations of each other. M t_n/(n-1) steps and M n! t_n transmissions, both optimal. Segments count as messages. A
    node finds paths by its own relative label; the order of necklaces is a table of n! entries that all sources
    share. No fault is survived. TR 93-346, section 7, rule 10, table 3.
    """

    name = "replicated-balanced-tree"
    citation = f"{REPORT}, rule 10"
    theorem = "theorem 10.5"

    def validate(self) -> None:
        super().validate()
        require_multiple(self, "list-schedule")

    trees_class = ReplicatedTrees

    def claims(self) -> list[Claim]:
        steps = self.copies * total_distance(self.topology) // self.topology.degree
        return [*super().claims(), Claim("steps", steps, "==", f"{REPORT}, rule 10 and table 3: M t_n/(n-1)")]


MET_WITH = {3: 60, 4: 40, 5: 24, 6: 10, 7: 4, 8: 1, 9: 1}
"""By n, the most messages where list scheduling was computed and found to meet the lower bound."""


@register
class ListSchedule(RoutedCollective):
    """The paper's open problem: total exchange in exactly ceil(t_n/(n-1)) steps, by list scheduling on link types.
    All-port.

    A target is a job, the link types of one shortest path are its operations, a type is a machine. Full necklaces
    use rotations of one path, so they load all types alike; the nodes of the other necklaces use the least loaded type at
    every hop. Then in every step each type serves, among the jobs whose next operation it is, the one with most
    operations left. Messages may wait inside nodes. No proof, but the bound ceil(M t_n/(n-1)) is met for n = 3..9, and
    with the numbers of messages in `MET_WITH`; M n! t_n transmissions. Every node replays the same
    computation of M t_n operations. No fault is survived. After TR 93-346, section 9.
    """

    family = "star"
    name = "list-schedule"
    collective = Collective.ALLTOALL
    needs = frozenset({Need.TABLE})
    duplexes = (Duplex.FULL,)
    splits_across_trees = False
    citation = f"{REPORT}, section 9: the open problem"

    def route(self, target: Rank, route_index: int, number: int) -> Route:
        return self._timetable[target, number]

    @cached_property
    def _timetable(self) -> dict[tuple[Rank, int], Route]:
        """(link, step) of every job (target, copy), found by serving all types step by step."""
        star = require(self.topology, StarGraph, self.name)
        paths = shortest_paths(star, self.copies)
        steps: dict[tuple[Rank, int], list[tuple[Port, Step]]] = {spec: [] for spec in paths}
        ready: list[list[tuple[int, bytes, int, Rank]]] = [[] for _ in range(star.degree)]

        def enqueue(rank: Rank, copy: int) -> None:
            # The next operation of a job is the type at position `done` of its path.
            path, done = paths[rank, copy], len(steps[rank, copy])
            # Most operations left first (done - len(path) is negative); ties by label, then copy, so that all nodes
            # agree.
            if done < len(path):
                heappush(ready[path[done]], (done - len(path), star.permutation(rank), copy, rank))

        for rank, copy in paths:
            enqueue(rank, copy)
        step = 0
        while any(ready):
            step += 1
            # One job per type and step: links of one type never collide when all sources replay this table.
            served = [(port, heappop(queue)) for port, queue in enumerate(ready) if queue]
            for port, (_, _, copy, rank) in served:
                steps[rank, copy].append((port, step))
            # After all types were served, so that a job is not served twice in one step.
            for _, (_, _, copy, rank) in served:
                enqueue(rank, copy)
        return dict(steps)

    def claims(self) -> list[Claim]:
        t_n = self.copies * total_distance(self.topology)
        claims = [
            *super().claims(),
            Claim("segments", self.topology.order * t_n, "==", f"{REPORT}, table 3: M n! t_n"),
            *unit_bounds(self.topology, self.spec, self.copies),
            *self.structure_claims(),
        ]
        # Beyond the computed cases there is no proof, hence no claim.
        if self.copies <= MET_WITH.get(self.topology.degree + 1, 0):
            steps = -(-t_n // self.topology.degree)
            claims.append(Claim("steps", steps, "==", f"{self.citation}, ceil(M t_n/(n-1)), met by computation"))
        return claims

    def structure_claims(self) -> list[Claim]:
        return exchange_structure("section 9")


def exchange_structure(where: str) -> list[Claim]:
    """Return the requirements of total exchange by shortest paths; `where` is the place in the paper."""
    return [
        Claim("same_type_per_step", 1, "==", f"{REPORT}, theorem 2: links of a step are of different types"),
        Claim("longest_detour", 0, "==", f"{REPORT}, {where}: shortest paths"),
    ]


def shortest_paths(star: StarGraph, copies: int) -> dict[tuple[Rank, int], tuple[Port, ...]]:
    """Return a shortest path from the identity to every (rank, copy); all link types are used alike as far as possible."""
    rotation = Rotation(star)
    paths: dict[tuple[Rank, int], tuple[Port, ...]] = {}
    loads = [0] * star.degree
    necklaces = sorted(rotation.necklaces(), key=lambda necklace: star.permutation(necklace[0]))
    for necklace in necklaces:
        # Full necklaces: rotations of one path use every type equally often, whichever path it is.
        if len(necklace) == star.degree:
            path = _walk(star, necklace[0], None)
            for turns, rank in enumerate(necklace):
                turned = tuple(rotation.port(port, turns) for port in path)
                paths.update(((rank, copy), turned) for copy in range(copies))
    for copy in range(copies):
        for necklace in necklaces:
            # The others have no such symmetry: each hop takes the least loaded type, over running totals of all
            # copies.
            if len(necklace) < star.degree:
                for rank in sorted(necklace, key=star.permutation):
                    paths[rank, copy] = _walk(star, rank, loads)
    return paths


def _walk(star: StarGraph, rank: Rank, loads: list[int] | None) -> tuple[Port, ...]:
    """Return the reversed shortest path from `rank` home: over the lowest port that leads closer, or over the least
    loaded one, whose load it increments.
    """
    ports: list[Port] = []
    while rank:
        closer = [port for port, near in enumerate(star.neighbours(rank)) if star.weight(near) < star.weight(rank)]
        # `min` takes the lowest port among equals, as the construction that met the bound did.
        port = min(closer, key=loads.__getitem__) if loads else closer[0]
        if loads:
            loads[port] += 1
        ports.append(port)
        rank = star.neighbour(rank, port)
    # Walked from the target home; reversed it is the path from the source, because types agree at both ends.
    return tuple(reversed(ports))
