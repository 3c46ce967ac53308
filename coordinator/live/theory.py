"""Predictions for the faults of a watched run, beside what has been measured so far.

Both are computed in a thread of the server, with an algorithm of their own, so that the run never waits for them.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from coordinator.history.journal import sorted_records, table
from coordinator.planning.plan import Plan
from coordinator.results.claims import broken_root, claims_of
from coordinator.results.metrics import Metric, measure
from emunode.algorithms.base import Algorithm
from emunode.algorithms.claims import Claim
from emunode.algorithms.registry import make_algorithm
from emunode.engine.rank_set import AlteredCopy


class Theory:
    """The claims about one run, for the faults that it has at different moments."""

    def __init__(self) -> None:
        self._algorithm: Algorithm | None = None
        self._faults: tuple[str, ...] | None = None
        self._claims: list[Claim] = []
        self._note: str | None = None

    def predict(self, plan: Plan) -> dict[str, Any]:
        """The claims for the faults of `plan`, and a note if theory presumes something that they break."""
        self._learn(plan)
        return self._record({})

    def measure(self, plan: Plan, journal: np.ndarray | None, altered_copies: Sequence[AlteredCopy]) -> dict[str, Any]:
        """The claims beside what the journal shows so far; nothing is measured without a journal."""
        self._learn(plan)
        metrics: dict[str, Metric] = {}
        if journal is not None and len(journal):
            rows = table(sorted_records([journal.tobytes()])).lazy()
            metrics = measure(plan, rows, altered_copies).metrics
        return self._record(metrics)

    def _learn(self, plan: Plan) -> None:
        if plan.scenario.fault == self._faults:
            return
        if self._algorithm is None:
            # Not that of the run, whose tables another thread may be filling.
            self._algorithm = make_algorithm(plan.topology, plan.spec)
        own = replace(plan, algorithm=self._algorithm)
        root = broken_root(own)
        self._claims = claims_of(own)
        self._note = root and f"{root}, and theory makes no claim about that"
        self._faults = plan.scenario.fault

    def _record(self, metrics: dict[str, Metric]) -> dict[str, Any]:
        claims = [
            {
                "name": claim.name,
                "relation": claim.relation,
                "predicted": claim.predicted,
                "measured": metrics.get(claim.name),
                "source": claim.source,
            }
            for claim in self._claims
        ]
        return {"faults": list(self._faults or ()), "claims": claims, "note": self._note}
