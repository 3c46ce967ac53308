"""Measure the number of runs and the duration of each reproduction, and write coordinator/annexes/papers/costs.csv.

This takes about twice as long as `coordinator reproduce --all`: all reproductions run together, and each alone.
Seconds are processor time plus the waiting time of timed runs, so other work on the machine has no effect.
"""

import csv
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from coordinator.annexes.papers.base import Reproduction
from coordinator.annexes.papers.costs import ALL, COLUMNS, FILE
from coordinator.annexes.papers.registry import REPRODUCTIONS
from coordinator.annexes.papers.run_cache import open_run_cache


def main() -> None:
    """Print each row when it is measured, and write the file at the end."""
    rows = []
    for row in measured():
        print(*row, file=sys.stderr, flush=True)
        rows.append(row)
    with FILE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows)


def measured() -> Iterator[tuple[str, int, float]]:
    """Yield rows of name, number of runs, seconds."""
    everything = [(about, about.over(None)) for about in REPRODUCTIONS.values()]
    yield ALL, *cost(everything)
    for about, sizes in everything:
        yield about.name, *cost([(about, sizes)])


def cost(chosen: Sequence[tuple[Reproduction, Sequence[int]]]) -> tuple[int, float]:
    """Runs and seconds of these reproductions in one process."""
    began = time.process_time()
    with open_run_cache() as cache:
        for about, sizes in chosen:
            for _ in about.build(replace(cache, sizes=sizes)):
                pass
        timed = (trial for trial in cache.unique_trials().values() if trial.plan.scenario.clock == "timed")
        waited = sum(float(trial.number("achieved_seconds")) for trial in timed)
        return cache.runs, round(time.process_time() - began + waited, 1)


if __name__ == "__main__":
    main()
