"""Thousands of trials over TCP under faults of every kind: the histories must equal those in memory, and nothing leaks.

Networks with one process per node (killed by SIGKILL, stopped by SIGSTOP) alternate with networks with several nodes per
process. Memory, descriptors and processes are sampled at regular intervals: they must not grow, and nothing may be left.
"""

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random

import polars as pl
import trio

from coordinator.campaigns.fault_coverage import FaultCoverage
from coordinator.campaigns.trial_runner import Trial, TrialResult, TrialRunner
from coordinator.planning.plan import make_plan
from coordinator.scenario.fault_syntax import parse_faults
from coordinator.scenario.model import Scenario, make_scenario
from emunode.errors import ScenarioError
from emunode.logging import logging_to
from stress_tests.common import Budget, Row, Usage, growth, open_files, usage
from tests.helpers.command_line import fields

TRIAL_SECONDS = 300.0
"""Time limit of a trial."""
SAMPLES = 40
"""Number of samples of processes and memory."""
SETTLED = 0.2
"""Share of the trials that fill caches before memory is compared."""
LAST_STEP = 4
"""The last step when a fault begins."""
ALLOWED_GROWTH = {"rss": 12 * 2**20, "descriptors": 2, "processes": 1}
"""Allowed growth after that."""


def faults_of(coverage: FaultCoverage, chance: Random) -> tuple[str, ...]:
    """Return up to three faults in the cells that were tried least, some of them for a while only, and count them."""
    faults: tuple[str, ...] = ()
    for _ in range(chance.randint(1, 3)):
        fault = coverage.draw(chance)
        place, _, first = fault.partition(":")[2].rpartition("@")
        later = int(first) + chance.randint(1, 2)
        # What ends no fault of this kind, or contradicts the others, is refused.
        ends = [(), (f"recover:{place}@{later}",), (f"up:{place}@{later}",)]
        for specs in chance.sample([(fault, *end) for end in ends] + [(f"{fault}-{later - 1}",)], 4):
            with suppress(ScenarioError):
                parse_faults((*faults, *specs), coverage.topology)
                faults += specs
                break
    coverage.add(parse_faults(faults, coverage.topology))
    return faults


async def trials(variants: Sequence[Scenario], seed: int, times: int, row: Row) -> None:
    """Run the trials and record problems in the row."""
    samples: list[tuple[int, Usage]] = []
    algorithms = [make_plan(scenario).algorithm for scenario in variants]
    in_memory = [scenario.on_driver("memory") for scenario in variants]
    # Nothing is claimed about runs whose source is faulty.
    coverage = FaultCoverage(algorithms[0].topology, LAST_STEP, spared=algorithms[0].sources)
    block = max(1, times // (4 * len(variants)))
    async with TrialRunner(variants, sys.stderr) as hosts, TrialRunner(in_memory, sys.stderr) as memory:
        for number in range(times):
            variant = number // block % len(variants)
            trial = Trial(variant, faults_of(coverage, Random(f"{seed}/{number}")), seed + number)
            try:
                with trio.fail_after(TRIAL_SECONDS):
                    found, expected = await hosts.trial(trial), await memory.trial(trial)
            except trio.TooSlowError:
                row.add([f"trial {number} hung: {trial}"])
                break
            row.add([f"trial {number}: {why}: {trial}" for why in differences(found, expected)])
            if (number + 1) % max(1, times // SAMPLES) == 0:
                samples.append((number, usage()))
    for variant in range(len(variants)):
        settled = [
            sample
            for number, sample in samples
            if number // block % len(variants) == variant and number >= SETTLED * times
        ]
        row.wrong += [f"variant {variant}: {problem}" for problem in growth(settled, ALLOWED_GROWTH)]
    course = [sample.rss >> 20 for _, sample in samples] or [0]
    row.require({kind: kind not in coverage.untried_kinds for kind in coverage.kinds}, coverage.kinds, "never tried:")
    row.note = f"{course[0]} MiB in the beginning, {max(course)} at most, {course[-1]} in the end"
    row.note += f"; {len(coverage.cells):,} of {coverage.size:,} cells (kind, place, step) of the space of faults tried"
    row.note += f", {len(coverage.untried_pairs)} pairs of kinds not"


def differences(found: TrialResult, expected: TrialResult) -> list[str]:
    """Return differences between a trial over TCP and the same trial in memory."""
    why = [f"undecided, {found.undecided}"] if found.undecided else []
    why += [f"violated, {claim}" for claim in found.violated]
    if not why and found != expected:
        why.append("another history than in memory")
    return why


def run_section(budget: Budget) -> Iterator[Row]:
    """Yield trials on small networks of both shapes."""
    row = Row("faults of every kind over TCP, as in memory")
    scenario = fields("star:3 broadcast edt redundancy=2", driver="local")
    variants = [make_scenario({**scenario, "ranks_per_host": ranks}) for ranks in (1, "auto")]
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = os.environ["TMPDIR"] = folder
        pl.LazyFrame({"warm": [1]}).collect(engine="streaming")  # polars keeps three descriptors for its threads
        before = usage()
        with (Path(folder) / "log").open("w", encoding="utf-8") as log, logging_to(log):
            trio.run(trials, variants, budget.seed, budget.times(2000, 40), row)
        after = usage()
        left = sorted(path.name for path in Path(folder).iterdir() if path.name != "log")
    if after.processes > before.processes or after.descriptors > before.descriptors:
        row.wrong.append("processes or descriptors are left: " + ", ".join(open_files()))
    if left:
        row.wrong.append(f"files are left: {', '.join(left)}")
    yield row
