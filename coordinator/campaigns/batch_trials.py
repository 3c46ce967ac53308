"""Trials of the batch engine in a campaign, and the few of them that are run again with messages."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from coordinator.campaigns.counts import KEPT, DrawBlock, total
from coordinator.campaigns.engines import MANY_TRIALS, SOCKET_TRIALS, differences, sample_size
from coordinator.campaigns.grid import Key, Repeats
from coordinator.campaigns.runner import CampaignRunner
from coordinator.campaigns.statistics import half_width_of
from coordinator.campaigns.store import FinishedTrials
from coordinator.execution.stop_signal import InterruptGuard
from coordinator.networks.base import Progress
from coordinator.planning.plan import make_plan
from coordinator.scenario.fault_draws import require_harm
from coordinator.scenario.model import Scenario
from coordinator.theory.batch.draws import BLOCK
from emunode.errors import RunError, ScenarioError


@dataclass(frozen=True)
class CampaignSession:
    """The result of running a campaign until it was complete or interrupted."""

    finished: bool
    """Whether all trials are done; otherwise the session was interrupted."""
    trials: int = 0
    """Trials that were run with messages."""
    rate: float | None = None
    """Trials with messages per second, without the start of worker processes."""
    exact_trials: int = 0
    """Trials that were evaluated exactly."""
    exact_rate: float | None = None
    """Exact trials per second."""
    notes: tuple[str, ...] = ()
    """Parts that were left out, such as trials over TCP that this machine has no room for."""


def evaluate_points(store: FinishedTrials, progress: Progress) -> CampaignSession:
    """Evaluate the draws of all points where the engine is exact, in blocks."""
    grid, done, seconds = store.grid, 0, 0.0
    exact = {
        point: [variant for variant in range(len(grid.variants)) if grid.exact(point, variant)]
        for point in range(len(grid.points))
    }
    pairs = [(point, variant) for point, variants in exact.items() for variant in variants]
    earlier = sum(_stop(store.evaluated(*pair)) for pair in pairs)
    wanted = sum(grid.wanted(*pair) for pair in pairs)
    with InterruptGuard() as stop:
        for point, variants in exact.items():
            while missing := unfinished(store, point, variants):
                for variant in missing:
                    progress("exact trials", earlier + done, wanted)
                    began = time.perf_counter()
                    block = _next_block(store, point, variant)
                    store.add_block(block)
                    done, seconds = done + block.counts.trials, seconds + time.perf_counter() - began
                    if stop.requested:
                        return CampaignSession(finished=False, exact_trials=done, exact_rate=done / seconds)
    return CampaignSession(finished=True, exact_trials=done, exact_rate=done / seconds if done else None)


def unfinished(store: FinishedTrials, point: int, variants: Sequence[int]) -> list[int]:
    """Return the variants of a point that get the next block.

    With a precision, all variants take turns until all are precise enough.
    """
    grid = store.grid
    evaluated = {variant: store.evaluated(point, variant) for variant in variants}
    missing = [at for at in variants if _stop(evaluated[at]) < grid.wanted(point, at)]
    # Points whose sets are all run have no interval.
    drawn = [at for at in variants if not grid.whole(point, at)]
    if grid.precision is None:
        return missing[:1]
    if not all(evaluated[at] for at in drawn):
        return missing
    counts = [total(evaluated[at]) for at in drawn]
    # Judged only where all variants have the same blocks, so that a resumed campaign stops at the same one.
    level = len({_stop(evaluated[at]) for at in drawn}) <= 1
    if level and all(half_width_of(each.served, each.decided) <= grid.precision for each in counts):
        return [at for at in missing if at not in drawn]
    least = min((_stop(evaluated[at]) for at in missing), default=0)
    return [at for at in missing if _stop(evaluated[at]) == least]


def _stop(blocks: Sequence[DrawBlock]) -> int:
    return blocks[-1].stop if blocks else 0


def _next_block(store: FinishedTrials, point: int, variant: int) -> DrawBlock:
    grid, start = store.grid, _stop(store.evaluated(point, variant))
    # To the next multiple: blocks of draws are made as a whole.
    stop = min(grid.wanted(point, variant), (start // BLOCK + 1) * BLOCK)
    drawn = np.array(grid.numbers(point, variant)[start:stop], np.int64)
    outcome, broken = grid.point_engine(point, variant).evaluate(drawn, latencies=True)
    place = (point, variant, start)
    return DrawBlock.of_outcome(place, drawn, outcome, broken, whole=grid.whole(point, variant))


# --- trials that both engines run --------------------------------------------------------------------------------------


def repeats(store: FinishedTrials) -> Repeats:
    """Return the draws of exactly evaluated points that are run again with messages: the first ones, and the worst."""
    grid = store.grid
    chosen: dict[tuple[int, int], list[int]] = {}
    for point, variant in product(range(len(grid.points)), range(len(grid.variants))):
        if grid.exact(point, variant):
            blocks = store.evaluated(point, variant)
            first = grid.numbers(point, variant)[: min(_stop(blocks), sample_size(grid.batch_engine(variant)))]
            worst = sorted((each for block in blocks for each in block.worst), key=lambda each: (-each[0], each[1]))
            breaking = [number for block in blocks for number in block.violations]
            named = [number for _, number in worst[:KEPT]] + breaking[:KEPT]
            chosen[point, variant] = list(dict.fromkeys([*first, *named]))
    return chosen


def repeat_over_sockets(store: FinishedTrials, done: CampaignSession, progress: Progress) -> CampaignSession:
    """Run a few of the repeated trials over TCP as well, for variants with many trials in memory."""
    grid = store.grid
    local: dict[int, Scenario] = {}
    notes: list[str] = []
    todo: list[Key] = []
    for variant, each in enumerate(grid.variants):
        many = [point for point in range(len(grid.points)) if _stop(store.evaluated(point, variant)) >= MANY_TRIALS]
        if not many or each.scenario.driver != "memory" or not grid.exact(many[-1], variant):
            continue
        # The last point has most faults, as a rule.
        keys = [Key(many[-1], variant, number) for number in grid.numbers(many[-1], variant)[:SOCKET_TRIALS]]
        missing = [key for key in keys if key not in store.sockets]
        scenario = each.scenario.on_driver("local")
        try:
            make_plan(scenario)
        except ScenarioError as error:
            notes.append(f"{each.name}: no trial was repeated over TCP: {error}")
            continue
        local[variant] = scenario
        todo += missing
    if not todo:
        return replace(done, notes=tuple(notes))
    # Variants without such trials keep their scenarios, so that the numbers of variants stay as they are.
    scenarios = [local.get(at, variant.scenario) for at, variant in enumerate(grid.variants)]
    rounds = iter([[grid.trial(key) for key in todo]])
    with store.open_log() as log:
        runner = CampaignRunner(scenarios, 1, log, progress)
        runner.carry_out(
            lambda: next(rounds, []),
            lambda place, trial, result: store.add_socket_trial(todo[place], trial, result),
            len(todo),
        )
    return replace(done, finished=not runner.interrupted, notes=tuple(notes))


def require_agreement(store: FinishedTrials) -> None:
    """Raise RunError if a trial with messages contradicts the batch engine, or the search that found its faults."""
    grid = store.grid
    for (point, variant, number), (_, result) in store.findings.items():
        if grid.points[point].how == "worst" and result.undecided is None:
            where = f"{grid.variants[variant].name} under {grid.points[point].name}, draw {number}"
            require_harm(where, grid.places[variant].worst(grid.points[point]).harm, len(result.unserved))
    for point, variant in product(range(len(grid.points)), range(len(grid.variants))):
        if not grid.exact(point, variant):
            continue
        repeated = {key: result for key, (_, result) in store.findings.items() if key[:2] == (point, variant)}
        # A machine that failed in the middle of a trial over TCP decides nothing.
        sockets = {key: result for key, result in store.sockets.items() if key[:2] == (point, variant)}
        for results in (repeated, sockets):
            contradictions = differences(
                grid.point_engine(point, variant), {key.number: result for key, result in results.items()}
            )
            for number, words in contradictions:
                where = f"{grid.variants[variant].name} under {grid.points[point].name}, draw {number}"
                faults = " ".join(grid.trial(Key(point, variant, number)).faults)
                raise RunError(
                    f"the engines disagree: {where} ({faults}): {words}; this is an error of the emulator, or of a kind of "
                    "fault whose effects() are wrong, and --engine messages avoids it"
                )
