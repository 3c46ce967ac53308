"""The experiments on the Intel iPSC: Johnsson and Ho 1986, section 8, figures 15 to 19.

The machine as the text describes it: one port at a time, 10 Mbit/s; an external packet, sent at once by a program, has
up to 16 KiB and takes 8 ms to start, and the operating system cuts it into internal packets of 1 KiB that take 6 ms
each to start. So b bytes over one hop take 8 ms + 6 ms (ceil(b / 1 KiB) - 1) + 8 b / 10^4 ms; that the 8 ms include the
first internal packet is an assumption. The figures were pictures and their values are not in the text, nor is the
length of the messages; this reproduces the statements of the text. Time is virtual: the heaviest links of every cycle,
measured in runs, at these costs.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import ceil, inf, isclose

import polars as pl

from coordinator.annexes.papers.base import Figure, Section, described
from coordinator.annexes.papers.johnsson_ho.common import ONE, text
from coordinator.annexes.papers.johnsson_ho.routing import routing
from coordinator.annexes.papers.run_cache import CachedRun, RunCache
from coordinator.annexes.papers.tables import VERDICT, Table, notes, printed, row_verdict
from coordinator.reports.charts import HeldPrediction, Points, curves

NOTES = notes("johnsson_ho", "ipsc")

SIZES = range(2, 7)
KIB = 1024
EXTERNAL_BYTES = 16 * KIB
"""The most bytes that one start-up by a program covers."""
EXTERNAL_MS, INTERNAL_MS, BYTE_MS = 8.0, 6.0, 8 / 10**4


def milliseconds(size: int) -> float:
    """Return the time of one hop of `size` bytes; it may need several external packets."""
    external, internal = ceil(size / EXTERNAL_BYTES), ceil(size / KIB)
    return EXTERNAL_MS * external + INTERNAL_MS * (internal - external) + BYTE_MS * size


def time_of(trial: CachedRun) -> float:
    """Return the milliseconds of a run: the sum over steps of the time of the heaviest link."""
    return sum(milliseconds(load) for load in trial.series("heaviest_link_bytes_per_step"))


def _run(
    cache: RunCache, n: int, collective: str, algorithm: str, size: int, segments: int = 1, ports: str = ONE
) -> CachedRun:
    return cache.run(f"hypercube:{n}", collective, algorithm, port_model=ports, message_bytes=size, segments=segments)


def _judged(predicted: float, trial: CachedRun, *more: bool) -> dict[str, object]:
    """Return the cells for predicted and measured milliseconds and the verdict."""
    found = time_of(trial)
    return {
        "predicted": round(predicted, 2),
        "measured": round(found, 2),
        VERDICT: row_verdict(isclose(found, predicted), *more, trials=[trial]),
    }


# --- figure 15: the size of external packets -----------------------------------------------------------------------------

TOTAL_BYTES = 16 * KIB
PACKETS_15 = [64 << k for k in range(9)]
Rows = list[dict[str, object]]


def _figure_15(cache: RunCache) -> Rows:
    rows: Rows = []
    for n in cache.sizes:
        for packet in PACKETS_15:
            count = TOTAL_BYTES // packet
            trial = _run(cache, n, "broadcast", "sbt", TOTAL_BYTES, count)
            predicted = n * count * milliseconds(packet)
            faster = not rows or rows[-1]["n"] != n or time_of(trial) < float(str(rows[-1]["measured"]))
            rows.append({"n": n, "external packet": packet, "packets": count} | _judged(predicted, trial, faster))
    return rows


def _slope(rows: Rows, n: int) -> float:
    """Return the time with packets of 64 bytes relative to packets of 1 KiB, with 16 times fewer start-ups."""
    times = {int(str(row["external packet"])): float(str(row["measured"])) for row in rows if row["n"] == n}
    return times[64] / times[KIB]


def _series(rows: Rows, about: Mapping[str, str], y: str) -> dict[str, list[tuple[float, float]]]:
    """Return the column y over the column x of the drawing, one series per value of its column `by`."""
    series: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        name = about["series"].format(row[about["by"]])
        series.setdefault(name, []).append((float(str(row[about["x"]])), float(str(row[y]))))
    return series


DRAWINGS = {row["figure"]: row for row in printed("johnsson_ho_drawings")}
"""The table and the drawing of each figure: columns, labels, and the axes that are logarithmic."""


def sections(figure: str, rows: Rows, notes_below: Sequence[str], size: int, **more: Points) -> Iterator[Section]:
    """Yield the table of a figure, and its drawing: predictions as lines, measurements as marks, and the lines of
    `more`.

    A drawing whose title names Q_n shows only the rows of n = `size`.
    """
    about = DRAWINGS[figure]
    yield Table(about["table"], rows, notes_below)
    shown = [row for row in rows if row["n"] == size] if "{n}" in about["drawing"] else rows
    title, measured = about["drawing"].format(n=size), _series(shown, about, "measured")
    lines = {name: HeldPrediction(line, measured[name]) for name, line in _series(shown, about, "predicted").items()}
    lines |= {name: HeldPrediction(line, ()) for name, line in more.items()}
    places = sorted({float(str(row[about["x"]])) for row in shown})
    log_x, log_y = ("x" in about["logarithmic"], "y" in about["logarithmic"])
    labels = about["x label"], about["y label"]
    drawing = curves(title, lines, *labels, only_x=places, log_x=log_x, log_y=log_y)
    yield Figure(title.partition(":")[0], drawing.svg, about["caption"])


# --- figures 16 and 17: SBT and nESBT ------------------------------------------------------------------------------------

PACKETS_16 = 60
"""Number of packets of 1 KiB, an assumption; every n divides it."""


def _figure_16(cache: RunCache) -> Rows:
    return [
        {"n": n, "graph": graph, "cycles": cycles}
        | _judged(cycles * milliseconds(KIB), trial, trial.number("steps") == cycles)
        for n in cache.sizes
        for graph, algorithm, ports, cycles in (
            ("SBT", "sbt", ONE, n * PACKETS_16),
            ("nESBT", "nesbt", ONE, PACKETS_16 + n),
            ("nESBT, one way at a time", "nesbt", "send-or-receive", 2 * PACKETS_16 + n - 1),
        )
        for trial in [_run(cache, n, "broadcast", algorithm, PACKETS_16 * KIB, PACKETS_16, ports)]
    ]


def _printed_speedup(n: int, packets: int) -> tuple[str | None, float, float]:
    """Return the printed speed-up of nESBT over SBT, and the smallest and largest speed-up that agree with it.

    The text of figure 17 states n, taken to mean at least 10 n packets; table 6 gives the ratio for one packet.
    """
    if packets == 1:
        return text(Fraction(n, n + 1)), n / (n + 1) - 1e-9, n / (n + 1) + 1e-9
    return (f"about {n}", 0.9 * n, n) if packets >= 10 * n else (None, 0, inf)


def _figure_17(cache: RunCache, packets: Sequence[int]) -> Rows:
    rows: Rows = []
    for n in cache.sizes:
        for count in packets:
            binomial, disjoint = (
                _run(cache, n, "broadcast", algorithm, count * KIB, count) for algorithm in ("sbt", "nesbt")
            )
            predicted, found = n * count / (count + n), time_of(binomial) / time_of(disjoint)
            paper, least, most = _printed_speedup(n, count)
            rows.append(
                {
                    "n": n,
                    "packets": count,
                    "paper": paper,
                    "predicted": round(predicted, 4),
                    "measured": round(found, 4),
                    "measured / n": round(found / n, 4),
                    VERDICT: row_verdict(
                        isclose(found, predicted), least <= found <= most, trials=[binomial, disjoint]
                    ),
                }
            )
    return rows


# --- figures 18 and 19: scatter and allgather ----------------------------------------------------------------------------

BLOCKS = (256, 512, KIB, 2 * KIB)
"""Bytes per node, an assumption."""


def _figure_18(cache: RunCache) -> Rows:
    return [
        {
            "n": n,
            "bytes per node": size,
            "graph": graph,
            "packets": 2**n - 1,
            "packet on a port every": every,
            "measured every": gap,
        }
        | _judged((2**n - 1) * milliseconds(size), trial, gap == every)
        for n in cache.sizes
        for size in BLOCKS
        for graph, algorithm, every in (("SBT", "sbt-postorder", 2), ("SBnT", "sbnt-postorder", n))
        for trial in [_run(cache, n, "scatter", algorithm, size)]
        for gap in [_gap(trial)]
    ]


def _gap(trial: CachedRun) -> int:
    """Return the median number of cycles between packets on the most used port of the source."""
    root = trial.journal().filter(pl.col("sender") == pl.col("origin")).select("step", "port").unique().collect()
    most = root.group_by("port").len().sort("len", "port", descending=[True, False])["port"][0]
    return int(root.filter(pl.col("port") == most).sort("step")["step"].diff().drop_nulls().median())  # type: ignore[arg-type]


def _figure_19(cache: RunCache) -> Rows:
    rows: Rows = []
    for n in cache.sizes:
        for size in BLOCKS:
            others = 2**n - 1
            for name, algorithm, ports, factor, predicted in (
                ("exchange", "sbt", ONE, 1, sum(milliseconds(size << d) for d in range(n))),
                ("SBnT", "sbnt", ONE, 1, None),
                ("ring, one way", "brg-ring", "one-port", 1, others * milliseconds(size)),
                ("ring, both ways", "brg-ring", "all-port", 2, 2 * ceil(others / 2) * milliseconds(size)),
            ):
                trial = _run(cache, n, "allgather", algorithm, size, ports=ports)
                wanted = _labelled(trial) if predicted is None else predicted
                found = factor * time_of(trial)
                rows.append(
                    {
                        "n": n,
                        "bytes per node": size,
                        "algorithm": name,
                        "predicted": round(wanted, 2),
                        "measured": round(found, 2),
                        "bytes": int(trial.number("transfer_bytes")),
                        VERDICT: row_verdict(isclose(found, wanted), trials=[trial]),
                    }
                )
    return rows


def _labelled(trial: CachedRun) -> float:
    """Return the milliseconds for the loads that the algorithm claims."""
    claims = [claim for claim in trial.plan.algorithm.claims() if claim.name == "heaviest_link_segments_per_step"]
    loads = claims[0].predicted
    assert isinstance(loads, tuple)
    return sum(milliseconds(load * int(trial.number("message_bytes"))) for load in loads)


# --- tables and figures --------------------------------------------------------------------------------------------------


def build(cache: RunCache) -> Iterator[Section]:
    """Yield a table and a drawing for each of the figures 15 to 19, then the routing rules."""
    n = cache.sizes[-1]
    rows = _figure_15(cache)
    slopes = ", ".join(f"{_slope(rows, size):.1f}" for size in cache.sizes)
    yield from sections("15", rows, [note.format(slopes=slopes) for note in NOTES["figure_15"]], n)
    yield from sections("16", _figure_16(cache), NOTES["figure_16"], n)
    rows = _figure_17(cache, (1, PACKETS_16, 4 * PACKETS_16))
    yield from sections("17", rows, NOTES["figure_17"], n, n=[(float(size), float(size)) for size in cache.sizes])
    yield from sections("18", _figure_18(cache), NOTES["figure_18"], n)
    yield from sections("19", _figure_19(cache), NOTES["figure_19"], n)
    yield Table("Sections 8.2 and 8.3: ports by the node's own address", routing(cache), NOTES["routing"])


REPRODUCTION = described("johnsson_ho", "ipsc", build, SIZES)
