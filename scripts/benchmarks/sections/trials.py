"""Trials of campaigns per second: the batch engine, draws included, beside messages in memory on one core.

Processor time of this process, without starting it and without tracing the schedule once.
"""

import os
import time
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import trio

from benchmarks.interleaved import interleave
from benchmarks.record import Options, Row, Section
from coordinator.campaigns.grid import Grid, Key
from coordinator.campaigns.trial_runner import TrialRunner
from coordinator.theory.batch.draws import BLOCK

MESSAGES, EXACT = "messages", "exact evaluator"


class Case(NamedTuple):
    """A broadcast with random faults."""

    network: str
    algorithm: str
    trees: int
    faults: str
    trials: int
    """Trials with messages per turn: some seconds."""
    at_least: float | None = None


CASES = (
    Case("star:4", "edt", 3, "nodes=2", 1000),
    Case("star:5", "edt", 4, "nodes=2", 200),
    Case("star:5", "edt", 4, "links=4@2-3", 200),
    Case("star:5", "edt", 4, "byzantine=2", 200),
    Case("star:5", "edt", 4, "loss=4:0.2", 200),
    Case("star:6", "edt", 5, "nodes=2", 40, at_least=300),
    Case("star:7", "edt", 6, "nodes=2", 4, at_least=300),
    Case("hypercube:10", "nesbt", 10, "nodes=2", 16, at_least=300),
)
QUICK = (Case("star:4", "edt", 3, "nodes=2", 20),)


def grid_of(case: Case) -> Grid:
    """Return the grid of a case: one point."""
    scenario = {
        "topology": case.network, "collective": "broadcast", "algorithm": case.algorithm, "redundancy": case.trees,
        "driver": "memory",
    }  # fmt: skip
    return Grid(scenario, {}, [case.faults], 1_000_000, engine="exact")


def with_messages(grid: Grid, trials: int) -> float:
    """Return trials per second of processor time with messages."""
    drawn = [grid.trial(Key(0, 0, number)) for number in range(trials)]

    async def run() -> float:
        with open(os.devnull, "w", encoding="utf-8") as log:  # noqa: ASYNC230, PTH123  # nothing waits for it
            async with TrialRunner([grid.variants[0].scenario], log) as runner:
                # The first trial builds the plan.
                await runner.trial(drawn[0])
                began = time.process_time()
                await runner.run(drawn, lambda *_: None)
                return len(drawn) / (time.process_time() - began)

    return trio.run(run)


def evaluated(grid: Grid) -> float:
    """Return trials per second of processor time of the engine, over some blocks of draws."""
    point, done, began = grid.point_engine(0, 0), 0, time.process_time()
    while time.process_time() - began < 1:
        point.evaluate(np.arange(done, done + BLOCK))
        done += BLOCK
    return done / (time.process_time() - began)


def rows(options: Options) -> Iterator[Row]:
    """Yield the rates of both, in turns."""
    for case in QUICK if options.quick else CASES:
        grid = grid_of(case)
        grid.point_engine(0, 0)
        turns = 1 if options.quick else max(1, options.turns // 2)
        compared = interleave(partial(with_messages, grid, case.trials), {EXACT: partial(evaluated, grid)}, turns)
        subject = f"{case.network} {case.algorithm}, {case.trees} trees, {case.faults}"
        yield Row(subject, MESSAGES, compared.baseline, "trials/s")
        value, share = compared.scores[EXACT]
        yield Row(subject, EXACT, value, "trials/s", share, MESSAGES, at_least=case.at_least)


SECTION = Section("trials of campaigns by the batch engine, beside messages", rows, seconds=90)
