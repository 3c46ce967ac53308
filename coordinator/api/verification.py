"""Verification of stored results."""

import csv
import os
from io import StringIO
from math import isclose
from pathlib import Path
from typing import Final

import polars as pl
import trio

from coordinator.annexes import annex_function
from coordinator.api.campaigns import TRIALS, Campaign, result_files
from coordinator.api.forks import require_usable
from coordinator.api.runs import Run
from coordinator.campaigns.batch_trials import CampaignSession
from coordinator.campaigns.store import GRID, read_grid_file
from coordinator.campaigns.sweep import ROWS
from coordinator.campaigns.trial_runner import Trial, TrialRunner
from coordinator.campaigns.verify_campaign import is_finished, verify_records
from coordinator.campaigns.verify_sweep import verify_sweep
from coordinator.execution.branch import inevitable_from
from coordinator.execution.untrusted import require_verifiable
from coordinator.execution.verification import UnreadableError, Verification
from coordinator.execution.verify import Recomputed, recompute
from coordinator.execution.verify import verify as verify_run
from coordinator.history.foreign import FOREIGN_FILE
from coordinator.history.journal import table
from coordinator.history.stored.reading import exists, read_bytes, read_toml
from coordinator.history.stored.tables import damage_as_value_error, require_regular
from coordinator.history.stored.version import VERSION_KEY
from coordinator.reports.data import find_run
from coordinator.results.explain import explain, place_of
from coordinator.scenario.model import Scenario, make_scenario
from coordinator.scenario.named import values_of_file
from emunode import __version__
from emunode.errors import EmulatorError, ScenarioError
from emunode.terminal import plural

CLOSE: Final = 1e-9
"""Relative difference of numbers in a table that another machine may have computed."""


def inevitable_loss(run: Path, name: str) -> str:
    """Return in words since when a node's loss of messages was inevitable, whatever began later.

    ScenarioError (field `inevitable`) for an unknown or faulty node, and for a run that cannot be read.
    """
    plan = _recomputed(run, "inevitable", name).plan
    try:
        rank = plan.topology.rank(name)
    except ScenarioError as error:
        raise ScenarioError("inevitable", name, f"there is no such node: {error.allowed}") from None
    step = inevitable_from(plan, rank)
    if step is None:
        return f"{name} has everything that is due to it"
    return f"{name} misses messages " + (f"from step {step} on, whatever begins later" if step else "without any fault")


def explained_state(run: Path, place: str) -> list[str]:
    """Return lines about the hops and faults that the state of a node depends on; `place` is NODE@STEP.

    ScenarioError (field `explain`) for another place, and for a run that cannot be read.
    """
    found = _recomputed(run, "explain", place)
    plan = found.conclusion.plan
    rank, step = place_of(plan, place)
    lines = explain(plan, table(found.records), rank, step)
    label = plan.topology.label(rank)
    # Hops that were never sent leave no row.
    missed = [because for name, because in found.conclusion.cut_off.nodes if name == label]
    return [
        *lines,
        *(f"{label} misses messages to the end, because of {because or 'the faults'}" for because in missed),
    ]


def _recomputed(run: Path, field: str, value: str) -> Recomputed:
    """Return a stored run with its judgement; ScenarioError (`field` and `value`) if it cannot be read."""
    path = find_run(run)
    try:
        return recompute(path, Verification(path))
    except (UnreadableError, OSError) as error:
        raise ScenarioError(field, value, f"the run cannot be read: {error}") from None


def verify(run: Run | Path | str) -> Verification:
    """Check a stored run against its journal, and the journal against the rules; a campaign, a sweep, or a certificate file.

    `run` is a run directory, a folder of `runs/` (for its latest run), or a `Run` that was read from or saved to one.
    Hash, tables, claims and verdict are computed again from the journal. Of a campaign or a sweep, faults are drawn
    again, a sample of the trials is run again, and tables and pages are made again from the records. A certificate file
    (`Certificate.save`) is checked without the code that made it. The result is `verified`, with a `statement`, or has
    one line per contradiction in `findings`; it is `undecided` if it could not be checked completely. Raises
    ScenarioError if there is no run, and for what another minor version wrote.

    >>> import coordinator as tb
    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = Path(tempfile.mkdtemp(), "run")
    >>> run = tb.network("star:4").broadcast("greedy-tree", out=folder)
    >>> tb.verify(folder).verified
    True
    """
    require_usable()
    if not isinstance(run, Run):
        path = Path(run)
        if path.is_file():
            certified: Verification = annex_function("the check of a certificate")(path)
            return certified
        if exists(path / GRID):
            return verify_campaign(path)
        if exists(path / ROWS):
            return verify_sweep(path)
    found = run.path if isinstance(run, Run) else find_run(Path(run))
    if found is None:
        raise ScenarioError("run", repr(run), "it is only in memory; save it, or run with out=FOLDER")
    if exists(found / FOREIGN_FILE):
        history: Verification = annex_function("verify the history of other software")(found)
        return history
    return verify_run(found)


