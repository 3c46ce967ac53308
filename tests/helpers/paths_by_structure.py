"""The paths of copies from the trees and routes that an algorithm is made of: the oracle of `MessagePaths` and `KnownPaths`.

It shares no code with traced schedules, nor with rules that are played.
"""

from collections.abc import Iterator
from functools import singledispatch

from emunode.algorithms.base import Algorithm
from emunode.algorithms.routed_collective import RoutedCollective
from emunode.algorithms.tree_collective import TreeCollective
from emunode.faults.byzantine import CopyPath
from emunode.model import ALL_RANKS, Collective, Rank


@singledispatch
def paths_by_structure(algorithm: Algorithm, origin: Rank, segment: int) -> Iterator[CopyPath]:
    """Yield the paths of all copies of a segment to all its receivers."""
    raise NotImplementedError(algorithm)


@paths_by_structure.register
def _(algorithm: TreeCollective, origin: Rank, segment: int) -> Iterator[CopyPath]:
    """Each copy goes down its tree."""
    topology, trees = algorithm.topology, algorithm.trees
    for tree, _ in algorithm.places_of_copies[segment]:
        for relative in algorithm.receivers:
            ranks, ports = trees.path(relative, tree)[:-1], trees.route(relative, tree)
            sends = [(topology.absolute(rank, origin), port) for rank, port in zip(ranks, ports, strict=True)]
            yield CopyPath((origin, ALL_RANKS, tree, segment), topology.absolute(relative, origin), sends)


@paths_by_structure.register
def _(algorithm: RoutedCollective, origin: Rank, segment: int) -> Iterator[CopyPath]:
    """Each copy takes its route; a gather is a scatter backwards."""
    topology, gathers = algorithm.topology, algorithm.collective is Collective.GATHER
    if gathers:
        receivers = [algorithm.spec.source]
    elif algorithm.collective is Collective.UNICAST:
        receivers = [algorithm.spec.destination(origin)]
    else:
        receivers = [rank for rank in topology.data_ranks if rank != origin]
    for receiver in receivers:
        root, far = (receiver, origin) if gathers else (origin, receiver)
        relative = topology.relative(far, root)
        for route, number, carried in algorithm.copies_of(relative):
            if carried == segment:
                # Stations are listed from the root outwards, also where messages travel the other way.
                stations = algorithm.hop_schedule(relative, route, number).items()
                sends = [(topology.absolute(at, root), port) for at, (port, _) in stations]
                yield CopyPath((origin, receiver, route, segment), receiver, sends[::-1] if gathers else sends)
