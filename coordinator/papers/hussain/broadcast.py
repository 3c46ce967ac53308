"""Broadcasting in Eisenstein-Jacobi networks: Hussain, tables 1 to 3 and figures 15 to 22.

Both one-to-all algorithms are run node by node in EJ_{3+4rho}^(n) for n = 1..3, and in those networks of twelve steps that
are not larger than 226,981 nodes; what is larger is counted by the generating functions of `ej_counts`, which the runs
confirm. The figures were pictures without numbers; they are drawn from the counts.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from coordinator.papers.base import Figure, Reproduction, Section
from coordinator.papers.run_cache import RunCache, Trial
from coordinator.papers.tables import ERRATUM, VERDICT, Table, notes, row_verdict, verdict_of
from coordinator.reports.charts import Held, curves
from coordinator.results.claims import Verdict
from emunode.algorithms.eisenstein_jacobi import counts as ej_counts
from emunode.algorithms.eisenstein_jacobi.counts import Counts
from emunode.algorithms.eisenstein_jacobi.literal import PrintedBroadcast
from emunode.topologies.eisenstein_jacobi import EisensteinJacobi

NOTES = notes("hussain", "broadcast")

PAPER = "Hussain, An Improved One-to-All Broadcasting in Higher Dimensional Eisenstein-Jacobi Networks"
SIZES = range(1, 4)
A, B = 3, 4
"""alpha = 3 + 4 rho of tables 1 to 3 and figures 15 to 18 and 22."""
ALGORITHMS: Mapping[str, Callable[[EisensteinJacobi], Counts]] = {
    "iterative": ej_counts.iterative,
    "improved": ej_counts.improved,
}
PREVIOUS, PROPOSED = ALGORITHMS
"""The paper's words for them."""
NAMES = {PREVIOUS: "previous", PROPOSED: "proposed"}

TABLE_1 = (
    (50646, 1, 6, 7),
    (50635, 6, 12, 18),
    (50623, 12, 18, 30),
    (50394, 37, 222, 259),
    (49987, 222, 444, 666),
    (49543, 444, 666, 1110),
    (41070, 1369, 8214, 9583),
    (26011, 8214, 16428, 24642),
    (9583, 16428, 24642, 41070),
)
"""Free, sending, receiving and active nodes of the previous algorithm in EJ_{3+4rho}^(3), as printed."""
TABLE_2 = (
    (50634, 1, 18, 19),
    (50491, 18, 144, 162),
    (49807, 144, 702, 846),
    (47593, 684, 2376, 3060),
    (42661, 2160, 5832, 7992),
    (35425, 4752, 10476, 15228),
    (29809, 7236, 13608, 20844),
    (31861, 7128, 11664, 18792),
    (40933, 3888, 5832, 9720),
)
"""The same of the proposed algorithm."""
TABLE_3 = (
    (19, 19, 0, "1"),
    (722, 703, 19, "1.027027027"),
    (26733, 26011, 722, "1.027757487"),
    (989140, 962407, 26733, "1.027777229"),
    (36598199, 35609059, 989140, "1.027777763"),
    (1354133382, 1317535183, 36598199, "1.027777777"),
)
"""Total senders, previous and proposed, their difference and ratio in EJ_{3+4rho}^(n), n = 1..6, as printed."""
TWELVE_STEPS = ((1, 2, 12), (2, 3, 6), (3, 4, 4), (4, 5, 3), (6, 7, 2))
"""a, b, n of the networks of figures 19 to 21."""
STEP_COLUMNS = ("free", "sending", "receiving", "active")


@dataclass(frozen=True)
class Counted:
    """What theory says of one algorithm in one network, and a run of it, if there is one."""

    network: EisensteinJacobi
    counts: Counts
    trial: Trial | None

    @property
    def predicted(self) -> list[tuple[int, ...]]:
        """Free, sending, receiving and active nodes, step by step."""
        counts = self.counts
        return list(zip(counts.free, counts.senders, counts.receivers, counts.active, strict=True))

    @property
    def measured(self) -> list[tuple[int, ...]] | None:
        """The same of the run."""
        return self.trial.table("steps").select(STEP_COLUMNS).rows() if self.trial else None

    def verdict(self, *conditions: bool) -> Verdict:
        """Holds if everything does, and the run held its own claims; what was only counted can fail as well."""
        return row_verdict(*conditions, trials=[self.trial] if self.trial else [])


def name_of(network: EisensteinJacobi) -> str:
    """EJ_{a+brho}^(n)."""
    return network.title.split()[-1]


