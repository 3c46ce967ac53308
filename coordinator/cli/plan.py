"""`coordinator plan`."""

from coordinator.cli.options import ScenarioFile, ScenarioFlags
from coordinator.cli.output import JsonFlag, as_command
from coordinator.cli.plan_output import print_plan


@as_command
def plan(scenario: ScenarioFile = None, *, flags: ScenarioFlags = None, json: JsonFlag = False) -> int:
    """Print what a scenario needs and what theory predicts, without running it.

    If this machine cannot run the scenario, the reason follows the plan and the exit status is 4.

    Examples:
      coordinator plan --topology star:9 --collective broadcast --algorithm edt
      coordinator plan scenario.toml --driver memory --json
    """
    return print_plan(scenario, flags, json)
