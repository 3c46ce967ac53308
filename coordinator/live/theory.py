"""Predictions for the faults of a watched run, beside the measurements so far.

Both are computed in threads of the server, with an algorithm of their own, so that the run never waits for them.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from coordinator.features.base import Metric
from coordinator.history.journal import RECORD, sorted_records, table
from coordinator.planning.plan import Plan
from coordinator.results.claims import broken_root, claims_of
from coordinator.results.metrics import measure
from emunode.algorithms.base import Algorithm
from emunode.algorithms.claims import Claim
from emunode.algorithms.registry import make_algorithm
from emunode.engine.memory import MemoryEngine
from emunode.engine.rank_set import AlteredCopy
from emunode.errors import EmulatorError
from emunode.model import Step

MOST_HOPS: Final = 1_000_000
"""Most hops of a run in memory that finds out how many steps a run will have: a few seconds."""
VOTED: Final = {"delivery_ratio", "elected_none", "elected_right", "elected_wrong", "intact_deliveries"}
"""Metrics that are known when every vote is settled."""


@dataclass(frozen=True)
class Prediction:
    """The claims for one set of faults."""

    faults: Sequence[str] = ()
    claims: Sequence[Claim] = ()
    note: str | None = None
    """Why theory says nothing, or less than usual."""

    def beside(self, metrics: Mapping[str, Metric]) -> dict[str, Any]:
        """Return the claims beside their measured values, for pages."""
        claims = [
            {
                "name": claim.name,
                "relation": claim.relation,
                "predicted": claim.predicted,
                "measured": metrics.get(claim.name),
                "source": claim.source,
            }
            for claim in self.claims
        ]
        return {"faults": list(self.faults), "claims": claims, "note": self.note}


class Predictor:
    """Predicts for one run, as its faults change."""

    def __init__(self) -> None:
        self._algorithm: Algorithm | None = None

    def predict(self, plan: Plan) -> Prediction:
        """Return the claims for the faults of `plan`."""
        if self._algorithm is None:
            # Not the algorithm of the run, whose tables another thread may be filling.
            self._algorithm = make_algorithm(plan.topology, plan.spec)
        own = replace(plan, algorithm=self._algorithm)
        root = broken_root(own)
        try:
            return Prediction(
                own.scenario.fault, claims_of(own).kept, root and f"{root}, and theory makes no claim about that"
            )
        except EmulatorError as error:
            return Prediction(own.scenario.fault, (), f"no prediction: {error}")


def steps_of(plan: Plan) -> Step | None:
    """Return the last step of the run in which something is sent, by a run in memory; None if it has too many hops.

    A program that plays ranks is not started for that.
    """
    if plan.spec.program:
        return None
    engine, hops, last = MemoryEngine(make_algorithm(plan.topology, plan.spec)), 0, 0
    with suppress(EmulatorError):
        for step in range(1, plan.scenario.step_limit + 2):
            rows = np.frombuffer(engine.step(step, plan.faults_at(step)), RECORD)
            last, hops = max(last, int(rows["step"].max(initial=0))), hops + len(rows)
            if plan.is_over(step, engine.busy):
                return last
            if hops > MOST_HOPS:
                break
    return None


def is_contested(plan: Plan) -> bool:
    """Report whether a node has a value only when its vote is settled, as some copy may be forged."""
    return plan.spec.redundancy > 1 and any(fault.alters_payload for fault in plan.faults)


def measure_so_far(
    plan: Plan, journal: np.ndarray | None, altered_copies: Sequence[AlteredCopy]
) -> Mapping[str, Metric]:
    """Return the metrics of a run whose journal has these steps so far; none without a journal."""
    if journal is None or not len(journal):
        return {}
    rows = table(sorted_records([journal.tobytes()]))
    metrics = measure(plan, rows.lazy(), altered_copies, rows=len(rows)).metrics
    if is_contested(plan):
        # `measure` takes the votes as they stand, and copies to come may still change them.
        return {name: value for name, value in metrics.items() if name not in VOTED}
    return metrics
