"""Every small set of faults under the edge-disjoint trees of Fragopoulou and Akl 1996: nodes, edges, and election.

With x copies of a message on x trees, x - 1 faulty nodes or edges that block messages leave every healthy node a copy. If
faults alter messages, nodes elect the value that most copies have, and x copies bear fewer than x/2 such faults. Where all
n - 1 trees are used, the cycle rotation maps the trees to each other, and one set of each orbit stands for all.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, product

from coordinator.annexes.papers.fragopoulou_akl.theorems import rotate
from coordinator.annexes.papers.run_cache import CachedRun, RunCache
from coordinator.annexes.papers.tables import Table, compared, notes, printed, unmeasured
from emunode.model import Rank
from emunode.topologies.star import StarGraph

NOTES = notes("fragopoulou_akl", "faults")

FaultySite = frozenset[Rank]
"""One rank is a node, two are the ends of an edge."""
NODES, EDGES, BOTH = "nodes", "edges", "a node and an edge"


@dataclass(frozen=True)
class FaultCase:
    """All sets of `count` faults in S_n while every message travels on x trees."""

    n: int
    x: int
    kind: str
    count: int
    alters: bool = False

    @property
    def promised(self) -> bool:
        """Whether every healthy node must get, or elect, the right message."""
        return self.count < self.x if not self.alters else 2 * self.count < self.x

    @property
    def faulty(self) -> str:
        """The faults in words, such as `2 nodes`."""
        if self.kind == BOTH:
            return BOTH
        return f"{self.count} {self.kind}" if self.count > 1 else f"1 {self.kind.removesuffix('s')}"


CASES = [
    FaultCase(int(row["n"]), int(row["x"]), row["kind"], int(row["count"]), alters=bool(row["alters"]))
    for row in printed("fragopoulou_akl_1996_faults")
]
BLOCKING, ALTERING = ([case for case in CASES if case.alters == alters] for alters in (False, True))


def fault_tables(cache: RunCache) -> Iterator[Table]:
    """Yield blocking and altering faults, for the sizes that have fault sets."""
    for title, cases, notes_below in (
        ("Every set of faulty nodes and edges, in a broadcast", BLOCKING, NOTES["blocking"]),
        ("Election: every set of nodes and edges that alter messages, in a broadcast", ALTERING, NOTES["altering"]),
    ):
        if rows := [_row(cache, case) for case in cases if case.n in cache.sizes]:  # the largest size has none
            yield Table(title, rows, notes_below)


def _row(cache: RunCache, case: FaultCase) -> dict[str, object]:
    star = StarGraph(case.n)
    chosen = orbits(star, fault_sets(star, case)) if case.x == star.degree else dict.fromkeys(fault_sets(star, case), 1)
    trials = [run_case(cache, star, case, faults) for faults in chosen]
    sets = sum(chosen.values())
    served = _total(chosen.values(), (trial.number("delivery_ratio") == 1 for trial in trials))
    row: dict[str, object] = {"n": case.n, "x": case.x, "faulty": case.faulty, "sets": sets, "runs": len(trials)}
    if case.alters:
        for what in ("wrong", "none"):
            row[f"elected {what}"] = _total(chosen.values(), (trial.number(f"elected_{what}") for trial in trials))
    if case.promised:
        return row | compared(sets, served, *trials, paper="all survived")
    return row | unmeasured(sets, paper="no claim") | {"predicted": None, "measured": served}


def _total(sizes: Iterable[int], values: Iterable[float]) -> int:
    return sum(size * int(value) for size, value in zip(sizes, values, strict=True))


def fault_sets(star: StarGraph, case: FaultCase) -> Iterator[frozenset[FaultySite]]:
    """Return all sets of a case; the source, rank 0, is never a faulty node."""
    nodes = [frozenset((rank,)) for rank in range(1, star.order)]
    edges = sorted({frozenset((rank, there)) for rank in star.ranks() for there in star.neighbours(rank)}, key=sorted)
    if case.kind == BOTH:
        return (frozenset(pair) for pair in product(nodes, edges))
    return map(frozenset, combinations(nodes if case.kind == NODES else edges, case.count))


def orbits(star: StarGraph, sets: Iterable[frozenset[FaultySite]]) -> dict[frozenset[FaultySite], int]:
    """Return one set of each orbit of the cycle rotation, with the size of the orbit."""
    turned = [star.rank_of(rotate(star.permutation(rank))) for rank in star.ranks()]
    seen: set[frozenset[FaultySite]] = set()
    found: dict[frozenset[FaultySite], int] = {}
    for first in sets:
        if first not in seen:
            orbit, image = {first}, first
            while (image := frozenset(frozenset(turned[rank] for rank in site) for site in image)) not in orbit:
                orbit.add(image)
            seen |= orbit
            found[first] = len(orbit)
    return found


def run_case(cache: RunCache, star: StarGraph, case: FaultCase, faults: frozenset[FaultySite]) -> CachedRun:
    """Return one broadcast with these faults."""
    fault = tuple(_fault(star, case, site) for site in sorted(faults, key=sorted))
    return cache.run(star, "broadcast", "edt", messages=1, redundancy=case.x, fault=fault)


def _fault(star: StarGraph, case: FaultCase, site: FaultySite) -> str:
    ends = [star.label(rank) for rank in sorted(site)]
    if len(ends) == 1:
        return f"{'byzantine' if case.alters else 'crash'}:{ends[0]}@1"
    return f"corrupt:{ends[0]}~{ends[1]}:1" if case.alters else f"down:{ends[0]}~{ends[1]}@1"
