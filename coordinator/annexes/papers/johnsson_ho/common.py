"""The common parts of the tables of Johnsson and Ho (YALEU/DCS/TR-500, 1986): T = start-ups τ + transfer t_c.

Each row shows T as printed, as predicted by the closed forms of the algorithms, and as measured.

The tables cover n = 2..6 here, N = 2^n. M is the length of a message in bytes (the elements of the report); it is a
multiple of every n, so that parts are equal. B is the largest packet. One run without a packet limit measures the
heaviest link of every cycle; the start-ups for any B are the sum of ceil(x/B) over the cycles. A run must hold all
claims of its algorithm and must have the cost that the closed form predicts. The print must agree unless it is an
erratum or marked approximate.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import ceil

from coordinator.annexes.papers.formulas import Cost, Number, evaluate, evaluate_terms, same
from coordinator.annexes.papers.run_cache import CachedRun, RunCache
from coordinator.annexes.papers.tables import ERRATUM, VERDICT, Table, marked, notes, printed, row_verdict

SIZES = range(2, 7)
MESSAGE_BYTES = 60
"""M: a multiple of every n, and of 2 n for the halves of optimal packets."""
ONE, ALL = "exchange", "all-port"
BESIDE, EITHER = "one-port", "send-or-receive"
PORTS = {ONE: "one-port", ALL: "n-port", BESIDE: "send beside receive", EITHER: "send or receive"}
"""The paper's names of the port models; the last two are variants of one-port."""
PACKETS = (Fraction(1, 2), Fraction(1), Fraction(4), None)
"""B/M of the rows of a table of T."""


def formula(text: str) -> Callable[[int], Number]:
    """Return a printed formula in n, N = 2^n and M = `MESSAGE_BYTES`, as a function of n."""
    return lambda n: evaluate(text, n=n, N=1 << n, M=MESSAGE_BYTES)


@dataclass(frozen=True)
class CubeCase:
    """The parameters of a formula: n, and `packet` = B/M, None for packets of any size."""

    n: int
    packet: Fraction | None = None

    @property
    def order(self) -> int:
        """N."""
        return 1 << self.n

    def packets(self, messages: Number) -> int:
        """Return ceil(x M / B) for x messages."""
        return ceil(Fraction(messages) / self.packet) if self.packet else 1

    def sum_of(self, loads: Iterable[Number]) -> int:
        """Return the start-ups for these loads, in messages."""
        return sum(self.packets(load) for load in loads if load)


@dataclass(frozen=True)
class PrintedTime:
    """One line of a table of T, as printed."""

    graph: str
    """As the paper names it."""
    algorithm: str
    ports: str
    printed: Callable[[CubeCase], Cost]
    marks: str = ""
    """`approximate` if the paper says so, `erratum` if a note of the table explains the difference from the print."""
    cut: Callable[[CubeCase], int] = lambda _: 1
    """Number of segments, where the schedule itself depends on B."""


def printed_times(table: int) -> list[PrintedTime]:
    """Return the lines of a table of T."""
    return [
        PrintedTime(
            row["graph"],
            row["algorithm"],
            row["ports"],
            time_formula(row["loads"], row["least startups"], row["transfer"]),
            row["marks"],
        )
        for row in printed("johnsson_ho_times")
        if row["table"] == str(table)
    ]


def time_formula(loads: str, least_startups: str, transfer: str) -> Callable[[CubeCase], Cost]:
    """Return T from the loads of the heaviest link in each cycle; they add up to the transfer if none is printed."""

    def cost(case: CubeCase) -> Cost:
        terms = evaluate_terms(loads, n=case.n, N=case.order)
        least = evaluate(least_startups, n=case.n) if least_startups else 0
        moved = evaluate(transfer, n=case.n, N=case.order) if transfer else sum(terms)
        return Cost(max(least, case.sum_of(terms)), moved)

    return cost


@dataclass(frozen=True)
class PrintedOptimum:
    """One line of a table of B_opt and T_min, both in messages, as printed."""

    collective: str
    graph: str
    algorithm: str
    ports: str
    packet: Callable[[int], Number]
    """B_opt / M."""
    least: Callable[[int], Cost]
    """T_min."""
    marks: str = ""
    """`roots` if B_opt is the asymptotic form of a binomial coefficient, `at_most` if T_min is an upper bound, `erratum`,
    and `misprint` if B_opt is printed wrong and the correct formula is known."""
    order: str = ""
    """The transfer, where the paper prints only an order of growth."""


