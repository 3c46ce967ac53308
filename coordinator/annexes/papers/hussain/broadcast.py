"""Broadcasting in Eisenstein-Jacobi networks: Hussain, tables 1 to 3 and figures 15 to 22.

Both one-to-all algorithms are run node by node in EJ_{3+4rho}^(n) for n = 1..3, and in the networks of twelve steps with at
most 226,981 nodes. Larger networks are counted by the generating functions of `ej_counts`; the runs confirm these. The
figures are pictures without numbers in the text; they are drawn from the counts.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from coordinator.annexes.papers.base import Figure, Section, described
from coordinator.annexes.papers.hussain.node_counts import (
    ALGORITHMS,
    NAMES,
    PREVIOUS,
    PROPOSED,
    SIZES,
    A,
    B,
    Counted,
    counted,
    name_of,
    together,
)
from coordinator.annexes.papers.hussain.text_claims import averages_of_receipt, misprint, recurrences
from coordinator.annexes.papers.run_cache import RunCache
from coordinator.annexes.papers.tables import (
    EVALUATED,
    VERDICT,
    Table,
    marked,
    notes,
    printed,
    printed_numbers,
    verdict_of,
)
from coordinator.reports.charts import HeldPrediction, curves
from emunode.algorithms.eisenstein_jacobi import counts as ej_counts
from emunode.topologies.eisenstein_jacobi import EisensteinJacobi

NOTES = notes("hussain", "broadcast")

TABLE_1 = printed_numbers("hussain_table_1")
"""Free, sending, receiving and active nodes of the previous algorithm in EJ_{3+4rho}^(3), as printed."""
TABLE_2 = printed_numbers("hussain_table_2")
"""The same for the proposed algorithm."""
TABLE_3 = tuple(
    (int(row["previous"]), int(row["proposed"]), int(row["difference"]), row["ratio"])
    for row in printed("hussain_table_3")
)
"""Total senders of both algorithms, their difference and ratio in EJ_{3+4rho}^(n), n = 1..6, as printed."""
TWELVE_STEPS = ((1, 2, 12), (2, 3, 6), (3, 4, 4), (4, 5, 3), (6, 7, 2))
"""a, b, n of the networks of figures 19 to 21."""


# --- tables 1 and 2, figures 15 to 18 ------------------------------------------------------------------------------------


def _steps(found: Counted, printed: Sequence[tuple[int, ...]]) -> Iterator[dict[str, object]]:
    """Yield one row per step; the paper prints numbers for three dimensions only."""
    measured = found.measured or []
    for step, (predicted, seen) in enumerate(zip(found.predicted, measured, strict=True), 1):
        paper = printed[step - 1] if printed else None
        yield {
            "step": step,
            "paper": None if paper is None else together(paper),
            "predicted": together(predicted),
            "measured": together(seen),
            VERDICT: found.verdict(predicted == seen, paper in (None, predicted)),
        }
    totals = [
        tuple(sum(row[column] for row in rows) for column in (1, 2)) for rows in (printed, found.predicted, measured)
    ]
    yield {
        "step": "total",
        "paper": together(totals[0]) if printed else None,
        "predicted": together(totals[1]),
        "measured": together(totals[2]),
        VERDICT: found.verdict(totals[1] == totals[2], not printed or totals[0] == totals[1]),
    }


def _formulas(found: Counted) -> Iterator[dict[str, object]]:
    """Check eqs. (12) and (13) for every step of the previous algorithm."""
    network = found.network
    length = network.diameter // network.dimensions
    for step, row in enumerate(found.measured or []):
        round_, d = step // length + 1, step % length + 1
        receivers, senders = ej_counts.formula_12(network, round_, d), ej_counts.formula_13(network, round_, d)
        # eq. (13) gives 0 senders in the first step of a round, where N^(r-1) nodes send
        right = senders == row[1]
        yield {
            "round": round_,
            "step": d,
            "eq. (12)": receivers,
            "receivers": row[2],
            "eq. (13)": marked(f"{senders:,}", erratum=not right),
            "senders": row[1],
            VERDICT: found.verdict(
                receivers == row[2], right == (d > 1), right or row[1] == network.modulus ** (round_ - 1)
            ),
        }


def _by_step(title: str, column: int, pair: Sequence[Counted]) -> Figure:
    """Return one column of tables 1 and 2 over the steps."""
    what = ("free nodes", "senders", "receivers", "active nodes")[column]
    by_name = dict(zip(NAMES.values(), pair, strict=True))
    network = pair[0].network
    drawing = curves(
        f"{title}: {what} in each step of {name_of(network)}",
        {
            name: HeldPrediction(_over_steps(found.predicted, column), _over_steps(found.measured or [], column))
            for name, found in by_name.items()
        },
        "step",
        what,
        only_x=range(1, network.diameter + 1),
    )
    return Figure(title, drawing.svg, "Lines: predicted. Marks: measured.")


def _over_steps(rows: Sequence[Sequence[float]], column: int) -> list[tuple[float, float]]:
    return [(float(step), float(row[column])) for step, row in enumerate(rows, 1)]


# --- table 3 and figure 22 -----------------------------------------------------------------------------------------------


def _totals(cache: RunCache) -> Iterator[dict[str, object]]:
    for n, paper in enumerate(TABLE_3, 1):
        run = n in cache.sizes
        found = [counted(cache, name, A, B, n, run=run) for name in ALGORITHMS]
        predicted = _total_row([pair.counts.total_senders for pair in found])
        seen = [sum(row[1] for row in pair.measured or []) for pair in found]
        measured = _total_row(seen) if run else None
        yield {
            "n": n,
            "nodes": found[0].network.order,
            "paper": _totals_text(paper),
            "predicted": _totals_text(predicted),
            "measured": _totals_text(measured) if measured else None,
            "saving": round(float(ej_counts.saving(found[0].network)), 5),
            VERDICT: verdict_of(pair.verdict(predicted == paper, measured in (None, predicted)) for pair in found),
        }


def _total_row(totals: Sequence[int]) -> tuple[int, int, int, str]:
    """Return previous, proposed, difference and their ratio to nine digits, as printed."""
    previous, proposed = totals
    ratio = "1" if previous == proposed else f"{previous / proposed:.9f}"
    return previous, proposed, previous - proposed, ratio


def _totals_text(row: tuple[int, int, int, str]) -> str:
    return f"{together(row[:3])} / {row[3]}"


def _figure_22() -> Figure:
    lines: dict[str, HeldPrediction] = {}
    for n in (4, 5, 6):
        network = EisensteinJacobi(A, B, n)
        for name, count in ALGORITHMS.items():
            lines[f"{NAMES[name]}, n = {n}"] = HeldPrediction(
                _over_steps([(sent,) for sent in count(network).senders], 0), ()
            )
    drawing = curves(
        "Figure 22: senders in each step of EJ_{3+4rho}^(n)", lines, "step", "senders", log_y=True, only_x=range(1, 19)
    )
    return Figure(
        "Figure 22",
        drawing.svg,
        "Counted: 1.9 million, 69 million and 2.6 billion nodes. The previous algorithm starts the same way in all "
        "dimensions, so its lines coincide.",
    )


# --- figures 19 to 21: networks of twelve steps --------------------------------------------------------------------------


def _twelve(cache: RunCache) -> dict[str, list[Counted]]:
    """Return every network with each algorithm; larger networks are only counted."""
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


def _per_step(networks: Mapping[str, Sequence[Counted]]) -> Iterator[dict[str, object]]:
    """Yield the points of figures 19 to 21, and the same means over the networks that are run."""
    for name, all_of_them in networks.items():
        ran = [found for found in all_of_them if found.measured]
        for step in range(12):
            five = _means([found.predicted for found in all_of_them], step)
            predicted = _means([found.predicted for found in ran], step) if ran else None
            seen = _means([found.measured or [] for found in ran], step) if ran else None
            right = verdict_of(found.verdict(predicted == seen) for found in ran)
            yield {
                "algorithm": NAMES[name],
                "step": step + 1,
                "five networks": five,
                "networks run": len(ran),
                "predicted": predicted,
                "measured": seen,
                VERDICT: right if ran else EVALUATED,
            }


def _means(networks: Sequence[Sequence[tuple[int, ...]]], step: int) -> str:
    """Return the mean numbers of senders, receivers and active nodes in a step, to one decimal."""
    rows = [rows[step] for rows in networks]
    return " / ".join(f"{float(Fraction(sum(row[column] for row in rows), len(rows))):,.1f}" for column in (1, 2, 3))


def _averages(networks: Mapping[str, Sequence[Counted]]) -> Iterator[Figure]:
    """Draw the unweighted means over the five networks, per step."""
    for number, what, column in ((19, "senders", 1), (20, "receivers", 2), (21, "active nodes", 3)):
        lines: dict[str, HeldPrediction] = {}
        for name, all_of_them in networks.items():
            series = [[row[column] for row in found.predicted] for found in all_of_them]
            means = ej_counts.mean_by_step(series)
            lines[NAMES[name]] = HeldPrediction([(float(step), float(mean)) for step, mean in enumerate(means, 1)], ())
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
            drawing.svg,
            "Counted. An unweighted mean, as in the paper, in which EJ_{1+2rho}^(12) has 99.6 percent of the nodes.",
        )


def build(cache: RunCache) -> Iterator[Section]:
    """Yield tables 1 to 3 with their equations and examples, and figures 15 to 22."""
    for n in cache.sizes:
        yield from _one_network(cache, n)
    yield Table("Table 3: total senders in EJ_{3+4rho}^(n)", _totals(cache), NOTES["totals"])
    yield Table("Eqs. (20) to (23): the proposed algorithm", recurrences(cache))
    yield Table("Steps and average step of receipt", averages_of_receipt(cache), NOTES["receipt"])
    yield Table("Algorithm 1 with the misprint of line 6", misprint(cache), NOTES["misprint"])
    networks = _twelve(cache)
    yield Table("Networks of twelve steps", _twelve_rows(networks), NOTES["twelve"])
    yield Table("Figures 19 to 21: averages in each step", _per_step(networks), NOTES["per_step"])
    yield from _averages(networks)
    yield _figure_22()


def _one_network(cache: RunCache, n: int) -> Iterator[Section]:
    """Yield tables 1 and 2 and figures 15 to 18 in n dimensions; the paper has three dimensions."""
    pair = [counted(cache, name, A, B, n, run=True) for name in ALGORITHMS]
    if cache.rehearsing:
        return
    title, printed = name_of(pair[0].network), n == 3
    for number, found, paper in zip((1, 2), pair, (TABLE_1, TABLE_2), strict=True):
        name = NAMES[PREVIOUS if number == 1 else PROPOSED]
        heading = f"Table {number}: the {name} algorithm in {title}" if printed else f"The {name} algorithm in {title}"
        yield Table(heading, _steps(found, paper if printed else ()), NOTES["steps"])
    yield Table(f"Eqs. (12) and (13) in {title}", _formulas(pair[0]), NOTES["formulas"])
    if printed:
        for number, column in ((15, 1), (16, 2), (17, 0), (18, 3)):
            yield _by_step(f"Figure {number}", column, pair)


REPRODUCTION = described("hussain", "broadcast", build, SIZES)