def counted(cache: RunCache, algorithm: str, a: int, b: int, n: int, *, run: bool) -> Counted:
    """Count, and run if asked to."""
    network = EisensteinJacobi(a, b, n)
    trial = (
        cache.run(topology=network.name, collective="broadcast", algorithm=algorithm, duplex="half") if run else None
    )
    return Counted(network, ALGORITHMS[algorithm](network), trial)


# --- tables 1 and 2, figures 15 to 18 ------------------------------------------------------------------------------------


def _steps(found: Counted, printed: Sequence[tuple[int, ...]]) -> Iterator[dict[str, object]]:
    """A row a step; printed numbers are there for three dimensions only."""
    measured = found.measured or []
    for step, (predicted, seen) in enumerate(zip(found.predicted, measured, strict=True), 1):
        paper = printed[step - 1] if printed else None
        yield {
            "step": step,
            "paper": None if paper is None else _together(paper),
            "predicted": _together(predicted),
            "measured": _together(seen),
            VERDICT: found.verdict(predicted == seen, paper in (None, predicted)),
        }
    totals = [
        tuple(sum(row[column] for row in rows) for column in (1, 2)) for rows in (printed, found.predicted, measured)
    ]
    yield {
        "step": "total",
        "paper": _together(totals[0]) if printed else None,
        "predicted": _together(totals[1]),
        "measured": _together(totals[2]),
        VERDICT: found.verdict(totals[1] == totals[2], not printed or totals[0] == totals[1]),
    }


def _together(numbers: Sequence[int]) -> str:
    return " / ".join(f"{number:,}" for number in numbers)


def _formulas(found: Counted) -> Iterator[dict[str, object]]:
    """Eqs. (12) and (13) for every step of the previous algorithm."""
    network = found.network
    length = network.diameter // network.dimensions
    for step, row in enumerate(found.measured or []):
        round_, d = step // length + 1, step % length + 1
        receivers, senders = ej_counts.formula_12(network, round_, d), ej_counts.formula_13(network, round_, d)
        right = senders == row[1]
        yield {
            "round": round_,
            "step": d,
            "eq. (12)": receivers,
            "receivers": row[2],
            "eq. (13)": f"{senders:,}{'' if right else f' {ERRATUM}'}",
            "senders": row[1],
            VERDICT: found.verdict(
                receivers == row[2], right == (d > 1), right or row[1] == network.modulus ** (round_ - 1)
            ),
        }


def _by_step(title: str, column: int, pair: Sequence[Counted]) -> Figure:
    """One of the columns of tables 1 and 2 over the steps."""
    what = ("free nodes", "senders", "receivers", "active nodes")[column]
    by_name = dict(zip(NAMES.values(), pair, strict=True))
    network = pair[0].network
    drawing = curves(
        f"{title}: {what} in each step of {name_of(network)}",
        {
            name: Held(_over_steps(found.predicted, column), _over_steps(found.measured or [], column))
            for name, found in by_name.items()
        },
        "step",
        what,
        only_x=range(1, network.diameter + 1),
    )
    return Figure(title, drawing, "Lines: predicted. Marks: measured.")


def _over_steps(rows: Sequence[Sequence[float]], column: int) -> list[tuple[float, float]]:
    return [(float(step), float(row[column])) for step, row in enumerate(rows, 1)]


# --- table 3 and figure 22 -----------------------------------------------------------------------------------------------


def _totals(cache: RunCache) -> Iterator[dict[str, object]]:
    for n, printed in enumerate(TABLE_3, 1):
        run = n in cache.sizes
        found = [counted(cache, name, A, B, n, run=run) for name in ALGORITHMS]
        predicted = _total_row([pair.counts.total_senders for pair in found])
        seen = [sum(row[1] for row in pair.measured or []) for pair in found]
        measured = _total_row(seen) if run else None
        yield {
            "n": n,
            "nodes": found[0].network.order,
            "paper": _totals_text(printed),
            "predicted": _totals_text(predicted),
            "measured": _totals_text(measured) if measured else None,
            "saving": round(float(ej_counts.saving(found[0].network)), 5),
            VERDICT: verdict_of(pair.verdict(predicted == printed, measured in (None, predicted)) for pair in found),
        }


def _total_row(totals: Sequence[int]) -> tuple[int, int, int, str]:
    """Previous, proposed, difference and their ratio to nine digits, as it is printed."""
    previous, proposed = totals
    ratio = "1" if previous == proposed else f"{previous / proposed:.9f}"
    return previous, proposed, previous - proposed, ratio