def verify_campaign(folder: Path) -> Verification:
    """Check a campaign folder; raises only ScenarioError, as `verify_records`."""
    verification = Verification(folder)
    store = verify_records(folder, verification)
    if store is None or verification.findings:
        return verification
    finished = is_finished(store)
    if not finished:
        verification.unchecked.append(
            "the campaign is not finished: `coordinator campaign --resume` runs the other trials"
        )
    done = Campaign(store.grid, store, CampaignSession(finished=finished), folder)
    ours = read_grid_file(folder)[VERSION_KEY] == __version__
    files = result_files(done)
    differing = [name for name, text in files.items() if not _has(folder / name, text)]
    differing += [] if _has_trials(folder / TRIALS, done.trials) else [TRIALS]
    earlier = _is_part(folder / "table.csv", files["table.csv"])
    for name in differing:
        if not exists(folder / name):
            verification.unchecked.append(f"{name}: no such file")
        elif earlier and name != TRIALS and (not name.endswith(".csv") or _is_part(folder / name, files[name])):
            verification.unchecked.append(f"{name}: its version writes less of the records")
        elif finished and (ours or not name.endswith((".html", ".svg"))):
            verification.findings.append(f"{name}: differs from the records")
        else:
            reason = "another version drew it" if finished else "the campaign is not finished"
            verification.unchecked.append(f"{name}: differs from the records, and {reason}")
            verification.undecided |= not finished
    _check_violations(folder, verification)
    verification.statement += f"; {plural(len(files) + 1 - len(differing), 'file')} made again"
    return verification


def _has(path: Path, text: str) -> bool:
    """Return whether a file has this text; numbers of a table may differ by rounding."""
    data = text.encode()
    try:
        stored = read_bytes(path, 2 * len(data) + 1000, follow=False)
    except (OSError, ValueError):
        return False
    return stored == data or (path.suffix == ".csv" and _are_close(stored.decode(errors="replace"), text))


def _are_close(stored: str, expected: str) -> bool:
    try:
        rows, ours = (list(csv.reader(StringIO(text, newline=""))) for text in (stored, expected))
    except csv.Error:
        return False
    if [len(row) for row in rows] != [len(row) for row in ours]:
        return False
    pairs = (pair for row, other in zip(rows, ours, strict=True) for pair in zip(row, other, strict=True))
    return all(_is_close(one, other) for one, other in pairs)


def _is_part(path: Path, text: str) -> bool:
    """Return whether a table has fewer columns than `text`, and all its rows are in there.

    Campaigns of 0.3.0 have such tables; what is in them has to agree with the records.
    """
    try:
        stored = read_bytes(path, 2 * len(text.encode()) + 1000, follow=False).decode(errors="replace")
        rows, ours = (list(csv.DictReader(StringIO(each, newline=""))) for each in (stored, text))
    except (OSError, ValueError, csv.Error):
        return False
    if not rows or not ours or not rows[0].keys() < ours[0].keys():
        return False
    left = iter(ours)  # in the same order
    return all(any(all(_is_close(row[key] or "", other[key]) for key in rows[0]) for other in left) for row in rows)


def _is_close(one: str, other: str) -> bool:
    if one == other:
        return True
    try:
        return isclose(float(one), float(other), rel_tol=CLOSE, abs_tol=CLOSE)
    except ValueError:
        return False


def _has_trials(path: Path, expected: pl.DataFrame) -> bool:
    """Return whether a file has these rows."""
    try:
        require_regular(path)
        with damage_as_value_error():
            if dict(pl.read_parquet_schema(path)) != dict(expected.schema):
                return False
            scan = pl.scan_parquet(path, glob=False)
            return bool(scan.select(pl.len()).collect().item() == len(expected) and scan.collect().equals(expected))
    except (OSError, ValueError):
        return False


def _check_violations(folder: Path, verification: Verification) -> None:
    """Run the scenarios that the campaign kept because they violate a claim."""
    for path in sorted(folder.glob("violated-*.toml")):
        try:
            values = read_toml(path, follow=False)
            scenario = make_scenario(values_of_file(values, folder))
            require_verifiable(scenario)
            if not _violates(scenario.on_driver("memory")):
                verification.findings.append(f"{path.name}: a run of it violates no claim")
        except (OSError, ValueError, UnreadableError, EmulatorError) as error:
            verification.findings.append(f"{path.name}: {str(error)[:160]}")


def _violates(scenario: Scenario) -> bool:
    """Return whether a run violates a claim."""
    with Path(os.devnull).open("w") as log:
        runner = TrialRunner([scenario], log)
        return bool(trio.run(runner.trial, Trial(0, (), scenario.seed)).violated)
