"""Runs of the message engine, and random faults, to hold the engine against."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from random import Random

import numpy as np

from coordinator.campaigns.trial_runner import TrialResult, judge_trial
from coordinator.execution.drive import ExecutionResult
from coordinator.history.journal import sorted_records
from coordinator.planning.plan import Plan
from coordinator.results.metrics import TrialCounts, count_trial
from coordinator.scenario.fault_syntax import parse_faults
from coordinator.theory.batch.engine import BatchEngine, batch_engine_of
from coordinator.theory.batch.exactness import why_inexact
from coordinator.theory.batch.fault_batch import Arcs, Episode, FaultBatch, effects_of
from coordinator.theory.dependence.size import InexactError
from emunode.algorithms.base import renew
from emunode.engine.memory import MemoryEngine
from emunode.errors import ScenarioError
from emunode.faults import kinds as fault_kinds
from emunode.faults.byzantine import ByzantineFault
from emunode.faults.kinds import Fault, LinkFault
from emunode.play import play

KINDS = (
    "crash", "crash", "hang", "down", "down", "loss", "loss", "byzantine", "equivocate", "silent", "silent-ports",
    "selective",
)  # fmt: skip
RATES = {"loss": (0, 0.3, 0.7, 1), "silent-ports": (1,), "selective": (1,)}


@cache
def cached_engine(given: Plan) -> BatchEngine:
    """Return the engine of a plan."""
    return batch_engine_of(given)


def reason(given: Plan) -> str | None:
    """Return why the engine refuses a plan, or None."""
    try:
        batch_engine_of(given)
    except InexactError as error:
        return str(error)
    return why_inexact(given)


def some_faults(given: Plan, chance: Random, kinds: Sequence[str] = KINDS) -> tuple[Fault, ...]:
    """Return one to four faults of some kinds at any step, some with an end, some of links healed; all can be followed."""
    while True:
        number = chance.choice([1, 1, 2, 2, 3, 4])
        specs = [spec for _ in range(number) for spec in _some_fault(given, chance, chance.choice(kinds))]
        try:
            faults = parse_faults(dict.fromkeys(specs), given.topology)
        except ScenarioError:  # two of them contradict each other
            continue
        if why_inexact(replace(given, faults=faults)) is not None:
            faults = tuple(fault for fault in faults if not isinstance(fault, ByzantineFault))
        if why_inexact(replace(given, faults=faults)) is None:
            return faults


def _some_fault(given: Plan, chance: Random, kind: str) -> list[str]:
    """Return a fault of a kind, and perhaps its end."""
    topology, last = given.topology, given.algorithm.final_step or 1
    rank = chance.randrange(topology.order)
    first = chance.choice([1, 1, chance.randint(1, last)])
    end = "" if kind == "crash" else chance.choice(["", f"-{chance.randint(first, last + 1)}"])
    rate = f":{chance.choice(RATES[kind])}" if kind in RATES else ""
    where = topology.label(rank)
    if not issubclass(fault_kinds.KINDS[kind], LinkFault):
        return [f"{kind}:{where}{rate}@{first}{end}"]
    peer = topology.neighbour(rank, chance.choice(list(topology.ports(rank))))
    where += f"{chance.choice('~~>')}{topology.label(peer)}"
    healed = [f"heal:{where}@{first + 1}"] if first < last and not end and chance.random() < 0.3 else []
    return [f"{kind}:{where}{rate}@{first}{end}", *healed]


def run(given: Plan, faults: Sequence[Fault], seed: int) -> tuple[TrialCounts, TrialResult]:
    """Return one trial of the message engine."""
    renew(given.algorithm, given.spec._replace(seed=seed))
    broken = replace(given, faults=tuple(faults), spec=given.algorithm.spec)
    engine = MemoryEngine(broken.algorithm)
    counts = count_trial(broken, sorted_records(list(play(engine, faults))), engine.altered_copies)
    return counts, judge_trial(broken, counts, ExecutionResult())


def compare(given: Plan, chance: Random, trials: int, kinds: Sequence[str] = KINDS) -> None:
    """Evaluate random fault sets, and run each with messages: all results have to agree."""
    engine = batch_engine_of(given)
    sets = [some_faults(given, chance, kinds) for _ in range(trials)]
    seeds = [chance.randrange(1000) for _ in sets]
    effective = [replace(given, faults=faults).judged.effective_faults for faults in sets]
    found = engine.evaluate(batch_of(engine.arcs, effective, seeds), copies=True, latencies=True)
    assert found.latencies is not None
    by_step: Counter[int] = Counter()
    for at, faults in enumerate(sets):
        counts, result = run(given, faults, seeds[at])
        expected = (
            result.expected, result.delivered, result.intact, result.steps, result.segments, counts.unserved,
            counts.least_copies, result.undecided is None, result.packets,
        )  # fmt: skip
        measured = (
            int(found.expected[at]), int(found.delivered[at]), int(found.intact[at]), int(found.steps[at]),
            int(found.segments[at]), tuple(engine.unserved_ranks(found, at)), int(found.least_copies[at]),
            bool(found.decided[at]), int(found.packets[at]),
        )  # fmt: skip
        assert measured == expected, (given.spec, faults, seeds[at])
        if result.undecided is None:
            by_step += Counter(dict(enumerate(counts.latencies)))
        times = found.latencies
        assert result.latency_sums == (times.served[at], times.sums[at], times.longest[at]), (
            given.spec,
            faults,
            seeds[at],
        )
    assert by_step == found.latencies.by_step


def batch_of(arcs: Arcs, sets: Sequence[Sequence[Fault]], seeds: Sequence[int] | None = None) -> FaultBatch:
    """Return a batch of given sets of faults, one per trial; each set is in the order of its faults' effects."""
    batch = FaultBatch(arcs, len(sets), seeds)
    struck: dict[Episode, tuple[list[int], list[int]]] = {}
    for trial, faults in enumerate(sets):
        for episode, place in effects_of(faults, arcs):
            places, trials = struck.setdefault(episode, ([], []))
            # Collected first and marked at once: numpy takes a whole list as fast as one place.
            places.append(place)
            trials.append(trial)
    for episode, (places, trials) in struck.items():
        strike = batch.strike_arcs if episode.on_links else batch.strike_nodes
        strike(episode, np.array(places), np.array(trials))
    return batch