def _totals_text(row: tuple[int, int, int, str]) -> str:
    return f"{_together(row[:3])} / {row[3]}"


def _figure_22() -> Figure:
    lines: dict[str, Held] = {}
    for n in (4, 5, 6):
        network = EisensteinJacobi(A, B, n)
        for name, count in ALGORITHMS.items():
            lines[f"{NAMES[name]}, n = {n}"] = Held(_over_steps([(sent,) for sent in count(network).senders], 0), ())
    drawing = curves(
        "Figure 22: senders in each step of EJ_{3+4rho}^(n)", lines, "step", "senders", log_y=True, only_x=range(1, 19)
    )
    return Figure(
        "Figure 22",
        drawing,
        "Counted: 1.9 million, 69 million and 2.6 billion nodes. In all dimensions the previous algorithm begins alike: its "
        "lines lie on one another.",
    )


# --- figures 19 to 21: networks of twelve steps --------------------------------------------------------------------------


def _twelve(cache: RunCache) -> dict[str, list[Counted]]:
    """Every network by each algorithm; the larger ones are counted only."""
    return {
        name: [counted(cache, name, a, b, n, run=n in cache.sizes and a > A) for a, b, n in TWELVE_STEPS]
        for name in ALGORITHMS
    }


def _twelve_rows(networks: Mapping[str, Sequence[Counted]]) -> Iterator[dict[str, object]]:
    for name, all_of_them in networks.items():
        for found in all_of_them:
            measured = found.measured
            yield {
                "network": name_of(found.network),
                "nodes": found.network.order,
                "algorithm": NAMES[name],
                "steps, paper": 12,
                "predicted": found.counts.steps,
                "measured": len(measured) if measured else None,
                "total senders": found.counts.total_senders,
                "measured senders": sum(row[1] for row in measured) if measured else None,
                "average receive step": round(float(found.counts.average_receive_step), 6),
                VERDICT: found.verdict(
                    found.counts.steps == 12, measured is None or [tuple(row) for row in measured] == found.predicted
                ),
            }


def _averages(networks: Mapping[str, Sequence[Counted]]) -> Iterator[Figure]:
    """The plain means of the five networks, step by step."""
    for number, what, column in ((19, "senders", 1), (20, "receivers", 2), (21, "active nodes", 3)):
        lines: dict[str, Held] = {}
        for name, all_of_them in networks.items():
            series = [[row[column] for row in found.predicted] for found in all_of_them]
            means = ej_counts.mean_by_step(series)
            lines[NAMES[name]] = Held([(float(step), float(mean)) for step, mean in enumerate(means, 1)], ())
        drawing = curves(
            f"Figure {number}: average {what} in each step of five networks",
            lines,
            "step",
            f"average {what}",
            log_y=True,
            only_x=range(1, 13),
        )
        yield Figure(
            f"Figure {number}",
            drawing,
            "Counted. A plain mean, as in the paper, in which EJ_{1+2rho}^(12) has 99.6 percent of the nodes.",
        )


# --- what the text claims ------------------------------------------------------------------------------------------------


def _averages_of_receipt(cache: RunCache) -> Iterator[dict[str, object]]:
    """Steps and the average step of receipt in every network that is run."""
    cases = [(A, B, n) for n in cache.sizes] + [(2, 3, n) for n in cache.sizes if n < 3]
    for a, b, n in cases:
        pair = [counted(cache, name, a, b, n, run=True) for name in ALGORITHMS]
        network = pair[0].network
        steps = [int(found.trial.number("steps")) for found in pair if found.trial]
        seen = [round(float(found.trial.number("average_receive_step")), 6) for found in pair if found.trial]
        predicted = [round(float(found.counts.average_receive_step), 6) for found in pair]
        better = seen[1] < seen[0] if n > 1 else seen[1] == seen[0]
        yield {
            "network": name_of(network),
            "steps, paper nM": network.dimensions * network.a if b == a + 1 else None,
            "lower bound": network.diameter,
            "steps": _together(steps),
            "ratio": round(max(steps) / network.diameter, 4),
            "average step, predicted": " / ".join(f"{value:.6f}" for value in predicted),
            "measured": " / ".join(f"{value:.6f}" for value in seen),
            VERDICT: verdict_of(
                found.verdict(seen == predicted, better, steps == [network.diameter] * 2) for found in pair
            ),
        }


