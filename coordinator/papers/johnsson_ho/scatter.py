"""One-to-all personalised communication on the hypercube: Johnsson and Ho 1986, section 5, tables 7 to 9, section 5.1.4."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations, pairwise, product
from math import ceil, comb, log2

from coordinator.papers.base import Reproduction, Section
from coordinator.papers.johnsson_ho.common import (
    ALL,
    COLLECTIVE_BOUNDS,
    ONE,
    PAPER,
    RATIO_NOTE,
    ROOTS_NOTE,
    SIZES,
    Case,
    Cost,
    Entry,
    Optimum,
    binomial_root,
    cost_rows,
    optimum_rows,
    rotated_root,
)
from coordinator.papers.run_cache import RunCache
from coordinator.papers.tables import ERRATUM, VERDICT, Table, compared, notes, row_verdict
from coordinator.results.claims import Verdict
from emunode.algorithms.hypercube.scatter_rest import ReflectionsScatter, RestScatter, RotationsScatter
from emunode.model import Port, Rank
from emunode.topologies.hypercube import Hypercube
from emunode.trees.hypercube.reflected import Turn, TurnedBinomialTrees

NOTES = notes("johnsson_ho", "scatter")

PACKETS = (Fraction(1, 2), Fraction(1), Fraction(4), None)
"""B/M of the rows of table 7."""


def _gray(case: Case) -> Cost:
    packet = case.packet or Fraction(case.order)
    packets = 2 * case.packets(case.order - 1) - int(1 / packet)
    return Cost(max(packets, 2 * case.order - 3), 2 * case.order - 3)


def _rotated(case: Case) -> Cost:
    n, order = case.n, case.order
    rising = [Fraction(order - 2**i, n) for i in range(1, n)]
    return Cost(case.sum_of(rising + [Fraction(2**i - 1, n) for i in range(1, n + 1)]), order - 1)


def _balanced(case: Case) -> Cost:
    n, order = case.n, case.order
    startups = n * case.packets(Fraction(order, n)) + case.packets(Fraction(2 * order * log2(n) / n))
    return Cost(startups, order * (1 + 2 * log2(n) / n))


def _by_level(case: Case) -> Cost:
    n = case.n
    return Cost(case.sum_of([Fraction(comb(n, i), n) for i in range(n)]), Fraction(case.order - 1, n))


def _tworooted(case: Case) -> Cost:
    n, order = case.n, case.order
    return Cost(2 * case.sum_of([2**i - 1 for i in range(1, n)]), 2 * order - 2 * n - 1)


def _tworooted_levels(case: Case) -> Cost:
    n, order = case.n, case.order
    halves = [Fraction(order, 2**i) for i in range(2, n + 1)]
    return Cost(case.packets(Fraction(order, 4)) + case.sum_of(halves), Fraction(3 * order, 4) - 1)


TABLE_7 = (
    Entry(
        "BRG, one-port",
        "brg",
        ONE,
        _gray,
        cut=lambda case: int(1 / case.packet) if case.packet and case.packet < 1 else 1,
    ),
    Entry(
        "SBT, one-port",
        "sbt",
        ONE,
        lambda case: Cost(case.sum_of([2**i for i in range(case.n)]), case.order - 1),
    ),
    Entry("nRSBT, one-port", "nrsbt", ONE, _rotated),
    Entry("TCBT, one-port", "tcbt", ONE, _tworooted, approximate=True, erratum=True),
    Entry("SBnT, one-port", "sbntc", ONE, _balanced, approximate=True),
    Entry(
        "nRBRG, n-port",
        "nrbrg",
        ALL,
        lambda case: Cost(
            case.sum_of([Fraction(i, case.n) for i in range(1, case.order)]),
            Fraction(case.order * (case.order - 1), 2 * case.n),
        ),
    ),
    Entry(
        "SBT, n-port",
        "sbt",
        ALL,
        lambda case: Cost(case.sum_of([comb(case.n - 1, i) for i in range(case.n)]), Fraction(case.order, 2)),
    ),
    Entry("nRSBT, n-port", "nrsbt", ALL, _by_level),
    Entry("TCBT, n-port", "tcbt", ALL, _tworooted_levels, approximate=True),
    Entry("SBnT, n-port", "sbntc", ALL, _by_level),
)


TABLE_8 = (
    Optimum("BRG", "brg", ONE, lambda _: 1, lambda n: Cost(2 * 2**n - 3, 2 * 2**n - 3)),
    Optimum("SBT", "sbt", ONE, lambda n: 2 ** (n - 1), lambda n: Cost(n, 2**n - 1)),
    Optimum(
        "TCBT",
        "tcbt",
        ONE,
        lambda n: 2 ** (n - 1),
        lambda n: Cost(2 * n - 2, 2 * 2**n - 2 * n - 1),
        at_most=True,
    ),
    Optimum("nRSBT", "nrsbt", ONE, lambda n: Fraction(2**n - 1, n), lambda n: Cost(2 * n - 1, 2**n - 1)),
    Optimum(
        "SBnT",
        "sbnt",
        ONE,
        lambda n: Fraction(2**n - 1, n),
        lambda n: Cost(2 * n - 2, 2**n * (1 + 2 * log2(n) / n)),
        at_most=True,
        erratum=True,
    ),
    Optimum(
        "SBnTc",
        "sbntc",
        ONE,
        lambda n: Fraction(2**n - 1, n),
        lambda n: Cost(2 * n - 2, 2**n * (1 + 2 * log2(n) / n)),
        at_most=True,
        erratum=True,
    ),
)


TABLE_9 = (
    Optimum(
        "nRBRG",
        "nrbrg",
        ALL,
        lambda n: Fraction(2**n - 1, n),
        lambda n: Cost(2**n - 1, Fraction(2**n * (2**n - 1), 2 * n)),
    ),
    Optimum("SBT", "sbt", ALL, binomial_root, lambda n: Cost(n, 2 ** (n - 1)), roots=True),
    Optimum("TCBT", "tcbt", ALL, lambda n: Fraction(2**n, 4), lambda n: Cost(n, Fraction(3 * 2**n, 4) - 1)),
    Optimum("nRSBT", "nrsbt", ALL, rotated_root, lambda n: Cost(n, Fraction(2**n - 1, n)), roots=True),
    Optimum("SBnT", "sbntc", ALL, rotated_root, lambda n: Cost(n, Fraction(2**n - 1, n)), roots=True),
)


# --- section 5.1.4: what is left over when n does not divide M ----------------------------------------------------------

Loads = Counter[tuple[Rank, Port]]
"""Elements on each directed link."""


@dataclass(frozen=True)
class Rest:
    """How k elements that are left over are spread: the algorithm that does it, and what is printed and right."""

    name: str
    algorithm: type[RestScatter]
    printed: Callable[[int, int], Fraction | None]
    """The largest edge load for n and k; None where the text has no formula."""
    choices: Callable[[int, int], Iterator[tuple[Turn, ...]]]
    """Every choice of k trees of this kind."""


def _printed_rotations(n: int, k: int) -> Fraction | None:
    return Fraction((2**n - 1) * 2 ** (k // 2 - 1), 2 ** (k // 2) - 1) if k % 2 == 0 else None


def _printed_reflections(n: int, k: int) -> Fraction:
    return Fraction((2**n - 1) * (2 ** (2 * n // k - 1) + 1), 2 ** (2 * n // k) - 1)


def _rotation_choices(n: int, k: int) -> Iterator[tuple[Turn, ...]]:
    yield from combinations([(turn, False) for turn in range(n)], k)


def _reflection_choices(n: int, k: int) -> Iterator[tuple[Turn, ...]]:
    halves = ([*combinations([(turn, mirrored) for turn in range(n)], k // 2)] for mirrored in (False, True))
    yield from (plain + mirrored for plain, mirrored in product(*halves))


RESTS = (
    Rest("rotations", RotationsScatter, _printed_rotations, _rotation_choices),
    Rest("rotations and reflections", ReflectionsScatter, _printed_reflections, _reflection_choices),
)


def _rests(cache: RunCache) -> Iterator[dict[str, object]]:
    """The largest load of a link when k elements of every block are left over, of each kind and every k that it has."""
    for n in cache.sizes:
        for k in range(1, n):
            yield from (_rest_row(cache, rest, n, k) for rest in RESTS if rest.algorithm.admits(n, k))


def _rest_row(cache: RunCache, rest: Rest, n: int, k: int) -> dict[str, object]:
    trial = cache.run(topology=f"hypercube:{n}", collective="scatter", algorithm=rest.algorithm.name, message_bytes=k)
    predicted, best = rest.algorithm.edge_load_of(n, k), best_choice(n, rest.choices(n, k))
    printed, least = rest.printed(n, k), ceil(Fraction(k * (2**n - 1), n))
    found = int(trial.table("links")["bytes"].max())  # type: ignore[arg-type]
    paper = None if printed is None else f"{printed}{'' if printed == predicted else f' {ERRATUM}'}"
    row = compared(predicted, found, trial, paper=paper, bound=least)
    agrees = row[VERDICT] == Verdict.HOLDS and best == predicted and (rest.name == "rotations" or printed == predicted)
    row[VERDICT] = row_verdict(agrees, trials=[trial])
    return {"n": n, "M mod n": k, "trees": rest.name, "best of all choices": best} | row


@cache
def edge_loads(n: int, turn: Turn) -> Loads:
    """Elements on each link when one tree carries one element to every node, by walking the paths."""
    trees = TurnedBinomialTrees(Hypercube(n), [turn])
    paths = (trees.path(rank, 0) for rank in range(1, 2**n))
    return Counter((here, (here ^ there).bit_length() - 1) for path in paths for here, there in pairwise(path))


def best_choice(n: int, choices: Iterable[Sequence[Turn]]) -> int:
    """The least, over all choices of trees, of the largest load of a link."""
    return min(max(sum((edge_loads(n, turn) for turn in turns), Counter()).values()) for turns in choices)


def build(cache: RunCache) -> Iterator[Section]:
    """Tables 7, 8 and 9."""
    bound = COLLECTIVE_BOUNDS["scatter"]
    rows = cost_rows(cache, "scatter", TABLE_7, PACKETS, bound)
    yield Table("Table 7: one-to-all personalised communication", rows, (*RATIO_NOTE, *NOTES["table_7"]))
    yield Table("Table 8: the optimum over one port", optimum_rows(cache, "scatter", TABLE_8), NOTES["table_8"])
    yield Table("Table 9: the optimum over n ports", optimum_rows(cache, "scatter", TABLE_9), ROOTS_NOTE)
    yield Table("Section 5.1.4: elements left over when n does not divide M", _rests(cache), NOTES["rest"])


REPRODUCTION = Reproduction(
    name="johnsson-ho-scatter",
    title="Personalised communication from one node of a hypercube",
    paper=f"{PAPER}, section 5, tables 7 to 9, and what is left over when n does not divide M",
    description="T, B_opt and T_min of seven spanning graphs, printed, in closed form and measured.",
    build=build,
    sizes=SIZES,
)
