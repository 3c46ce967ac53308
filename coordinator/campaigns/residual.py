"""Residual reliability of an algorithm: the sets of faults that it survives, by size, and the polynomial of these numbers.

A set is survived if no healthy node misses a message. If each of m places fails with probability q, independently, then the
algorithm serves every healthy node with probability R(q) = sum over k of N_k q^k (1 - q)^(m - k), where N_k sets of k places
are survived. Sizes that were not enumerated leave bounds: none or all of their sets.
"""

from fractions import Fraction
from math import comb
from typing import Final, NamedTuple

from coordinator.campaigns.store import FinishedTrials
from coordinator.campaigns.tables import families

PROBABILITIES: Final = ("0.01", "0.05", "0.1")


class Residual(NamedTuple):
    """The fault sets of one kind that one variant survives, by size."""

    variant: str
    faults: str
    """The kind, such as `crashed nodes`."""
    places: int
    """Nodes or links that may fail."""
    survived: dict[int, int]
    """By number of faults whose sets were all run: the sets that are survived."""

    def reliability(self, probability: str) -> tuple[float, float]:
        """Return the bounds on R(q); equal if the sets of every size were run. `probability` is q as a decimal number."""
        q, m = Fraction(probability), self.places
        weights = [q**k * (1 - q) ** (m - k) for k in range(m + 1)]
        low = sum((weights[k] * sets for k, sets in self.survived.items()), Fraction(0))
        unknown = (weights[k] * comb(m, k) for k in range(m + 1) if k not in self.survived)
        return float(low), float(low + sum(unknown, Fraction(0)))

    def record(self) -> dict[str, object]:
        """Return the residual as plain values; bounds are pairs of numbers."""
        bounds = {q: list(self.reliability(q)) for q in PROBABILITIES}
        return {**self._asdict(), "reliability": bounds}


def residuals(store: FinishedTrials) -> list[Residual]:
    """Return for each variant and kind of faults the sizes with all sets run; none for kinds without such a size.

    A size with an undecided set is left out.
    """
    grid, numbers = store.grid, store.numbers()
    results = []
    for at, variant in enumerate(grid.variants):
        for name, points in families(grid).items():
            survived: dict[int, int] = {}
            places = 0
            for point, _ in points:
                fault_set = grid.points[point]
                # Losses draw random numbers: one trial says little about such a set. Sources are no part of the definition.
                if (
                    fault_set.how != "all"
                    or fault_set.sources
                    or len(fault_set.parts) != 1
                    or grid.is_random(fault_set, at)
                ):
                    continue
                counts = store.counts(point, at, numbers.get((point, at), []))
                if counts.decided == grid.set_count(point, at):
                    sites = grid.places[at]
                    places = len(sites.links if fault_set.parts[0].on_links else sites.nodes())
                    survived[fault_set.size] = counts.served
            if survived:
                results.append(Residual(variant.name, name, places, dict(sorted(survived.items()))))
    return results
