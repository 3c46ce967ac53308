"""Reliable links in a journal: acknowledgements, copies and hops that they rule out."""

import numpy as np
import polars as pl

from coordinator.features.journals.rows import IS_ANSWER
from coordinator.history.journal import sorted_records
from coordinator.planning.plan import Plan
from coordinator.results.claims import Verdict
from emunode.engine.memory import MemoryEngine
from emunode.model import CONTROL_TREE
from emunode.play import play
from tests.helpers.feature_support import RELIABLE
from tests.helpers.mutation_support import MUTATIONS, verdict_on
from tests.helpers.scenarios import Case

# --- judging ---------------------------------------------------------------------------------------------------------


def control_to_data(records: np.ndarray, place: int) -> np.ndarray:
    changed = records.copy()
    changed["tree"][place] -= CONTROL_TREE
    return changed


def test_changed_histories_do_not_hold() -> None:
    plan = Case(RELIABLE, messages=3, fault=["drop:000>001:1@1", "drop:011>001:1@1"]).plan
    records = history_over_faults(plan)
    assert verdict_on(plan, records) is Verdict.HOLDS
    answers = np.flatnonzero(records["tree"] >= CONTROL_TREE)
    repeated = [at for at in np.flatnonzero(records["tree"] < CONTROL_TREE) if records["step"][at] > 1][:6]
    changed = {
        "an acknowledgement before its data": earlier(records, int(answers[0]), 2),
        "an acknowledgement too many": np.append(records, later(records, int(answers[-1]), 1)[answers[-1]]),
        "data in place of an acknowledgement": control_to_data(records, int(answers[1])),
        **{f"attempt {at} too early": earlier(records, int(at), 1) for at in repeated},
        **{f"row {at} {name}": MUTATIONS[name](plan, records, int(at)) for at in repeated for name in ("dropped",)},
    }
    wrong = {
        name: verdict_on(plan, sorted_records([rows.tobytes()])) for name, rows in changed.items() if rows is not None
    }
    assert {name for name, verdict in wrong.items() if verdict is Verdict.HOLDS} <= {
        # A copy that was lost, or answered twice, was not needed.
        name
        for name in wrong
        if "dropped" in name
    }


def history_over_faults(plan: Plan) -> np.ndarray:
    return sorted_records(list(play(MemoryEngine(plan.algorithm), plan.faults)))


def later(records: np.ndarray, place: int, steps: int) -> np.ndarray:
    changed = records.copy()
    changed["step"][place] += steps
    return changed


def earlier(records: np.ndarray, place: int, steps: int) -> np.ndarray:
    return later(records, place, -steps)


# --- refused ---------------------------------------------------------------------------------------------------------


def test_an_acknowledgement_crosses_one_port_alone() -> None:
    result = Case(RELIABLE, port_model="one-port", messages=2).run
    sends = result.journal.group_by("step", "sender").agg(ports=pl.col("port").n_unique()).collect()
    assert sends["ports"].max() == 1
    assert result.journal.filter(IS_ANSWER).collect().height == result.summary["acknowledgements"] == 14
