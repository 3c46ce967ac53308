"""`coordinator plan`."""

from coordinator.cli.options import ScenarioFlags, ScenarioWords
from coordinator.cli.output import JsonFlag, as_command
from coordinator.cli.plan_output import print_plan


@as_command
def plan(scenario: ScenarioWords = (), *, flags: ScenarioFlags = None, json: JsonFlag = False) -> int:
    """Print what a scenario needs and what theory predicts, without running it.

    If this machine cannot run the scenario, the reason follows the plan and the exit status is 4.

    Examples:
      coordinator plan star:9 broadcast edt
      coordinator plan scenario.toml --driver memory --json
    """
    return print_plan(scenario, flags, json)
