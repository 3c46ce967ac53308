"""One-to-all personalised communication on the hypercube: Johnsson and Ho 1986, section 5, tables 7 to 9, section 5.1.4."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations, pairwise, product
from math import ceil

from coordinator.annexes.papers.base import Section, described
from coordinator.annexes.papers.formulas import Cost
from coordinator.annexes.papers.johnsson_ho.common import (
    BESIDE,
    MESSAGE_BYTES,
    ONE,
    SIZES,
    CubeCase,
    PrintedTime,
    cost_tables,
    cost_text,
    printed_times,
    text,
    trial_of,
)
from coordinator.annexes.papers.run_cache import RunCache
from coordinator.annexes.papers.tables import ERRATUM, VERDICT, Table, compared, notes, row_verdict
from coordinator.results.claims import Verdict
from emunode.algorithms.hypercube.scatter_rest import ReflectionsScatter, RestScatter, RotationsScatter
from emunode.model import Port, Rank
from emunode.topologies.hypercube import Hypercube
from emunode.trees.hypercube.reflected import Turn, TurnedBinomialTrees

NOTES = notes("johnsson_ho", "scatter")


def _gray(case: CubeCase) -> Cost:
    packet = case.packet or Fraction(case.order)
    packets = 2 * case.packets(case.order - 1) - int(1 / packet)
    return Cost(max(packets, 2 * case.order - 3), 2 * case.order - 3)


def _gray_segments(case: CubeCase) -> int:
    return int(1 / case.packet) if case.packet and case.packet < 1 else 1


GRAY_PATH = PrintedTime("BRG, one-port", "brg", ONE, _gray, cut=_gray_segments)
TABLE_7 = (GRAY_PATH, *printed_times(7))


# --- sections 4.1 and 5.1: one send beside one receive, and the packets of nRSBT ------------------------------------------


def _beside(cache: RunCache) -> Iterator[dict[str, object]]:
    """Compare BRG: T = (N-1) M t_c + max(ceil((N-1) M/B), N-1) tau; messages longer than B are cut."""
    for n, packet in product(cache.sizes, (Fraction(1, 2), Fraction(1), Fraction(4))):
        size, limit = MESSAGE_BYTES, int(MESSAGE_BYTES * packet)
        about = {"port_model": BESIDE, "message_bytes": size, "segments": max(1, size // limit), "packet_limit": limit}
        trial = cache.run(f"hypercube:{n}", "scatter", "brg", **about)
        order = 1 << n
        printed = Cost(max(ceil((order - 1) / packet), order - 1), order - 1)
        found = Cost(int(trial.number("startups")), Fraction(int(trial.number("transfer_bytes")), size))
        yield {
            "graph": "BRG",
            "n": n,
            "B/M": text(packet),
            "paper": cost_text(printed),
            "predicted": cost_text(printed),
            "measured": cost_text(found),
            "lower bound": cost_text(Cost(n, order - 1)),
            VERDICT: row_verdict(found.equals(printed), trials=[trial]),
        }


def packet_of_nrsbt(n: int, cycle: int) -> Fraction:
    """Return the packet of a cycle in messages, section 5.1.4: N/n (1 - 2^-(i+1)) up to n - 1, then N/n (2^-(i+1-n) -
    1/N).
    """
    order = 1 << n
    share = 1 - Fraction(1, 2 ** (cycle + 1)) if cycle < n else Fraction(1, 2 ** (cycle + 1 - n)) - Fraction(1, order)
    return Fraction(order, n) * share


def _packets(cache: RunCache) -> Iterator[dict[str, object]]:
    for n in cache.sizes:
        trial = trial_of(cache, "scatter", "nrsbt", ONE, n)
        found = [Fraction(load, MESSAGE_BYTES) for load in trial.series("heaviest_link_bytes_per_step")]
        wanted = [packet_of_nrsbt(n, cycle) for cycle in range(2 * n - 1)]
        yield {
            "n": n,
            "paper": "N/n (1 - 2^-(i+1)), i < n; N/n (2^-(i+1-n) - 1/N)",
            "predicted": ", ".join(map(text, wanted)),
            "measured": ", ".join(map(text, found)),
            VERDICT: row_verdict(found == wanted, trials=[trial]),
        }


# --- section 5.1.4: elements left over when n does not divide M ----------------------------------------------------------

Loads = Counter[tuple[Rank, Port]]
"""Elements on each directed link."""


@dataclass(frozen=True)
class Rest:
    """A way to spread k elements that are left over: its algorithm, the printed load and all choices of trees."""

    name: str
    algorithm: type[RestScatter]
    printed: Callable[[int, int], Fraction | None]
    """The largest edge load for n and k; None where the text has no formula."""
    choices: Callable[[int, int], Iterator[tuple[Turn, ...]]]
    """Every choice of k trees of this kind."""


def _printed_rotations(n: int, k: int) -> Fraction | None:
    # section 5.1.4 prints the exponents k/2 where n/k is meant
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
    """Yield the largest load of a link when k elements of every block are left over, for each kind and admissible k."""
    for n in cache.sizes:
        for k in range(1, n):
            yield from (_rest_row(cache, rest, n, k) for rest in RESTS if rest.algorithm.admits(n, k))


def _rest_row(cache: RunCache, rest: Rest, n: int, k: int) -> dict[str, object]:
    trial = cache.run(f"hypercube:{n}", "scatter", rest.algorithm.name, message_bytes=k)
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
    """Count the elements on each link along the paths, when one tree carries one element to every node."""
    trees = TurnedBinomialTrees(Hypercube(n), [turn])
    paths = (trees.path(rank, 0) for rank in range(1, 2**n))
    return Counter((here, (here ^ there).bit_length() - 1) for path in paths for here, there in pairwise(path))


def best_choice(n: int, choices: Iterable[Sequence[Turn]]) -> int:
    """Return the minimum over all choices of trees of the largest link load."""
    return min(max(sum((edge_loads(n, turn) for turn in turns), Counter()).values()) for turns in choices)


def build(cache: RunCache) -> Iterator[Section]:
    """Yield tables 7, 8 and 9."""
    yield from cost_tables(cache, "scatter", (7, 8, 9), NOTES, first=[GRAY_PATH])
    yield Table("Section 5.1: T of BRG where a node may send beside receiving", _beside(cache))
    yield Table("Section 5.1.4: packets of nRSBT over one port, cycle by cycle, in messages", _packets(cache))
    yield Table("Section 5.1.4: elements left over when n does not divide M", _rests(cache), NOTES["rest"])


REPRODUCTION = described("johnsson_ho", "scatter", build, SIZES)
