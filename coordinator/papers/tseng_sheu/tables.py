"""Tseng and Sheu 1997: tables 1 and 2 evaluated and measured, the lemmas behind them, and figures 1 to 4 drawn.

Y.-C. Tseng and J.-P. Sheu, "Toward optimal broadcast in a star graph using multiple spanning trees", IEEE Trans.
Computers 46(5), 1997. Ts is the time of a start-up, Tc that of a byte, m the bytes of a message, D_n the diameter, h the
largest height of the trees Lhat. The tables print orders of magnitude; what is evaluated here are the closed forms of
sections 4 to 6 behind them. Of the algorithms that the paper compares itself with, those without a schedule here are
evaluated and not measured.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, factorial, gcd, log2, sqrt

import polars as pl

from coordinator.papers.base import Figure, Reproduction, Section
from coordinator.papers.run_cache import RunCache, Trial
from coordinator.papers.tables import ERRATUM, Table, compared, notes, unmeasured
from coordinator.papers.tseng_sheu.figures import figure_1, figure_2, figure_3, figure_4, figure_checks
from coordinator.reports.charts import curves
from emunode.algorithms.star.multiple_trees import best_segments
from emunode.topologies.star import StarGraph

NOTES = notes("tseng_sheu", "tables")

STARTUP = 1e-3
PER_BYTE = 1e-6
BROADCAST_BYTES = 60_000
"""m of table 1: large enough that cutting it into segments pays."""
ALLGATHER_BYTES = 60
"""m of table 2, a multiple of n - 1 for n = 3..6."""
LARGEST_DRAWN = 5
CURVE_BYTES = (60, 600, 6_000, 20_000, 60_000)
CURVE_SEGMENTS = (1, 2, 4, 8, 16, 32, 64)


def build(cache: RunCache) -> Iterator[Section]:
    """Tables 1 and 2 for every size, then what they rest on, then the figures."""
    for n in cache.sizes:
        title = f"Table 1, one-to-all broadcast, n = {n}, m = {BROADCAST_BYTES:,} bytes"
        yield Table(title, _table_1(cache, n), NOTES["table_1"] if n == cache.sizes[-1] else ())
    drawn = max(n for n in cache.sizes if n <= LARGEST_DRAWN or len(cache.sizes) == 1)
    yield _over_message_size(cache, drawn)
    yield _over_segments(cache, drawn)
    yield Table("Section 4.1: the best number of segments", [_best(cache, n) for n in cache.sizes])
    for n in cache.sizes:
        title = f"Table 2, all-to-all broadcast, n = {n}, m = {ALLGATHER_BYTES} bytes"
        yield Table(title, _table_2(cache, n), NOTES["table_2"] if n == cache.sizes[-1] else ())
    with_3 = list(dict.fromkeys((3, *cache.sizes)))
    greedy = [row for n in with_3 for row in _greedy(cache, n)]
    yield Table("Lemmas 3 and 4: the greedy tree L, and its n - 1 shifts together", greedy, NOTES["greedy"])
    heights = [row for n in with_3 for row in _heights(cache, n)]
    yield Table("Lemmas 5 and 6: heights and congestion", heights, NOTES["heights"])
    yield Table("Lemma 7: segments on each directed link in each step", [_levels(cache, n) for n in cache.sizes])
    yield figure_1()
    yield figure_2()
    yield figure_3()
    yield figure_4()
    yield Table("Figures 1 to 4: what the trees and cycles in them have", figure_checks())


@dataclass(frozen=True)
class Cost:
    """Start-ups one after the other, and bytes on the heaviest links; together a time."""

    startups: float
    transferred: float

    @property
    def seconds(self) -> float:
        """startups Ts + bytes Tc."""
        return self.startups * STARTUP + self.transferred * PER_BYTE


def _cost_rows(
    about: dict[str, object],
    orders: Sequence[str],
    cost: Cost,
    bound: Cost,
    trial: Trial | None,
    relation: str = "==",
    startups_relation: str = "==",
) -> Iterator[dict[str, object]]:
    """Three rows: start-ups, bytes, and T, whose lower bound is the larger of both.

    `relation` is that of the measured bytes and T to the prediction.
    """
    least = max(bound.startups * STARTUP, bound.transferred * PER_BYTE)
    quantities = (
        ("start-ups", "startups", 1, cost.startups, bound.startups),
        ("bytes", "transfer_bytes", 1, cost.transferred, bound.transferred),
        ("T in ms", "virtual_seconds", 1e3, cost.seconds, least),
    )
    for (quantity, metric, unit, predicted, lower), order in zip(quantities, orders, strict=True):
        row = about | {"quantity": quantity}
        expected, limit = _tidy(predicted * unit), _tidy(lower * unit)
        if trial is None:
            yield row | unmeasured(expected, paper=order, bound=limit)
            continue
        measured = _tidy(trial.number(metric) * unit)
        how = startups_relation if metric == "startups" else relation
        yield row | compared(expected, measured, trial, paper=order, relation=how, bound=limit)


def _tidy(value: float) -> float:
    """Whole numbers as such, others to nine digits."""
    return int(value) if float(value).is_integer() else float(f"{value:.9g}")


# Table 1.


def height(n: int) -> int:
    """h: the largest of D_n + n + gcd(n, i) - 2."""
    return StarGraph(n).diameter + n + max(gcd(n, i) for i in range(1, n)) - 2


def phases(n: int) -> int:
    """sum over i = 2..n of ceil(log2 i)."""
    return sum(ceil(log2(i)) for i in range(2, n + 1))


def _table_1(cache: RunCache, n: int) -> Iterator[dict[str, object]]:
    star, m = StarGraph(n), BROADCAST_BYTES
    all_port = Cost(star.diameter, m / star.degree)
    one_port = Cost(max(star.diameter, ceil(log2(factorial(n)))), m)

    def row(
        model: str,
        name: str,
        orders: str,
        cost: Cost,
        trial: Trial | None = None,
        how: str = "<=",
        startups: str = "==",
    ) -> Iterator[dict[str, object]]:
        bound = all_port if model == "all-port" else one_port
        about: dict[str, object] = {"model": model, "algorithm": name}
        yield from _cost_rows(about, orders.split(" | "), cost, bound, trial, how, startups)

    deep = _pipeline(2 * n - 3, m)
    yield from row("all-port", "Sheu [16], pipelined", "O(n) | O(m) | O(n Ts + sqrt(n m Ts Tc) + m Tc)", deep)
    trial = broadcast(cache, n, "greedy-tree", m)
    cost = _pipelined(star.diameter, trial)
    yield from row("all-port", "Day [7], pipelined", "O(n) | O(m) | O(n Ts + sqrt(n m Ts Tc) + m Tc)", cost, trial)
    trial = broadcast(cache, n, "congestion2-trees", m)
    cost = algorithm_1(n, m, pieces(trial))
    yield from row("all-port", "algorithm 1", "O(n) | O(m/n) | O(n Ts + sqrt(m Ts Tc) + m/n Tc)", cost, trial)
    half = n * (n - 1) // 2
    yield from row("one-port", "Misic [13]", "O(n^2) | O(n^2 m) | O(n^2 Ts + n^2 m Tc)", Cost(half, half * m))
    logs = phases(n)
    whole = "O(n log n) | O(n m log n) | O(n log n (Ts + m Tc))"
    yield from row("one-port", "Akl [2], Mendia [12]", whole, Cost(logs, logs * m))
    orders = "O(n log n) | O(m log n) | O(log n (n Ts + sqrt(n m Ts Tc) + m Tc))"
    yield from row("one-port", "Sheu [17], pipelined", orders, _stepped_pipeline(n, m))
    trial = broadcast(cache, n, "substar-segments", m, "one-port", segments=1)
    orders = "O(n^2) | O(n log n + m) | O(n^2 Ts + (n log n + m) Tc)"
    how = "<=" if m % (factorial(n) // 2) else "=="
    yield from row("one-port", "Qiu [14]", orders, recursion(n, m), trial, how)
    trial = broadcast(cache, n, "congestion2-trees", m, "one-port")
    slots = algorithm_1(n, m, pieces(trial))
    cost = Cost((n - 1) * slots.startups, (n - 1) * slots.transferred)
    orders = "O(n^2) | O(m) | O(n^2 Ts + n sqrt(m Ts Tc) + m Tc)"
    yield from row("one-port", "section 4.2", orders, cost, trial, startups="<=")


def broadcast(
    cache: RunCache, n: int, algorithm: str, size: int, model: str = "all-port", segments: int | str = "auto"
) -> Trial:
    """A one-to-all broadcast of `size` bytes."""
    return cache.run(
        topology=f"star:{n}",
        collective="broadcast",
        algorithm=algorithm,
        port_model=model,
        message_bytes=size,
        segments=segments,
        startup="1ms",
        per_byte="1us",
    )


def pieces(trial: Trial) -> int:
    """p, the segments on each tree."""
    return trial.plan.spec.segments


def algorithm_1(n: int, m: int, p: int) -> Cost:
    """(h + p - 1)(Ts + 2m/(p(n-1)) Tc), a segment rounded up to whole bytes."""
    slots = height(n) + p - 1
    return Cost(slots, slots * 2 * ceil(m / (p * (n - 1))))


def recursion(n: int, m: int) -> Cost:
    """Down through the substars S_n, .., S_3 and up again, i - 1 packets of m (i-1)!/n! bytes at each level; one at S_2.

    A segment, 2m/n!, is rounded up to whole bytes.
    """
    segments = [factorial(i) // 2 for i in range(2, n)]  # of a block of S_2, .., S_{n-1}
    moved = 1 + sum(2 * i * count for i, count in enumerate(segments, 2))
    return Cost(1 + sum(2 * i for i in range(2, n)), moved * ceil(2 * m / factorial(n)))


def _pipelined(height: int, trial: Trial) -> Cost:
    p = pieces(trial)
    slots = height + p - 1
    return Cost(slots, slots * ceil(trial.plan.spec.message_bytes / p))


def _pipeline(height: int, m: int) -> Cost:
    """(h + p - 1)(Ts + m/p Tc) with the best p."""

    def cost(p: int) -> Cost:
        return Cost(height + p - 1, (height + p - 1) * ceil(m / p))

    return cost(best_segments(lambda p: cost(p).seconds, sqrt((height - 1) * m * PER_BYTE / STARTUP), m))


def _stepped_pipeline(n: int, m: int) -> Cost:
    """((p - 1) ceil(log2 n) + sum ceil(log2 i))(Ts + m/p Tc) with the best p: a packet every ceil(log2 n) phases."""
    every, first = ceil(log2(n)), phases(n)

    def cost(p: int) -> Cost:
        steps = (p - 1) * every + first
        return Cost(steps, steps * ceil(m / p))

    return cost(best_segments(lambda p: cost(p).seconds, sqrt((first - every) * m * PER_BYTE / (every * STARTUP)), m))


def _best(cache: RunCache, n: int) -> dict[str, object]:
    """T at the paper's real optimum is the least of all T(p); the whole number beside it comes close."""
    m, h = BROADCAST_BYTES, height(n)
    trial = broadcast(cache, n, "congestion2-trees", m)
    real = sqrt(2 * m * (h - 1) * PER_BYTE / ((n - 1) * STARTUP))
    least = (sqrt((h - 1) * STARTUP) + sqrt(2 * m * PER_BYTE / (n - 1))) ** 2
    cost = algorithm_1(n, m, pieces(trial))
    return {
        "n": n,
        "h": h,
        "p of (5)": round(real, 2),
        "p used": pieces(trial),
        "T of (4), ms": round(1e3 * least, 4),
        "T(p), ms": round(1e3 * cost.seconds, 4),
    } | compared(
        round(1e3 * cost.seconds, 6),
        round(1e3 * trial.number("virtual_seconds"), 6),
        trial,
        relation="<=",
        paper="(h + p - 1)(Ts + 2m/(p(n-1)) Tc)",
        bound=1e3 * max(StarGraph(n).diameter * STARTUP, m / (n - 1) * PER_BYTE),
    )


