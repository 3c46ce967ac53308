"""`coordinator run`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from coordinator.annexes import annex_function
from coordinator.cli.options import ScenarioFile, ScenarioFlags
from coordinator.cli.output import PageFlags, PageParameters, RunOutput, RunOutputFlags, as_command
from coordinator.scenario.drivers import join_defaults


def run(
    scenario: ScenarioFile = None,
    *,
    flags: ScenarioFlags = None,
    join_seconds: Annotated[
        str | None,
        Parameter(metavar="TIME", help=f"how long to wait for the next host; default: {join_defaults()}"),
    ] = None,
    origin: Annotated[
        str | None,
        Parameter(
            name="--from",
            metavar="RUN@STEP",
            help="continue a stored run after this step: --fault gives the faults that begin later in place of its own",
        ),
    ] = None,
    order: Annotated[
        Path | None,
        Parameter(
            metavar="FILE",
            help="run the order of events in a file of `certify --every-order` beside the plain one: violated if it "
            "changes anything",
        ),
    ] = None,
    page: PageParameters = None,
    output: RunOutputFlags = None,
) -> int:
    """Run a scenario.

    The scenario comes from a file, from flags, from a file with flags that override it, or with --from from a stored run.

    Examples:
      coordinator run --topology star:4 --collective broadcast --algorithm edt
      coordinator run scenario.toml --seed 7 --driver memory
    """
    if order is not None:
        # A parser gives a record for each group of flags, or none; all flags are empty unless they are given.
        others = {name for each in (page, output) if each for name, value in asdict(each).items() if value}
        alone = not (scenario or join_seconds or origin or others - {"json"})
        status: int = annex_function("run --order")(order, flags, alone=alone, as_json="json" in others)
        return status
    from coordinator.cli.execute import run_scenario  # noqa: PLC0415  # `--help` does without

    return run_scenario(scenario, flags, join_seconds, page or PageFlags(), output or RunOutput(), origin)


run_command = as_command(run)
