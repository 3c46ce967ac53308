"""What a reproduction is: scenarios of a paper, run, and tables and figures that set print beside measurement.

A reproduction yields tables and figures; where it needs a run it asks a `RunCache`, which runs every scenario once and
keeps it until the end. A row of a table says what the paper prints, what its closed form (with errata put right)
predicts, what a run measured, the paper's lower bound and the ratio to it, and a verdict: `violated` if measurement and
prediction differ, if the bound is undercut, or if the run broke any of its own claims. Only a row with a measurement
can hold; one that only evaluates a closed form, or has no measurement at all, says so in the same column and is counted
separately.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from coordinator.execution.run import run
from coordinator.history.run_directory import temporary_prefix
from coordinator.networks.base import Progress
from coordinator.planning.feasibility import require_possible
from coordinator.planning.plan import Plan, make_plan
from coordinator.reports.tables import show
from coordinator.results.claims import Verdict, judge, ratio_to
from coordinator.scenario.model import make_scenario
from emunode.algorithms.base import Claim, Value
from emunode.errors import RunError, ScenarioError

Row = Mapping[str, object]

VERDICT = "verdict"
"""The column that judges a row: a `Verdict`, or one of `UNJUDGED`. A table without this column only shows."""
EVALUATED = "evaluated"
"""A closed form, a count or a search was computed, and nothing was measured."""
NOT_MEASURED = "not measured"
"""There is neither a measurement nor a computation."""
NO_CLAIM = "no claim"
"""Measured, and there is nothing to hold it against."""
UNJUDGED = (EVALUATED, NOT_MEASURED, NO_CLAIM)
STATUSES = (*map(str, Verdict), *UNJUDGED)
"""What the verdict column can say, in the order in which it is counted."""
ERRATUM = "†"
"""Marks what a paper prints wrong; a note of the table says what is right, and the evidence."""


@dataclass(frozen=True)
class Table:
    """Rows with the same keys, which are the columns; notes hold the errata, each with its evidence."""

    title: str
    rows: Sequence[Row]
    notes: Sequence[str] = ()
    measurement: str = "measured"
    """The column of the measurement. A row with nothing in it cannot hold, whatever its verdict column says."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", [self._with_status(row) for row in self.rows])

    def _with_status(self, row: Row) -> Row:
        if VERDICT not in row:
            return row
        measured, status = row.get(self.measurement), row[VERDICT]
        if status is None:
            # the builder did not judge this row: the cells say why
            status = NO_CLAIM if measured is not None else NOT_MEASURED if row.get("predicted") is None else EVALUATED
        elif status == EVALUATED and measured is not None:
            status = NO_CLAIM
        elif status == Verdict.HOLDS and self.measurement in row and measured is None:
            status = EVALUATED
        return {**row, VERDICT: str(status)}

    @property
    def columns(self) -> list[str]:
        """The keys of every row, in order."""
        return list(self.rows[0]) if self.rows else []

    @property
    def shown(self) -> list[Row]:
        """The rows without the columns that are empty in all of them."""
        filled = [column for column in self.columns if any(row[column] is not None for row in self.rows)]
        return [{column: row[column] for column in filled} for row in self.rows]

    @property
    def statuses(self) -> list[str]:
        """The verdict column; empty for a table without one."""
        return [str(row[VERDICT]) for row in self.rows if VERDICT in row]

    @property
    def verdicts(self) -> list[Verdict]:
        """The verdicts of the rows that are judged."""
        return [Verdict(status) for status in self.statuses if status not in UNJUDGED]


@dataclass(frozen=True)
class Figure:
    """A drawing: an SVG element in the colour variables of `coordinator.reports.plots`."""

    title: str
    svg: str
    caption: str = ""


Section = Table | Figure


@dataclass(frozen=True)
class Trial:
    """A run of a laboratory: its plan, its summary, and its directory for as long as the laboratory is open."""

    plan: Plan
    summary: Mapping[str, object]
    path: Path
    verdict: Verdict

    def number(self, metric: str) -> int | float:
        """A metric that is one number."""
        value = self.summary[metric]
        assert isinstance(value, int | float), metric
        return value

    def series(self, metric: str) -> list[int]:
        """A metric that is a number a step."""
        value = self.summary[metric]
        assert isinstance(value, tuple | list), metric
        return [int(entry) for entry in value]

    def journal(self) -> pl.LazyFrame:
        """Every hop (section 7 of the design)."""
        return pl.scan_parquet(self.path / "journal.parquet", glob=False)

    def table(self, name: str) -> pl.DataFrame:
        """`nodes`, `links` or `steps`."""
        return pl.read_parquet(self.path / f"{name}.parquet")


