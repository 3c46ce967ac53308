"""The runs of a folder, and `index.html`, the page that lists them.

A run is a folder `NAME/TIME-SEED` or `NAME` whose summary can be read; anything else is skipped. The page follows from
the files of the runs alone. The page also holds its entries as data, so that an update reads only the runs whose
summaries changed.
"""

import fcntl
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from coordinator.history.run_directory import RUNS
from coordinator.history.stored.reading import RefusedError, read_bytes, read_json, read_toml
from coordinator.history.stored.records import Items, read_record
from coordinator.history.stored.version import is_readable, minor_version, version_of
from coordinator.history.stored.writing import replace_file
from emunode.errors import RunError

INDEX: Final = "index.html"
REPORT: Final = "report.html"
THUMBNAIL: Final = "thumbnail.svg"
GENERATOR: Final = '<meta name="generator" content="collective-testbench: index of runs">'
"""Marks pages of ours: a page without it is not replaced."""
DATA_BEGIN: Final = '<script type="application/json" id="runs">'
DATA_END: Final = "</script>"
LOCK_SECONDS: Final = 5.0
"""How long an update waits for another one."""
PAGE_BYTES: Final = 256 * 2**20
"""A larger page is no index."""
LONGEST_TEXT: Final = 200
STAMP: Final = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d)-(\d\d)-(\d\d)\.(\d{3})Z-")
WORDS: Final = (
    "topology",
    "collective",
    "algorithm",
    "driver",
    "clock",
    "verdict",
    "undecided_because",
    "reason",
    "journal_hash",
)
COUNTS: Final = {
    "seed": "seed",
    "redundancy": "redundancy",
    "segments": "segments_per_tree",
    "steps": "steps",
    "packets": "packets",
    "delivered": "intact_deliveries",
    "expected": "expected_deliveries",
}
"""Whole numbers of an entry, with their keys in the summary."""


@dataclass(frozen=True, kw_only=True)
class RunEntry:
    """One run of an index."""

    path: str
    """Of its directory, below the folder of the index."""
    time: str
    """When it began, such as 2026-01-31T12:00:00.000Z; for a run with `--out`, when it ended."""
    topology: str
    collective: str
    algorithm: str
    driver: str
    clock: str
    faults: str
    """Separated by commas."""
    fault_count: int
    seed: int
    redundancy: int | None
    segments: int | None
    options: dict[str, str | int | float | bool]
    """The short values of its scenario.toml; empty if that file cannot be read."""
    steps: int | None
    packets: int | None
    delivered: int | None
    """Intact deliveries."""
    expected: int | None
    """Deliveries that were due."""
    verdict: str
    undecided_because: str
    reason: str
    """One of four words for an undecided run; empty for others, and for runs of earlier versions."""
    journal_hash: str
    has_picture: bool
    """Whether there was a thumbnail.svg when the summary was read."""
    version: str
    """The version that wrote it, such as 0.3.0; 0.2 if the summary names none."""
    modified: int
    """When the summary was written, in nanoseconds since 1970."""

    @property
    def outcome(self) -> str:
        """The verdict, or the other minor version that can read the run."""
        return self.verdict if is_readable(self.version) else f"version {minor_version(self.version)}"

    @property
    def title(self) -> str:
        """Network, collective and algorithm."""
        return f"{self.topology} {self.collective} by {self.algorithm}"

    @property
    def deliveries(self) -> str:
        """Intact and due deliveries, as `12 of 22`; empty if they are unknown."""
        return "" if self.delivered is None or self.expected is None else f"{self.delivered:,} of {self.expected:,}"


@dataclass(frozen=True)
class IndexData:
    """The entries in a page, for the next update."""

    runs: Items[RunEntry]


def index_folder(run: Path) -> Path | None:
    """Return the folder whose index lists this run directory: `runs`, if the run is in it at one of two levels; else
    None.
    """
    root = RUNS.absolute()
    return root if root in (run.parent, run.parent.parent) else None


def read_runs(root: Path = RUNS, known: Mapping[str, RunEntry] | None = None) -> list[RunEntry]:
    """List the runs in `root`, newest first. Entries in `known` are reused if their summary has not changed."""
    entries = [entry for path in _candidates(root) if (entry := _entry(root, path, known or {})) is not None]
    return sorted(entries, key=lambda entry: (entry.time, entry.path), reverse=True)