def _recurrences(cache: RunCache) -> Iterator[dict[str, object]]:
    """Eqs. (20) to (23) beside the generating function and the run; EJ_{2+3rho}^(2) is the paper's example."""
    printed = {(2, 3, 2): ((1, 12, 48, 72), (12, 60, 144, 144))}
    for a, b, n in ((2, 3, 2), *((A, B, n) for n in cache.sizes)):
        if n not in cache.sizes:
            continue
        found = counted(cache, PROPOSED, a, b, n, run=True)
        terms = ej_counts.recurrence(found.network)
        example = printed.get((a, b, n))
        for at, what in ((1, "senders"), (2, "receivers")):
            recurrence = terms.senders if at == 1 else terms.receivers
            seen = tuple(row[at] for row in found.measured or [])
            yield {
                "network": name_of(found.network),
                "of": what,
                "paper": ", ".join(map(str, example[at - 1])) if example else None,
                "eqs. (20) to (23)": ", ".join(map(str, recurrence)),
                "measured": ", ".join(map(str, seen)),
                VERDICT: found.verdict(recurrence == seen, example is None or example[at - 1] == seen),
            }


MISPRINTED: Mapping[int, Sequence[tuple[int, int]]] = {
    1: ((1, 2), (2, 3), (3, 4), (4, 5)),
    2: ((2, 3), (3, 4)),
    3: ((3, 4),),
}
"""alpha of the networks in which Algorithm 1 is run as printed, by dimensions."""


def _misprint(cache: RunCache) -> Iterator[dict[str, object]]:
    """Algorithm 1 with line 6 as printed: whom it reaches, and how often nodes receive what they have."""
    for n in cache.sizes:
        for a, b in MISPRINTED[n]:
            network = EisensteinJacobi(a, b, n)
            trial = cache.run(
                topology=network.name, collective="broadcast", algorithm=PrintedBroadcast.name, duplex="half"
            )
            reached = (network.modulus - a * a // 4) ** n
            missing = network.order - reached
            found, again = 1 + int(trial.number("intact_deliveries")), int(trial.number("duplicates"))
            legal = trial.number("illegal_hops") == 0
            yield {
                "network": name_of(network),
                "nodes reached, paper": f"{network.order:,}{f' {ERRATUM}' if missing else ''}",
                "predicted": reached,
                "measured": found,
                "received again, predicted": missing,
                "received again": again,
                "steps": int(trial.number("steps")),
                VERDICT: row_verdict(found == reached, again == missing, legal, trials=[trial], refuted=missing > 0),
            }


def build(cache: RunCache) -> Iterator[Section]:
    """Tables 1 to 3, the equations and examples beside them, and figures 15 to 22."""
    for n in cache.sizes:
        yield from _one_network(cache, n)
    yield Table("Table 3: total senders in EJ_{3+4rho}^(n)", _totals(cache), NOTES["totals"])
    yield Table("Eqs. (20) to (23): the proposed algorithm", _recurrences(cache))
    yield Table("Steps, and the average step of receipt", _averages_of_receipt(cache), NOTES["receipt"])
    yield Table("Algorithm 1 with the misprint of line 6", _misprint(cache), NOTES["misprint"])
    networks = _twelve(cache)
    yield Table("Networks of twelve steps", _twelve_rows(networks), NOTES["twelve"])
    yield from _averages(networks)
    yield _figure_22()


def _one_network(cache: RunCache, n: int) -> Iterator[Section]:
    """Tables 1 and 2 and figures 15 to 18 in n dimensions; the paper's are those in three."""
    pair = [counted(cache, name, A, B, n, run=True) for name in ALGORITHMS]
    title, printed = name_of(pair[0].network), n == 3
    for number, found, paper in zip((1, 2), pair, (TABLE_1, TABLE_2), strict=True):
        name = NAMES[PREVIOUS if number == 1 else PROPOSED]
        heading = f"Table {number}: the {name} algorithm in {title}" if printed else f"The {name} algorithm in {title}"
        yield Table(heading, _steps(found, paper if printed else ()), NOTES["steps"])
    yield Table(f"Eqs. (12) and (13) in {title}", _formulas(pair[0]), NOTES["formulas"])
    if printed:
        for number, column in ((15, 1), (16, 2), (17, 0), (18, 3)):
            yield _by_step(f"Figure {number}", column, pair)


REPRODUCTION = Reproduction(
    name="hussain-broadcast",
    title="Broadcasting in Eisenstein-Jacobi networks",
    paper=f"{PAPER}, tables 1 to 3, figures 15 to 22",
    description="Senders, receivers and free nodes of both one-to-all algorithms, step by step, in up to 226,981 nodes.",
    build=build,
    sizes=SIZES,
)