@dataclass(frozen=True)
class RunCache:
    """Runs scenarios for reproductions, the same scenario once.

    `sizes` are the sizes n that a reproduction shall go over, all that it has or the one that was asked for.
    """

    folder: Path
    progress: Progress = lambda *_: None
    expired: Callable[[], bool] = lambda: False
    """Whether the time that was given is over; asked before every run."""
    sizes: Sequence[int] = ()
    expected: int = 0
    """Runs in all, as far as that is known; for progress."""
    trials: dict[str, Trial] = field(default_factory=dict)
    """By scenario, as it was asked for and as the plan completes it."""
    requests: list[str] = field(default_factory=list)
    """Every scenario that was asked for, in order."""

    @property
    def runs(self) -> int:
        """How many runs were made so far."""
        return len({id(trial) for trial in self.trials.values()})

    def run(self, **values: object) -> Trial:
        """Run a scenario, given by its fields; in memory unless `driver` says otherwise.

        Raises what making and running a plan raises, KeyboardInterrupt when a run was interrupted, and RunError when the
        time is over.
        """
        scenario = make_scenario({"driver": "memory", **values})
        asked = scenario.model_dump_json()
        self.requests.append(asked)
        if asked not in self.trials:
            plan = make_plan(scenario)
            source = plan.topology.label(plan.spec.source)
            completed = plan.scenario.model_copy(update={"source": source}).model_dump_json()
            if completed not in self.trials:
                if self.expired():
                    raise RunError(
                        f"the time is over, before {plan.name} could run; give more of it, or a smaller size"
                    )
                require_possible(plan)
                self.trials[completed] = self._run(plan)
            self.trials[asked] = self.trials[completed]
        return self.trials[asked]

    def _run(self, plan: Plan) -> Trial:
        number = self.runs + 1
        of_all = f"run {number:,} of {self.expected:,}" if number <= self.expected else f"run {number:,}"

        def progress(phase: str, done: int, total: int) -> None:
            self.progress(f"{of_all}, {plan.name}, {phase}", done, total)

        result = run(plan, self.folder / str(number), progress, draw=False)
        if result.outcome.interrupted:
            raise KeyboardInterrupt
        return Trial(plan, result.summary, result.path, result.verdict)


@contextmanager
def laboratory(
    progress: Progress, expired: Callable[[], bool] = lambda: False, expected: int = 0
) -> Iterator[RunCache]:
    """A laboratory whose run directories are gone afterwards."""
    with TemporaryDirectory(prefix=temporary_prefix()) as folder:
        yield RunCache(Path(folder), progress, expired, expected=expected)


@dataclass(frozen=True)
class Reproduction:
    """What `coordinator reproduce NAME` runs and shows."""

    name: str
    title: str
    paper: str
    """Citation."""
    description: str
    """One sentence: what is reproduced."""
    build: Callable[[RunCache], Iterator[Section]]
    sizes: range = range(0)
    """The sizes n that `--n` may choose from; none where the reproduction has no such choice."""

    def over(self, n: int | None) -> Sequence[int]:
        """All sizes, or the one that is asked for; ScenarioError (field `n`) if there is no such size."""
        if n is None:
            return self.sizes
        if n not in self.sizes:
            allowed = f"{self.sizes[0]}..{self.sizes[-1]}" if self.sizes else "it has no sizes; leave --n out"
            raise ScenarioError("n", n, f"{self.name} goes over {allowed}" if self.sizes else allowed)
        return [n]


def verdict_of(verdicts: Iterable[Verdict]) -> Verdict:
    """Violated if anything is, undecided if anything is, else holds: what is only drawn cannot fail."""
    found = set(verdicts)
    for worst in (Verdict.VIOLATED, Verdict.UNDECIDED):
        if worst in found:
            return worst
    return Verdict.HOLDS


def row_verdict(conditions: Iterable[bool], trials: Iterable[Trial] = (), *, refuted: bool = False) -> Verdict:
    """The verdict of a row that holds if all conditions do and its trials held their own claims.

    The trials of a negative control are expected to be `refuted`: to violate what they claim. An undecided trial, such as
    an invalid measurement, makes the row undecided whatever its numbers say.
    """
    found = {trial.verdict for trial in trials}
    if Verdict.UNDECIDED in found:
        return Verdict.UNDECIDED
    expected = Verdict.VIOLATED if refuted else Verdict.HOLDS
    return Verdict.HOLDS if all(conditions) and found <= {expected} else Verdict.VIOLATED


def counts_of(tables: Iterable[Table]) -> dict[str, int]:
    """How many rows of these tables have each status, the judged ones first."""
    found = Counter(status for table in tables for status in table.statuses)
    return {status: found[status] for status in STATUSES}


def compared(
    predicted: Value,
    measured: Value,
    *trials: Trial,
    paper: object = None,
    relation: str = "==",
    bound: float | None = None,
) -> dict[str, object]:
    """The columns paper, predicted, measured, bound, ratio and verdict of one row.

    `relation` is read "measured relation predicted". The ratio is that of the measurement to the lower bound. A run among
    `trials` that broke one of its own claims, or could not be decided, decides the row.
    """
    claims = [Claim("measured", predicted, relation, "the paper")]
    if bound is not None:
        claims.append(Claim("measured", bound, ">=", "the lower bound"))
    own = [judgement.verdict is Verdict.HOLDS for judgement in judge(claims, {"measured": measured}, None)]
    shown = predicted if relation == "==" else f"{relation} {show(predicted)}"
    return {
        "paper": paper,
        "predicted": shown,
        "measured": measured,
        "lower bound": bound,
        "ratio": ratio_to(bound, measured),
        VERDICT: str(row_verdict(own, trials)),
    }


def unmeasured(predicted: Value, *, paper: object = None, bound: float | None = None) -> dict[str, object]:
    """The columns of `compared` for a closed form of which there is no run; the ratio is the prediction's."""
    return {
        "paper": paper,
        "predicted": predicted,
        "measured": None,
        "lower bound": bound,
        "ratio": ratio_to(bound, predicted),
        VERDICT: EVALUATED,
    }
