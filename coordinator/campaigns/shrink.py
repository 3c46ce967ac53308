"""Reduce a failing scenario greedily, one simplification after the other.

Simplifications are fewer and simpler faults, one direction of a link instead of two, an earlier step, and fewer and shorter
messages. The result fails in the same way as the given scenario. No single simplification of it does, unless the search has
reached its limit.
"""

import re
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import TextIO

import trio

from coordinator.campaigns.trial_runner import Trial, TrialResult, TrialRunner
from coordinator.execution.stop_signal import InterruptGuard
from coordinator.planning.plan import make_plan
from coordinator.scenario.fault_sets import REPAIRS, on_links
from coordinator.scenario.model import Scenario, make_scenario
from emunode.errors import RunError, ScenarioError
from emunode.logging import logging_to

MOST_TRIALS = 400
SPEC = re.compile(r"(?P<kind>[a-z-]+):(?P<where>.+?)(?P<argument>:[0-9.]+)?@(?P<first>\d+)(?P<last>-\d+)?")


async def shrink(scenario: Scenario, fails: Callable[[Scenario], Awaitable[bool]]) -> Scenario:
    """Return a scenario that `fails` like the given one, although no single simplification of it fails.

    After MOST_TRIALS simplifications the search ends, and further ones may fail too.
    """
    tried = 0
    while True:
        for simpler in simplifications(scenario):
            tried += 1
            # The limit bounds the time, not the validity: the scenario found so far still fails.
            if tried > MOST_TRIALS:
                return scenario
            if await fails(simpler):
                scenario = simpler
                # Begin again with the simpler scenario: large simplifications may have become possible.
                break
        else:
            return scenario


def simplifications(scenario: Scenario) -> Iterator[Scenario]:
    """Yield valid scenarios with one simplification, the more drastic ones first."""
    values = scenario.model_dump(mode="json", exclude_none=True)
    for changes in _changes(scenario):
        try:
            simpler = make_scenario({**values, **changes})
            # A simplification must be a scenario that can run.
            make_plan(simpler)
        except ScenarioError:
            continue
        yield simpler


def _changes(scenario: Scenario) -> Iterator[dict[str, object]]:
    faults = scenario.fault
    # Halves first: many faults go in few trials.
    for half in (faults[: len(faults) // 2], faults[len(faults) // 2 :]):
        if len(faults) > 3:
            yield {"fault": list(half)}
    for at in range(len(faults)):
        yield {"fault": [*faults[:at], *faults[at + 1 :]]}
    for name, least in (("messages", 1), ("segments", 1), ("message_bytes", 1), ("seed", 0)):
        now = getattr(scenario, name)
        if isinstance(now, int) and now > least:
            # The smallest value, half, and one less: binary search with a last single step.
            for smaller in sorted({least, max(least, now // 2), now - 1}):
                yield {name: smaller}
    if scenario.fault_knowledge != "none":
        yield {"fault_knowledge": "none"}
    for at, spec in enumerate(faults):
        for simpler in _simpler(spec):
            yield {"fault": [*faults[:at], simpler, *faults[at + 1 :]]}


def _simpler(spec: str) -> Iterator[str]:
    """Yield simpler forms of one fault: a plain kind, one direction, no end, an earlier step."""
    match = SPEC.fullmatch(spec)
    if match is None:
        return
    kind, where, first = match["kind"], match["where"], int(match["first"])
    argument, last = match["argument"] or "", match["last"] or ""
    # The plainest fault of the same kind of place.
    plain = "down" if on_links(kind) else "crash"
    if kind not in (plain, *REPAIRS):
        yield f"{plain}:{where}@{first}"
    if "~" in where:
        one, other = where.split("~")
        yield f"{kind}:{one}>{other}{argument}@{first}{last}"
        yield f"{kind}:{other}>{one}{argument}@{first}{last}"
    if last:
        yield f"{kind}:{where}{argument}@{first}"
    if first > 1:
        yield f"{kind}:{where}{argument}@1{last}"
        yield f"{kind}:{where}{argument}@{first - 1}{last}"


def failed(result: TrialResult) -> bool:
    """Return whether a trial is a counterexample: a healthy node misses a message, or a claim is violated."""
    return result.undecided is None and (not result.served or bool(result.violated))


HERE = {"driver": "memory", "ranks_per_host": "auto"}


def in_memory(scenario: Scenario) -> Scenario:
    """Return the scenario on the memory driver, where it has the same history."""
    return scenario.model_copy(update=HERE)


def smallest_failure(scenario: Scenario, fails: Callable[[TrialResult], bool], log: TextIO) -> Scenario:
    """Reduce a failing scenario, in memory if it fails there too. An interrupt returns the scenario as it is."""
    requested = {name: getattr(scenario, name) for name in HERE}

    async def still_fails(simpler: Scenario) -> bool:
        async with TrialRunner([simpler], log) as runner:
            try:
                return fails(await runner.trial(Trial(0, (), simpler.seed)))
            except RunError:
                return False

    async def reduce(stop: InterruptGuard) -> Scenario:
        smallest = scenario
        with trio.CancelScope() as scope:
            stop.cancels(scope)
            faster = in_memory(scenario)
            # In memory trials are much faster, but a failure of the driver itself may not show there.
            smallest = await shrink(faster if await still_fails(faster) else scenario, still_fails)
        return smallest.model_copy(update=requested)

    with InterruptGuard() as stop, logging_to(log):
        return trio.run(partial(reduce, stop))
