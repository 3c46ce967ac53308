"""The reachability of the network itself at a point of a campaign, beside the delivery of its algorithms."""

from collections.abc import Collection
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np

from coordinator.campaigns.grid import Grid
from coordinator.theory.batch.draws import BLOCK
from coordinator.theory.dependence.bit_rows import Indices
from coordinator.theory.reachability import Connectivity, FailedPlaces, stops_permanently
from emunode.model import Collective

FROM_SOURCE: Final = (Collective.BROADCAST, Collective.SCATTER)
TO_TARGET: Final = (Collective.GATHER, Collective.REDUCE)


class Reachability(NamedTuple):
    """The sum over decided trials of the share of healthy nodes that are connected to the source, and their number."""

    total: Fraction
    trials: int


def reachability(grid: Grid, point: int, variant: int, numbers: Collection[int]) -> Reachability | None:
    """Return the reachability of the network under the draws with these numbers.

    None for collectives without one source or target, under the timed clock, and for faults that do not stop nodes or links
    from the first step to the end.
    """
    plan, fault_set = grid.variants[variant].plan, grid.points[point]
    terms = [term for term in fault_set.parts if term.count or term.share]
    collective = plan.spec.collective
    if collective not in (*FROM_SOURCE, *TO_TARGET) or plan.scenario.clock != "steps" or fault_set.how == "process":
        return None
    stops = {fault: stops_permanently(fault) for fault in (*plan.faults, *map(fault_set.fault_of, terms))}
    if None in stops.values():
        return None
    given = [fault for fault in plan.faults if stops[fault]]
    network = Connectivity(plan.topology, plan.spec.source, given, towards=collective in TO_TARGET)
    arcs = network.arcs_of(grid.places[variant].links)
    total, trials = Fraction(0), 0
    ordered = np.array(sorted(numbers), np.int64)
    for start in range(0, len(ordered), BLOCK):
        block = ordered[start : start + BLOCK]
        counts = network.reached(len(block), *_struck(grid, point, variant, block, arcs))
        pairs = np.stack([counts.healthy[counts.decided], counts.reached[counts.decided]])
        for (healthy, reached), count in zip(*_counted(pairs), strict=True):
            total += Fraction(reached * count, healthy)
            trials += count
    return Reachability(total, trials)


def _struck(grid: Grid, point: int, variant: int, numbers: Indices, arcs: Indices) -> tuple[FailedPlaces, FailedPlaces]:
    """Return the nodes and the directed links that stop in each draw."""
    nothing = np.zeros(0, np.int64)
    nodes, links = [FailedPlaces(nothing, nothing)], [FailedPlaces(nothing, nothing)]
    for each in grid.draws(point, variant).struck(numbers):
        if each.term.on_links:
            links += [FailedPlaces(arcs[each.places, way], each.draws) for way in (0, 1)]
        else:
            nodes.append(FailedPlaces(each.places, each.draws))
    return _joined(nodes), _joined(links)


def _joined(parts: list[FailedPlaces]) -> FailedPlaces:
    return FailedPlaces(*(np.concatenate([part[at] for part in parts]) for at in range(2)))


def _counted(pairs: Indices) -> tuple[list[list[int]], list[int]]:
    """Return the different columns, and how often each of them occurs."""
    values, counts = np.unique(pairs, axis=1, return_counts=True)
    return values.T.tolist(), counts.tolist()


def fraction(grid: Grid, point: int, variant: int) -> float | None:
    """Return the share of the places of a kind that fail, or its mean; None for several kinds, blocks and processes."""
    fault_set = grid.points[point]
    struck = [part for part in fault_set.parts if part.count or part.rate] or list(fault_set.parts[:1])
    if len(struck) != 1 or struck[0].block or fault_set.how == "process":
        return None
    (part,) = struck
    if fault_set.how == "bernoulli":
        return float(part.rate)
    sites = grid.places[variant]
    places = len(sites.links) if part.on_links else len(sites.nodes(sources=fault_set.sources))
    return part.count / places if places else None
