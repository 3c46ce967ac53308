"""Every order of events at small sizes: one journal, or the shortest deviation.

`hosts` runs the step engine of hosts in lock-step, `ranks_in_time` the ranks of the timed clock. `result` has the counts and
the deviation, `fingerprints` compares states.
"""

from typing import Final

from coordinator.annexes.orders.hosts import HostOrders
from coordinator.annexes.orders.ranks_in_time import OrdersInTime
from coordinator.annexes.orders.result import BoundReachedError, DeviationError, EventOrder, EveryOrder
from coordinator.annexes.orders.shared_state import PluginVariables
from coordinator.execution.stop_signal import InterruptGuard
from coordinator.networks.base import Progress
from coordinator.planning.plan import Plan, make_plan
from coordinator.scenario.model import Scenario
from coordinator.scenario.programs import ProgramOptions
from emunode.errors import ScenarioError
from emunode.host.placement import Placement

MOST_NODES: Final = 8
EXECUTIONS: Final = 100_000
"""Default bound on the executions."""


def every_order(
    plan: Plan,
    executions: int = EXECUTIONS,
    placement: Placement | None = None,
    progress: Progress = lambda *_: None,
    only: EventOrder | None = None,
) -> EveryOrder:
    """Run every order of events of a plan, with at most this many executions.

    In lock-step, the events at each host of `placement`, by default one host for each rank; under the timed clock, the
    events of equal times. With `only`, this order is run beside the plain one, and no other. ScenarioError for more than
    MOST_NODES nodes, and for a program that plays the nodes.
    """
    order = plan.topology.order
    if order > MOST_NODES:
        raise ScenarioError("topology", plan.topology.name, f"every order is run of at most {MOST_NODES} nodes")
    if (program := ProgramOptions.of(plan.scenario).program) is not None:
        raise ScenarioError("program", program, "every order is run of rules only")
    if executions < 1:
        raise ScenarioError("executions", executions, "at least 1")
    variables = PluginVariables()
    with InterruptGuard() as stop:
        result = EveryOrder(plan, executions, placement or Placement(order, order), progress, lambda: stop.requested)
        result.not_watched = variables.unknown
        try:
            (OrdersInTime if result.timed else HostOrders)(plan, result, variables, only).run()
        except BoundReachedError:
            pass
        except DeviationError as error:
            result.deviation = error.deviation
        finally:
            # Later runs of this process begin as the first did.
            variables.reset()
    return result


def run_every_order(
    scenario: Scenario, executions: int | None, progress: Progress, only: EventOrder | None = None
) -> EveryOrder:
    """Run every order of events of a scenario, or `only` one.

    An order that states its number of ranks per host runs on such hosts. Errors as of `every_order`.
    """
    placement = make_plan(scenario).placement if scenario.ranks_per_host != "auto" else None
    plan = make_plan(scenario.on_driver("memory"))
    return every_order(plan, EXECUTIONS if executions is None else executions, placement, progress, only)
