"""`coordinator run`."""

import sys
from dataclasses import replace
from typing import Annotated

from cyclopts import Parameter

from coordinator.cli.execute import OutFlag, run_plan
from coordinator.cli.options import ScenarioFile, ScenarioFlags, scenario_from, seconds_from
from coordinator.cli.output import JsonFlag, as_command
from coordinator.planning.feasibility import needs_own_network, require_possible, tracking_exceeded
from coordinator.planning.namespace import enter_own_network
from coordinator.planning.plan import make_plan
from emunode.errors import ScenarioError


def run(
    scenario: ScenarioFile = None,
    *,
    flags: ScenarioFlags = None,
    join_seconds: Annotated[
        str | None,
        Parameter(metavar="TIME", help="how long to wait for the next host; default: 60s, and 2s more per container"),
    ] = None,
    out: OutFlag = None,
    json: JsonFlag = False,
) -> int:
    """Run a scenario.

    The scenario comes from a file, from flags, or from a file with flags that override it.

    Examples:
      coordinator run --topology star:4 --collective broadcast --algorithm edt
      coordinator run scenario.toml --seed 7 --driver memory
    """
    plan = make_plan(scenario_from(scenario, flags))
    if join_seconds is not None:
        if not plan.hosts:
            raise ScenarioError("join_seconds", join_seconds, "the memory driver has no hosts; leave it out")
        plan = replace(plan, join_seconds=seconds_from("join_seconds", join_seconds))
    require_possible(plan)
    if needs_own_network(plan):
        if plan.scenario.netns == "auto":
            print(
                f"{plan.topology.title}: {tracking_exceeded(plan)}; moving to a network namespace of its own",
                file=sys.stderr,
            )
        enter_own_network()
    return run_plan(plan, out, json)


run_command = as_command(run)
