"""The campaign folder: the grid, and one appended line per finished trial, or per block of draws evaluated exactly.

An incomplete last line, left by a kill, is ignored. Records are written without a buffer, so a kill of the process loses
none. They are synced to disk in batches, so a power failure loses at most the records of the last seconds.
"""

import fcntl
import json
import os
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, TextIO

import tomli_w

from coordinator.campaigns.counts import BlockRecord, Counts, DrawBlock, total
from coordinator.campaigns.grid import Done, Grid, Key
from coordinator.campaigns.trial_runner import Trial, TrialResult
from coordinator.history.run_directory import require_no_links
from coordinator.history.stored.reading import RefusedError, read_lines, read_toml
from coordinator.history.stored.records import Items, Natural, read_record, refused_in
from coordinator.history.stored.version import VERSION_KEY, require_version
from coordinator.history.stored.writing import naming, open_to_append, replace_file
from coordinator.scenario.declared_network import AS_DECLARED
from coordinator.scenario.model import Scenario
from coordinator.scenario.named import values_of_file
from coordinator.scenario.networks import PREFIX, keep_network, network_of
from coordinator.scenario.plugins import keep_plugins
from emunode import __version__
from emunode.errors import ScenarioError
from emunode.topologies.table import TableTopology

GRID = "campaign.toml"
RECORDS = "trials.jsonl"
SYNC_SECONDS = 2.0


@dataclass(frozen=True)
class TrialRecord:
    """The draw of a trial as a line of the campaign's record.

    The line also has the values of its `TrialResult`.
    """

    point: Natural
    variant: Natural
    number: Natural
    faults: Items[str]
    seed: Natural
    over: Literal["tcp"] | None = None
    """Of a trial that was repeated over TCP."""


@dataclass(frozen=True)
class GridFile:
    """The values of `campaign.toml`."""

    scenario: dict[str, Any]
    vary: dict[str, list[Any]]
    faults: list[str]
    trials: Natural
    engine: str
    precision: float | None = None
    fingerprint: str = ""
    version: str = ""


class FinishedTrials:
    """The finished trials of a campaign: in memory, or as read from its folder."""

    def __init__(self, grid: Grid, folder: Path | None = None) -> None:
        self.grid = grid
        self.folder = folder
        self.findings: dict[Key, tuple[Trial, TrialResult]] = {}
        """Every finished trial with messages, by its key, including the trials of earlier sessions."""
        self.sockets: dict[Key, TrialResult] = {}
        """Trials that were repeated over TCP."""
        self.blocks: dict[tuple[int, int], list[DrawBlock]] = {}
        """By (point, variant): the blocks of draws that were evaluated exactly, in order."""

    def files_of(self, scenario: Scenario) -> dict[str, object]:
        """Return the values of a scenario in the folder that name its plug-ins and its network."""
        inside = f"{self.folder.absolute()}/" if self.folder else ""
        names = scenario.topology, *scenario.plugin
        topology, *plugins = (name.replace(inside, "", 1) for name in names)
        return {"topology": topology, "plugin": tuple(plugins)}

    def named(self, scenario: Scenario) -> Scenario:
        """Return the scenario with the file names of this folder.

        Pages then do not depend on where the folder is.
        """
        if self.folder is None:
            return scenario
        kept = {"network_sha256": None, **AS_DECLARED} if scenario.topology.startswith(PREFIX) else {}
        return scenario.model_copy(update={**self.files_of(scenario), **kept})

    def done(self) -> Done:
        """Return the finished draws, in the form that `Grid.rest` takes."""
        finished: dict[tuple[int, int], dict[int, bool | None]] = {}
        for key, (_, result) in self.findings.items():
            finished.setdefault((key.point, key.variant), {})[key.number] = None if result.undecided else result.served
        return finished

    def add(self, key: Key, trial: Trial, result: TrialResult) -> None:
        """Keep a finished trial."""
        self.findings[key] = trial, result

    def add_socket_trial(self, key: Key, trial: Trial, result: TrialResult) -> None:
        """Keep a trial that was repeated over TCP."""
        del trial
        self.sockets[key] = result

    def add_block(self, block: DrawBlock) -> None:
        """Keep a block of draws; it follows the earlier blocks of its cell."""
        cell = self.blocks.setdefault((block.point, block.variant), [])
        # Once all sets are wanted, blocks of a random sample of them do not count.
        if cell and cell[-1].whole != block.whole:
            cell.clear()
        if block.start == (cell[-1].stop if cell else 0):
            cell.append(block)

    def evaluated(self, point: int, variant: int) -> list[DrawBlock]:
        """Return the blocks of draws that count."""
        cell = self.blocks.get((point, variant), [])
        return cell if cell and cell[0].whole == self.grid.whole(point, variant) else []

    def numbers(self) -> dict[tuple[int, int], list[int]]:
        """Return for each (point, variant) the numbers of the trials with messages, ascending."""
        numbers: dict[tuple[int, int], list[int]] = {}
        for key in sorted(self.findings):
            numbers.setdefault((key.point, key.variant), []).append(key.number)
        return numbers

    def counts(self, point: int, variant: int, finished: Collection[int]) -> Counts:
        """Return the counts of the trials of a point that enter its statistics.

        `finished` are the numbers of trials with messages.
        """
        if self.grid.exact(point, variant):
            return total(self.evaluated(point, variant))
        counts = Counts()
        for number in self.grid.counted(point, variant, finished):
            counts.count(self.findings[Key(point, variant, number)][1])
        return counts

    def open_log(self) -> TextIO:
        """Return the log of a session and its worker processes.

        A session in memory keeps nothing of it.
        """
        return Path(os.devnull).open("w", encoding="utf-8")


