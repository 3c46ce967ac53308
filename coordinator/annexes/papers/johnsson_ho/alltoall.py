"""All-to-all personalised communication on the hypercube: Johnsson and Ho 1986, section 7, tables 15 to 18."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from math import comb, pi, sqrt

from coordinator.annexes.papers.base import Section, described
from coordinator.annexes.papers.johnsson_ho.common import (
    ALL,
    ONE,
    SIZES,
    CubeCase,
    cost_tables,
    measured,
    printed_times,
    text,
    trial_of,
)
from coordinator.annexes.papers.run_cache import RunCache
from coordinator.annexes.papers.tables import ERRATUM, VERDICT, Table, notes, row_verdict

NOTES = notes("johnsson_ho", "alltoall")


def binomial_transfer(n: int) -> int:
    """Return the transfer of SBT over n ports in messages: the sum of table 17 in closed form.

    The sum of C(2l, l) 2^(n-2l-1) over l = 0..L is (2L+1) C(2L, L) 2^(n-1-2L); the rest is half a row of Pascal's triangle.
    """
    half = (n - 1) // 2
    central = comb(2 * half, half)
    rest = 2 ** (n - 2) if n % 2 == 0 else (2 ** (n - 1) - central) // 2
    return int((2 * half + 1) * central * 2 ** (n - 1 - 2 * half) + rest)


EVALUATED_SIZES = (8, 16, 32, 64, 128, 256, 512)


def _constants(cache: RunCache) -> Iterator[dict[str, object]]:
    """Compare transfer over sqrt(n) N, measured for small cubes and evaluated for large ones, where it tends to
    1/sqrt(2π).
    """
    sbt = next(entry for entry in printed_times(17) if entry.graph == "SBT")
    for n in [*cache.sizes, *EVALUATED_SIZES]:
        exact, table_17 = binomial_transfer(n), sbt.printed(CubeCase(n)).transfer
        scale = sqrt(n) * 2.0**n
        asymptotic = sqrt(n / (2 * pi)) + 0.25
        trial = trial_of(cache, "alltoall", "sbt", ALL, n) if n in cache.sizes else None
        found = measured(trial, CubeCase(n)).transfer if trial else None
        yield {
            "n": n,
            "paper": f"O(√n) N M t_c {ERRATUM}",
            "predicted": exact if n in cache.sizes else None,
            "measured": None if found is None else int(found),
            "over √n N": round(exact / scale, 6),
            "(√(n/2π) + 1/4) / √n": round(asymptotic / sqrt(n), 6),
            VERDICT: row_verdict(
                exact == table_17,
                found is None or found == exact,
                # Stirling's formula is off by a term of order 1/sqrt(n) in this unit
                abs(exact / 2.0**n - asymptotic) <= 1 / sqrt(n),
                trials=[trial] if trial else [],
            ),
        }


GRAPHS_7_5: tuple[tuple[str, str, Callable[[int], Fraction], Callable[[int], int]], ...] = (
    ("BRG", "brg", lambda n: Fraction((1 << n) * ((1 << n) - 1), 2), lambda n: (1 << n) - 1),
    ("SBT", "sbt", lambda n: Fraction(n << n, 2), lambda n: n),
    ("nRSBT", "nrsbt", lambda n: Fraction(n << n, 2), lambda n: n),
    ("nESBT", "nesbt", lambda n: Fraction(n << n, 2) + (1 << n) - 2, lambda n: n + 1),
    ("SBnT", "sbnt", lambda n: Fraction(n << n, 2), lambda n: n),
)
"""Graph, algorithm, the sum of the levels of all nodes in closed form (lemma 3.23 for nESBT), and the height."""


def _theorem_7_5(cache: RunCache) -> Iterator[dict[str, object]]:
    """Check bandwidth per node and start-ups over one port; a graph meets the bound on transfer if and only if it is
    greedy.
    """
    for (graph, algorithm, levels, height), n in product(GRAPHS_7_5, cache.sizes):
        trial = trial_of(cache, "alltoall", algorithm, ONE, n)
        order, bound = 1 << n, Fraction(n << n, 2)
        bandwidth = Fraction(int(trial.number("bytes")), order * int(trial.number("message_bytes")))
        transfer, startups = measured(trial, CubeCase(n)).transfer, int(trial.number("startups"))
        greedy = levels(n) == bound
        yield {
            "graph": graph,
            "n": n,
            "greedy": "yes" if greedy else "no",
            "height": height(n),
            "predicted": text(levels(n)),
            "measured": text(bandwidth),
            "transfer": text(transfer),
            "lower bound": text(bound),
            "start-ups": startups,
            "least start-ups": n,
            VERDICT: row_verdict(
                bandwidth == levels(n),
                (transfer == bound) == greedy,
                transfer >= bandwidth,
                startups >= height(n),
                height(n) == n or startups > n,
                trials=[trial],
            ),
        }


def build(cache: RunCache) -> Iterator[Section]:
    """Yield tables 15 to 18, and theorem 7.5."""
    yield from cost_tables(cache, "alltoall", range(15, 19), NOTES)
    yield Table(
        "Theorem 7.5: graphs that are not greedy, or not of least height", _theorem_7_5(cache), NOTES["theorem_7_5"]
    )
    yield Table("Table 18: the constant of the transfer by SBT", _constants(cache), NOTES["constant"])


REPRODUCTION = described("johnsson_ho", "alltoall", build, SIZES)
