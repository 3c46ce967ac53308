"""Reliable links in a journal: acknowledgements, copies and hops that they rule out."""

import numpy as np
import polars as pl

from coordinator.features.journals.rows import IS_ANSWER
from coordinator.history.journal import sorted_records
from coordinator.results.claims import Verdict
from emunode.model import CONTROL_TREE
from tests.helpers.feature_support import RELIABLE
from tests.helpers.mutation_support import MUTATIONS, Records, history_of, verdict_on, with_values
from tests.helpers.scenarios import Case

# --- judging ---------------------------------------------------------------------------------------------------------


def test_changed_histories_do_not_hold() -> None:
    plan = Case(RELIABLE, messages=3, fault=["drop:000>001:1@1", "drop:011>001:1@1"]).plan
    records = history_of(plan)
    assert verdict_on(plan, records) is Verdict.HOLDS
    answers = np.flatnonzero(records["tree"] >= CONTROL_TREE)
    repeated = [at for at in np.flatnonzero(records["tree"] < CONTROL_TREE) if records["step"][at] > 1][:6]
    changed = {
        "an acknowledgement before its data": later(records, int(answers[0]), -2),
        "an acknowledgement too many": np.append(records, later(records, int(answers[-1]), 1)[answers[-1]]),
        "data in place of an acknowledgement": with_values(
            records, int(answers[1]), tree=int(records["tree"][answers[1]]) - CONTROL_TREE
        ),
        **{f"attempt {at} too early": later(records, int(at), -1) for at in repeated},
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


def later(records: Records, place: int, steps: int) -> Records:
    """The same history, but for the step of one row."""
    return with_values(records, place, step=int(records["step"][place]) + steps)


def test_an_acknowledgement_crosses_one_port_alone() -> None:
    result = Case(RELIABLE, port_model="one-port", messages=2).run
    sends = result.journal.group_by("step", "sender").agg(ports=pl.col("port").n_unique()).collect()
    assert sends["ports"].max() == 1
    assert result.journal.filter(IS_ANSWER).collect().height == result.summary["acknowledgements"] == 14
