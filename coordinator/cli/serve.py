"""`coordinator serve`."""

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from coordinator.cli.execute import run_plan
from coordinator.cli.given import seconds_from, values_from
from coordinator.cli.options import ScenarioFlags, ScenarioWords
from coordinator.cli.output import RunOutput, as_command
from coordinator.live.opening import metrics_target
from coordinator.planning.feasibility import require_possible
from coordinator.planning.plan import make_plan
from coordinator.scenario.drivers import JoinEndpoint
from coordinator.scenario.model import make_scenario, scenario_from_environment
from coordinator.scenario.named import name_values
from coordinator.scenario.schedule_text import with_schedule
from emunode.errors import ScenarioError
from emunode.host.process import forgo_privileges


@as_command
def serve(
    scenario: ScenarioWords = (),
    *,
    flags: ScenarioFlags = None,
    listen: Annotated[str, Parameter(metavar="ADDRESS:PORT", help="where hosts join")] = "127.0.0.1:7000",
    token_file: Annotated[Path, Parameter(help="secret that hosts must know; created if missing")] = Path("token"),
    hosts: Annotated[int | None, Parameter(help="number of hosts; default: as --ranks-per-host requires")] = None,
    join_seconds: Annotated[str, Parameter(metavar="TIME", help="how long to wait for the next host")] = "60s",
    output: RunOutput = RunOutput(),
) -> int:
    """Wait for hosts that are started elsewhere, then run a scenario on them.

    Start each host with `emunode --coordinator HOST:PORT --token-file FILE`. Keys that neither the file nor a flag sets
    are read from variables such as TESTBENCH_TOPOLOGY.

    Examples:
      coordinator serve star:4 broadcast flood --hosts 2
      coordinator serve scenario.toml --listen 0.0.0.0:7000 --token-file secret
    """
    forgo_privileges()
    address, _, port = listen.rpartition(":")
    if not address or not port.isdigit() or not 0 < int(port) < 65536:
        raise ScenarioError("listen", listen, "expected ADDRESS:PORT, such as 127.0.0.1:7000 or 0.0.0.0:7000")
    seconds = seconds_from("join_seconds", join_seconds)
    variables = scenario_from_environment(os.environ)
    name_values({"driver": "join"})
    values = with_schedule(variables | values_from(scenario, flags))
    wanted = make_scenario(values | {"driver": "join"})
    plan = make_plan(wanted, hosts, JoinEndpoint(address, int(port), token_file, seconds))
    require_possible(plan)
    metrics = None if output.metrics is None else metrics_target(output.metrics)
    return run_plan(plan, output, metrics=metrics)
