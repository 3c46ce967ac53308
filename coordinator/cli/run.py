"""`coordinator run`."""

import sys
from dataclasses import KW_ONLY, asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from coordinator.annexes import annex_function
from coordinator.api.console import say_wrapped
from coordinator.cli.given import scenario_from, seconds_from
from coordinator.cli.options import ScenarioFlags, ScenarioWords
from coordinator.cli.output import PageFlags, RunOutput, as_command
from coordinator.live.opening import WATCH_SECONDS, metrics_target, open_listener, watched_plan
from coordinator.planning.feasibility import needs_own_network, require_possible, tracking_exceeded, warning
from coordinator.planning.namespace import enter_own_network
from coordinator.planning.plan import Plan, make_plan
from coordinator.scenario.drivers import join_defaults
from emunode.errors import ScenarioError
from emunode.runtime import single_threaded_imports

if TYPE_CHECKING:
    from coordinator.execution.branch import Origin


@as_command
@dataclass
class RunCommand:
    """Run a scenario.

    The scenario comes from words and flags, from a file with flags that override it, or with --from from a stored run.

    Examples:
      coordinator run star:4 broadcast edt
      coordinator run scenario.toml --seed 7 --driver memory
    """

    scenario: ScenarioWords = ()
    _: KW_ONLY
    flags: ScenarioFlags = None
    join_seconds: Annotated[
        str | None,
        Parameter(metavar="TIME", help=f"how long to wait for the next host; default: {join_defaults()}"),
    ] = None
    origin: Annotated[
        str | None,
        Parameter(
            name="--from",
            metavar="RUN@STEP",
            help="continue a stored run after this step: --fault gives the faults that begin later in place of its own",
        ),
    ] = None
    order: Annotated[
        Path | None,
        Parameter(
            metavar="FILE",
            help="run the order of events in a file of `certify --every-order` beside the plain one: violated if it "
            "changes anything",
        ),
    ] = None
    page: PageFlags = PageFlags()
    output: RunOutput = RunOutput()

    def __call__(self) -> int:
        if self.order is not None:
            # All flags are empty unless they are given.
            others = {name for name, value in (asdict(self.page) | asdict(self.output)).items() if value}
            alone = not (self.scenario or self.join_seconds or self.origin or others - {"json"})
            status: int = annex_function("run --order")(self.order, self.flags, alone=alone, as_json="json" in others)
            return status
        return self._run()

    def _run(self) -> int:
        """Run the scenario of the flags, show the result and return the exit status; for the rest see `run_plan`."""
        page, output = self.page, self.output
        timeout, port = _page_options(page)
        plan, origin = self._plan()
        require_possible(plan)
        if large := warning(plan):
            say_wrapped(f"warning: {large}", err=True)
        # Before the process moves to a network of its own, out of reach of other programs.
        listener = open_listener(port) if page.watch else None
        metrics = None if output.metrics is None else metrics_target(output.metrics)
        if needs_own_network(plan):
            if plan.scenario.netns == "auto":
                text = f"{plan.topology.title}: {tracking_exceeded(plan)}; moving to a network namespace of its own"
                say_wrapped(text, err=True)
            enter_own_network()
        # Not before: polars starts threads when it is imported, and only a process with one thread can move.
        with single_threaded_imports():
            from coordinator.cli.execute import run_plan  # noqa: PLC0415  # and it takes half of the time of a run

        # The page is in the network that the process had first; a browser started now could not reach it after a move.
        opens = not page.no_open and sys.stderr.isatty() and not needs_own_network(plan)
        return run_plan(plan, output, None if listener is None else (listener, timeout, opens), metrics, origin)

    def _plan(self) -> tuple[Plan, "Origin | None"]:
        """Return what is run, and the step of a stored run that it continues."""
        origin = None
        if self.origin is None:
            wanted = scenario_from(self.scenario, self.flags)
        else:
            from coordinator.cli.branch import branch_from  # noqa: PLC0415  # it imports the verification of runs

            origin, wanted = branch_from(self.origin, self.scenario, self.flags)
        plan = watched_plan(wanted) if self.page.watch else make_plan(wanted)
        if self.join_seconds is not None:
            if not plan.hosts:
                raise ScenarioError("join_seconds", self.join_seconds, "the memory driver has no hosts; leave it out")
            plan = replace(plan, join_seconds=seconds_from("join_seconds", self.join_seconds))
        return plan, origin


def _page_options(page: PageFlags) -> tuple[float, int]:
    """Return the seconds that a watched run may be paused, and the port of its page, 0 for a free port."""
    timeout, port = page.watch_timeout, page.watch_port
    for name, value in (("no_open", page.no_open or None), ("watch_timeout", timeout), ("watch_port", port)):
        if value is not None and not page.watch:
            raise ScenarioError(name, value, "only a run with --watch has a page; add it, or leave this out")
    if port is not None and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ScenarioError("watch_port", port, "expected a port from 1 to 65535")
    return WATCH_SECONDS if timeout is None else seconds_from("watch_timeout", timeout), int(port or 0)
