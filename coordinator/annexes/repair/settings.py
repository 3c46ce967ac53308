"""The settings of the repair of a broadcast."""

from coordinator.annexes.repair.options import RepairOptions
from coordinator.features.options import LivenessOptions
from coordinator.scenario.fault_syntax import read_time
from coordinator.scenario.model import OnFailure, Scenario, knowledge_of
from emunode.annexes.repair.rules import PlannedRule, rule_of
from emunode.errors import ScenarioError
from emunode.model import CollectiveSpec, FaultKnowledge, Repair


def repair_of(scenario: Scenario) -> Repair:
    """Return how a scenario is repaired; ScenarioError if its settings of repair contradict each other."""
    options = RepairOptions.of(scenario)
    after = options.repair_after
    assert options.repair is not None
    if scenario.on_failure is not OnFailure.CONTINUE:
        reason = "a collective is either repaired or run again; leave out --repair or --on-failure"
        raise ScenarioError("on_failure", str(scenario.on_failure), reason)
    knowledge, detection = knowledge_of(scenario)
    # By default a node is as patient with a packet as with the signs of life of a neighbour.
    repair = Repair(options.repair, after or (detection.after if detection else 1))
    if isinstance(rule_of(CollectiveSpec("", scenario.collective, "", 0, repair=repair)), PlannedRule):
        repair = repair._replace(after=0)
        if knowledge is not FaultKnowledge.ALL:
            reason = f"{options.repair} plans around faults that every node knows; use --fault-knowledge all"
            raise ScenarioError("fault_knowledge", scenario.fault_knowledge, reason)
        if after is not None:
            raise ScenarioError(
                "repair_after", after, f"under {options.repair} no node waits for a packet; leave it out"
            )
        return repair
    heal_at = LivenessOptions.of(scenario).heal_at
    if isinstance(heal_at, str):
        return repair._replace(heal_time=read_time(heal_at) or 0)
    return repair._replace(heal_step=heal_at or 0)
