"""The engines of campaigns: the batch engine where it is exact, messages elsewhere, and the trials that both run.

With `auto` a cell (a variant at a point) is evaluated exactly if it has more trials than its sample. The sample is run again
with messages. Of each variant with many trials, two are run over TCP as well. All results have to agree.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, get_args

import numpy as np

from coordinator.campaigns.trial_runner import TrialResult, UnexpectedFigure
from coordinator.theory.batch.engine import BatchEngine, BatchOutcome
from coordinator.theory.batch.point import PointEngine
from emunode.topologies.base import Topology

Engine = Literal["auto", "exact", "messages"]
ENGINES: Final[tuple[str, ...]] = get_args(Engine)
SAMPLED_HOPS: Final = 200_000
"""Hops that the sample of a cell has together, about: a second or two of the message engine."""
LEAST_SAMPLE: Final = 4
MOST_SAMPLE: Final = 100
MANY_TRIALS: Final = 10_000
"""With this number of trials in a cell, some are repeated over TCP too."""
SOCKET_TRIALS: Final = 2
"""Trials of each variant that are repeated over TCP."""


def sample_size(engine: BatchEngine) -> int:
    """Return the number of trials of a cell that are run again with messages."""
    return min(MOST_SAMPLE, max(LEAST_SAMPLE, SAMPLED_HOPS // len(engine.schedule)))


def differences(point: PointEngine, results: Mapping[int, TrialResult]) -> Iterator[tuple[int, str]]:
    """Yield the number of each draw whose trial with messages differs from the batch engine, and the difference."""
    for number, expected in figures_of(point, sorted(results)).items():
        if difference := results[number].difference(expected):
            yield number, disagreement(difference)


def disagreement(difference: UnexpectedFigure) -> str:
    """Return a difference between the engines in words."""
    return f"{difference.name} is {difference.expected} by the exact engine and {difference.measured} with messages"


def figures_of(point: PointEngine, drawn: Sequence[int]) -> dict[int, dict[str, object]]:
    """Return the figures of some draws by the batch engine, by their names in `TrialResult`."""
    if not drawn:
        return {}
    outcome, _ = point.evaluate(np.array(drawn), copies=True, latencies=True)
    return {number: _figures(point.engine, outcome, at) for at, number in enumerate(drawn)}


def _figures(engine: BatchEngine, outcome: BatchOutcome, at: int) -> dict[str, object]:
    topology: Topology = engine.plan.topology
    counted = ("expected", "delivered", "intact", "steps", "packets", "segments", "least_copies")
    figures: dict[str, object] = {name: int(getattr(outcome, name)[at]) for name in counted}
    unserved = tuple(map(topology.label, engine.unserved_ranks(outcome, at)))
    times = outcome.latencies
    if times is not None:
        figures["latency_sums"] = int(times.served[at]), int(times.sums[at]), int(times.longest[at])
    return {"decided": bool(outcome.decided[at]), **figures, "unserved": unserved}
