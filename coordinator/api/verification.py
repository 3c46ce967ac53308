"""Verification of what is stored."""

from pathlib import Path

from coordinator.api.runs import Run
from coordinator.execution.verify import Verification
from coordinator.execution.verify import verify as verify_run
from coordinator.reports.data import find_run
from emunode.errors import ScenarioError


def verify(run: Run | Path | str) -> Verification:
    """Check a stored run against its journal, and the journal against the rules.

    `run` is a run directory, a folder of `runs/`, which stands for its latest run, or a `Run` that was read from or saved to
    one. Hash, tables, claims and verdict are computed again from the journal. The result is `verified`, or has one line per
    contradiction in `findings`. Raises ScenarioError (field `run`) if there is no run.
    """
    path = run.path if isinstance(run, Run) else find_run(Path(run))
    if path is None:
        raise ScenarioError("run", repr(run), "it is only in memory; save it, or run with out=FOLDER")
    return verify_run(path)
