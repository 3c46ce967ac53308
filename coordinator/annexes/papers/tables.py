"""The tables of a reproduction: rows, the verdict of a row, statuses, errata marks, notes and printed numbers.

A row shows the printed value of the paper, the prediction of its closed form (with errata corrected), the measurement
of a run, the lower bound with the ratio of measurement to bound, and a verdict. The verdict is `violated` if
measurement and prediction differ, if the measurement undercuts the bound, or if the run violates its own claims. Only a
row with a measurement can hold. Rows that only evaluate a closed form, or have no measurement at all, get a status of
their own and are counted separately.

Printed numbers and formulas are CSV files under `data/`. The notes on errata below the tables are one TOML file per
paper.
"""

import csv
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from string import Template
from typing import Any

from coordinator.annexes.papers.formulas import evaluate_value
from coordinator.annexes.papers.run_cache import CachedRun
from coordinator.reports.numbers import show
from coordinator.reports.tables import Row
from coordinator.results.claims import Verdict, judge, ratio_to
from emunode.algorithms.claims import Claim, Value

DATA = Path(__file__).parent / "data"
VERDICT = "verdict"
"""The column with the status of a row: a `Verdict`, or one of `UNJUDGED`.

Tables without this column are not judged.
"""
EVALUATED = "evaluated"
"""A closed form, a count or a search was computed; nothing was measured."""
NOT_MEASURED = "not measured"
"""There is neither a measurement nor a computation."""
NO_CLAIM = "no claim"
"""There is a measurement, but no prediction for it."""
UNJUDGED = (EVALUATED, NOT_MEASURED, NO_CLAIM)
STATUSES = (*map(str, Verdict), *UNJUDGED)
"""All values of the verdict column, in the order of counting."""
ERRATUM = "†"
"""Marks a misprint of the paper. A note of the table gives the correction and the evidence."""


class Table:
    """Rows with the same keys, the columns.

    The notes explain the errata, each with its evidence. `measurement` names the column of the measurement: a row whose
    measurement is missing cannot hold.
    """

    def __init__(
        self, title: str, rows: Iterable[Row], notes: Sequence[str] = (), measurement: str = "measured"
    ) -> None:
        self.title = title
        self.notes = notes
        self.rows = [_with_status(row, measurement) for row in rows]

    @property
    def columns(self) -> list[str]:
        """The keys of every row, in order."""
        return list(self.rows[0]) if self.rows else []

    @property
    def shown(self) -> list[Row]:
        """The rows without columns that are empty in every row."""
        filled = [column for column in self.columns if any(row[column] is not None for row in self.rows)]
        return [{column: row[column] for column in filled} for row in self.rows]

    @property
    def statuses(self) -> list[str]:
        """The verdict column; empty for a table without one."""
        return [str(row[VERDICT]) for row in self.rows if VERDICT in row]

    @property
    def verdicts(self) -> list[Verdict]:
        """The verdicts of the judged rows."""
        return [Verdict(status) for status in self.statuses if status not in UNJUDGED]


def _with_status(row: Row, measurement: str) -> Row:
    if VERDICT not in row:
        return row
    measured, status = row.get(measurement), row[VERDICT]
    if status is None:
        # the builder left the row unjudged: the status follows from the filled cells
        status = NO_CLAIM if measured is not None else NOT_MEASURED if row.get("predicted") is None else EVALUATED
    elif status == EVALUATED and measured is not None:
        status = NO_CLAIM
    elif status == Verdict.HOLDS and measurement in row and measured is None:
        status = EVALUATED
    return {**row, VERDICT: str(status)}


