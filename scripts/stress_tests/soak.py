"""Thousands of short runs in one process: memory and descriptors must not grow.

The number of descriptors and processes must stay equal. An allocator may retain memory, but it does so once: growth is
what the second half of the runs still adds, once garbage is collected and free memory is given back to the kernel. Growth
of the memory that Python has in use is a leak, even where there is room for it among memory that was freed.
"""

import random
import shutil
from collections.abc import Iterator

from stress_tests.common import TIMED_OUT, Budget, Row, growth, usage
from tests.helpers.command_line import fields

SAMPLES = 8
"""Number of memory samples; the first half of the runs fills caches; nothing may grow afterwards."""
GROWTH_BYTES_PER_RUN = 4 * 1024
GROWTH_BLOCKS_PER_RUN = 1.0
"""Objects and tables of Python that each run may leave behind. A run in memory makes tens of thousands."""
SCENARIOS = (
    "star:4 broadcast greedy-tree",
    "hypercube:3 allgather sbt port_model=exchange",
    "ej:1+2 broadcast improved fault=crash:1,0@2",
    "star:3 alltoall list-schedule",
)


def run_section(budget: Budget) -> Iterator[Row]:
    """Thousands of runs in memory, hundreds over hosts."""
    yield soak(budget, "memory", budget.times(3000, 64))
    yield soak(budget, "local", budget.times(800, 8))


def soak(budget: Budget, driver: str, times: int) -> Row:
    """Many runs of one driver."""
    row, draw = Row(f"short runs, {driver}"), random.Random(budget.seed)
    samples = []
    for number in range(1, times + 1):
        values = fields(draw.choice(SCENARIOS), driver=driver, seed=number)
        if driver == "local" and draw.random() < 0.5:
            values["ranks_per_host"] = draw.choice((1, 2, 3))
        row.add(*run_once(budget, values))
        if number % (times // SAMPLES) == 0:
            samples.append(usage())
            row.show(f"{number} runs, {samples[-1].rss / 2**20:.1f} MiB, {len(row.wrong)} wrong")
    course = " ".join(f"{sample.rss / 2**20:.1f}" for sample in samples)
    objects = (samples[-1].objects - samples[SAMPLES // 2 - 1].objects) / (times / 2)
    row.note = f"MiB: {course}; {objects:+.2f} objects a run in the second half"
    allowed = {"descriptors": 0.0, "processes": 0.0}
    if times > 500:  # fewer only fill caches
        allowed |= {"rss": GROWTH_BYTES_PER_RUN * times / 2, "objects": GROWTH_BLOCKS_PER_RUN * times / 2}
    row.wrong += growth(samples, allowed)
    return row


def run_once(budget: Budget, values: dict[str, object]) -> tuple[list[str], int, list[str]]:
    """Run a scenario and remove its directory; the problems found, one run, and whether the machine was too busy for it."""
    from coordinator.execution.run import run
    from coordinator.execution.sinks import DirectorySink
    from coordinator.planning.plan import make_plan
    from coordinator.scenario.model import make_scenario

    folder = budget.scratch / "soak"
    try:
        result = run(make_plan(make_scenario(values)), DirectorySink(folder))
    except Exception as error:
        return [f"{values}: {error!r}"], 1, []
    shutil.rmtree(folder)
    failure = result.execution.failure
    if failure and TIMED_OUT in str(failure):
        return [], 1, [f"{values}: not reached: {failure}"]
    if result.verdict not in ("holds", "undecided") or failure:
        return [f"{values}: {result.verdict}: {failure}"], 1, []
    return [], 1, []
