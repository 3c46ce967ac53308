"""Tables 1 and 2 of Tseng and Sheu 1997: start-ups, bytes and T, printed as orders, evaluated and measured.

The evaluated formulas are the closed forms of sections 4 to 6 behind the printed orders. Algorithms that the paper only
cites, and that have no schedule in this project, are evaluated but not measured.
"""

from collections.abc import Callable, Iterator
from math import ceil, factorial, log2, sqrt

from coordinator.annexes.papers.base import Figure
from coordinator.annexes.papers.formulas import Cost
from coordinator.annexes.papers.growth import spread, status
from coordinator.annexes.papers.run_cache import CachedRun, RunCache
from coordinator.annexes.papers.tables import VERDICT, compared, compared_metric, printed, unmeasured
from coordinator.annexes.papers.tseng_sheu.closed_forms import (
    PER_BYTE,
    STARTUP,
    algorithm_1,
    best_pipeline,
    height,
    phases,
    pipelined,
    recursion,
    seconds,
    stepped_pipeline,
)
from coordinator.reports.charts import curves
from emunode.topologies.star import StarGraph

BROADCAST_BYTES = 60_000
"""m of table 1: large enough that cutting the message into segments pays."""
ALLGATHER_BYTES = 60
"""m of table 2: a multiple of n - 1 for n = 3..6."""
CURVE_BYTES = (60, 600, 6_000, 20_000, 60_000)
CURVE_SEGMENTS = (1, 2, 4, 8, 16, 32, 64)
QUANTITIES = (("start-ups", "startups", 1), ("bytes", "transfer_bytes", 1), ("T", "virtual_seconds", 1e3))
"""Columns of the printed tables, with the metric and the unit shown: T is in milliseconds."""


def broadcast(
    cache: RunCache, n: int, algorithm: str, size: int, model: str = "all-port", segments: int | str = "auto"
) -> CachedRun:
    """Return a one-to-all broadcast of `size` bytes."""
    return cache.run(
        f"star:{n}",
        "broadcast",
        algorithm,
        port_model=model,
        message_bytes=size,
        segments=segments,
        startup="1ms",
        per_byte="1us",
    )


def pieces(trial: CachedRun) -> int:
    """Return p, the number of segments on each tree."""
    return trial.plan.spec.segments


def _cost_rows(
    table: int,
    algorithm: str,
    cost: Cost,
    bounds: dict[str, Cost],
    trial: CachedRun | None,
    relation: str = "==",
    startups_relation: str = "==",
) -> Iterator[dict[str, object]]:
    """Yield three rows: start-ups, bytes, and T, whose lower bound is the larger of both bounds.

    `relation` is the relation of the measured bytes and T to the prediction.
    """
    wanted = str(table), algorithm
    (orders,) = (row for row in printed("tseng_sheu_orders") if (row["table"], row["algorithm"]) == wanted)
    bound = bounds[orders["model"]]
    predictions = (cost.startups, cost.transfer, seconds(cost))
    least = (bound.startups, bound.transfer, max(bound.time(STARTUP, 0), bound.time(0, PER_BYTE)))
    for (quantity, metric, unit), predicted, lower in zip(QUANTITIES, predictions, least, strict=True):
        about: dict[str, object] = {
            "model": orders["model"],
            "algorithm": algorithm,
            "quantity": "T in ms" if quantity == "T" else quantity,
        }
        expected, limit, paper = _tidy(float(predicted) * unit), _tidy(float(lower) * unit), orders[quantity]
        if trial is None:
            yield about | unmeasured(expected, paper=paper, bound=limit)
            continue
        measured, how = _tidy(trial.number(metric) * unit), startups_relation if metric == "startups" else relation
        yield about | compared(expected, measured, trial, paper=paper, relation=how, bound=limit)


def _tidy(value: float) -> float:
    """Round to nine digits; whole numbers become int."""
    return int(value) if float(value).is_integer() else float(f"{value:.9g}")


