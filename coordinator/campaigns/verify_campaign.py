"""Verification of stored campaigns: every set of faults is drawn again, and a sample of the trials is run again.

Tables and pages follow from the records; `coordinator.api.verification` compares them. The sample is drawn anew each time,
so that no forgery can spare the trials that are run again.
"""

import os
import secrets
from collections import Counter
from collections.abc import Sequence
from itertools import product
from math import prod
from pathlib import Path
from random import Random
from typing import Final, TextIO

import numpy as np
import trio

from coordinator.campaigns.batch_trials import repeats, require_agreement, unfinished
from coordinator.campaigns.counts import DrawBlock
from coordinator.campaigns.grid import MOST_TRIALS, Grid, Key
from coordinator.campaigns.store import (
    GRID,
    RECORDS,
    FinishedTrials,
    GridFile,
    grid_of,
    load_records,
    read_grid_file,
)
from coordinator.campaigns.trial_runner import Trial, TrialResult, TrialRunner
from coordinator.execution.verification import (
    MOST_FINDINGS,
    TooLargeError,
    UnreadableError,
    Verification,
    errors_as_findings,
    links_in,
)
from coordinator.history.stored.reading import RefusedError
from coordinator.history.stored_run import unknown_keys
from emunode.errors import EmulatorError, RunError
from emunode.terminal import plural

MOST_VARIANTS: Final = 1_000
MOST_RECORDS: Final = 2_000_000
"""Most trials with messages of a campaign that is verified."""
SAMPLED_TRIALS: Final = 1_000
SAMPLED_BLOCKS: Final = 20
LEAST_TRIALS: Final = 10
"""Trials that are run again even if they have more packets."""
MOST_PACKETS: Final = 1_000_000
"""About the most packets in all trials that are run again."""


def verify_records(folder: Path, verification: Verification) -> FinishedTrials | None:
    """Check grid and records of a campaign folder, and return its trials; None if they cannot be read.

    Does not raise, whatever the folder contains, except VersionError for another minor version, and ScenarioError (field
    `plugin`) for a plug-in that is not loaded.
    """
    with errors_as_findings(verification, GRID):
        verification.findings += [f"{name}: it is a symbolic link" for name in links_in(folder)]
        return _Records(folder, verification).check()
    return None


