"""Verification: forged, damaged and hostile run directories do not pass, correct ones do."""

import json
import shutil
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from coordinator.execution import untrusted
from coordinator.execution import verify as module
from coordinator.execution.verify import verify
from coordinator.history.journal import COLUMNS, RECORD
from emunode.errors import RuleError
from emunode.model import HopOutcome
from tests.helpers.command_line import Call, fields
from tests.helpers.spoilt_files import Spoil, claim, column, content, edited, pipe, summary
from tests.helpers.support import run_scenario

SCENARIOS = {
    "tree": "star:4 broadcast greedy-tree",
    "crashes": "star:4 scatter balanced-tree fault=crash:2134@1 fault=crash:3214@1",
    "byzantine": "star:4 broadcast edt redundancy=3 fault=byzantine:2134",
    "losses": "hypercube:3 allgather sbt fault=loss:000~001:0.5 fault=delay:010>011:2",
    "source": "star:3 broadcast edt fault=crash:123@1",
    "cut short": "star:4 broadcast greedy-tree step_limit=2",
    "timed": "hypercube:3 broadcast sbt clock=timed",
    "odd": "ej:1+2 broadcast flood source=1,0 messages=2",
    "reduce": "hypercube:3 reduce nesbt fault=hang:011@2-3",
    "agreement": "hypercube:3 allgather bfb segments=2 fault=crash:001@2 fault_knowledge=detect:1 on_failure=shrink",
}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Provide a run directory by the name of its scenario, created once."""
    folder = tmp_path_factory.mktemp("runs")

    def find(name: str) -> Path:
        path: Path = folder / name
        if not path.exists():
            run_scenario(path, **fields(SCENARIOS[name]))
        return path

    return find


@pytest.fixture
def copy(stored: Callable[[str], Path], tmp_path: Path) -> Callable[[str], Path]:
    """Provide a copy of a stored run for changes."""

    def copy_run(name: str) -> Path:
        return Path(shutil.copytree(stored(name), tmp_path / "copy"))

    return copy_run


@pytest.mark.parametrize("name", SCENARIOS)
def test_stored_run_verifies(stored: Callable[[str], Path], name: str) -> None:
    found = verify(stored(name))
    assert found.findings == []
    assert found.warning() is None
    assert bool(found.unchecked) == (name == "cut short")


# --- forgeries -------------------------------------------------------------------------------------------------------


def write_journal(path: Path, frame: pl.DataFrame) -> None:
    """Replace the journal, and the hash in the summary."""
    frame.write_parquet(path / "journal.parquet")
    records = [
        tuple(HopOutcome[row[name].upper()] if name == "outcome" else row[name] for name in RECORD.names or ())
        for row in frame.iter_rows(named=True)
    ]

    digest = blake2b(np.array(records, dtype=RECORD).tobytes(), digest_size=16).hexdigest()
    summary(journal_hash=digest, journal_rows=len(frame))(path)


def forge_row(path: Path) -> None:
    """Change the receiver of a hop."""
    frame = pl.read_parquet(path / "journal.parquet").with_row_index()
    other = pl.when(pl.col("index") == 3).then((pl.col("receiver") + 1) % 24).otherwise("receiver").cast(pl.Int32)
    write_journal(path, frame.with_columns(receiver=other).select(COLUMNS))


def drop_row(path: Path) -> None:
    """Remove a hop."""
    write_journal(path, pl.read_parquet(path / "journal.parquet")[:-1])


def swap_rows(path: Path) -> None:
    """Reverse the rows."""
    write_journal(path, pl.read_parquet(path / "journal.parquet").reverse())


def forge_table(name: str, changed_column: str) -> Spoil:
    """Change the values in a column of a table."""
    return column(name, changed_column, pl.col(changed_column) + 1)


FORGERIES: dict[str, Spoil] = {
    "journal and hash": forge_row,
    "a hop less": drop_row,
    "order": swap_rows,
    "hash": summary(journal_hash="0" * 32),
    "metric": summary(packets=24),
    "type": summary(packets="23"),
    "verdict": summary(verdict="violated"),
    "claims": summary(claims=[]),
    "no list": summary(claims={"a": 1}),
    "predicted": claim(predicted=3, measured=3),
    "judgement": claim(verdict="violated"),
    "topology": summary(topology="star:5"),
    "nodes": forge_table("nodes", "received"),
    "links": forge_table("links", "segments"),
    "steps": forge_table("steps", "virtual_seconds"),
    "no nodes": lambda path: (path / "nodes.parquet").unlink(),
    "scenario": edited("scenario.toml", "greedy-tree", "bfs-tree"),
    "crashes: faults": content("faults.json", "[]"),
    "crashes: cut off": summary(cut_off=[], cut_off_count=0),
    "byzantine: elections": forge_table("elections", "right"),
    "timed: served": content("served.json", "[]"),
    "timed: lateness": forge_table("timeline", "ended"),
}
"""The changes, after the name of the scenario unless that is `tree`."""


@pytest.mark.parametrize("name", FORGERIES)
def test_forgery_is_detected(copy: Callable[[str], Path], name: str) -> None:
    path = copy(name.partition(":")[0] if ":" in name else "tree")
    FORGERIES[name](path)
    found = verify(path)
    assert found.findings != []
    assert found.warning() is not None
    assert all("\n" not in finding for finding in found.findings)


def test_journal_of_another_run_is_detected(copy: Callable[[str], Path], stored: Callable[[str], Path]) -> None:
    path = copy("crashes")
    for name in ("journal.parquet", "nodes.parquet", "links.parquet", "steps.parquet", "summary.json"):
        shutil.copy(stored("tree") / name, path / name)
    assert verify(path).findings != []


# --- hostile and damaged files ---------------------------------------------------------------------------------------


HOSTILE: dict[str, tuple[Spoil, str]] = {
    "steps": (column("journal", "step", pl.lit(2**31 - 1, pl.Int32)), "step that are not within"),
    "astray": (column("journal", "port", pl.lit(999, pl.Int16)), "port that are not within"),
    "pipe": (pipe("journal.parquet"), "it is not a regular file"),
    "garbage": (content("journal.parquet", b"PAR1" * 100), "cannot be read"),
    "empty": (content("journal.parquet", b""), "cannot be read"),
    "truncated": (
        lambda path: (path / "journal.parquet").write_bytes((path / "journal.parquet").read_bytes()[:-9]), "cannot be read",
    ),
    "no summary": (lambda path: (path / "summary.json").unlink(), "no such file"),
    "list": (content("summary.json", "[]"), "expected an object"),
    "messages": (
        edited("scenario.toml", "messages = 1", "messages = 2147483647"),
        "a whole number from 1 to 1000000",
    ),
    "network": (edited("scenario.toml", "star:4", "star:12"), "nodes; at most"),
    "toml": (content("scenario.toml", "=" * 50), "it cannot be read: Invalid statement"),
    "unknown": (edited("scenario.toml", "star:4", "ring:4"), "invalid algorithm 'greedy-tree'"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused_before_they_are_read(copy: Callable[[str], Path], name: str) -> None:
    spoil, expected = HOSTILE[name]
    path = copy("tree")
    spoil(path)
    found = verify(path)
    assert expected in "; ".join(found.unchecked if name == "network" else found.findings)
    assert found.undecided == (name == "network")


def test_a_table_at_which_polars_panics_is_a_finding(
    stored: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does so at some damaged pages; the exception is no subclass of Exception."""

    def panic(*_: object, **__: object) -> None:
        raise pl.exceptions.PanicException("a damaged page")

    path = stored("tree")
    monkeypatch.setattr(pl, "scan_parquet", panic)
    assert verify(path).findings == ["journal.parquet: it cannot be read: a damaged page"]


