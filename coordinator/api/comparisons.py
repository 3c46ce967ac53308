"""Runs side by side."""

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import polars as pl

from coordinator.api.forks import require_usable
from coordinator.api.runs import Run
from coordinator.execution.verification import contradictions_named
from coordinator.history.stored.writing import replace_file
from coordinator.reports.compare import as_rows, compare_data, compare_figure
from coordinator.reports.compare_page import LETTERS, compare_page
from coordinator.reports.data import RunData
from coordinator.reports.pictures import Picture
from emunode.errors import ScenarioError


def compare(*runs: Run | Path | str) -> "Comparison":
    """Compare two or more runs, or run directories: scenarios, metrics and claims side by side.

    Raises ScenarioError (field `run`) for fewer than two runs, and for a path that is not a run.

    >>> import coordinator as tb
    >>> net = tb.network("star:4")
    >>> found = tb.compare(net.broadcast("greedy-tree"), net.broadcast("edt"))
    >>> found
    <comparison of 2 runs: different histories; the scenarios differ in algorithm>
    """
    require_usable()
    if len(runs) < 2:
        raise ScenarioError("run", " ".join(map(str, runs)), "expected two or more runs to compare")
    named: dict[str, RunData] = {}
    for given in runs:
        if not isinstance(given, Run | str | PathLike):
            raise ScenarioError("run", given, "expected runs or the paths of run directories")
        data = given.data if isinstance(given, Run) else Run.read(given).data
        name = first = data.name if isinstance(given, Run) else str(given)
        copy = 2
        while name in named:
            name, copy = f"{first} ({copy})", copy + 1
        named[name] = data
    return Comparison(named)


class Comparison:
    """Runs side by side. Each name in `runs` heads a column."""

    def __init__(self, runs: Mapping[str, RunData]) -> None:
        self._data = runs
        with contradictions_named(*(data.path for data in runs.values() if data.path != Path())):
            self.record: Mapping[str, Any] = compare_data(runs)
        """The comparison as plain values, as `coordinator compare --json` prints it."""

    @property
    def runs(self) -> list[str]:
        """The names of the runs."""
        return list(self._data)

    @property
    def same_history(self) -> bool:
        """Whether all runs have the same journal, byte for byte."""
        return bool(self.record["same_history"])

    @property
    def differs(self) -> Mapping[str, list[Any]]:
        """The keys where the scenarios differ, with one value per run."""
        differs: Mapping[str, list[Any]] = self.record["differs"]
        return differs

    @property
    def claims(self) -> pl.DataFrame:
        """One row per claim, with its verdict in each run; no value where a run has no such claim."""
        return self._frame(self.record["claims"], pl.String)

    @property
    def metrics(self) -> pl.DataFrame:
        """One row per metric that is a single number in every run that has it, with one column per run."""
        numbers = {
            name: values
            for name, values in self.record["metrics"].items()
            if all(
                value is None or (isinstance(value, int | float) and not isinstance(value, bool)) for value in values
            )
        }
        return self._frame(numbers, pl.Float64)

    def _frame(self, rows: Mapping[str, Sequence[Any]], kind: type[pl.DataType]) -> pl.DataFrame:
        schema: dict[str, type[pl.DataType]] = {"name": pl.String, **dict.fromkeys(self.runs, kind)}
        return pl.DataFrame([(name, *values) for name, values in rows.items()], schema=schema, orient="row")

    @property
    def rows(self) -> list[dict[str, object]]:
        """One row per difference, metric and claim, as `coordinator compare` prints them."""
        return as_rows(self.record)

    def plot(self) -> Picture:
        """Return the main metrics as bars."""
        return compare_figure(self._data)

    def save(self, out: PathLike[str] | str) -> Path:
        """Write one page with the runs side by side, and return its path: the differences, and all maps on one slider.

        Raises ScenarioError (field `out`) if there are more than six runs, and if the file cannot be written.
        """
        path = Path(out)
        if len(self._data) > len(LETTERS):
            raise ScenarioError("out", str(path), f"a page has at most {len(LETTERS)} runs, not {len(self._data)}")
        try:
            with contradictions_named(*(data.path for data in self._data.values() if data.path != Path())):
                replace_file(path, compare_page(self._data, self.record), named=True)
        except OSError as error:
            raise ScenarioError("out", str(path), f"it cannot be written: {error.strerror}") from None
        return path

    def __repr__(self) -> str:
        same = "the same history" if self.same_history else "different histories"
        differs = ", ".join(self.differs) or "nothing"
        return f"<comparison of {len(self._data)} runs: {same}; the scenarios differ in {differs}>"

    def _repr_html_(self) -> str:
        return self.metrics._repr_html_()