def printed_optima(table: int) -> list[PrintedOptimum]:
    """Return the lines of a table of optima."""
    return [
        PrintedOptimum(
            row["collective"],
            row["graph"],
            row["algorithm"],
            row["ports"],
            formula(row["B_opt / M"]),
            _cost_formula(row["startups"], row["transfer"]),
            row["marks"],
            row["order"],
        )
        for row in printed("johnsson_ho_optima")
        if row["table"] == str(table)
    ]


def _cost_formula(startups: str, transfer: str) -> Callable[[int], Cost]:
    return lambda n: Cost(formula(startups)(n), formula(transfer)(n))


def text(value: Number) -> str:
    """Write fractions exactly, roots and logarithms to four digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def cost_text(cost: Cost) -> str:
    """Write T like the paper."""
    return f"{text(cost.startups)} τ + {text(cost.transfer)} M t_c"


def trial_of(cache: RunCache, collective: str, algorithm: str, ports: str, n: int, segments: int = 1) -> CachedRun:
    """Return a run without a packet limit."""
    return cache.run(
        f"hypercube:{n}", collective, algorithm, port_model=ports, message_bytes=MESSAGE_BYTES, segments=segments
    )


def measured(trial: CachedRun, case: CubeCase) -> Cost:
    """Return the start-ups and transfer of the heaviest links, for the packets of the case."""
    size = int(trial.number("message_bytes"))
    loads = [Fraction(load, size) for load in trial.series("heaviest_link_bytes_per_step")]
    return Cost(case.sum_of(loads), sum(loads, Fraction(0)))


def predicted(trial: CachedRun, case: CubeCase) -> Cost:
    """Return the start-ups and transfer by the closed forms that the algorithm itself claims."""
    claims = {claim.name: claim.predicted for claim in trial.plan.algorithm.claims() if claim.relation == "=="}
    loads = claims.get("heaviest_link_segments_per_step")
    if not isinstance(loads, tuple):
        startups, transfer = claims["startups"], claims["transfer_bytes"]
        assert isinstance(startups, int)
        assert isinstance(transfer, int)
        return Cost(startups, Fraction(transfer, int(trial.number("message_bytes"))))
    pieces = trial.plan.algorithm.segments_per_message
    parts = [Fraction(load, pieces) for load in loads]
    return Cost(case.sum_of(parts), sum(parts, Fraction(0)))


def largest_packet(trial: CachedRun) -> Fraction:
    """Return B_opt / M: the load of the heaviest link in the heaviest cycle of a run without a packet limit."""
    return Fraction(max(trial.series("heaviest_link_bytes_per_step")), int(trial.number("message_bytes")))


def cost_row(
    about: Mapping[str, object],
    costs: tuple[Cost, Cost, Cost],
    least: Cost,
    trial: CachedRun,
    *,
    packets: int = 1,
    marks: str = "",
) -> dict[str, object]:
    """Return a row of a table of T for the costs as printed, predicted and measured, and the lower bound.

    The ratio to the lower bound compares times if one start-up costs as much as one of `packets` parts of a message.
    The print may differ if `marks` says that it is approximate or an erratum.
    """
    paper, closed, found = costs
    agrees = closed.equals(paper)
    approximately = "≈ " if "approximate" in marks else ""
    return {
        **about,
        "paper": approximately + marked(cost_text(paper), erratum="erratum" in marks and not agrees),
        "predicted": cost_text(closed),
        "measured": cost_text(found),
        "lower bound": cost_text(least),
        "ratio": round(found.time(1, packets) / least.time(1, packets), 4),
        VERDICT: row_verdict(
            found.equals(closed),
            agrees or bool(marks),
            found.startups >= least.startups,
            found.transfer >= least.transfer,
            trials=[trial],
        ),
    }


def cost_rows(
    cache: RunCache,
    collective: str,
    entries: Iterable[PrintedTime],
    packets: Sequence[Fraction | None],
    bound: Callable[[int, str], Cost],
) -> Iterator[dict[str, object]]:
    """Yield the rows of a table of T: every entry at every size and for every packet size B/M."""
    for entry, n, packet in product(entries, cache.sizes, packets):
        case = CubeCase(n, packet)
        trial = trial_of(cache, collective, entry.algorithm, entry.ports, n, entry.cut(case))
        costs = entry.printed(case), predicted(trial, case), measured(trial, case)
        about = {"graph": entry.graph, "n": n, "B/M": "any" if packet is None else text(packet)}
        yield cost_row(about, costs, bound(n, entry.ports), trial, marks=entry.marks)


def optimum_rows(cache: RunCache, entries: Iterable[PrintedOptimum]) -> Iterator[dict[str, object]]:
    """Yield the rows of a table of optima. B_opt is the largest packet of a run without a limit: a smaller limit costs
    more.

    An asymptotic B_opt must not be below the exact one, and a T_min printed as a bound must not be below the measurement.
    """
    for entry, n in product(entries, cache.sizes):
        case = CubeCase(n)
        trial = trial_of(cache, entry.collective, entry.algorithm, entry.ports, n)
        best, found, closed = largest_packet(trial), measured(trial, case), predicted(trial, case)
        packet, least = entry.packet(n), entry.least(n)
        smaller = measured(trial, CubeCase(n, best - Fraction(1, MESSAGE_BYTES)))
        packet_agrees = best <= packet if "roots" in entry.marks else same(best, packet)
        agrees = _at_most(found, least) if "at_most" in entry.marks else found.equals(least)
        yield {
            "graph": entry.graph,
            "n": n,
            "B_opt / M, paper": marked(text(packet), erratum="erratum" in entry.marks and not packet_agrees),
            "measured B": text(best),
            "paper": _optimum_text(entry, least, agrees=agrees),
            "predicted": cost_text(closed),
            "measured": cost_text(found),
            VERDICT: row_verdict(
                found.equals(closed),
                (packet_agrees and agrees) or "erratum" in entry.marks,
                smaller.startups > found.startups,
                trials=[trial],
            ),
        }


def _optimum_text(entry: PrintedOptimum, least: Cost, *, agrees: bool) -> str:
    if entry.order:
        return f"{text(least.startups)} τ + {entry.order} M t_c {ERRATUM}"
    limit = "<= " if "at_most" in entry.marks else ""
    return limit + marked(cost_text(least), erratum="erratum" in entry.marks and not agrees)


def _at_most(cost: Cost, bound: Cost) -> bool:
    return cost.startups <= bound.startups and float(cost.transfer) <= float(bound.transfer) * (1 + 1e-12)


COLLECTIVE_BOUNDS: Mapping[str, Callable[[int, str], Cost]] = {
    "scatter": lambda n, ports: Cost(n, Fraction((1 << n) - 1, n if ports == ALL else 1)),
    "allgather": lambda n, ports: Cost(n, Fraction((1 << n) - 1, n if ports == ALL else 1)),
    "alltoall": lambda n, ports: Cost(n, Fraction(1 << n, 2) * (1 if ports == ALL else n)),
}
"""Lower bounds of section 5 and of theorems 6.1, 7.1 and 7.2: by collective, then n and ports."""


def cost_tables(
    cache: RunCache,
    collective: str,
    tables: Iterable[int],
    notes_below: Mapping[str, Sequence[str]],
    first: Sequence[PrintedTime] = (),
) -> Iterator[Table]:
    """Yield the tables of T and of optima, with titles and notes from the data files; the lines `first` come before the
    lines of the files.
    """
    titles = {int(row["table"]): row for row in printed("johnsson_ho_tables")}
    for table in tables:
        about, own = titles[table], notes_below.get(f"table_{table}", ())
        times = printed_times(table)
        if times:
            rows = cost_rows(cache, collective, (*first, *times), PACKETS, COLLECTIVE_BOUNDS[collective])
        else:
            rows = optimum_rows(cache, printed_optima(table))
        yield Table(about["title"], rows, (*notes("johnsson_ho", "common").get(about["notes"], ()), *own))


def rotated_root(n: int) -> Number:
    """Return the asymptotic form of C(n, n/2) / n."""
    return evaluate("sqrt(2/pi)*N/n^1.5", n=n, N=1 << n)
