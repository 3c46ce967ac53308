"""A campaign from its first missing trial to its last: exact points first, then trials with messages, then comparisons."""

from collections.abc import Iterator
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
from coordinator.campaigns.grid import Key, Repeats
from coordinator.campaigns.runner import CampaignRunner, worker_count
from coordinator.campaigns.store import FinishedTrials
from coordinator.campaigns.trial_runner import Trial
from coordinator.networks.base import Progress

BAR: Final = 20


def run_campaign(store: FinishedTrials, workers: int | None, progress: Progress) -> CampaignSession:
    """Run the remaining trials of a campaign; the open `store` keeps them.

    Raises RunError if the batch engine and the message engine disagree about a trial.
    """
    grid = store.grid
    pairs = product(range(len(grid.points)), range(len(grid.variants)))
    phases = 3 if any(grid.exact(*pair) for pair in pairs) else 1
    exact = evaluate_points(store, phase_of(progress, 1, phases))
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
                scenarios, worker_count(workers, scenarios, left), log, phase_of(progress, min(2, phases), phases)
            )
            runner.carry_out(next_round, lambda place, trial, result: store.add(keys[place], trial, result), left)
        done = replace(exact, finished=not runner.interrupted, trials=runner.clock.done, rate=runner.clock.rate)
    if done.finished:
        done = repeat_over_sockets(store, done, phase_of(progress, phases, phases))
    require_agreement(store)
    return done


def phase_of(progress: Progress, number: int, count: int) -> Progress:
    """Return the progress of one of several phases, shown as a bar over all of them; each has the same share of it."""

    def show(text: str, done: int, total: int) -> None:
        share = (number - 1 + (done / total if total else 0)) / count
        bar = "█" * int(BAR * share)
        progress(f"{bar:░<{BAR}} {number} of {count}: {text}", done, total)

    return progress if count == 1 else show


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
