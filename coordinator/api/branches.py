"""Branches of runs, with other faults from a step on."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from coordinator.api.options import FaultTexts, as_list, require_number
from coordinator.api.progress import ProgressOption
from coordinator.api.runs import Run, run_plan
from coordinator.execution.branch import Origin
from coordinator.execution.verification import UnreadableError, Verification
from coordinator.execution.verify import recompute
from coordinator.history.journal import table
from coordinator.planning.plan import make_plan
from coordinator.reports.data import find_run
from coordinator.scenario.model import make_scenario, plain_values
from coordinator.scenario.named import name_values
from emunode.errors import ScenarioError
from emunode.model import Step


def branch(
    run: "Run | Path | str",
    step: Step,
    faults: FaultTexts = (),
    *,
    driver: str | None = None,
    out: Path | str | None = None,
    progress: ProgressOption = None,
) -> Run:
    """Continue a run after a step with other faults, and return the new run.

    `faults` begin after `step`, and take the place of the faults of `run` that begin later; the others stay. The rows of
    the journal up to `step` are the rows of `run`. `driver` is by default the driver of `run`.

    ScenarioError (field `from`) for a run that cannot be read, does not verify, ran under the timed clock or has fewer
    steps, and (field `fault`) for a fault that begins too early; other errors as of `Network.run`.

    >>> import coordinator as tb
    >>> run = tb.network("star:4").broadcast("greedy-tree")
    >>> other = tb.branch(run, 1, faults="crash:4231@2")
    >>> run.summary["delivery_ratio"], other.summary["delivery_ratio"]
    (1.0, 0.8181818181818182)
    """
    require_number("step", step)
    name_values({} if driver is None else {"driver": driver})
    origin = origin_of(run, step)
    scenario = origin.branched(as_list(faults))
    plan = make_plan(scenario if driver is None else make_scenario(plain_values(scenario) | {"driver": driver}))
    return run_plan(plan, None if out is None else Path(out), progress, origin=origin)


def origin_of(run: "Run | Path | str", step: Step) -> Origin:
    """Return a run up to a step; errors as of `branch`. Load the plug-ins of a stored run, and allow its program, before."""
    path = run.path if isinstance(run, Run) else find_run(Path(run))
    if path is None:
        assert isinstance(run, Run)
        refused = partial(ScenarioError, "from", f"{run.name}@{step}")
        if run.finished is None:
            raise refused("this run comes from a pickle; branch in the process that ran it, or save it before")
        origin, last = Origin.of(run.finished, step), int(run.summary["steps"])
    else:
        refused = partial(ScenarioError, "from", f"{path}@{step}")
        verification = Verification(path)
        try:
            found = recompute(path, verification)
        except (UnreadableError, OSError) as error:
            raise refused(f"the run cannot be read: {error}") from None
        if verification.findings:
            raise refused(f"the run does not verify: {verification.findings[0]}")
        # With the driver of the run, in place of the driver of its verification.
        plan = replace(found.plan, scenario=found.scenario)
        rows = table(found.records[found.records["step"] <= step]).lazy()
        origin = Origin(path.name, plan, str(found.summary["journal_hash"]), step, rows)
        last = int(found.conclusion.metrics["steps"])  # type: ignore[arg-type]
    if origin.plan.scenario.clock != "steps":
        raise refused("runs under the timed clock have no steps to branch at; expected a run with --clock steps")
    if not 0 <= step <= last:
        raise refused(f"the run has {last} steps; expected a step from 0 to {last}")
    return origin
