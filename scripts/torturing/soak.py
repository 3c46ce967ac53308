"""Thousands of short runs in one process: memory and descriptors stay as they are after the first.

Descriptors and child processes are held flat exactly, resident memory but for what an allocator may hold back.
"""

import random
import shutil
from pathlib import Path

import psutil

from torturing.common import Budget, Row, preload

WARM_SHARE = 4
"""A quarter of the runs fill caches; from there on nothing may grow."""
GROWTH_BYTES_PER_RUN = 8 * 1024
SCENARIOS = (
    {"topology": "star:4", "collective": "broadcast", "algorithm": "greedy-tree"},
    {"topology": "hypercube:3", "collective": "allgather", "algorithm": "sbt", "port_model": "exchange"},
    {"topology": "ej:1+2", "collective": "broadcast", "algorithm": "improved", "fault": ["crash:1,0@2"]},
    {"topology": "star:3", "collective": "alltoall", "algorithm": "list-schedule"},
)


def torture(budget: Budget) -> list[Row]:
    """Runs in memory by the thousand, over hosts by the hundred."""
    preload()
    return [soak(budget, "memory", budget.times(3000, 60)), soak(budget, "local", budget.times(400, 8))]


def soak(budget: Budget, driver: str, times: int) -> Row:
    """Many runs of one driver."""
    from coordinator.plan import make_plan
    from coordinator.run import run
    from coordinator.scenario import make_scenario

    row, draw, me = Row("soak", f"short runs, {driver}"), random.Random(budget.seed), psutil.Process()
    warm = max(2, times // WARM_SHARE)
    before = descriptors = children = 0
    for number in range(times):
        values = draw.choice(SCENARIOS) | {"driver": driver, "seed": number}
        if driver == "local" and draw.random() < 0.5:
            values["ranks_per_host"] = draw.choice((1, 2, 3))
        folder = budget.scratch / f"soak-{driver}"
        try:
            result = run(make_plan(make_scenario(values)), folder, lambda *_: None)
        except Exception as error:
            row.wrong.append(f"run {number} {values}: {error!r}")
            continue
        row.tried += 1
        if result.verdict not in ("holds", "undecided"):
            row.wrong.append(f"run {number} {values}: {result.verdict}")
        shutil.rmtree(folder)
        if number == warm:
            before, descriptors, children = me.memory_info().rss, me.num_fds(), len(me.children())
    grown = (me.memory_info().rss - before) / max(1, times - warm)
    row.note = f"{grown / 1024:+.2f} KiB a run after {warm}; descriptors {me.num_fds() - descriptors:+}"
    if grown > GROWTH_BYTES_PER_RUN and times > 500:
        row.wrong.append(f"memory grows by {grown:.0f} bytes a run")
    if me.num_fds() > descriptors:
        row.wrong.append(f"{me.num_fds() - descriptors} descriptors more: {_open_files()}")
    if len(me.children()) > children:
        row.wrong.append(f"{len(me.children()) - children} processes more")
    return row


def _open_files() -> list[str]:
    return sorted(str(fd.readlink()) for fd in Path("/proc/self/fd").iterdir() if fd.exists())[:10]
