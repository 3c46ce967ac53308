"""Measures how many runs each reproduction makes and how long it takes, and writes coordinator/papers/costs.csv.

Takes about three times as long as `coordinator reproduce --all`: all reproductions together, each alone, and each at every
size. Seconds are processor time and the time that timed runs wait, so that other work on the machine does not count.
"""

import csv
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from coordinator.papers.base import Reproduction
from coordinator.papers.costs import ALL, COLUMNS, FILE
from coordinator.papers.registry import REPRODUCTIONS
from coordinator.papers.run_cache import open_run_cache


def main() -> None:
    """Print every row as it is measured, and write the file at the end."""
    rows = []
    for row in measured():
        print(*row, file=sys.stderr, flush=True)
        rows.append(row)
    with FILE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows)


def measured() -> Iterator[tuple[str, str, int, float]]:
    """Name, n, runs and seconds."""
    everything = [(about, about.over(None)) for about in REPRODUCTIONS.values()]
    yield ALL, "", *cost(everything)
    for about, sizes in everything:
        yield about.name, "", *cost([(about, sizes)])
        for n in about.sizes:
            yield about.name, str(n), *cost([(about, [n])])


def cost(chosen: Sequence[tuple[Reproduction, Sequence[int]]]) -> tuple[int, float]:
    """Runs and seconds of these reproductions in one process."""
    began = time.process_time()
    with open_run_cache() as cache:
        for about, sizes in chosen:
            for _ in about.build(replace(cache, sizes=sizes)):
                pass
        timed = {id(trial): trial for trial in cache.trials.values() if trial.plan.scenario.clock == "timed"}
        waited = sum(float(trial.number("achieved_seconds")) for trial in timed.values())
        return cache.runs, round(time.process_time() - began + waited, 1)


if __name__ == "__main__":
    main()
