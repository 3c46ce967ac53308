"""A campaign from its first missing trial to its last: exact points first, then trials with messages, then comparisons."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Final

from coordinator.campaigns.batch_trials import (
    CampaignSession,
    evaluate_points,
    repeat_over_sockets,
    repeats,
    require_agreement,
)
from coordinator.campaigns.engines import MANY_TRIALS, MOST_SAMPLE, SOCKET_TRIALS
from coordinator.campaigns.grid import Grid, Key, Repeats
from coordinator.campaigns.runner import CampaignRunner, worker_count
from coordinator.campaigns.store import FinishedTrials
from coordinator.campaigns.trial_runner import Trial
from coordinator.networks.base import Progress

BAR: Final = 20
EXACT_PER_MESSAGES: Final = 50
"""About how many trials are computed exactly in the time of one trial with messages."""
MESSAGES_PER_SOCKET: Final = 10
"""About how many trials with messages take the time of one trial over TCP."""


def run_campaign(store: FinishedTrials, workers: int | None, progress: Progress) -> CampaignSession:
    """Run the remaining trials of a campaign; the open `store` keeps them.

    Raises RunError if the batch engine and the message engine disagree about a trial.
    """
    grid = store.grid
    work = work_of(grid)
    exact = evaluate_points(store, phase_of(progress, 1, work))
    if not exact.finished:
        # Trials of earlier sessions: nothing may say that they agree before they are compared.
        require_agreement(store)
        return exact
    scenarios = [variant.scenario for variant in grid.variants]
    again = repeats(store)
    left = _left(store, again)
    done = exact
    if left:
        keys: list[Key] = []

        def next_round() -> Iterator[Trial]:
            keys.clear()
            for key, trial in grid.rest(store.done(), again):
                keys.append(key)
                # `place` counts within a round, so the keys of the round have to be kept.
                yield trial

        with store.open_log() as log:
            runner = CampaignRunner(
                scenarios, worker_count(workers, scenarios, left), log, phase_of(progress, min(2, len(work)), work)
            )
            runner.carry_out(next_round, lambda place, trial, result: store.add(keys[place], trial, result), left)
        done = replace(exact, finished=not runner.interrupted, trials=runner.clock.done, rate=runner.clock.rate)
    if done.finished:
        done = repeat_over_sockets(store, done, phase_of(progress, len(work), work))
    require_agreement(store)
    return done


def work_of(grid: Grid) -> list[float]:
    """Return the work of each phase, in trials with messages: exact trials, trials with messages, and trials over TCP."""
    exact = messages = sockets = 0
    for point, variant in product(range(len(grid.points)), range(len(grid.variants))):
        wanted = grid.wanted(point, variant)
        is_exact = grid.exact(point, variant)
        exact += wanted * is_exact
        messages += min(wanted, MOST_SAMPLE) if is_exact else wanted
        sockets += SOCKET_TRIALS * (is_exact and wanted >= MANY_TRIALS)
    return [exact / EXACT_PER_MESSAGES, messages, sockets * MESSAGES_PER_SOCKET] if exact else [max(1, messages)]


def phase_of(progress: Progress, number: int, work: Sequence[float]) -> Progress:
    """Return the progress of one of several phases as a bar over all of them, where each has the share of its work."""

    def show(text: str, done: int, total: int) -> None:
        finished = sum(work[: number - 1]) + work[number - 1] * (done / total if total else 0)
        bar = "█" * int(BAR * finished / sum(work))
        of_all = f" {number} of {len(work)}:" if len(work) > 1 else ""
        progress(f"{bar:░<{BAR}}{of_all} {text}", done, total)

    return show


def _left(store: FinishedTrials, again: Repeats) -> int:
    """Return the number of remaining trials with messages if no point reaches its precision early."""
    grid, done, left = store.grid, store.done(), 0
    for point, variant in product(range(len(grid.points)), range(len(grid.variants))):
        finished = done.get((point, variant), {})
        if grid.exact(point, variant):
            left += sum(number not in finished for number in again.get((point, variant), ()))
        else:
            left += max(0, grid.wanted(point, variant) - len(grid.counted(point, variant, finished)))
    return left