class _Records:
    """The records of one campaign."""

    def __init__(self, folder: Path, verification: Verification) -> None:
        self._folder = folder
        self._verification = verification
        self._findings = verification.findings
        self._drawn: list[tuple[Key, Trial, bool]] = []
        self._random = Random(secrets.randbits(64))

    def check(self) -> FinishedTrials | None:
        values = read_grid_file(self._folder)
        self._verification.unchecked += unknown_keys(GRID, values, GridFile.__match_args__)
        grid, fingerprint = grid_of(values, self._folder)
        _require_small(grid)
        if fingerprint != grid.fingerprint:
            self._findings.append(f"{GRID}: its fingerprint is not the one of its grid, {grid.fingerprint}")
            return None
        store = FinishedTrials(grid, self._folder)
        try:
            load_records(store, self._folder / RECORDS, self._see)
        except RefusedError as error:
            raise UnreadableError(f"{RECORDS}: {error}") from None
        self._check_draws(grid)
        if self._findings:
            return store
        again = self._run_again(store)
        blocks = self._evaluate_again(store)
        try:
            require_agreement(store)
        except RunError as error:
            self._findings.append(f"{RECORDS}: {error}")
        self._verification.statement = self._statement(store, again, blocks)
        return store

    def _see(self, key: Key, trial: Trial, sockets: bool) -> None:
        self._drawn.append((key, trial, sockets))
        if len(self._drawn) > MOST_RECORDS:
            raise TooLargeError(f"{RECORDS}: more than {MOST_RECORDS:,} trials with messages")

    def _statement(self, store: FinishedTrials, again: int, blocks: int) -> str:
        grid = store.grid
        exact = sum(store.counts(*cell, ()).trials for cell in _cells(grid) if grid.exact(*cell))
        parts = [f"{plural(len(store.findings), 'trial')} with messages, {again:,} of them run again"]
        if exact:
            all_blocks = sum(len(store.evaluated(*cell)) for cell in _cells(grid))
            parts.append(
                f"{plural(exact, 'trial')} evaluated exactly, {blocks:,} of {plural(all_blocks, 'block')} again"
            )
        return "; ".join(parts)

    # --- draws ---------------------------------------------------------------------------------------------------------

    def _check_draws(self, grid: Grid) -> None:
        """Draw the faults and the seed of every trial again."""
        for (key, sockets), times in Counter((key, sockets) for key, _, sockets in self._drawn).items():
            if times > 1:
                self._add(grid, key, f"it is recorded {times} times{' over TCP' if sockets else ''}")
        for key, trial, _ in self._drawn:
            if len(self._findings) > MOST_FINDINGS:
                return
            count = grid.set_count(key.point, key.variant)
            if key.number >= (MOST_TRIALS if count is None else count):
                self._add(grid, key, "there is no such draw")
                continue
            expected = grid.trial(key)
            if trial not in (expected, expected._replace(seed=grid.own_seed(key.variant, key.number))):
                name = "faults" if trial.faults != expected.faults else "seed"
                found, drawn = (_words(getattr(each, name)) for each in (trial, expected))
                self._add(
                    grid, key, f"its {name} {'are' if name == 'faults' else 'is'} {found}, and the draw gives {drawn}"
                )

    def _add(self, grid: Grid, key: Key, words: str) -> None:
        where = f"{grid.variants[key.variant].name} under {grid.points[key.point].name}, draw {key.number}"
        self._findings.append(f"{RECORDS}: {where}: {words}")

    # --- trials again ----------------------------------------------------------------------------------------------------

    def _run_again(self, store: FinishedTrials) -> int:
        """Run a sample of the decided trials in memory, and compare every value of their records."""
        grid = store.grid
        records = [(key, result) for key, (_, result) in store.findings.items()] + list(store.sockets.items())
        decided = [(key, result) for key, result in records if result.undecided is None]
        sample = self._random.sample(decided, min(SAMPLED_TRIALS, len(decided)))
        # In random order: the limit of packets may end the sample early, and must not spare the same trials every time.
        with Path(os.devnull).open("w") as log:
            done = trio.run(self._run_sample, grid, sample, log)
        if done < len(records):
            self._verification.unchecked.append(
                f"{RECORDS}: {len(records) - done:,} of {plural(len(records), 'trial')} with messages were not run again"
            )
        return done

    async def _run_sample(self, grid: Grid, sample: Sequence[tuple[Key, TrialResult]], log: TextIO) -> int:
        scenarios = [each.scenario.on_driver("memory") for each in grid.variants]
        done = packets = 0
        async with TrialRunner(scenarios, log) as runner:
            for key, stored in sample:
                try:
                    again = await runner.trial(grid.trial(key))
                except EmulatorError as error:
                    self._add(grid, key, f"it fails when it is run again: {str(error)[:160]}")
                    return done
                done, packets = done + 1, packets + again.packets
                self._compare(grid, key, stored, again)
                if packets > MOST_PACKETS and done >= LEAST_TRIALS:
                    break
        return done

    def _compare(self, grid: Grid, key: Key, stored: TrialResult, again: TrialResult) -> None:
        """Name the first value of a record that differs from the trial that was run again."""
        for name, value in vars(again).items():
            recorded = getattr(stored, name)
            if recorded != value:
                self._add(grid, key, f"{name} is {_words(recorded)}, and a run gives {_words(value)}")
                return

    def _evaluate_again(self, store: FinishedTrials) -> int:
        """Evaluate a sample of the blocks again, and compare their records."""
        grid = store.grid
        blocks = [block for cell in _cells(grid) for block in store.evaluated(*cell)]
        for block in self._random.sample(blocks, min(SAMPLED_BLOCKS, len(blocks))):
            cell = block.point, block.variant
            where = f"{grid.variants[block.variant].name} under {grid.points[block.point].name}, block {block.start}"
            drawn = np.array(grid.numbers(*cell)[block.start : block.stop], np.int64)
            if not grid.exact(*cell):
                self._findings.append(f"{RECORDS}: {where}: these trials are not evaluated exactly")
                continue
            if len(drawn) != block.counts.trials:
                self._findings.append(
                    f"{RECORDS}: {where}: it has {block.counts.trials} trials, and {len(drawn)} are drawn"
                )
                continue
            outcome, broken = grid.point_engine(*cell).evaluate(drawn, latencies=True)
            again = DrawBlock.of_outcome((*cell, block.start), drawn, outcome, broken, whole=block.whole).record()
            stored = block.record()
            differs = [name for name, value in again.items() if stored[name] != value]
            if differs:
                name = differs[0]
                words = f"{name} is {_words(stored[name])}, and the draws give {_words(again[name])}"
                self._findings.append(f"{RECORDS}: {where}: {words}")
        return min(SAMPLED_BLOCKS, len(blocks))


def is_finished(store: FinishedTrials) -> bool:
    """Return whether a campaign has all trials of its grid."""
    grid = store.grid
    for point in range(len(grid.points)):
        exact = [variant for variant in range(len(grid.variants)) if grid.exact(point, variant)]
        if unfinished(store, point, exact):
            return False
    return next(grid.rest(store.done(), repeats(store)), None) is None


def _cells(grid: Grid) -> list[tuple[int, int]]:
    return list(product(range(len(grid.points)), range(len(grid.variants))))


def _require_small(grid: Grid) -> None:
    """Refuse a grid that would take too long to check, before its networks are built."""
    if prod(map(len, grid.vary.values())) > MOST_VARIANTS or len(grid.points) > MOST_VARIANTS:
        raise TooLargeError(f"{GRID}: more than {MOST_VARIANTS:,} variants or points")
    if reason := grid.why_too_large():
        raise TooLargeError(f"{GRID}: {reason}")


def _words(value: object) -> str:
    text = ", ".join(map(str, value)) or "empty" if isinstance(value, tuple | list) else str(value)
    return text if len(text) <= 100 else f"{text[:97]}..."