def table_1(cache: RunCache, n: int) -> Iterator[dict[str, object]]:
    """Compare the times of a one-to-all broadcast."""
    star, m = StarGraph(n), BROADCAST_BYTES
    bounds = {
        "all-port": Cost(star.diameter, m / star.degree),
        "one-port": Cost(max(star.diameter, ceil(log2(factorial(n)))), m),
    }

    def rows(
        algorithm: str, cost: Cost, trial: CachedRun | None = None, relation: str = "<=", startups: str = "=="
    ) -> Iterator[dict[str, object]]:
        yield from _cost_rows(1, algorithm, cost, bounds, trial, relation, startups)

    yield from rows("Sheu [16], pipelined", best_pipeline(2 * n - 3, m))
    trial = broadcast(cache, n, "greedy-tree", m)
    yield from rows("Day [7], pipelined", pipelined(star.diameter, m, pieces(trial)), trial)
    trial = broadcast(cache, n, "congestion2-trees", m)
    yield from rows("algorithm 1", algorithm_1(n, m, pieces(trial)), trial)
    half, logs = n * (n - 1) // 2, phases(n)
    yield from rows("Misic [13]", Cost(half, half * m))
    yield from rows("Akl [2], Mendia [12]", Cost(logs, logs * m))
    yield from rows("Sheu [17], pipelined", stepped_pipeline(n, m))
    trial = broadcast(cache, n, "substar-segments", m, "one-port", segments=1)
    # n!/2 segments: the last one is shorter unless they divide the message
    relation = "<=" if m % (factorial(n) // 2) else "=="
    yield from rows("Qiu [14]", recursion(n, m), trial, relation)
    trial = broadcast(cache, n, "congestion2-trees", m, "one-port")
    slots = algorithm_1(n, m, pieces(trial))
    one_port = Cost((n - 1) * slots.startups, (n - 1) * slots.transfer)
    yield from rows("section 4.2", one_port, trial, startups="<=")


def without_pipelining(cache: RunCache, n: int) -> Iterator[dict[str, object]]:
    """Compare section 6.1: h' (Ts + m Tc) along one tree of height h', the message in one piece."""
    star, m = StarGraph(n), BROADCAST_BYTES
    trial = broadcast(cache, n, "greedy-tree", m, segments=1)
    bounds = {"startups": star.diameter, "transfer_bytes": m / star.degree}
    for name, depth, run in (("Sheu [16]", 2 * n - 3, None), ("Day [7]", star.diameter, trial)):
        for quantity, metric, predicted in (("start-ups", "startups", depth), ("bytes", "transfer_bytes", depth * m)):
            about: dict[str, object] = {"n": n, "tree": name, "height h'": depth, "quantity": quantity}
            paper = "h' Ts" if metric == "startups" else "h' m Tc"
            yield about | compared_metric(predicted, run, metric, paper=paper, bound=bounds[metric])


def excess() -> dict[str, object]:
    """Check section 6.1: the bytes of one tree without pipelining are an order of n^2 above the optimum m/(n-1)."""
    found = spread("diameter*(n-1)", "n^2")
    about: dict[str, object] = {"quantity": "bytes of Day [7] over the optimum", "paper": "O(n^2)"}
    return about | {"form": "D_n (n-1)", "spread": round(found, 3), VERDICT: status(found)}


def best_segments_row(cache: RunCache, n: int) -> dict[str, object]:
    """Check that T at the paper's real-valued optimum is the least of all T(p); the nearest whole p comes close."""
    m, h = BROADCAST_BYTES, height(n)
    trial = broadcast(cache, n, "congestion2-trees", m)
    real = sqrt(2 * m * (h - 1) * PER_BYTE / ((n - 1) * STARTUP))
    least = (sqrt((h - 1) * STARTUP) + sqrt(2 * m * PER_BYTE / (n - 1))) ** 2
    milliseconds = 1e3 * seconds(algorithm_1(n, m, pieces(trial)))
    about: dict[str, object] = {
        "n": n,
        "h": h,
        "p of (5)": round(real, 2),
        "p used": pieces(trial),
        "T of (4), ms": round(1e3 * least, 4),
        "T(p), ms": round(milliseconds, 4),
    }
    return about | compared(
        round(milliseconds, 6),
        round(1e3 * trial.number("virtual_seconds"), 6),
        trial,
        relation="<=",
        paper="(h + p - 1)(Ts + 2m/(p(n-1)) Tc)",
        bound=1e3 * max(StarGraph(n).diameter * STARTUP, m / (n - 1) * PER_BYTE),
    )


def over_message_size(cache: RunCache, n: int) -> Figure:
    """Draw T of the greedy tree and of algorithm 1 over the message size."""

    def line(time: Callable[[int], float]) -> list[tuple[float, float]]:
        return [(m, 1e3 * time(m)) for m in CURVE_BYTES]

    def measured(algorithm: str) -> Callable[[int], float]:
        return lambda m: broadcast(cache, n, algorithm, m).number("virtual_seconds")

    def at_most(m: int) -> float:
        return seconds(algorithm_1(n, m, pieces(broadcast(cache, n, "congestion2-trees", m))))

    star = StarGraph(n)
    drawing = curves(
        f"Broadcast on S_{n}: one greedy tree, and n - 1 trees of congestion 2",
        {
            "greedy tree, predicted": line(lambda m: seconds(best_pipeline(star.diameter, m))),
            "algorithm 1, at most": line(at_most),
            "greedy tree, measured": line(measured("greedy-tree")),
            "algorithm 1, measured": line(measured("congestion2-trees")),
            "lower bound": line(lambda m: max(star.diameter * STARTUP, m / star.degree * PER_BYTE)),
        },
        "m, bytes",
        "T, ms of virtual time",
        log_x=True,
        log_y=True,
        dots=("greedy tree, measured", "algorithm 1, measured"),
    )
    return Figure(
        f"Table 1 drawn: T over the message size, n = {n}",
        drawing.svg,
        "Segments by formula (5) for every size; Ts = 1 ms, Tc = 1 us.",
    )


def over_segments(cache: RunCache, n: int) -> Figure:
    """Draw T of algorithm 1 over the number of segments."""
    m = BROADCAST_BYTES
    measured = [
        (p, 1e3 * broadcast(cache, n, "congestion2-trees", m, segments=p).number("virtual_seconds"))
        for p in CURVE_SEGMENTS
    ]
    drawing = curves(
        f"Algorithm 1 on S_{n}, m = {m:,} bytes, by the number of segments",
        {
            "T(p), predicted": [(p, 1e3 * seconds(algorithm_1(n, m, p))) for p in CURVE_SEGMENTS],
            "measured": measured,
        },
        "p, segments on each tree",
        "T, ms of virtual time",
        log_x=True,
        log_y=True,
        only_x=CURVE_SEGMENTS,
        dots=("measured",),
    )
    return Figure(
        f"Section 4.1: T over the number of segments, n = {n}",
        drawing.svg,
        "T(p) charges every slot for two segments; in the first and last slots links carry one, so runs stay below T(p).",
    )


def table_2(cache: RunCache, n: int) -> Iterator[dict[str, object]]:
    """Compare the times of an all-to-all broadcast."""
    star, m = StarGraph(n), ALLGATHER_BYTES
    others, d = star.order - 1, star.diameter
    all_port, one_port = Cost(d, others * m / star.degree), Cost(max(d, ceil(log2(star.order))), others * m)
    unit = ceil(others / star.degree)
    # table 2 prints (n!-1) m/(n-1) bytes for NL; with a whole level in a packet, every level is rounded up
    levels = m * sum(ceil(nodes / star.degree) for nodes in star.distance_distribution()[1:])
    for name, algorithm, model, cost in (
        ("HAM [8], single messages", "rotated-hamiltonian", "all-port", Cost(unit, unit * m)),
        ("NL [8], single messages", "mbst", "all-port", Cost(unit, unit * m)),
        ("NL [8], whole levels", "mbst-levels", "all-port", Cost(d, levels)),
        ("algorithm 2", "rotated-trees", "all-port", all_port),
        ("Misic [13] (Hamiltonian cycle)", "hamiltonian-cycle", "one-port", Cost(others, others * m)),
        ("section 5.2", "rotated-trees", "one-port", Cost((n - 1) * d, others * m)),
    ):
        trial = cache.run(star, "allgather", algorithm, port_model=model, message_bytes=m)
        yield from _cost_rows(2, name, cost, {"all-port": all_port, "one-port": one_port}, trial)
