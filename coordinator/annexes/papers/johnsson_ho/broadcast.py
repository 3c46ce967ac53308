"""One-to-all broadcasting on the hypercube: Johnsson and Ho 1986, section 4, tables 2 to 6.

All but one of these algorithms are pipelines: a ceil(M / (s B)) + b start-ups and a M/s + b B elements for packets of B,
where s trees carry an equal part of the message each. From that follow B_opt = sqrt(a M tau / (s b t_c)) and T_min =
(sqrt(a M t_c / s) + sqrt(b tau))^2, or one packet and a (M t_c / s + tau) where b is 0.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, isclose, sqrt

import polars as pl

from coordinator.annexes.papers.base import Section, described
from coordinator.annexes.papers.formulas import Cost, Number
from coordinator.annexes.papers.johnsson_ho.common import ALL, ONE, PORTS, SIZES, cost_row, formula, text
from coordinator.annexes.papers.run_cache import CachedRun, RunCache
from coordinator.annexes.papers.tables import VERDICT, Table, marked, notes, printed, row_verdict
from coordinator.planning.claims import fault_free_claims
from coordinator.results.claims import Verdict

NOTES = notes("johnsson_ho", "broadcast")

PACKET_BYTES = 60
PACKETS = 60
"""The number of packets of a long message; a multiple of every n."""
STARTUP, PER_BYTE = 1e-3, 1e-6
"""tau and t_c of the optima in seconds."""
LONG_BYTES = 15_360
"""M of the optima."""


@dataclass(frozen=True)
class Pipeline:
    """One line of tables 2 to 5, as printed."""

    table: str
    graph: str
    algorithm: str
    ports: str
    a: Callable[[int], Number]
    b: Callable[[int], Number]
    splits_across_trees: bool = False
    """s = n, else 1."""
    delay: Callable[[int], Number] | None = None
    """Table 2: cycles until a packet is everywhere."""
    rate: Callable[[int], Number] | None = None
    """Table 3: cycles per distinct packet."""
    merged: bool = False
    """nRSBT over one port: parts that share a link are sent together, whatever segments they consist of."""
    least_n: int = 2

    def parts(self, n: int) -> int:
        """Return s."""
        return n if self.splits_across_trees else 1

    def cost(self, n: int, packets: int) -> Cost:
        """Return T for M = `packets` B."""
        if self.merged:
            # table 4, nRSBT over one port: i of the n parts share a link in cycles i and 2n - i
            startups = 2 * sum(ceil(Fraction(packets * i, n)) for i in range(1, n)) + packets
            return Cost(startups, n)
        s = self.parts(n)
        return Cost(self.a(n) * ceil(packets / s) + self.b(n), Fraction(self.a(n)) / s + Fraction(self.b(n)) / packets)

    def run(self, cache: RunCache, n: int, packets: int) -> CachedRun:
        """Return a broadcast of this number of packets of PACKET_BYTES each, spread over the trees."""
        each = ceil(packets / self.parts(n))
        counted_together = self.algorithm == "nesbt"
        segments = 1 if self.merged else each * (self.parts(n) if counted_together else 1)
        return self._run(cache, n, packets * PACKET_BYTES, packet_limit=PACKET_BYTES, segments=segments)

    def timed_run(self, cache: RunCache, n: int, size: int, startup: float, **more: object) -> CachedRun:
        """Return a broadcast of `size` bytes with this time of a start-up, in seconds, and `PER_BYTE`."""
        return self._run(cache, n, size, startup=f"{startup!r}s", per_byte=f"{PER_BYTE!r}s", **more)

    def _run(self, cache: RunCache, n: int, size: int, **more: object) -> CachedRun:
        about = {"port_model": self.ports, "message_bytes": size, **more}
        return cache.run(f"hypercube:{n}", "broadcast", self.algorithm, **about)

    def optimum(self, n: int, size: int, ratio: float) -> tuple[float, float]:
        """Return B_opt, and T_min / t_c, for a message of `size` elements and tau / t_c."""
        if self.merged:
            return size, n * size + (2 * n - 1) * ratio
        part, a, b = size / self.parts(n), float(self.a(n)), float(self.b(n))
        if b <= 0:
            return part, a * (part + ratio)
        return sqrt(a * part * ratio / b), (sqrt(a * part) + sqrt(b * ratio)) ** 2


PIPELINES = [
    Pipeline(
        row["table"],
        row["graph"],
        row["algorithm"],
        row["ports"],
        formula(row["a"]),
        formula(row["b"]),
        splits_across_trees=row["trees"] == "n",
        delay=formula(row["delay"]) if row["delay"] else None,
        rate=formula(row["rate"]) if row["rate"] else None,
        merged=(row["graph"], row["ports"]) == ("nRSBT", ONE),
        least_n=int(row["least n"]),
    )
    for row in printed("johnsson_ho_pipelines")
]
LINES = {(line.ports, line.graph): line for line in PIPELINES if line.table in ("4", "5")}


def of_table(number: int | str) -> list[Pipeline]:
    """Return the lines of table 4 or 5, or of section 4.1."""
    return [line for line in PIPELINES if line.table == str(number)]


def claimed(trial: CachedRun, name: str) -> float:
    """Return the value of a metric that the algorithm claims."""
    claims = [claim for claim in fault_free_claims(trial.plan).kept if claim.name == name and claim.relation != ">="]
    value = claims[-1].predicted
    assert isinstance(value, int | float)
    return value


def cycles(line: Pipeline, trial: CachedRun) -> int:
    """Return the busy cycles of the links: steps, or start-ups where several packets cross a link in a step."""
    return int(trial.number("startups" if line.merged else "steps"))


def _cases(cache: RunCache, lines: list[Pipeline]) -> Iterator[tuple[Pipeline, int]]:
    """Return every line at every size where it is defined."""
    return ((line, n) for line in lines for n in cache.sizes if n >= line.least_n)


def _row(line: Pipeline, n: int, paper: object, found: object, verdict: Verdict) -> dict[str, object]:
    about = {"graph": line.graph, "ports": PORTS[line.ports], "n": n}
    return about | {"paper": paper, "measured": found, VERDICT: verdict}


def _delays(cache: RunCache) -> Iterator[dict[str, object]]:
    """Yield table 2: the delay of the slowest packet."""
    for line, n in _cases(cache, PIPELINES):
        if line.delay is not None:
            trial = line.run(cache, n, n)
            found, delay = slowest_packet(trial, n), line.delay(n)
            yield _row(line, n, delay, found, row_verdict(found == delay, trials=[trial]))


def slowest_packet(trial: CachedRun, n: int) -> int:
    """Return the cycles from the first to the last hop of a packet, for the slowest of the first n packets."""
    times = trial.journal().filter(pl.col("segment") < n).group_by("tree", "segment")
    spans = times.agg(cycles=pl.col("step").max() - pl.col("step").min() + 1).collect()["cycles"]
    return int(spans.max())  # type: ignore[arg-type]


def _rates(cache: RunCache) -> Iterator[dict[str, object]]:
    """Yield table 3: the difference between two runs, one with PACKETS more distinct packets."""
    for line, n in _cases(cache, PIPELINES):
        if line.rate is not None:
            few, many = line.run(cache, n, PACKETS), line.run(cache, n, 2 * PACKETS)
            found, rate = Fraction(cycles(line, many) - cycles(line, few), PACKETS), line.rate(n)
            yield _row(line, n, text(rate), text(found), row_verdict(found == rate, trials=[few, many]))


def _times(cache: RunCache, lines: list[Pipeline]) -> Iterator[dict[str, object]]:
    """Compare T of table 4 or 5, with many packets and with one packet per tree."""
    for line, n in _cases(cache, lines):
        for packets in (PACKETS, line.parts(n)):
            trial = line.run(cache, n, packets)
            size = packets * PACKET_BYTES
            found = Cost(int(trial.number("startups")), Fraction(int(trial.number("transfer_bytes")), size))
            closed = Cost(int(claimed(trial, "startups")), Fraction(int(claimed(trial, "transfer_bytes")), size))
            about = {"graph": line.graph, "n": n, "M/B": packets}
            costs = line.cost(n, packets), closed, found
            bound = Cost(n, Fraction(1, n if line.ports == ALL else 1))  # of section 4, in messages
            yield cost_row(about, costs, bound, trial, packets=packets)


def best_run(cache: RunCache, line: Pipeline, n: int, size: int, startup: float) -> tuple[int, CachedRun]:
    """Return the run with the best whole number of packets on each tree by the closed form, and that number.

    It is one of the two whole numbers next to M / (s B_opt), or 1.
    """
    best, _ = line.optimum(n, size, startup / PER_BYTE)
    wanted = size / line.parts(n) / best
    tried = [(count, _long_run(cache, line, n, size, count, startup)) for count in {max(1, int(wanted)), ceil(wanted)}]
    return min(tried, key=lambda pair: claimed(pair[1], "virtual_seconds"))


def _long_run(cache: RunCache, line: Pipeline, n: int, size: int, count: int, startup: float) -> CachedRun:
    segments = count * (line.parts(n) if line.algorithm == "nesbt" else 1)
    return line.timed_run(cache, n, size, startup, segments=segments)


def _optima(cache: RunCache, lines: list[Pipeline]) -> Iterator[dict[str, object]]:
    """Compare B_opt and T_min of table 4 or 5, and the best whole number of packets: one more or less must not be
    faster.
    """
    for line, n in _cases(cache, lines):
        if line.merged:
            continue
        packet, optimum = line.optimum(n, LONG_BYTES, STARTUP / PER_BYTE)
        count, trial = best_run(cache, line, n, LONG_BYTES, STARTUP)
        others = [other for other in (count - 1, count + 1) if other > 0]
        neighbours = [_long_run(cache, line, n, LONG_BYTES, other, STARTUP) for other in others]
        found, closed = trial.number("virtual_seconds"), claimed(trial, "virtual_seconds")
        least, best = optimum * PER_BYTE, ceil(LONG_BYTES / line.parts(n) / count)
        yield optimum_cells(line, n, round(packet, 1), best, least, found, closed) | {
            VERDICT: row_verdict(
                found <= closed * (1 + 1e-9),
                found >= least * (1 - 1e-9),
                all(other.number("virtual_seconds") >= found for other in neighbours),
                trials=[trial, *neighbours],
            ),
        }


def optimum_cells(
    line: Pipeline, n: int, packet: float, best: int, least: float, found: float, closed: float | None = None
) -> dict[str, object]:
    """Return B_opt as printed and measured, T_min as printed, predicted by `closed` and measured, in milliseconds."""
    predicted = {} if closed is None else {"predicted": round(1e3 * closed, 3)}
    return {
        "graph": line.graph,
        "n": n,
        "B_opt, paper": packet,
        "measured B": best,
        "T_min, paper": round(1e3 * least, 3),
        **predicted,
        "measured": round(1e3 * found, 3),
        "ratio": round(found / least, 4),
    }


# --- table 6: times relative to nESBT --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Regime:
    """One column of table 6 and the runs that are well within it."""

    name: str
    startup: float | None
    """tau in seconds, for packets of the best size; None for packets of PACKET_BYTES."""
    amount: int
    """Bytes; packets if `startup` is None."""
    rounding: float
    """Relative tolerance of a run: the prediction ignores rounding to whole packets and bytes."""
    near: float
    """Relative tolerance of the printed limit, per dimension of the cube."""
    erratum: bool = False
    """A note of the table explains larger differences."""

    def run(self, cache: RunCache, line: Pipeline, n: int) -> CachedRun:
        """Return a broadcast in this regime."""
        if self.startup is None:
            # nRSBT merges parts on the way, so a single packet is visible only in a run with one packet per tree
            single = n if line.merged else line.parts(n)
            return line.run(cache, n, self.amount if self.amount > 1 else single)
        return best_run(cache, line, n, self.amount, self.startup)[1]

    def time(self, line: Pipeline, trial: CachedRun, n: int) -> float:
        """Return the compared quantity: cycles, or virtual time. A single packet uses one tree of a graph with several."""
        if self.startup is not None:
            return float(trial.number("virtual_seconds"))
        return slowest_packet(trial, n) if line.merged and self.amount == 1 else cycles(line, trial)

    def predicted(self, line: Pipeline, n: int) -> float:
        """Predict by tables 4 and 5: cycles, or T in units of t_c."""
        if self.startup is None:
            if line.merged and self.amount == 1:
                return n  # down one SBT, as in table 2
            packets = self.amount if self.amount > 1 else line.parts(n)
            return float(line.cost(n, packets).startups)
        ratio = self.startup / PER_BYTE
        packet, least = line.optimum(n, self.amount, ratio)
        part = self.amount / line.parts(n)
        return least if packet <= part else float(line.a(n) + line.b(n)) * (ratio + part)


REGIMES = (
    Regime("one packet", None, 1, 1e-9, 1e-9),
    Regime("M/B >> n", None, 10 * PACKETS, 1e-9, 0.01),
    Regime("B_opt, tau n >> M t_c", 1.0, PACKET_BYTES, 1e-9, 1e-3, erratum=True),
    Regime("B_opt, tau n << M t_c", 1e-6, LONG_BYTES, 0.002, 0.02),
)
LIMITS = {
    (row["ports"], row["graph"]): tuple(formula(row[regime.name]) for regime in REGIMES)
    for row in printed("johnsson_ho_table_6")
}
"""Table 6 as printed, one column per regime: the time of a graph relative to nESBT."""


def _relative(cache: RunCache) -> Iterator[dict[str, object]]:
    for (ports, graph), limits in LIMITS.items():
        pair = (LINES[ports, graph], LINES[ports, "nESBT"])
        for n in cache.sizes:
            if n < pair[0].least_n:
                continue
            for regime, limit in zip(REGIMES, limits, strict=True):
                trials = [regime.run(cache, line, n) for line in pair]
                found = regime.time(pair[0], trials[0], n) / regime.time(pair[1], trials[1], n)
                closed = regime.predicted(pair[0], n) / regime.predicted(pair[1], n)
                near = isclose(found, float(limit(n)), rel_tol=regime.near * n)
                yield {
                    "ports": PORTS[ports],
                    "graph": graph,
                    "n": n,
                    "regime": regime.name,
                    "paper": marked(text(limit(n)), erratum=not near),
                    "predicted": round(closed, 4),
                    "measured": round(found, 4),
                    VERDICT: row_verdict(
                        isclose(found, closed, rel_tol=regime.rounding),
                        near or regime.erratum,
                        trials=trials,
                    ),
                }


def build(cache: RunCache) -> Iterator[Section]:
    """Yield tables 2 to 6, and the variants of section 4.1."""
    yield Table("Table 2: propagation delays", _delays(cache), NOTES["table_2"])
    yield Table("Table 3: cycles per distinct packet", _rates(cache), NOTES["table_3"])
    for number, ports in ((4, "one port"), (5, "n ports")):
        lines = of_table(number)
        yield Table(f"Table {number}: T of broadcasting over {ports}", _times(cache, lines), NOTES["times"])
        yield Table(f"Table {number}: B_opt and T_min over {ports}", _optima(cache, lines), NOTES["optimum"])
    variants = of_table("4.1")
    title = "Section 4.1: T where a node may send beside receiving, or do only one"
    yield Table(title, _times(cache, variants), NOTES["variants"])
    yield Table("Section 4.1: B_opt and T_min of these variants", _optima(cache, variants), NOTES["optimum"])
    yield Table("Table 6: relative to nESBT", _relative(cache), NOTES["table_6"])


REPRODUCTION = described("johnsson_ho", "broadcast", build, SIZES)
