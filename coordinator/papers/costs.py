"""Runs and time of each reproduction, measured, stored in costs.csv and shown before a reproduction starts.

`scripts/reproduction-costs` measures all of them and writes the file again. Runs are exact until a reproduction changes;
seconds are processor time plus the waiting time of timed runs, which excludes other work on the machine.
"""

import csv
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("costs.csv")
ALL = "--all"
"""The row for all reproductions in one process, where they share runs."""
COLUMNS = ("name", "n", "runs", "seconds")


@dataclass(frozen=True)
class RunEstimate:
    """Number of runs, and seconds on two cores."""

    runs: int
    seconds: float
    at_most: bool = False

    def __str__(self) -> str:
        return f"{'at most ' if self.at_most else ''}{self.runs:,} runs, about {duration(self.seconds)}"


def duration(seconds: float) -> str:
    """Seconds up to one minute, then minutes and tens of seconds."""
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    whole = round(seconds / 10) * 10
    return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"


@cache
def _costs() -> dict[tuple[str, str], RunEstimate]:
    with FILE.open(encoding="utf-8", newline="") as file:
        return {
            (row["name"], row["n"]): RunEstimate(int(row["runs"]), float(row["seconds"]))
            for row in csv.DictReader(file)
        }


def cost_of(name: str, n: int | None = None) -> RunEstimate | None:
    """The estimate for one reproduction, at one size or at all sizes; `name` may be `--all`.

    A size without a measurement costs at most as much as all sizes; returns None if those were not measured either.
    """
    found, most = _costs().get((name, "" if n is None else str(n))), _costs().get((name, ""))
    return found or (replace(most, at_most=True) if most else None)
