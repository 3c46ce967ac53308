"""Thousands of trials over TCP under faults of every kind: the histories must equal those in memory, and nothing leaks.

Networks with one process per node (killed by SIGKILL, stopped by SIGSTOP) and networks with several nodes a process take
turns. Every so often memory, descriptors and processes are counted, and in the end nothing may be left and nothing may
have grown.
"""

import os
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random

import polars as pl
import psutil
import trio

from coordinator.campaigns.trial_runner import Trial, TrialResult, TrialRunner
from coordinator.planning.plan import make_plan
from coordinator.scenario.fault_draws import FaultSites, draw
from coordinator.scenario.fault_sets import parse_fault_sets
from coordinator.scenario.model import Scenario, make_scenario
from emunode.logging import logging_to
from stress_tests.common import Budget, Row

NODES = ("crash=1@1", "crash=1@2", "crash=2@3", "hang=1@2-3", "hang=1@1-2", "byzantine=1@1", "byzantine=2@2")
LINKS = (
    "down=1@1", "down=2@2-3", "down=1@3-3", "loss=3:0.3@1", "corrupt=2:0.5@1", "duplicate=2:0.5@1", "delay=2:1@1",
    "drop=2:1@1",
)  # fmt: skip
TRIAL_SECONDS = 120.0
"""Time limit of a trial."""
COUNTS = 40
"""Number of samples of processes and memory."""
SETTLED = 0.2
"""Share of the trials that fill caches before memory is compared."""
GROWTH_BYTES = 12 * 2**20
"""Allowed growth of memory after that."""


@dataclass(frozen=True)
class Count:
    """Memory, processes and descriptors of this process and its children."""

    trial: int
    rss: int
    descriptors: int
    processes: int


def faults_of(number: int, places: FaultSites, seed: int) -> tuple[str, ...]:
    """The faults of a trial: up to two kinds at nodes and two at links; half of the crashed come back, half of the links."""
    chance = Random(f"{seed}/{number}")
    kinds = chance.sample(NODES, chance.randrange(0, 2)) + chance.sample(LINKS, chance.randrange(0, 3))
    specs: list[str] = []
    taken: set[object] = set()
    for at, text in enumerate(kinds or ["crash=1@2"]):
        (fault_set,) = parse_fault_sets(text)
        drawn = draw(fault_set, places, seed, 7 * number + at, taken=taken)
        taken.update(place for place in [*places.nodes(), *places.links] if _strikes(drawn, place, places))
        specs += drawn
        for spec in drawn:
            kind, _, rest = spec.partition(":")
            where, _, when = rest.rpartition("@")
            if kind in ("crash", "down") and when.isdigit() and chance.random() < 0.5:
                specs.append(f"{'recover' if kind == 'crash' else 'up'}:{where}@{int(when) + 2}")
    return tuple(specs)


def _strikes(specs: tuple[str, ...], place: object, places: FaultSites) -> bool:
    label = places.topology.label
    name = label(place) if isinstance(place, int) else "~".join(map(label, place))  # type: ignore[call-overload]
    return any(spec.split(":")[1].split("@")[0] == name for spec in specs)


def count(trial: int) -> Count:
    """Take a sample."""
    me = psutil.Process()
    family = [me, *me.children(recursive=True)]
    rss = descriptors = 0
    for process in family:
        try:
            rss += process.memory_info().rss
            descriptors += process.num_fds()
        except psutil.NoSuchProcess:
            continue
    return Count(trial, rss, descriptors, len(family))


def descriptors() -> list[str]:
    """The open descriptors of this process."""
    found = []
    for link in Path("/proc/self/fd").iterdir():
        try:
            found.append(f"{link.name} {link.readlink()}")
        except OSError:
            continue
    return sorted(found)


async def trials(variants: list[Scenario], seed: int, times: int, row: Row) -> None:
    """Run the trials and record problems in the row."""
    counts: list[Count] = []
    kinds: Counter[str] = Counter()
    places = [FaultSites(make_plan(scenario).algorithm) for scenario in variants]
    in_memory = [scenario.model_copy(update={"driver": "memory", "ranks_per_host": "auto"}) for scenario in variants]
    block = max(1, times // (4 * len(variants)))
    async with TrialRunner(variants, sys.stderr) as hosts, TrialRunner(in_memory, sys.stderr) as memory:
        for number in range(times):
            at = number // block % len(variants)
            trial = Trial(at, faults_of(number, places[at], seed), seed + number)
            kinds.update(spec.partition(":")[0] for spec in trial.faults)
            row.tried += 1
            try:
                with trio.fail_after(TRIAL_SECONDS):
                    found, expected = await hosts.trial(trial), await memory.trial(trial)
            except trio.TooSlowError:
                row.wrong.append(f"trial {number} hung: {trial}")
                break
            row.wrong += [f"trial {number}: {why}: {trial}" for why in differences(found, expected)]
            if (number + 1) % max(1, times // COUNTS) == 0:
                counts.append(count(number + 1))
    course = [each.rss >> 20 for each in counts] or [0]
    row.wrong += growth(counts, len(variants), block)
    faults = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
    row.note = f"{course[0]} MiB in the beginning, {max(course)} at most, {course[-1]} in the end; {faults}"


def differences(found: TrialResult, expected: TrialResult) -> list[str]:
    """Differences between a trial over TCP and the same trial in memory."""
    why = [f"undecided, {found.undecided}"] if found.undecided else []
    why += [f"violated, {claim}" for claim in found.violated]
    if not why and found != expected:
        why.append("another history than in memory")
    return why


def growth(counts: list[Count], variants: int, block: int) -> list[str]:
    """Growth between the first and the last time that the same network was open."""
    wrong = []
    settled = SETTLED * counts[-1].trial if counts else 0
    for variant in range(variants):
        same = [each for each in counts if (each.trial - 1) // block % variants == variant]
        same = [each for each in same if each.trial > settled or each is same[0]]
        if len(same) < 4:
            continue
        half = len(same) // 2
        for name, slack in (("rss", GROWTH_BYTES), ("descriptors", 2), ("processes", 1)):
            before, after = (max(getattr(each, name) for each in part) for part in (same[:half], same[half:]))
            if after > before + slack:
                wrong.append(f"variant {variant}: {name} grew from {before:,} to {after:,}")
    return wrong


def run_section(budget: Budget) -> list[Row]:
    """Trials on small networks of both shapes."""
    row = Row("trials", "faults of every kind over TCP, as in memory")
    scenario = {
        "topology": "star:3", "collective": "broadcast", "algorithm": "edt", "redundancy": 2, "driver": "local"
    }  # fmt: skip
    variants = [make_scenario({**scenario, "ranks_per_host": ranks}) for ranks in (1, "auto")]
    times = budget.times(2000, 40)
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = os.environ["TMPDIR"] = folder
        pl.LazyFrame({"warm": [1]}).collect(engine="streaming")  # polars keeps three descriptors for its threads
        before = count(0)
        with (Path(folder) / "log").open("w", encoding="utf-8") as log, logging_to(log):
            trio.run(trials, variants, budget.seed, times, row)
        after = count(times)
        left = sorted(path.name for path in Path(folder).iterdir() if path.name != "log")
    if after.processes > before.processes or after.descriptors > before.descriptors:
        row.wrong.append("processes or descriptors are left: " + ", ".join(descriptors()))
    if left:
        row.wrong.append(f"files are left: {', '.join(left)}")
    return [row]
