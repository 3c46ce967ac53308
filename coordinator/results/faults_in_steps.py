"""Faults of the timed clock as the steps of their effect, for theory and tables that count in steps."""

from dataclasses import replace
from typing import Any

from coordinator.history.prediction import completed, history_of, prediction
from coordinator.history.timetable import Timetable
from coordinator.planning.plan import Plan, make_plan
from coordinator.scenario.model import Scenario, costs_of
from coordinator.theory.dependence.outages import outages_of
from emunode.faults.effects import ALWAYS, Stops
from emunode.faults.kinds import FOREVER, Fault, Moment
from emunode.faults.timeline import FaultTimeline


def judged_plan(scenario: Scenario) -> Plan:
    """Return the plan that judges the runs of a scenario: under the timed clock its faults are in steps."""
    plan = make_plan(scenario)
    if scenario.clock != "timed" or not (plan.faults or plan.spec.has_control):
        return plan
    costs = costs_of(scenario)
    return in_steps(plan, completed(prediction(plan.algorithm, plan.faults, costs, scenario.step_limit)))


def _end(timetable: Timetable) -> int:
    """Return the time of the last receipt, in nanoseconds."""
    return int(timetable.packets["end"].max() or 0)  # type: ignore[arg-type]


def in_steps(plan: Plan, timetable: Timetable) -> Plan:
    """Return the plan with every fault in steps; a fault that begins after the end has no effect.

    A fault at T concerns the packets of the step that contains T, since they are in flight, and the packets of later
    steps. Where every packet starts and ends with its step and nothing slows packets down, this is exact.
    """
    inputs = timetable.inputs
    if inputs is None:
        return plan
    over = max(map(_end, (timetable, inputs.fault_free)))
    earlier = tuple(fault for fault in inputs.faults if fault.start < over or not fault.start)
    if len(earlier) < len(inputs.faults) and (earlier or plan.spec.has_control):
        # Without the later faults the run may last longer: they may lose packets that earlier faults slow down.
        over = max(over, _end(completed(history_of(replace(inputs, faults=earlier), plan.algorithm))))
    translated: dict[Fault, Fault] = {}
    in_effect = []
    for start, end, fault in inputs.faults:
        values: dict[str, Any] = {}
        if isinstance(fault.step, Moment):
            values["step"] = inputs.steps.step_at(start)
            if fault.end < FOREVER or end < ALWAYS:
                # A time interval excludes its end, a step interval includes its last step.
                values["last"] = inputs.steps.step_at(end - 1)
        translated[fault] = replace(fault, **values)
        # A fault at time 0 is in force even in a run without packets.
        if start < over or not start:
            in_effect.append(translated[fault])
    breaking = [fault for fault in in_effect if not fault.slows]
    outages = outages_of(FaultTimeline(breaking), (), plan.topology, plan.spec.seed)
    # Acknowledgements and signs of life make packets late, so that their steps say little of their times.
    punctual = len(breaking) == len(in_effect) and not plan.spec.has_control
    # Nodes that go by steps wait for a hanging node until it resumes.
    stops = inputs.timeline.of(Stops).values()
    resumes = any(not effect.forgets and not interval.is_endless for spells in stops for interval, effect in spells)
    punctual = punctual and (plan.goes_by_arrivals or not resumes)
    on_time = punctual and inputs.steps.is_kept_by(inputs.fault_free.packets)
    return replace(
        plan,
        faults=tuple(replace(translated[each.fault], text=each.fault.text) for each in inputs.faults),
        in_effect=tuple(in_effect),
        exact_steps=on_time or (outages is not None and outages.permanent),
        translated=translated,
    )
