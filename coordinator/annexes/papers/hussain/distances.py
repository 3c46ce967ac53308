"""Eqs. (1), (2) and (11) of Hussain: distances as least sums of units, and the product of networks.

Distances are measured by flooding, from node 0 and from the last node. The least |x| + |y| + |z| is found by listing all
triples by their sum; two Eisenstein-Jacobi integers are congruent if the norm of alpha divides their difference times the
conjugate of alpha.
"""

from collections.abc import Iterator
from itertools import product

from coordinator.annexes.papers.hussain.node_counts import name_of
from coordinator.annexes.papers.run_cache import CachedRun, RunCache
from coordinator.annexes.papers.tables import stated
from emunode.topologies.eisenstein_jacobi import EisensteinJacobi

PRODUCTS = ((1, 2), (2, 3), (3, 4))
"""a, b of the networks of two dimensions."""
Coordinates = tuple[int, int]
"""x and y of x + y rho."""


def residue(pair: Coordinates, a: int, b: int) -> Coordinates:
    """Return a pair that is equal for congruent integers: (x + y rho) times the conjugate of alpha, modulo its norm."""
    (x, y), norm = pair, a * a + a * b + b * b
    return (x * (a + b) + y * b) % norm, (y * a - x * b) % norm


def weights(a: int, b: int) -> dict[Coordinates, int]:
    """Return for every residue the right side of eq. (2): the least |x| + |y| + |z| with x + y rho + z rho^2 congruent."""
    norm, found, total = a * a + a * b + b * b, dict[Coordinates, int](), 0
    while len(found) < norm:
        for x, y in product(range(-total, total + 1), repeat=2):
            for z in {total - abs(x) - abs(y), abs(x) + abs(y) - total}:
                if abs(x) + abs(y) + abs(z) == total:
                    # rho^2 = rho - 1
                    found.setdefault(residue((x - z, y + z), a, b), total)
        total += 1
    return found


def _steps(trial: CachedRun) -> dict[int, int]:
    """Return the step when each rank first received, 0 for the source."""
    nodes = trial.table("nodes").select("rank", "first_step").iter_rows()
    return {rank: step or 0 for rank, step in nodes}


def distances(cache: RunCache, a: int, b: int) -> Iterator[dict[str, object]]:
    """Check eqs. (1) and (2) in one network: nodes that a flood reaches in the step that the equation gives."""
    network = EisensteinJacobi(a, b, 1)
    last = network.order - 1
    trials = {source: cache.run(network, "broadcast", "flood", source=network.label(source)) for source in (0, last)}
    if cache.rehearsing:
        return
    least = weights(a, b)
    row = stated("hussain_distances", N=network.order)
    for key, source in (("eq. (2)", 0), ("eq. (1)", last)):
        x, y = network.coordinates(source)
        right = 0
        for rank, step in _steps(trials[source]).items():
            here = network.coordinates(rank)
            right += step == least[residue((here[0] - x, here[1] - y), a, b)]
        yield {"network": name_of(network)} | row(key, right, trials[source])


def products(cache: RunCache) -> Iterator[dict[str, object]]:
    """Check eq. (11) in two dimensions: links that change one coordinate to a neighbour, and distances that add up."""
    for a, b in PRODUCTS:
        network, factor = EisensteinJacobi(a, b, 2), EisensteinJacobi(a, b, 1)
        one, two = (cache.run(each, "broadcast", "flood") for each in (factor, network))
        if cache.rehearsing:
            continue
        order = factor.order
        row = stated("hussain_distances", N=order, distances=_sums(one.series("receivers_per_step")))
        about = {"network": name_of(network)}
        changed = sum(
            (low == other_low and high in factor.neighbours(other_high))
            or (high == other_high and low in factor.neighbours(other_low))
            for rank in network.ranks()
            for other in network.neighbours(rank)
            for (high, low), (other_high, other_low) in [(divmod(rank, order), divmod(other, order))]
        )
        yield about | row("nodes", network.order)
        yield about | row("links", changed)
        yield about | row("distances", (1, *two.series("receivers_per_step")), two)


def _sums(receivers: list[int]) -> tuple[int, ...]:
    """Return the number of pairs of nodes at each sum of distances."""
    counts = [1, *receivers]
    found = [0] * (2 * len(counts) - 1)
    for (one, many), (other, more) in product(enumerate(counts), repeat=2):
        found[one + other] += many * more
    return tuple(found)
