"""Repair in a journal: its metrics, and requests and answers that it rules out."""

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from coordinator.annexes.repair.journal import repair_violations
from coordinator.history.journal import sorted_records
from coordinator.results.claims import Verdict
from emunode.model import CONTROL_TREE, Repair
from emunode.timed.cost_model import LinearCostModel
from tests.helpers.feature_support import REPAIR, TIMED, Values
from tests.helpers.mutation_support import Records, history_of, verdict_on, with_values
from tests.helpers.scenarios import Case

# --- what is measured --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        # 101, 111 and 011 are served in steps 5, 6 and 7; the copy to 111 that follows is needless.
        (
            {},
            {"repair_requests": 4, "lost_requests": 0, "repairs": 3, "repairs_per_step": (0, 0, 0, 0, 1, 1, 1),
             "repair_links": 3, "extra_segments": 2, "recovery_steps": 4},
        ),
        ({"repair_after": 2}, {"repair_requests": 4, "recovery_steps": 5, "extra_segments": 2}),
        ({"fault_knowledge": "detect:2"}, {"repair_requests": 4, "recovery_steps": 5}),
        # The neighbour that 011 asks in step 4 is dead too.
        ({"fault": ["crash:001@1", "crash:111@1"]}, {"repair_requests": 3, "lost_requests": 1, "recovery_steps": 4}),
        # Nodes that know the dead neighbours ask the next one at once.
        (
            {"fault": ["crash:001@1", "crash:111@1"], "fault_knowledge": "neighbours"},
            {"repair_requests": 2, "lost_requests": 0, "recovery_steps": 2},
        ),
        ({"fault": []}, {"repair_requests": 0, "repairs_per_step": (), "recovery_steps": 0, "extra_segments": 0}),
        ({"fault": ["crash:111@1"]}, {"repair_requests": 0, "recovery_steps": 0, "extra_segments": 0}),
    ],
)  # fmt: skip
def test_the_cost_of_a_repair(more: Values, expected: Values) -> None:
    result = Case(REPAIR, **{"fault": ["crash:001@1"], **more}).run
    assert result.verdict is Verdict.HOLDS
    assert {name: result.conclusion.metrics[name] for name in expected} == expected
    assert result.summary["cut_off_count"] == 0


def test_a_run_without_repair_has_no_such_metrics() -> None:
    result = Case(REPAIR | {"repair": None}).run
    assert not [
        name for name in result.conclusion.metrics if "repair" in name or name in ("recovery_steps", "extra_segments")
    ]


# --- the audit ---------------------------------------------------------------------------------------------------------


def test_changed_histories_do_not_hold() -> None:
    plan = Case(REPAIR, fault=["crash:001@1"]).plan
    records = history_of(plan)
    assert verdict_on(plan, records) is Verdict.HOLDS
    control = records["tree"] >= CONTROL_TREE
    requests, repairs = np.flatnonzero(control), np.flatnonzero(~control & (records["step"] > 3))

    def with_step(place: Any, steps: int) -> Records:
        return with_values(records, place, step=records["step"][place] + steps)

    wrong = {
        **{f"request {place} early": with_step(place, -1) for place in requests[:2]},
        **{f"request {place} late": with_step(place, 3) for place in requests},
        **{f"request {place} twice": np.append(records, with_step(place, 2)[place]) for place in requests},
        **{f"request {place} missing": np.delete(records, place) for place in requests[1:]},
        **{f"repair {place} early": with_step(place, -2) for place in repairs},
    }
    verdicts = {name: verdict_on(plan, sorted_records([rows.tobytes()])) for name, rows in wrong.items()}
    assert {name for name, verdict in verdicts.items() if verdict is Verdict.HOLDS} <= {
        # A request of 011 that was not needed: 111 answers it when 010 does.
        name for name in verdicts if name.endswith("missing")
    }  # fmt: skip
    assert verdict_on(Case(REPAIR | {"repair": None}, fault=["crash:001@1"]).plan, records) is Verdict.VIOLATED


# --- the timed clock -----------------------------------------------------------------------------------------------------


def test_milliseconds_to_recover() -> None:
    """Data takes 1 ms and a request 0.125 ms: 011 is served last, at 5.25 ms in place of 3 ms for 111."""
    values = {"startup": "0s", "per_byte": "15.625us", "fault": ["crash:001@0s"]}
    result = Case(TIMED | REPAIR | values).run
    assert result.summary["recovery_seconds"] == pytest.approx(2.25e-3)
    assert result.summary["completion_seconds"] == pytest.approx(5.25e-3)
    assert "recovery_steps" not in result.summary


@pytest.mark.parametrize("change", ["overdue later", "longer answers", "data came before"])
def test_requests_are_judged_by_their_times(change: str) -> None:
    result = Case(TIMED | REPAIR | {"fault": ["crash:001@1"]}).run
    plan, times = result.conclusion.plan, result.execution.timetable
    assert times is not None
    assert times.inputs is not None
    count = [rule.collect().height for rule in repair_violations(plan, result.journal, times)]
    assert not any(count)
    if change == "overdue later":
        plan = replace(plan, spec=plan.spec._replace(repair=Repair("next-port", 2)))
    elif change == "longer answers":
        times = replace(times, inputs=replace(times.inputs, costs=LinearCostModel(2e-3, 0.0)))
    else:
        times = replace(times, packets=times.packets.with_columns(end=pl.col("end") * 0))
    assert any(rule.collect().height for rule in repair_violations(plan, result.journal, times))
