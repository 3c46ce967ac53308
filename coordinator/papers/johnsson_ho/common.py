"""What the tables of Johnsson and Ho (YALEU/DCS/TR-500, 1986) have in common: T = start-ups tau + transfer t_c, as printed,
by the closed forms of the algorithms, and as measured.

Sizes of their tables are n = 2..6 here, N = 2^n. M is a message in bytes (their elements); it is a multiple of every n, so
that parts are equal. B is the largest packet. One run without a limit on packets measures the heaviest link of every cycle;
the start-ups for any B are the sum of ceil(x/B) over it. A run must hold all claims of its algorithm, must cost what
the closed form says, and the print must say the same unless it is an erratum or marked approximate.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, isclose, pi, sqrt

from coordinator.papers.base import ERRATUM, VERDICT, RunCache, Trial, row_verdict

PAPER = "Johnsson-Ho 1986 (YALEU/DCS/TR-500)"
SIZES = range(2, 7)
MESSAGE_BYTES = 60
"""M: a multiple of every n, and of 2 n for the halves of optimal packets."""
ONE, ALL = "exchange", "all-port"
PORTS = {ONE: "one-port", ALL: "n-port"}
"""The paper's words for the port models."""

Number = int | float | Fraction


@dataclass(frozen=True)
class Cost:
    """T = startups tau + transfer M t_c, in messages of M."""

    startups: Number
    transfer: Number

    def __str__(self) -> str:
        return f"{text(self.startups)} τ + {text(self.transfer)} M t_c"

    def in_startups(self, message: float = 1.0) -> float:
        """T in units of tau where the transfer of one message costs `message` of them."""
        return float(self.startups) + message * float(self.transfer)

    def equals(self, other: "Cost") -> bool:
        """Both parts, up to the rounding of roots and logarithms."""
        return isclose(self.startups, other.startups) and isclose(self.transfer, other.transfer)


@dataclass(frozen=True)
class Case:
    """What the formulas of the tables are functions of; `packet` is B/M, None for packets of any size."""

    n: int
    packet: Fraction | None = None

    @property
    def order(self) -> int:
        """N."""
        return 1 << self.n

    def packets(self, messages: Number) -> int:
        """ceil(x M / B) for x messages."""
        return ceil(Fraction(messages) / self.packet) if self.packet else 1

    def sum_of(self, loads: "Iterator[Number] | Sequence[Number]") -> int:
        """Start-ups for these loads, in messages."""
        return sum(self.packets(load) for load in loads if load)


@dataclass(frozen=True)
class Entry:
    """One line of a table of T: who is meant, what is printed, and what became of it."""

    graph: str
    """In the paper's words."""
    algorithm: str
    ports: str
    printed: Callable[[Case], Cost]
    approximate: bool = False
    """The print says so."""
    erratum: bool = False
    """What differs from the print is explained in a note of the table."""
    cut: Callable[[Case], int] = lambda _: 1
    """Segments, where the schedule and not only the count of start-ups depends on B."""
    sizes: range = SIZES

    @property
    def title(self) -> str:
        """For a table of both port models."""
        return f"{self.graph}, {PORTS[self.ports]}"


