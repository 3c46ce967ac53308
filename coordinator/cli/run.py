"""`coordinator run`."""

from typing import Annotated

from cyclopts import Parameter

from coordinator.cli.options import ScenarioFile, ScenarioFlags
from coordinator.cli.output import PageParameters, RunOutputFlags, as_command
from coordinator.cli.run_flags import PageFlags, RunOutput


def run(
    scenario: ScenarioFile = None,
    *,
    flags: ScenarioFlags = None,
    join_seconds: Annotated[
        str | None,
        Parameter(metavar="TIME", help="how long to wait for the next host; default: 60s, and 2s more per container"),
    ] = None,
    origin: Annotated[
        str | None,
        Parameter(
            name="--from",
            metavar="RUN@STEP",
            help="continue a stored run after this step: --fault gives the faults that begin later in place of its own",
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
    from coordinator.cli.execute import run_scenario  # noqa: PLC0415  # `--help` does without

    return run_scenario(scenario, flags, join_seconds, page or PageFlags(), output or RunOutput(), origin)


run_command = as_command(run)
