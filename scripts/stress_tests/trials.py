"""Thousands of trials over TCP under faults of every kind: the histories must equal those in memory, and nothing leaks.

Networks with one process per node (killed by SIGKILL, stopped by SIGSTOP) alternate with networks with several nodes per
process. Memory, descriptors and processes are sampled at regular intervals: they must not grow, and nothing may be left.
"""

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import polars as pl
import trio

from coordinator.campaigns.fault_coverage import FaultCoverage
from coordinator.campaigns.trial_runner import Trial, TrialResult, TrialRunner
from coordinator.planning.plan import make_plan
from coordinator.scenario.fault_draws import resolve
from coordinator.scenario.fault_syntax import parse_faults
from coordinator.scenario.model import Scenario, make_scenario
from emunode.algorithms.base import Algorithm
from emunode.errors import ScenarioError
from emunode.logging import logging_to
from stress_tests.common import Budget, Row, Usage, open_files, usage

NODES = ("crash=1@1", "crash=1@2", "crash=2@3", "hang=1@2-3", "hang=1@1-2", "byzantine=1@1", "byzantine=2@2")
LINKS = (
    "down=1@1", "down=2@2-3", "down=1@3-3", "loss=3:0.3@1", "corrupt=2:0.5@1", "duplicate=2:0.5@1", "delay=2:1@1",
    "drop=2:1@1",
)  # fmt: skip
TRIAL_SECONDS = 300.0
"""Time limit of a trial."""
SAMPLES = 40
"""Number of samples of processes and memory."""
SETTLED = 0.2
"""Share of the trials that fill caches before memory is compared."""
LAST_STEP = 4
"""The last step when a fault begins."""
ALLOWED_GROWTH = Usage(rss=12 * 2**20, descriptors=2, processes=1)
"""Allowed growth after that."""


def steered(number: int, coverage: FaultCoverage, algorithm: Algorithm, seed: int) -> tuple[str, ...]:
    """Return the faults of a trial and count them; every second trial has a fault in the cell that was tried least."""
    faults = faults_of(number, algorithm, seed)
    if number % 2:
        fault = coverage.draw(Random(f"{seed}/{number}/steered"))
        try:
            parse_faults((*faults, fault), algorithm.topology)
        except ScenarioError:  # it contradicts the others
            faults = (fault,)
        else:
            faults = (*faults, fault)
    coverage.add(parse_faults(faults, algorithm.topology))
    return faults


def faults_of(number: int, algorithm: Algorithm, seed: int) -> tuple[str, ...]:
    """Return the faults of a trial: up to one kind at nodes and two at links; half of the nodes and links are repaired
    later.
    """
    chance = Random(f"{seed}/{number}")
    kinds = chance.sample(NODES, chance.randrange(0, 2)) + chance.sample(LINKS, chance.randrange(0, 3))
    fault_sets = [f"random:{kind}" for kind in kinds or ["crash=1@2"]]
    specs = resolve(fault_sets, lambda: algorithm, chance.getrandbits(32))[0]
    repairs = []
    for spec in specs:
        kind, _, rest = spec.partition(":")
        where, _, when = rest.rpartition("@")
        if kind in ("crash", "down") and when.isdigit() and chance.random() < 0.5:
            repairs.append(f"{'recover' if kind == 'crash' else 'up'}:{where}@{int(when) + 2}")
    return (*specs, *repairs)


async def trials(variants: Sequence[Scenario], seed: int, times: int, row: Row) -> None:
    """Run the trials and record problems in the row."""
    samples: list[tuple[int, Usage]] = []
    kinds: Counter[str] = Counter()
    algorithms = [make_plan(scenario).algorithm for scenario in variants]
    in_memory = [scenario.on_driver("memory") for scenario in variants]
    # Nothing is claimed about runs whose source is faulty.
    coverage = FaultCoverage(algorithms[0].topology, LAST_STEP, spared=algorithms[0].sources)
    block = max(1, times // (4 * len(variants)))
    async with TrialRunner(variants, sys.stderr) as hosts, TrialRunner(in_memory, sys.stderr) as memory:
        for number in range(times):
            variant = number // block % len(variants)
            trial = Trial(variant, steered(number, coverage, algorithms[variant], seed), seed + number)
            kinds.update(spec.partition(":")[0] for spec in trial.faults)
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
        own = [(number, sample) for number, sample in samples if number // block % len(variants) == variant]
        row.wrong += [f"variant {variant}: {problem}" for problem in growth(own, SETTLED * times)]
    course = [sample.rss >> 20 for _, sample in samples] or [0]
    faults = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
    row.note = f"{course[0]} MiB in the beginning, {max(course)} at most, {course[-1]} in the end; {faults}"
    row.note += f"; {len(coverage.cells):,} of {coverage.size:,} cells (kind, place, step) of the space of faults tried"
    row.note += f", {len(coverage.untried_pairs)} pairs of kinds not"


def differences(found: TrialResult, expected: TrialResult) -> list[str]:
    """Return differences between a trial over TCP and the same trial in memory."""
    why = [f"undecided, {found.undecided}"] if found.undecided else []
    why += [f"violated, {claim}" for claim in found.violated]
    if not why and found != expected:
        why.append("another history than in memory")
    return why


def growth(samples: Sequence[tuple[int, Usage]], settled: float) -> list[str]:
    """Return growth between the first and the second half of the samples of one network."""
    compared = [sample for at, (number, sample) in enumerate(samples) if number >= settled or at == 0]
    if len(compared) < 4:
        return []
    half = len(compared) // 2
    before, after = (Usage(*map(max, zip(*part, strict=True))) for part in (compared[:half], compared[half:]))
    return [
        f"{name} grew from {old:,} to {new:,}"
        for name, old, new, allowed in zip(Usage._fields, before, after, ALLOWED_GROWTH, strict=True)
        if new > old + allowed
    ]


def run_section(budget: Budget) -> Iterator[Row]:
    """Yield trials on small networks of both shapes."""
    row = Row("faults of every kind over TCP, as in memory")
    scenario = {
        "topology": "star:3", "collective": "broadcast", "algorithm": "edt", "redundancy": 2, "driver": "local"
    }  # fmt: skip
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