def _over_message_size(cache: RunCache, n: int) -> Figure:
    def line(time: Callable[[int], float]) -> list[tuple[float, float]]:
        return [(m, 1e3 * time(m)) for m in CURVE_BYTES]

    def measured(algorithm: str) -> Callable[[int], float]:
        return lambda m: broadcast(cache, n, algorithm, m).number("virtual_seconds")

    def at_most(m: int) -> float:
        return algorithm_1(n, m, pieces(broadcast(cache, n, "congestion2-trees", m))).seconds

    star = StarGraph(n)
    svg = curves(
        f"Broadcast on S_{n}: one greedy tree, and n - 1 trees of congestion 2",
        {
            "greedy tree, predicted": line(lambda m: _pipeline(star.diameter, m).seconds),
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
        svg,
        "Segments by formula (5) for every size; Ts = 1 ms, Tc = 1 us.",
    )


def _over_segments(cache: RunCache, n: int) -> Figure:
    m = BROADCAST_BYTES
    svg = curves(
        f"Algorithm 1 on S_{n}, m = {m:,} bytes, by the number of segments",
        {
            "T(p), predicted": [(p, 1e3 * algorithm_1(n, m, p).seconds) for p in CURVE_SEGMENTS],
            "measured": [
                (p, 1e3 * broadcast(cache, n, "congestion2-trees", m, segments=p).number("virtual_seconds"))
                for p in CURVE_SEGMENTS
            ],
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
        svg,
        "T(p) counts two segments in every slot; in the first and the last slots links carry one, so runs stay below it.",
    )


# Table 2.


def _table_2(cache: RunCache, n: int) -> Iterator[dict[str, object]]:
    star, m = StarGraph(n), ALLGATHER_BYTES
    others, d = star.order - 1, star.diameter
    share = others * m / star.degree
    all_port = Cost(d, share)
    one_port = Cost(max(d, ceil(log2(star.order))), others * m)
    unit = ceil(others / star.degree)

    def row(name: str, algorithm: str, model: str, orders: str, cost: Cost) -> Iterator[dict[str, object]]:
        trial = cache.run(
            topology=star.name, collective="allgather", algorithm=algorithm, port_model=model, message_bytes=m
        )
        bound = all_port if model == "all-port" else one_port
        yield from _cost_rows({"model": model, "algorithm": name}, orders.split(" | "), cost, bound, trial)

    moved = "O((n!-1) m/(n-1))"
    orders = f"O((n-1)!) | {moved} | (n-1)! Ts + (n!-1) m/(n-1) Tc {ERRATUM}"
    yield from row("HAM [8], single messages", "rotated-hamiltonian", "all-port", orders, Cost(unit, unit * m))
    orders = f"O(n) {ERRATUM} | {moved} | D_n Ts + (n!-1) m/(n-1) Tc {ERRATUM}"
    yield from row("NL [8], single messages", "mbst", "all-port", orders, Cost(unit, unit * m))
    orders = f"O(n) | {moved} | D_n Ts + (n!-1) m/(n-1) Tc {ERRATUM}"
    levels = Cost(d, m * sum(ceil(nodes / star.degree) for nodes in star.distance_distribution()[1:]))
    yield from row("NL [8], whole levels", "mbst-levels", "all-port", orders, levels)
    orders = f"O(n) | {moved} | D_n Ts + (n!-1) m/(n-1) Tc"
    yield from row("algorithm 2", "rotated-trees", "all-port", orders, all_port)
    orders = "O(n!) | O(n! m) | (n!-1)(Ts + m Tc)"
    yield from row("Misic [13] (Hamiltonian cycle)", "hamiltonian-cycle", "one-port", orders, Cost(others, others * m))
    orders = "O(n^2) | O(n! m) | (n-1) D_n Ts + (n!-1) m Tc"
    yield from row("section 5.2", "rotated-trees", "one-port", orders, Cost((n - 1) * d, others * m))


# Lemmas 3 to 7.


def _greedy(cache: RunCache, n: int) -> Iterator[dict[str, object]]:
    """L from a broadcast, its shifts from the reduces to rho^i(r), whose packets follow the arcs towards the root."""
    star = StarGraph(n)
    trial = broadcast(cache, n, "greedy-tree", 60, segments=1)
    about: dict[str, object] = {"n": n}
    nodes = star.distance_distribution()[1:]
    yield (
        about
        | {"quantity": "nodes reached in step t = 1..D_n"}
        | compared(nodes, tuple(trial.series("receivers_per_step")), trial, paper="lemma 3: greedy, spanning")
    )
    arcs = trial.journal().select("sender", "receiver").collect().rows()
    closer = sum(star.weight(sender) == star.weight(receiver) - 1 for sender, receiver in arcs)
    yield (
        about
        | {"quantity": "arcs that lead closer to the root"}
        | compared(star.order - 1, closer, trial, paper="lemma 3: all n! - 1")
    )
    shifts = [star.identity[-i:] + star.identity[:-i] for i in range(1, n)]
    trials = [_to_root(cache, n, star.label(star.rank_of(shift))) for shift in shifts]
    links = (
        pl.concat([trial.table("links") for trial in trials]).group_by("sender", "port").agg(pl.col("segments").sum())
    )
    used = links["segments"]
    yield (
        about
        | {"quantity": "congestion of L(rho^1(r)), .., L(rho^{n-1}(r))"}
        | compared(2, used.max(), *trials, paper="lemma 4: at most 2", relation="<=")  # type: ignore[arg-type]
    )
    yield (
        about
        | {"quantity": "arcs of these trees"}
        | compared((n - 1) * (star.order - 1), int(used.sum()), *trials, paper="(n-1)(n!-1)")
    )


def _to_root(cache: RunCache, n: int, root: str) -> Trial:
    """Everybody's data folded along L(root)."""
    return cache.run(
        topology=f"star:{n}", collective="reduce", algorithm="greedy-tree", source=root, message_bytes=60, segments=1
    )


def _heights(cache: RunCache, n: int) -> Iterator[dict[str, object]]:
    """Heights as the last step in which a tree delivers, congestion as the segments that a link carries, one a tree.

    The path p_i is as long as the level of its end rho^i(r) in tree i: the step in which that tree reaches it.
    """
    star = StarGraph(n)
    trial = broadcast(cache, n, "congestion2-trees", 60, segments=1)
    for i in range(1, n):
        goal = star.rank_of(star.identity[-i:] + star.identity[:-i])
        arrival = trial.journal().filter(pl.col("tree") == i - 1, pl.col("receiver") == goal).collect()["step"]
        yield {"n": n, "quantity": f"length of p_i, i = {i}"} | compared(
            n + gcd(n, i) - 2, int(arrival.item()), trial, paper="n + gcd(n, i) - 2"
        )
    last = dict(trial.journal().group_by("tree").agg(pl.col("step").max()).collect().iter_rows())
    for i in range(1, n):
        printed = star.diameter + n + gcd(n, i) - 2
        wrong = (n, i) == (3, 2)
        yield {"n": n, "quantity": f"height of Lhat, i = {i}"} | compared(
            printed - wrong, last[i - 1], trial, paper=f"{printed} {ERRATUM}" if wrong else printed
        )
    yield {"n": n, "quantity": "congestion of directed links"} | compared(
        2, trial.number("max_link_segments"), trial, paper="at most 2", relation="<="
    )


def _levels(cache: RunCache, n: int) -> dict[str, object]:
    trial = cache.run(
        topology=f"star:{n}",
        collective="allgather",
        algorithm="rotated-trees",
        port_model="all-port",
        message_bytes=ALLGATHER_BYTES,
    )
    nodes = StarGraph(n).distance_distribution()[1:]
    links = trial.table("links")["segments"]
    return {"n": n, "least on a link": links.min(), "most on a link": links.max()} | compared(
        nodes, tuple(trial.series("heaviest_link_segments_per_step")), trial, paper="|D_t|, t = 1..D_n"
    )


REPRODUCTION = Reproduction(
    name="tseng-sheu-1997",
    title="Broadcast in a star graph by multiple spanning trees",
    paper="Tseng-Sheu 1997, tables 1 and 2, lemmas 1 to 7, figures 1 to 4",
    description="One-to-all and all-to-all broadcast beside the algorithms they improve on: start-ups, bytes, virtual time.",
    build=build,
    sizes=range(4, 7),
)
