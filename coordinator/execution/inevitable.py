"""The step that makes a loss inevitable: the faults that begin later change nothing about it.

Losses need not grow with the faults: one fault may keep another from doing harm. So the steps when faults begin are
tried one after the other, from the first, and not by bisection.
"""

from collections.abc import Sequence

from coordinator.execution.run import run
from coordinator.execution.sinks import MemorySink
from coordinator.planning.plan import Plan
from emunode.errors import ScenarioError
from emunode.faults.kinds import ends_others
from emunode.model import Rank, Step


def inevitable_from(plan: Plan, rank: Rank) -> Step | None:
    """Return the first step s so that a node stays unserved although every fault that begins after s is left out.

    0 if the node is not served without any fault; None if it is served under all of them. Repairs of kept faults stay.
    ScenarioError (field `inevitable`) for the timed clock, and for a faulty node, since nothing is due to it.
    """
    label = plan.topology.label(rank)
    if plan.scenario.clock != "steps":
        raise ScenarioError("inevitable", label, "faults are left out by steps only, so use --clock steps")
    if rank in plan.judged.states:
        raise ScenarioError("inevitable", label, f"it is {plan.judged.states[rank]} itself, so nothing is due to it")
    begins = sorted({fault.step for fault in plan.faults if not ends_others(fault)})
    return next((step for step in (0, *begins) if rank in unserved(plan.with_faults(faults_until(plan, step)))), None)


def faults_until(plan: Plan, step: Step) -> Sequence[str]:
    """Return the faults of a scenario that begin up to a step, and the repairs of these."""
    kept = {fault.place for fault in plan.faults if not ends_others(fault) and fault.step <= step}
    return [
        text
        for text in plan.scenario.fault
        if all(fault.place in kept if ends_others(fault) else fault.step <= step for fault in plan.faults_by_text[text])
    ]


def unserved(plan: Plan) -> Sequence[Rank]:
    """Return the healthy nodes that miss a message in a run in memory."""
    return run(plan, MemorySink()).conclusion.measurement.cut_off
