"""`coordinator run`."""

import sys
from dataclasses import replace
from typing import Annotated

from cyclopts import Group, Parameter

from coordinator.cli.execute import OutFlag, run_plan
from coordinator.cli.options import ScenarioFile, ScenarioFlags, scenario_from, seconds_from
from coordinator.cli.output import JsonFlag, as_command
from coordinator.live.opening import WATCH_SECONDS, open_listener, watched_plan
from coordinator.planning.feasibility import needs_own_network, require_possible, tracking_exceeded
from coordinator.planning.namespace import enter_own_network
from coordinator.planning.plan import make_plan
from emunode.errors import ScenarioError

PAGE = Group("Page in a browser", sort_key=90)


def run(
    scenario: ScenarioFile = None,
    *,
    flags: ScenarioFlags = None,
    join_seconds: Annotated[
        str | None,
        Parameter(metavar="TIME", help="how long to wait for the next host; default: 60s, and 2s more per container"),
    ] = None,
    watch: Annotated[
        bool, Parameter(group=PAGE, negative=(), help="steer the run from a page in a browser; it begins paused")
    ] = False,
    watch_timeout: Annotated[
        str | None,
        Parameter(group=PAGE, metavar="TIME", help="end a run that is paused for this long, undecided; default: 1800s"),
    ] = None,
    watch_port: Annotated[
        str | None, Parameter(group=PAGE, metavar="PORT", help="where the page is served; default: any free port")
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
    timeout, port = _page_options(watch, watch_timeout, watch_port)
    wanted = scenario_from(scenario, flags)
    plan = watched_plan(wanted) if watch else make_plan(wanted)
    if join_seconds is not None:
        if not plan.hosts:
            raise ScenarioError("join_seconds", join_seconds, "the memory driver has no hosts; leave it out")
        plan = replace(plan, join_seconds=seconds_from("join_seconds", join_seconds))
    require_possible(plan)
    # Before the process moves to a network of its own, which no browser can reach.
    listener = open_listener(port) if watch else None
    if needs_own_network(plan):
        if plan.scenario.netns == "auto":
            print(
                f"{plan.topology.title}: {tracking_exceeded(plan)}; moving to a network namespace of its own",
                file=sys.stderr,
            )
        enter_own_network()
    return run_plan(plan, out, json, None if listener is None else (listener, timeout))


def _page_options(watch: bool, timeout: str | None, port: str | None) -> tuple[float, int]:
    """The seconds that a watched run may be paused, and the port of its page, 0 for a free one."""
    for name, value in (("watch_timeout", timeout), ("watch_port", port)):
        if value is not None and not watch:
            raise ScenarioError(name, value, "only a run with --watch has a page; add it, or leave this out")
    if port is not None and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ScenarioError("watch_port", port, "expected a port from 1 to 65535")
    return WATCH_SECONDS if timeout is None else seconds_from("watch_timeout", timeout), int(port or 0)


run_command = as_command(run)