def _candidates(root: Path) -> Iterator[str]:
    """Yield folders that may be runs. Links, such as `latest`, and hidden folders, such as unfinished runs, are left
    out.
    """
    for name in _folders(root):
        if (root / name / "summary.json").is_file():
            yield name
        else:
            yield from (f"{name}/{inner}" for inner in _folders(root / name))


def _folders(path: Path) -> list[str]:
    with suppress(OSError), os.scandir(path) as entries:
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False) and entry.name[0] != "."]
    return []


def _entry(root: Path, path: str, known: Mapping[str, RunEntry]) -> RunEntry | None:
    file = root / path / "summary.json"
    try:
        status = file.lstat()
        if path in known and known[path].modified == status.st_mtime_ns:
            return known[path]
        # Not `Path.is_file` first: the folder may be removed at any moment.
        summary = read_json(file, follow=False)
    except (OSError, ValueError):
        return None
    # The least that makes a summary: other programs write files of this name too.
    if not isinstance(summary, dict) or not all(isinstance(summary.get(key), str) for key in ("topology", "verdict")):
        return None
    try:
        version = version_of(summary)
    except RefusedError:
        return None
    faults = faults if isinstance(faults := summary.get("faults"), list) else []
    words: dict[str, Any] = {key: _text(summary.get(key)) for key in WORDS}
    counts: dict[str, Any] = {
        name: value if type(value := summary.get(key)) is int else None for name, key in COUNTS.items()
    }
    return RunEntry(
        path=path,
        time=_time(path, status.st_mtime),
        **words,
        faults=_text(", ".join(map(str, faults))),
        fault_count=len(faults),
        seed=counts.pop("seed") or 0,
        **counts,
        options=_options(root / path / "scenario.toml"),
        has_picture=(root / path / THUMBNAIL).is_file(),
        version=version,
        modified=status.st_mtime_ns,
    )


def _options(file: Path) -> dict[str, str | int | float | bool]:
    try:
        values = read_toml(file, follow=False)
    except (OSError, ValueError):
        return {}
    short = (str, int, float, bool)
    return {key: value for key, value in values.items() if type(value) in short and len(str(value)) <= LONGEST_TEXT}


def _text(value: object) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 2]} …"


def _time(path: str, modified: float) -> str:
    found = STAMP.match(path.rpartition("/")[2])
    if found is None:
        return datetime.fromtimestamp(modified, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    day, hours, minutes, seconds, thousandths = found.groups()
    return f"{day}T{hours}:{minutes}:{seconds}.{thousandths}Z"


# --- the page --------------------------------------------------------------------------------------------------------

Render = Callable[[Sequence[RunEntry]], str]
"""Makes the page of entries; it holds GENERATOR and `index_data`."""


def index_data(entries: Sequence[RunEntry]) -> str:
    """Return the entries as a script element, for the next update to read."""
    data = json.dumps([asdict(entry) for entry in entries], separators=(",", ":")).replace("<", "\\u003c")
    return f"{DATA_BEGIN}{data}{DATA_END}"


def write_index(root: Path, render: Render, *, fresh: bool = False) -> Path:
    """Write the page of the runs in `root` and return its path; `fresh`: read every summary, whatever the old page holds.

    Processes that write it at the same time take turns, so that the last one lists every run; a reader sees the old page or
    the new one. RunError if it cannot be written, and if a page of another origin has its name.
    """
    page = root / INDEX
    try:
        with _locked(root):
            known = _known(page)
            replace_file(page, render(read_runs(root, {} if fresh else known)))
    except OSError as error:
        raise RunError(f"{page} cannot be written: {error.strerror}") from None
    return page


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder; the lock ends with this process at the latest."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise RunError(f"{folder / INDEX} is not up to date: another run has been writing it") from None
                time.sleep(0.005)
            # A network file system may have no locks on folders. Then the last of two writers may list one run too few.
            except OSError:
                break
        yield
    finally:
        os.close(descriptor)


def _known(page: Path) -> dict[str, RunEntry]:
    """Return the entries in a page of ours; empty without a page, or if its data cannot be used. RunError for other
    pages.
    """
    try:
        text = read_bytes(page, PAGE_BYTES, follow=False).decode(errors="replace")
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise RunError(f"{page} is not an index of runs: {error}; rename it to get one") from None
    if GENERATOR not in text:
        raise RunError(f"{page} is not an index of runs; rename it to get one")
    try:
        # Pages of other versions are not believed.
        data = read_record(IndexData, f'{{"runs":{text.partition(DATA_BEGIN)[2].partition(DATA_END)[0]}}}'.encode())
    except RefusedError:
        return {}
    return {entry.path: entry for entry in data.runs}