class Store(FinishedTrials):
    """A campaign folder, locked by one process at a time.

    Leaving the context syncs all records to disk.
    """

    def __init__(self, folder: Path, grid: Grid) -> None:
        super().__init__(grid)
        self.folder: Path = folder
        self._networks: dict[str, dict[str, object]] = {}
        """By digest: the values of a scenario that name a network that was written into the folder."""

    def __enter__(self) -> Self:
        grid, folder = self.grid, self.folder
        fingerprint = grid.fingerprint  # raises for an invalid grid, before anything is written
        known = folder / GRID
        require_no_links(folder, "out")
        try:
            # A folder with other files is not overwritten.
            if not known.exists() and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
                raise ScenarioError("out", str(folder), "it exists and is not a campaign folder")
            folder.mkdir(parents=True, exist_ok=True)
            if known.exists():
                require_same_grid(folder, fingerprint, "out")
            # Unbuffered: a record is with the kernel as soon as `write` returns, so a kill loses none.
            self._file = os.fdopen(open_to_append(folder / RECORDS), "ab+", buffering=0)
            self._lock()
            # After the lock: only its owner may change the folder.
            values = {
                VERSION_KEY: __version__,
                "fingerprint": fingerprint,
                **self._with_files(grid_values(grid)),
            }
            self.write(GRID, tomli_w.dumps(values))
        except OSError as error:
            raise ScenarioError("out", str(folder), f"it cannot be written: {error.strerror}") from None
        self._load()
        self._synced = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        os.fsync(self._file.fileno())
        self._file.close()

    def add(self, key: Key, trial: Trial, result: TrialResult) -> None:
        """Append the record of a finished trial."""
        self._append(_record(key, trial, result))
        super().add(key, trial, result)

    def add_socket_trial(self, key: Key, trial: Trial, result: TrialResult) -> None:
        """Append the record of a trial that was repeated over TCP."""
        self._append({"over": "tcp", **_record(key, trial, result)})
        super().add_socket_trial(key, trial, result)

    def add_block(self, block: DrawBlock) -> None:
        """Append the record of a block of draws."""
        self._append(block.record())
        super().add_block(block)

    def _append(self, record: Mapping[str, object]) -> None:
        with naming(self.folder / RECORDS):
            self._file.write(json.dumps(record, separators=(",", ":")).encode() + b"\n")
            # Syncing every record would take longer than running its trial.
            if time.monotonic() - self._synced > SYNC_SECONDS:
                os.fsync(self._file.fileno())
                self._synced = time.monotonic()

    def open_log(self) -> TextIO:
        """Return the log of all sessions in this folder, opened to append."""
        try:
            return os.fdopen(open_to_append(self.folder / "log.jsonl"), "a", encoding="utf-8", buffering=1)
        except OSError as error:
            raise ScenarioError("out", str(self.folder), f"it cannot be written: {error.strerror}") from None

    def write(self, name: str, content: str | bytes) -> None:
        """Write a file of results, replacing an earlier one atomically."""
        replace_file(self.folder / name, content)

    def files_of(self, scenario: Scenario) -> dict[str, object]:
        """Return the values of a scenario that name its files in this folder.

        These are its plug-ins, and its network if the network comes from a file.
        """
        return self.kept_network(scenario) | keep_plugins(scenario.plugin, self.folder)

    def kept_network(self, scenario: Scenario) -> dict[str, object]:
        """Write a network from a file once.

        Returns the values of a scenario that name the network in this folder.
        """
        topology = network_of(scenario)
        if not isinstance(topology, TableTopology):
            return {}
        digest = topology.sha256
        if digest not in self._networks:
            self._networks[digest] = keep_network(topology, self.folder, f"network-{digest[:12]}.json")
        return self._networks[digest]

    def _with_files(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the values of the grid for this folder.

        Copies in this folder take the place of the files of the user.
        """
        kept = {variant.scenario.topology: self.kept_network(variant.scenario) for variant in self.grid.variants}
        named = {name: values["topology"] for name, values in kept.items() if values}
        base, vary = values["scenario"], values["vary"]
        base = base | keep_plugins(self.grid.variants[0].scenario.plugin, self.folder)
        if base.get("topology") in named:
            base = base | kept[base["topology"]]
        if "topology" in vary:
            vary = {**vary, "topology": [named.get(name, name) for name in vary["topology"]]}
        return {**values, "scenario": base, "vary": vary}

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise ScenarioError("out", str(self.folder), "another process is running the campaign in it") from None

    def _load(self) -> None:
        """Read the records and truncate an incomplete last line, as a killed process leaves it."""
        try:
            whole = load_records(self, self.folder / RECORDS)
        except RefusedError as error:
            self._file.close()
            raise ScenarioError("out", str(self.folder), f"its {RECORDS} is refused: {error}") from None
        if whole < self._file.seek(0, os.SEEK_END):
            self._file.truncate(whole)
        self._file.seek(0, os.SEEK_END)


def load_records(store: FinishedTrials, path: Path, see: Callable[[Key, Trial, bool], None] = lambda *_: None) -> int:
    """Add the records of a campaign file to the finished trials.

    Returns the number of bytes of the complete lines. `see` is called for each trial that was run with messages, and is
    told whether it ran over TCP.

    Raises OSError if the file cannot be read, and RefusedError for a record that is malformed or belongs to no point
    and variant of the grid.
    """
    whole = 0
    for number, line in enumerate(read_lines(path, follow=False), 1):
        with refused_in(f"line {number}"):
            _load(store, line, see)
        whole += len(line) + 1
    return whole


def _load(store: FinishedTrials, line: bytes, see: Callable[[Key, Trial, bool], None]) -> None:
    exact = line.startswith(b'{"block"')
    record = read_record(BlockRecord, line) if exact else read_record(TrialRecord, line)
    if record.point >= len(store.grid.points) or record.variant >= len(store.grid.variants):
        raise RefusedError("its point or its variant is not one of the grid")
    if isinstance(record, BlockRecord):
        # By the base class: a record that is read is not appended once more.
        FinishedTrials.add_block(store, DrawBlock.of_record(record))
        return
    result = read_record(TrialResult, line)
    if result.decided and not 0 < result.expected >= result.intact:
        raise RefusedError(f"{result.intact} of {result.expected} messages arrived intact")
    key, trial = Key(record.point, record.variant, record.number), Trial(record.variant, record.faults, record.seed)
    see(key, trial, record.over is not None)
    (FinishedTrials.add_socket_trial if record.over else FinishedTrials.add)(store, key, trial, result)


def _record(key: Key, trial: Trial, result: TrialResult) -> dict[str, object]:
    # Only trials under the timed clock have seconds.
    values = {name: value for name, value in vars(result).items() if name != "seconds" or value is not None}
    return {**key._asdict(), "faults": trial.faults, "seed": trial.seed, **values}


def grid_values(grid: Grid) -> dict[str, object]:
    """Return a grid as the values of a campaign file."""
    values: dict[str, object] = {"faults": list(grid.faults), "trials": grid.trials}
    if grid.precision is not None:
        values["precision"] = grid.precision
    values["engine"] = grid.engine
    return {**values, "scenario": dict(grid.base), "vary": {key: list(items) for key, items in grid.vary.items()}}


def read_grid_file(folder: Path) -> Mapping[str, Any]:
    """Return the values of `campaign.toml`.

    Raises ScenarioError (field `resume`) if the folder is not a campaign folder, and VersionError (field `campaign`) if
    another minor version wrote it.
    """
    try:
        values = read_toml(folder / GRID, follow=False)
        require_version(values, "campaign", folder)
        return values
    except OSError as error:
        raise ScenarioError("resume", str(folder), f"no campaign to resume: {GRID}: {error.strerror}") from None
    except ValueError as error:
        raise ScenarioError("resume", str(folder), f"no campaign to resume: {GRID}: {error}") from None


def require_same_grid(folder: Path, fingerprint: str, field: str) -> None:
    """Refuse a folder whose trials would be counted as trials of another grid: ScenarioError (`field`)."""
    if read_grid_file(folder).get("fingerprint") != fingerprint:
        reason = "it holds a campaign of another grid or scenario; nothing was changed. Use another folder"
        raise ScenarioError(field, str(folder), reason)


def read_grid(folder: Path) -> Grid:
    """Return the grid of the campaign in a folder."""
    return grid_of(read_grid_file(folder), folder)[0]


def grid_of(values: Mapping[str, Any], folder: Path) -> tuple[Grid, str]:
    """Return the grid that the values of `campaign.toml` state, and its digest there.

    Raises ScenarioError as `read_grid_file`.
    """
    try:
        file = read_record(GridFile, values)
    except RefusedError as error:
        raise ScenarioError("resume", str(folder), f"{GRID}: {error}") from None
    base = values_of_file({**file.scenario, "vary": file.vary}, folder)
    vary = base.pop("vary")
    assert isinstance(vary, dict)
    return Grid(base, vary, file.faults, file.trials, file.precision, file.engine), file.fingerprint