def test_an_unreadable_file_is_a_finding(copy: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, *_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    path = copy("tree")
    monkeypatch.setattr("coordinator.history.stored.reading.read_bytes", refuse)
    assert verify(path).findings == ["summary.json: it cannot be read: Permission denied"]


@pytest.mark.parametrize("error", [ValueError, OverflowError, RuleError, pl.exceptions.ComputeError])
def test_an_error_of_this_software_is_not_a_finding(
    stored: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error("a mistake")

    monkeypatch.setattr(module, "conclude", fail)
    with pytest.raises(error, match="a mistake"):
        verify(stored("tree"))


def test_a_journal_with_too_many_rows_is_not_read(
    stored: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(untrusted, "MOST_ROWS", 5)
    found = verify(stored("tree"))
    assert (found.findings, found.undecided) == ([], True)
    assert found.unchecked == ["journal.parquet: 23 rows, and at most 5 are verified"]


def test_a_long_journal_is_verified_without_a_replay(
    stored: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REPLAYED_ROWS", 5)
    found = verify(stored("tree"))
    assert found.findings == []
    (note,) = found.unchecked
    assert note.startswith("journal.parquet: whether its hops are those of")
    assert note.endswith("23 rows are too many to replay (at most 5)")
    assert found.outcome == "verified but for what is not checked"


def test_the_parts_that_votes_decide_are_named(copy: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = copy("byzantine")
    assert verify(path).outcome.startswith("verified: ")
    monkeypatch.setattr(module, "REPLAYED_ROWS", 5)
    found = verify(path)
    assert [note.split(":")[0] for note in found.unchecked] == [
        "journal.parquet", "elections, nodes, steps .parquet, values and claims of summary.json",
    ]  # fmt: skip
    summary(packets=24)(path)
    assert verify(path).outcome == "verified but for what is not checked"
    monkeypatch.undo()
    assert verify(path).outcome == "does not verify"


@pytest.mark.parametrize("name", ["cut_off", "without_effect", "served_nodes"])
def test_a_missing_key_is_a_finding(copy: Callable[[str], Path], name: str) -> None:
    path = copy("tree")
    kept = {key: value for key, value in json.loads((path / "summary.json").read_text()).items() if key != name}
    (path / "summary.json").write_text(json.dumps(kept))
    assert verify(path).findings == [f"summary.json: {name} is missing"]


# --- commands --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", ["report --out report.html", "compare {good}", "export --graphml run.graphml"])
def test_commands_warn_of_runs_that_do_not_verify(
    call: Call, copy: Callable[[str], Path], stored: Callable[[str], Path], line: str
) -> None:
    good, bad = stored("tree"), copy("tree")
    line = line.format(good=good)
    ended = call(line, good)
    assert ended.status == 0
    assert "does not verify" not in ended.err
    forge_row(bad)
    ended = call(line, bad)
    assert ended.status == 0
    assert ended.err.startswith("warning: ")
    assert ended.err.count("does not verify") == 1
