"""Thousands of short runs in one process: memory and descriptors must not grow.

Descriptors and child processes are held flat exactly, resident memory but for what an allocator may hold back: what it
holds back it takes once, so growth is what the second half of the runs still adds.
"""

import random
import shutil
import time
from pathlib import Path

import psutil

from stress_tests.common import Budget, Row, preload

LOOKS = 8
"""Number of memory samples; the first half of the runs fills caches, after which nothing may grow."""
GROWTH_BYTES_PER_RUN = 4 * 1024
SCENARIOS = (
    {"topology": "star:4", "collective": "broadcast", "algorithm": "greedy-tree"},
    {"topology": "hypercube:3", "collective": "allgather", "algorithm": "sbt", "port_model": "exchange"},
    {"topology": "ej:1+2", "collective": "broadcast", "algorithm": "improved", "fault": ["crash:1,0@2"]},
    {"topology": "star:3", "collective": "alltoall", "algorithm": "list-schedule"},
)


def run_section(budget: Budget) -> list[Row]:
    """Thousands of runs in memory, hundreds over hosts."""
    preload()
    return [soak(budget, "memory", budget.times(3000, 64)), soak(budget, "local", budget.times(800, 8))]


def soak(budget: Budget, driver: str, times: int) -> Row:
    """Many runs of one driver."""
    from coordinator.execution.run import run
    from coordinator.planning.plan import make_plan
    from coordinator.scenario.model import make_scenario

    row, draw, me = Row("soak", f"short runs, {driver}"), random.Random(budget.seed), psutil.Process()
    curve: list[int] = []
    descriptors = children = 0
    began = time.monotonic()
    for number in range(times):
        values = draw.choice(SCENARIOS) | {"driver": driver, "seed": number}
        if driver == "local" and draw.random() < 0.5:
            values["ranks_per_host"] = draw.choice((1, 2, 3))
        folder = budget.scratch / f"soak-{driver}"
        try:
            result = run(make_plan(make_scenario(values)), folder, lambda *_: None)
        except Exception as error:
            row.wrong.append(f"run {number} {values}: {error!r}")
        else:
            if result.verdict not in ("holds", "undecided") or result.execution.failure:
                row.wrong.append(f"run {number} {values}: {result.verdict}: {result.execution.failure}")
            shutil.rmtree(folder)
        row.tried += 1
        if (number + 1) % (times // LOOKS) == 0:
            curve.append(me.memory_info().rss)
            print(
                f"  soak {driver}: {number + 1} runs, {curve[-1] / 2**20:.1f} MiB, {len(row.wrong)} wrong", flush=True
            )
        if number == times // LOOKS:
            descriptors, children = me.num_fds(), len(me.children())
    row.seconds = round(time.monotonic() - began, 1)
    grown = (curve[-1] - curve[LOOKS // 2 - 1]) / (times / 2)
    course = " ".join(f"{size / 2**20:.1f}" for size in curve)
    row.note = f"{grown / 1024:+.2f} KiB a run in the second half (MiB: {course}); "
    row.note += f"descriptors {me.num_fds() - descriptors:+}"
    if grown > GROWTH_BYTES_PER_RUN and times > 500:
        row.wrong.append(f"memory grows by {grown:.0f} bytes a run")
    if me.num_fds() > descriptors:
        row.wrong.append(f"{me.num_fds() - descriptors} descriptors more: {_open_files()}")
    if len(me.children()) > children:
        row.wrong.append(f"{len(me.children()) - children} processes more")
    return row


def _open_files() -> list[str]:
    return sorted(str(fd.readlink()) for fd in Path("/proc/self/fd").iterdir() if fd.exists())[:10]