def verdict_of(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict of several verdicts.

    It is "violated" if any of them is, else "undecided" if any is, else "holds". It also is "holds" if there are none.
    """
    found = set(verdicts)
    return next((worst for worst in (Verdict.VIOLATED, Verdict.UNDECIDED) if worst in found), Verdict.HOLDS)


def row_verdict(*conditions: bool, trials: Iterable[CachedRun] = (), refuted: bool = False) -> Verdict:
    """Return the verdict of a row.

    The row holds if all conditions are true and its trials hold their own claims. The trials of a negative control must
    be `refuted`: they have to violate their claims. An undecided trial, such as an invalid measurement, makes the row
    undecided whatever its numbers are.
    """
    found = {trial.verdict for trial in trials}
    if Verdict.UNDECIDED in found:
        return Verdict.UNDECIDED
    expected = Verdict.VIOLATED if refuted else Verdict.HOLDS
    return Verdict.HOLDS if all(conditions) and found <= {expected} else Verdict.VIOLATED


def counts_of(tables: Iterable[Table]) -> dict[str, int]:
    """Return the number of rows per status, the judged ones first."""
    found = Counter(status for table in tables for status in table.statuses)
    return {status: found[status] for status in STATUSES}


def compared(
    predicted: Value,
    measured: Value,
    *trials: CachedRun,
    paper: object = None,
    relation: str = "==",
    bound: float | None = None,
    **about: object,
) -> dict[str, object]:
    """Return a row: the cells of `about`, then the columns paper, predicted, measured, lower bound, ratio and verdict.

    `relation` is read as "measured relation predicted". The ratio is measurement to lower bound. A trial that violates its
    own claims, or is undecided, determines the verdict of the row.
    """
    claims = [Claim("measured", predicted, relation, "the paper")]  # type: ignore[arg-type]  # checked by Claim
    if bound is not None:
        claims.append(Claim("measured", bound, ">=", "the lower bound"))
    own = [judgement.verdict is Verdict.HOLDS for judgement in judge(claims, {"measured": measured}, None)]
    return {
        **about,
        "paper": paper,
        "predicted": predicted if relation == "==" else f"{relation} {show(predicted)}",
        "measured": measured,
        "lower bound": bound,
        "ratio": ratio_to(bound, measured),
        VERDICT: row_verdict(*own, trials=trials),
    }


def unmeasured(
    predicted: Value, *, paper: object = None, bound: float | None = None, **about: object
) -> dict[str, object]:
    """Return the columns of `compared` for a closed form without a run.

    The ratio is prediction to lower bound.
    """
    return {
        **about,
        "paper": paper,
        "predicted": predicted,
        "measured": None,
        "lower bound": bound,
        "ratio": ratio_to(bound, predicted),
        VERDICT: EVALUATED,
    }


def compared_metric(
    predicted: Value,
    trial: CachedRun | None,
    metric: str,
    *,
    paper: object = None,
    bound: float | None = None,
    **about: object,
) -> dict[str, object]:
    """Return a row about one metric of a run.

    The row is only evaluated if there is no run.
    """
    if trial is None:
        return unmeasured(predicted, paper=paper, bound=bound, **about)
    return compared(predicted, trial.number(metric), trial, paper=paper, relation="==", bound=bound, **about)


def marked(text: object, *, erratum: bool) -> str:
    """Return a printed entry, with the mark of an erratum where it is wrong."""
    return f"{text} {ERRATUM}" if erratum else str(text)


@cache
def printed(name: str) -> Sequence[Mapping[str, str]]:
    """Return the rows of `data/NAME.csv`: the numbers that a paper prints, by column."""
    with (DATA / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))


def stated(name: str, **names: Value) -> Callable[..., dict[str, object]]:
    """Return the rows of the statements in `data/NAME.csv`, as a function.

    Its arguments are the key of a statement, its measurement and trials. A statement has a key, columns about it, the
    printed value, the formula of its prediction in `names`, and the relation of the measurement to the prediction. `$x`
    in a text stands for the name x.
    """
    statements = {row["key"]: row for row in printed(name)}

    def row(key: str, measured: Value, *trials: CachedRun, **more: Value) -> dict[str, object]:
        known = {**names, **more}
        cells = {
            column: Template(text).substitute(known) for column, text in statements[key].items() if column != "key"
        }
        predicted = evaluate_value(cells.pop("predicted"), **known)
        relation, paper = cells.pop("relation") or "==", cells.pop("paper") or None
        return {**cells, **compared(predicted, measured, *trials, paper=paper, relation=relation)}

    return row


def printed_numbers(name: str) -> tuple[tuple[int, ...], ...]:
    """Return the rows of a printed table of whole numbers."""
    return tuple(tuple(map(int, row.values())) for row in printed(name))


@cache
def texts(paper: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the texts of a paper's reproductions, from `data/PAPER.toml`.

    `about` describes each reproduction, and the other texts are notes.
    """
    return tomllib.loads((DATA / f"{paper}.toml").read_text(encoding="utf-8"))


def notes(paper: str, reproduction: str) -> Mapping[str, Sequence[str]]:
    """Return the notes below the tables of a reproduction, by table.

    Errata begin with their mark.
    """
    return texts(paper)[reproduction]
