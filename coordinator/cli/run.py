"""`coordinator run` and `coordinator serve`."""

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from coordinator.cli import render
from coordinator.cli.options import ScenarioFile, ScenarioFlags, scenario_from, seconds_from, values_from
from coordinator.cli.output import OUTPUT, JsonFlag, as_command, print_json
from coordinator.planning.endpoint import JoinEndpoint
from coordinator.planning.namespace import enter_own_network
from coordinator.planning.plan import Plan, crowded, make_plan, require_possible
from coordinator.scenario.model import make_scenario, scenario_from_environment
from emunode.errors import ScenarioError
from emunode.host.process import forgo_privileges

OutFlag = Annotated[
    Path | None, Parameter(group=OUTPUT, help="run directory; default: runs/NAME/TIME-SEED, which is created")
]


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
    if plan.own_network:
        if plan.scenario.netns == "auto":
            print(f"{plan.topology.title}: {crowded(plan)}; moving to a network namespace of its own", file=sys.stderr)
        enter_own_network()
    return _run_plan(plan, out, json)


def serve(
    scenario: ScenarioFile = None,
    *,
    flags: ScenarioFlags = None,
    listen: Annotated[str, Parameter(metavar="ADDRESS:PORT", help="where hosts join")] = "127.0.0.1:7000",
    token_file: Annotated[Path, Parameter(help="secret that hosts must know; created if missing")] = Path("token"),
    hosts: Annotated[int | None, Parameter(help="number of hosts; default: as --ranks-per-host requires")] = None,
    join_seconds: Annotated[str, Parameter(metavar="TIME", help="how long to wait for the next host")] = "60s",
    out: OutFlag = None,
    json: JsonFlag = False,
) -> int:
    """Wait for hosts that are started elsewhere, then run a scenario on them.

    Start each host with `emunode --coordinator HOST:PORT --token-file FILE`. Keys that neither the file nor a flag sets
    are read from variables such as TESTBENCH_TOPOLOGY.

    Examples:
      coordinator serve --hosts 2 --topology star:4 --collective broadcast \\
          --algorithm flood
      coordinator serve scenario.toml --listen 0.0.0.0:7000 --token-file secret
    """
    forgo_privileges()
    address, _, port = listen.rpartition(":")
    if not address or not port.isdigit() or not 0 < int(port) < 65536:
        raise ScenarioError("listen", listen, "expected ADDRESS:PORT, such as 127.0.0.1:7000 or 0.0.0.0:7000")
    seconds = seconds_from("join_seconds", join_seconds)
    values = scenario_from_environment(os.environ) | values_from(scenario, flags)
    wanted = make_scenario(values | {"driver": "join"})
    plan = make_plan(wanted, hosts, JoinEndpoint(address, int(port), token_file, seconds))
    require_possible(plan)
    return _run_plan(plan, out, json)


def _run_plan(plan: Plan, out: Path | None, as_json: bool) -> int:
    """Run a plan, show the result and return the exit status."""
    # Not before `enter_own_network`, which needs a process with one thread: polars starts threads when it is imported.
    from coordinator.cli.result import show_result  # noqa: PLC0415
    from coordinator.execution.run import run as run_plan  # noqa: PLC0415

    with render.progress_display(plan.topology.title) as progress:
        result = run_plan(plan, out, progress)
    if as_json:
        print_json({**result.summary, "path": str(result.path)})
    else:
        show_result(plan, result)
    return 130 if result.outcome.interrupted else result.exit_status


run_command, serve_command = as_command(run), as_command(serve)
