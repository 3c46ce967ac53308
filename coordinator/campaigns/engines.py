"""The engines of campaigns: the batch engine where it is exact, messages elsewhere, and the trials that both run.

With `auto` a cell (a variant at a point) is evaluated exactly if it has more trials than its sample. The sample of it is run
again with messages, two trials of each variant with many trials over TCP, and all results have to agree.
"""

from collections.abc import Iterator, Mapping
from typing import Final, Literal, get_args

import numpy as np

from coordinator.batch.engine import BatchEngine, BatchOutcome
from coordinator.batch.point import PointEngine
from coordinator.campaigns.trial_runner import TrialResult
from emunode.topologies.base import Topology

Engine = Literal["auto", "exact", "messages"]
ENGINES: Final[tuple[str, ...]] = get_args(Engine)
SAMPLED_HOPS: Final = 200_000
"""Hops that the sample of a cell has together, about: a second or two of the message engine."""
LEAST_SAMPLE: Final = 4
MOST_SAMPLE: Final = 100
MANY_TRIALS: Final = 10_000
"""Trials of a cell from which on some are repeated over TCP too."""
SOCKET_TRIALS: Final = 2
"""Trials of each variant that are repeated over TCP."""


def sample_size(engine: BatchEngine) -> int:
    """Return the number of trials of a cell that are run again with messages."""
    return min(MOST_SAMPLE, max(LEAST_SAMPLE, SAMPLED_HOPS // len(engine.schedule)))


def differences(point: PointEngine, results: Mapping[int, TrialResult]) -> Iterator[tuple[int, str]]:
    """Yield the number of each draw whose trial with messages differs from the batch engine, and the difference."""
    if not results:
        return
    drawn = np.array(sorted(results))
    outcome, _ = point.evaluate(drawn, copies=True, latencies=True)
    for at, number in enumerate(drawn.tolist()):
        found, result = _figures(point.engine, outcome, at), results[number]
        for name, value in found.items():
            measured = (result.undecided is None) if name == "decided" else getattr(result, name)
            if measured != value:
                yield number, f"{name} is {value} by the exact engine and {measured} with messages"
                break


def _figures(engine: BatchEngine, outcome: BatchOutcome, at: int) -> dict[str, object]:
    """Return the figures of one trial, by their names in `TrialResult`."""
    topology: Topology = engine.plan.topology
    counted = ("expected", "delivered", "intact", "steps", "packets", "segments", "least_copies")
    found: dict[str, object] = {name: int(getattr(outcome, name)[at]) for name in counted}
    unserved = tuple(map(topology.label, engine.unserved_ranks(outcome, at)))
    times = outcome.latencies
    if times is not None:
        found["latency_sums"] = int(times.served[at]), int(times.sums[at]), int(times.longest[at])
    return {"decided": bool(outcome.decided[at]), **found, "unserved": unserved}
