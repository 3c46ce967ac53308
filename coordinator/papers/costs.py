"""How many runs a reproduction makes and how long it takes: measured, kept in costs.csv, and stated before it starts.

`scripts/reproduction-costs` measures all of them and writes the file again. Runs are exact until a reproduction changes;
seconds are processor time and the time that timed runs wait, so that other work on the machine does not count.
"""

import csv
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from coordinator.papers.base import Lab, Reproduction, laboratory
from coordinator.papers.registry import REPRODUCTIONS

FILE = Path(__file__).with_name("costs.csv")
ALL = "--all"
"""The row for all reproductions in one process, where they share runs."""
COLUMNS = ("name", "n", "runs", "seconds")


@dataclass(frozen=True)
class Cost:
    """Runs, and seconds on two cores."""

    runs: int
    seconds: float
    at_most: bool = False

    def __str__(self) -> str:
        return f"{'at most ' if self.at_most else ''}{self.runs:,} runs, about {duration(self.seconds)}"


def duration(seconds: float) -> str:
    """A time as people say it: seconds up to a minute, then minutes."""
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    whole = round(seconds / 10) * 10
    return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"


@cache
def _costs() -> dict[tuple[str, str], Cost]:
    with FILE.open(encoding="utf-8", newline="") as file:
        return {(row["name"], row["n"]): Cost(int(row["runs"]), float(row["seconds"])) for row in csv.DictReader(file)}


def cost_of(name: str, n: int | None = None) -> Cost | None:
    """What one reproduction costs, at one size or at all of them; `name` may be `--all`.

    A size that was not measured costs no more than all sizes; None if those were not measured either.
    """
    found, most = _costs().get((name, "" if n is None else str(n))), _costs().get((name, ""))
    return found or (replace(most, at_most=True) if most else None)


def main() -> None:
    """Measure everything and write costs.csv, which takes three times as long as `coordinator reproduce --all`."""
    rows = []
    for row in _measured():
        print(*row, file=sys.stderr, flush=True)
        rows.append(row)
    with FILE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows)


def _measured() -> Iterator[tuple[str, str, int, float]]:
    everything = [(about, about.over(None)) for about in REPRODUCTIONS.values()]
    yield ALL, "", *_carry_out(everything)
    for about, sizes in everything:
        yield about.name, "", *_carry_out([(about, sizes)])
        for n in about.sizes:
            yield about.name, str(n), *_carry_out([(about, [n])])


def _carry_out(chosen: Sequence[tuple[Reproduction, Sequence[int]]]) -> tuple[int, float]:
    began = time.process_time()
    with laboratory(lambda *_: None) as lab:
        for about, sizes in chosen:
            _exhaust(about, replace(lab, sizes=sizes))
        timed = {id(trial): trial for trial in lab.trials.values() if trial.plan.scenario.clock == "timed"}
        waited = sum(float(trial.number("achieved_seconds")) for trial in timed.values())
        return lab.runs, round(time.process_time() - began + waited, 1)


def _exhaust(about: Reproduction, lab: Lab) -> None:
    for _ in about.build(lab):
        pass


if __name__ == "__main__":
    main()
