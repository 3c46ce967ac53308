"""The folder of a campaign: what it is, and a record of every trial that ended, one line each, only ever appended to.

A line that was cut off by a kill is no record. Records are forced to disk in batches; a kill of the process loses none that
was written, a loss of power at most the last seconds.
"""

import fcntl
import json
import os
import time
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import tomli_w

from coordinator.campaigns.grid import Done, Grid, Key
from coordinator.campaigns.trial_runner import Trial, TrialResult, result_of
from emunode.errors import ScenarioError

GRID = "campaign.toml"
RECORDS = "trials.jsonl"
SYNC_SECONDS = 2.0


class Store:
    """A campaign's folder, open for one process at a time; a context that leaves all records on disk."""

    def __init__(self, folder: Path, grid: Grid) -> None:
        self.folder = folder
        self.grid = grid
        self.findings: dict[Key, tuple[Trial, TrialResult]] = {}
        """Every trial that ended."""

    def __enter__(self) -> Self:
        grid, folder = self.grid, self.folder
        fingerprint = grid.fingerprint  # refuses a grid that will not do, before anything is written
        known = folder / GRID
        try:
            if not known.exists() and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
                raise ScenarioError("out", str(folder), "it exists and holds no campaign")
            folder.mkdir(parents=True, exist_ok=True)
            if known.exists() and read_grid_file(folder)["fingerprint"] != fingerprint:
                raise ScenarioError(
                    "out",
                    str(folder),
                    "it holds a campaign of another grid or scenario; nothing was changed. Use another folder",
                )
            self._file = (folder / RECORDS).open("ab+", buffering=0)
            self._lock()
            self._replace(GRID, tomli_w.dumps({"fingerprint": fingerprint, **grid_values(grid)}).encode())
        except OSError as error:
            raise ScenarioError("out", str(folder), f"it cannot be written: {error.strerror}") from None
        self._load()
        self._synced = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        os.fsync(self._file.fileno())
        self._file.close()

    def done(self) -> Done:
        """What is finished, as the grid asks for it."""
        found: dict[tuple[int, int], dict[int, bool | None]] = {}
        for key, (_, result) in self.findings.items():
            found.setdefault((key.point, key.variant), {})[key.number] = None if result.undecided else result.served
        return found

    def add(self, key: Key, trial: Trial, result: TrialResult) -> None:
        """Record a trial that ended."""
        record = {**key._asdict(), "faults": trial.faults, "seed": trial.seed, **vars(result)}
        self._file.write(json.dumps(record, separators=(",", ":")).encode() + b"\n")
        self.findings[key] = trial, result
        if time.monotonic() - self._synced > SYNC_SECONDS:
            os.fsync(self._file.fileno())
            self._synced = time.monotonic()

    def write(self, name: str, content: str | bytes) -> None:
        """Write a file of results; what was there before is replaced at once, or not at all."""
        self._replace(name, content.encode() if isinstance(content, str) else content)

    def _replace(self, name: str, content: bytes) -> None:
        partial = self.folder / f".{name}.partial"
        partial.write_bytes(content)
        partial.replace(self.folder / name)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise ScenarioError("out", str(self.folder), "another campaign is running in it") from None

    def _load(self) -> None:
        """Read the records, and cut off what is left of one that was never finished."""
        self._file.seek(0)
        data = self._file.read()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            self._file.truncate(whole)
        for line in data[:whole].splitlines():
            key, trial, result = record_of(json.loads(line))
            self.findings[key] = trial, result
        self._file.seek(0, os.SEEK_END)


def record_of(fields: dict[str, Any]) -> tuple[Key, Trial, TrialResult]:
    """A record from its plain values."""
    key = Key(*(fields.pop(name) for name in Key._fields))
    trial = Trial(key.variant, tuple(fields.pop("faults")), fields.pop("seed"))
    return key, trial, result_of(fields)


def grid_values(grid: Grid) -> dict[str, object]:
    """A grid as plain values, as a campaign file has them."""
    values: dict[str, object] = {"faults": list(grid.faults), "trials": grid.trials}
    if grid.precision is not None:
        values["precision"] = grid.precision
    return {**values, "scenario": dict(grid.base), "vary": {key: list(items) for key, items in grid.vary.items()}}


def read_grid_file(folder: Path) -> Mapping[str, Any]:
    """What `campaign.toml` of a folder says; ScenarioError (field `resume`) where that is no campaign."""
    try:
        return tomllib.loads((folder / GRID).read_text())
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ScenarioError("resume", str(folder), f"there is no campaign to go on with: {error}") from None


def read_grid(folder: Path) -> Grid:
    """The grid of the campaign in a folder."""
    values = read_grid_file(folder)
    try:
        return Grid(values["scenario"], values["vary"], values["faults"], values["trials"], values.get("precision"))
    except KeyError as error:
        raise ScenarioError("resume", str(folder), f"its {GRID} lacks {error}") from None


def sorted_findings(store: Store) -> Iterator[tuple[Key, Trial, TrialResult]]:
    """Every record, by point, variant and draw."""
    for key in sorted(store.findings):
        yield key, *store.findings[key]
