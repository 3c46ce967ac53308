"""Verification of what is stored."""

from pathlib import Path

from coordinator.api.forks import require_usable
from coordinator.api.runs import Run
from coordinator.execution.certificates.check import verify_certificate
from coordinator.execution.verify import Verification
from coordinator.execution.verify import verify as verify_run
from coordinator.reports.data import find_run
from emunode.errors import ScenarioError


def verify(run: Run | Path | str) -> Verification:
    """Check a stored run against its journal, and the journal against the rules; or a certificate file.

    `run` is a run directory, a folder of `runs/`, which stands for its latest run, or a `Run` that was read from or saved to
    one. Hash, tables, claims and verdict are computed again from the journal. A certificate file (`Certificate.save`) is
    checked without the code that made it. The result is `verified`, or has one line per contradiction in `findings`; it is
    `undecided` if a certificate could not be checked completely. Raises ScenarioError (field `run`) if there is no run.
    """
    require_usable()
    if not isinstance(run, Run) and Path(run).is_file():
        return verify_certificate(Path(run))
    path = run.path if isinstance(run, Run) else find_run(Path(run))
    if path is None:
        raise ScenarioError("run", repr(run), "it is only in memory; save it, or run with out=FOLDER")
    return verify_run(path)