def text(value: Number) -> str:
    """A number for people: fractions as they are, roots and logarithms to four digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def trial_of(lab: RunCache, collective: str, entry: Entry, case: Case) -> Trial:
    """The run of an entry; packets have no limit in it."""
    return lab.run(
        topology=f"hypercube:{case.n}",
        collective=collective,
        algorithm=entry.algorithm,
        port_model=entry.ports,
        message_bytes=MESSAGE_BYTES,
        segments=entry.cut(case),
    )


def measured(trial: Trial, case: Case) -> Cost:
    """Start-ups and transfer of the heaviest links, for the packets of the case."""
    size = int(trial.number("message_bytes"))
    loads = [Fraction(load, size) for load in trial.series("heaviest_link_bytes_per_step")]
    return Cost(case.sum_of(loads), sum(loads, Fraction(0)))


def predicted(trial: Trial, case: Case) -> Cost:
    """The same by the closed forms that the algorithm itself states."""
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


def largest_packet(trial: Trial) -> Fraction:
    """B_opt / M of a run whose packets have no limit: what the heaviest link carries in the heaviest cycle."""
    return Fraction(max(trial.series("heaviest_link_bytes_per_step")), int(trial.number("message_bytes")))


def verdict(*conditions: bool, trials: Sequence[Trial] = ()) -> str:
    """Holds if everything does, and the runs held their own claims."""
    return str(row_verdict(conditions, trials))


def printed_text(printed: object, *, agrees: bool, erratum: bool = False, approximate: bool = False) -> str:
    """What the paper prints, marked where it is wrong and the table says why."""
    return f"{'≈ ' if approximate else ''}{printed}{f' {ERRATUM}' if erratum and not agrees else ''}"


def cost_rows(
    lab: RunCache,
    collective: str,
    entries: Sequence[Entry],
    packets: Sequence[Fraction | None],
    bound: Callable[[int, str], Cost],
) -> Iterator[dict[str, object]]:
    """Every entry at every size and for every packet size B/M: the columns of a table of T.

    The ratio to the lower bound is that of the times where one start-up costs as much as one message.
    """
    for entry in entries:
        for n in lab.sizes:
            if n not in entry.sizes:
                continue
            for packet in packets:
                case = Case(n, packet)
                trial = trial_of(lab, collective, entry, case)
                found, closed, printed = measured(trial, case), predicted(trial, case), entry.printed(case)
                agrees, least = closed.equals(printed), bound(n, entry.ports)
                yield {
                    "graph": entry.graph,
                    "n": n,
                    "B/M": "any" if packet is None else text(packet),
                    "paper": printed_text(printed, agrees=agrees, erratum=entry.erratum, approximate=entry.approximate),
                    "predicted": str(closed),
                    "measured": str(found),
                    "lower bound": str(least),
                    "ratio": round(found.in_startups() / least.in_startups(), 4),
                    VERDICT: verdict(
                        found.equals(closed),
                        agrees or entry.erratum or entry.approximate,
                        found.startups >= least.startups,
                        found.transfer >= least.transfer,
                        trials=[trial],
                    ),
                }


@dataclass(frozen=True)
class Optimum:
    """One line of a table of B_opt and T_min, both in messages."""

    graph: str
    algorithm: str
    ports: str
    packet: Callable[[int], Number]
    """B_opt / M as printed."""
    least: Callable[[int], Cost]
    """T_min as printed."""
    roots: bool = False
    """B_opt is the asymptotic form of a binomial coefficient."""
    at_most: bool = False
    """T_min is printed as an upper bound."""
    erratum: bool = False
    misprint: bool = False
    """B_opt is printed wrong; what is right is known."""
    order: str | None = None
    """The transfer as printed, where that is only an order of growth."""
    limited: Callable[[int], Fraction | None] = lambda _: None
    """B/M of the run, where packets of any size would not be the optimum."""


def optimum_rows(lab: RunCache, collective: str, entries: Sequence[Optimum]) -> Iterator[dict[str, object]]:
    """The columns of a table of optima. B_opt is the largest packet of a run that may send any: a smaller limit costs more.

    An asymptotic B_opt must not be below the exact one, a T_min that is printed as a bound not below the measured one.
    """
    for entry in entries:
        for n in lab.sizes:
            case = Case(n, entry.limited(n))
            runs = Entry(entry.graph, entry.algorithm, entry.ports, lambda _: Cost(0, 0))
            trial = trial_of(lab, collective, runs, case)
            best, found, closed = largest_packet(trial), measured(trial, case), predicted(trial, case)
            packet, least = entry.packet(n), entry.least(n)
            smaller = measured(trial, Case(n, best - Fraction(1, MESSAGE_BYTES)))
            packet_agrees = best <= packet if entry.roots else isclose(best, packet)
            agrees = _below(found, least) if entry.at_most else found.equals(least)
            yield {
                "graph": entry.graph,
                "n": n,
                "B_opt / M, paper": printed_text(text(packet), agrees=packet_agrees, erratum=entry.erratum),
                "measured B": text(best),
                "paper": _printed_optimum(entry, least, agrees=agrees),
                "predicted": str(closed),
                "measured": str(found),
                VERDICT: verdict(
                    found.equals(closed),
                    (packet_agrees and agrees) or entry.erratum,
                    smaller.startups > found.startups,
                    trials=[trial],
                ),
            }


def _printed_optimum(entry: Optimum, least: Cost, *, agrees: bool) -> str:
    if entry.order is not None:
        return f"{text(least.startups)} τ + {entry.order} M t_c {ERRATUM}"
    return ("<= " if entry.at_most else "") + printed_text(least, agrees=agrees, erratum=entry.erratum)


def _below(cost: Cost, bound: Cost) -> bool:
    return cost.startups <= bound.startups and float(cost.transfer) <= float(bound.transfer) * (1 + 1e-12)


COLLECTIVE_BOUNDS: Mapping[str, Callable[[int, str], Cost]] = {
    "scatter": lambda n, ports: Cost(n, Fraction((1 << n) - 1, n if ports == ALL else 1)),
    "allgather": lambda n, ports: Cost(n, Fraction((1 << n) - 1, n if ports == ALL else 1)),
    "alltoall": lambda n, ports: Cost(n, Fraction(1 << n, 2) * (1 if ports == ALL else n)),
}
"""Lower bounds of section 5 and of theorems 6.1, 7.1 and 7.2: by collective, then n and ports."""

RATIO_NOTE = (
    "M = 60 bytes; B/M is the largest packet in messages, `any` lets everything that waits for a link go at once. The ratio "
    "of measurement to lower bound takes one start-up to cost as much as one message (τ = M t_c)."
)

ROOTS_NOTE = (
    "B_opt with a root is the asymptotic form of a binomial coefficient: C(n-1, (n-1)/2) M for SBT, C(n, n/2) M/n for the "
    "others, which are measured; the print is never below them."
)


def rotated_root(n: int) -> float:
    """sqrt(2 / pi) N / n^1.5, the asymptotic form of C(n, n/2) / n."""
    return float(sqrt(2 / pi) * 2**n / n**1.5)


def binomial_root(n: int) -> float:
    """N / sqrt(2 pi (n - 1)), the asymptotic form of C(n-1, (n-1)/2)."""
    return float(2**n / sqrt(2 * pi * (n - 1)))
