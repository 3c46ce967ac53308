"""Verification: forged, damaged and hostile run directories do not pass, correct ones do."""

import json
import os
import shutil
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from coordinator.cli.app import main
from coordinator.execution import verify as module
from coordinator.execution.verify import verify
from coordinator.history.journal import COLUMNS, RECORD
from coordinator.planning.plan import Plan
from emunode.errors import RuleError
from emunode.model import HopOutcome
from tests.support import run_scenario

SCENARIOS: dict[str, dict[str, object]] = {
    "tree": {"topology": "star:4", "collective": "broadcast", "algorithm": "greedy-tree"},
    "crashes": {
        "topology": "star:4", "collective": "scatter", "algorithm": "balanced-tree",
        "fault": ["crash:2134@1", "crash:3214@1"],
    },
    "liar": {
        "topology": "star:4", "collective": "broadcast", "algorithm": "edt", "redundancy": 3, "fault": ["byzantine:2134"],
    },
    "losses": {
        "topology": "hypercube:3", "collective": "allgather", "algorithm": "sbt",
        "fault": ["loss:000~001:0.5", "delay:010>011:2"],
    },
    "source": {"topology": "star:3", "collective": "broadcast", "algorithm": "edt", "fault": ["crash:123@1"]},
    "cut short": {"topology": "star:4", "collective": "broadcast", "algorithm": "greedy-tree", "step_limit": 2},
    "timed": {"topology": "hypercube:3", "collective": "broadcast", "algorithm": "sbt", "clock": "timed"},
    "odd": {"topology": "ej:1+2", "collective": "broadcast", "algorithm": "flood", "source": "1,0", "messages": 2},
    "reduce": {"topology": "hypercube:3", "collective": "reduce", "algorithm": "nesbt", "fault": ["hang:011@2-3"]},
}  # fmt: skip


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A run directory by the name of its scenario, created once."""
    folder = tmp_path_factory.mktemp("runs")

    def find(name: str) -> Path:
        path: Path = folder / name
        if not path.exists():
            run_scenario(path, **SCENARIOS[name])
        return path

    return find


@pytest.fixture
def copy(stored: Callable[[str], Path], tmp_path: Path) -> Callable[[str], Path]:
    """A copy of a stored run for changes."""

    def make(name: str) -> Path:
        return Path(shutil.copytree(stored(name), tmp_path / "copy"))

    return make


@pytest.mark.parametrize("name", SCENARIOS)
def test_stored_run_verifies(stored: Callable[[str], Path], name: str) -> None:
    found = verify(stored(name))
    assert found.findings == []
    assert found.warning() is None
    assert bool(found.unchecked) == (name == "cut short")


# --- forgeries -------------------------------------------------------------------------------------------------------


def change_summary(path: Path, **values: object) -> None:
    """Other values in the summary."""
    summary = json.loads((path / "summary.json").read_text())
    (path / "summary.json").write_text(json.dumps(summary | values))


def write_journal(path: Path, frame: pl.DataFrame) -> None:
    """Another journal, and the hash that fits it."""
    frame.write_parquet(path / "journal.parquet")
    records = [
        tuple(HopOutcome[row[name].upper()] if name == "outcome" else row[name] for name in RECORD.names or ())
        for row in frame.iter_rows(named=True)
    ]

    digest = blake2b(np.array(records, dtype=RECORD).tobytes(), digest_size=16).hexdigest()
    change_summary(path, journal_hash=digest, journal_rows=len(frame))


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


def forge_claim(path: Path) -> None:
    """Change a prediction."""
    claims = json.loads((path / "summary.json").read_text())["claims"]
    claims[0] |= {"predicted": 3, "measured": 3}
    change_summary(path, claims=claims)


def forge_judgement(path: Path) -> None:
    """Change the verdict of a claim."""
    claims = json.loads((path / "summary.json").read_text())["claims"]
    claims[0] |= {"verdict": "violated"}
    change_summary(path, claims=claims)


def forge_table(name: str, column: str) -> Callable[[Path], None]:
    """Change a value in a table."""

    def forge(path: Path) -> None:
        file = path / f"{name}.parquet"
        frame = pl.read_parquet(file)
        frame.with_columns((pl.col(column) + 1).cast(frame.schema[column])).write_parquet(file)

    return forge


FORGERIES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "journal and hash": ("tree", forge_row),
    "a hop less": ("tree", drop_row),
    "order": ("tree", swap_rows),
    "hash": ("tree", lambda path: change_summary(path, journal_hash="0" * 32)),
    "metric": ("tree", lambda path: change_summary(path, packets=24)),
    "type": ("tree", lambda path: change_summary(path, packets="23")),
    "verdict": ("tree", lambda path: change_summary(path, verdict="violated")),
    "claims": ("tree", lambda path: change_summary(path, claims=[])),
    "no list": ("tree", lambda path: change_summary(path, claims={"a": 1})),
    "predicted": ("tree", forge_claim),
    "judgement": ("tree", forge_judgement),
    "topology": ("tree", lambda path: change_summary(path, topology="star:5")),
    "nodes": ("tree", forge_table("nodes", "received")),
    "links": ("tree", forge_table("links", "segments")),
    "steps": ("tree", forge_table("steps", "virtual_seconds")),
    "no nodes": ("tree", lambda path: (path / "nodes.parquet").unlink()),
    "faults": ("crashes", lambda path: (path / "faults.json").write_text("[]")),
    "cut off": ("crashes", lambda path: change_summary(path, cut_off=[], cut_off_count=0)),
    "elections": ("liar", forge_table("elections", "right")),
    "lateness": ("timed", forge_table("timeline", "ended")),
    "scenario": (
        "tree",
        lambda path: (path / "scenario.toml").write_text(
            (path / "scenario.toml").read_text().replace("greedy-tree", "bfs-tree")
        ),
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forgery_is_detected(copy: Callable[[str], Path], name: str) -> None:
    scenario, forge = FORGERIES[name]
    path = copy(scenario)
    forge(path)
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


def journal_of(path: Path, **values: Any) -> None:
    """A journal in which some columns have another value everywhere."""
    frame = pl.read_parquet(path / "journal.parquet")
    literals = {name: pl.lit(value).cast(frame.schema[name]) for name, value in values.items()}
    frame.with_columns(**literals).write_parquet(path / "journal.parquet")


def text_journal(path: Path) -> None:
    """A journal with another type of column."""
    frame = pl.read_parquet(path / "journal.parquet")
    frame.with_columns(pl.lit("x" * 1000).alias("step")).write_parquet(path / "journal.parquet")


def scenario_with(path: Path, old: str, new: str) -> None:
    """Another scenario."""
    text = (path / "scenario.toml").read_text()
    assert old in text
    (path / "scenario.toml").write_text(text.replace(old, new))


def pipe(path: Path) -> None:
    """A named pipe without a writer."""
    (path / "journal.parquet").unlink()
    os.mkfifo(path / "journal.parquet")


HOSTILE: dict[str, tuple[Callable[[Path], object], str]] = {
    "steps": (lambda path: journal_of(path, step=2**31 - 1), "step that are not within"),
    "negative": (lambda path: journal_of(path, sender=-1), "sender that are not within"),
    "astray": (lambda path: journal_of(path, port=999), "port that are not within"),
    "types": (text_journal, "columns or types"),
    "pipe": (pipe, "no such file"),
    "garbage": (lambda path: (path / "journal.parquet").write_bytes(b"PAR1" * 100), "cannot be read"),
    "empty": (lambda path: (path / "journal.parquet").write_bytes(b""), "cannot be read"),
    "truncated": (
        lambda path: (path / "journal.parquet").write_bytes((path / "journal.parquet").read_bytes()[:-9]), "cannot be read",
    ),
    "numbers": (lambda path: change_summary(path, delivery_ratio=10**400), "delivery_ratio is 1000"),
    "no summary": (lambda path: (path / "summary.json").unlink(), "no such file"),
    "nested": (lambda path: (path / "summary.json").write_text("[" * 100_000), "not JSON"),
    "list": (lambda path: (path / "summary.json").write_text("[]"), "expected an object"),
    "large": (lambda path: os.truncate(path / "summary.json", 10**9), "bytes, and at most"),
    "messages": (lambda path: scenario_with(path, "messages = 1", "messages = 2147483647"), "less than or equal to 1000000"),
    "network": (lambda path: scenario_with(path, "star:4", "star:12"), "nodes; at most"),
    "toml": (lambda path: (path / "scenario.toml").write_text("=" * 50), "not TOML"),
    "unknown": (lambda path: scenario_with(path, "star:4", "ring:4"), "ring"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_and_damaged_files_are_refused_before_they_are_read(copy: Callable[[str], Path], name: str) -> None:
    spoil, expected = HOSTILE[name]
    path = copy("tree")
    spoil(path)
    found = verify(path)
    assert expected in "; ".join(found.findings)


def test_a_table_at_which_polars_panics_is_a_finding(
    stored: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does so at some damaged pages; the exception is no subclass of Exception."""

    def panic(*_: object, **__: object) -> None:
        raise pl.exceptions.PanicException("a damaged page")

    monkeypatch.setattr(pl, "scan_parquet", panic)
    assert verify(stored("tree")).findings == ["journal.parquet: it cannot be read: a damaged page"]


def test_an_unreadable_file_is_a_finding(copy: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, **_: object) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    path = copy("tree")
    monkeypatch.setattr(Path, "read_text", refuse)
    assert verify(path).findings == ["scenario.toml: it cannot be read: Permission denied"]


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
    monkeypatch.setattr(module, "MOST_ROWS", 5)
    assert "rows, and at most 5" in "; ".join(verify(stored("tree")).findings)


def test_a_long_journal_is_verified_without_a_replay(
    stored: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REPLAYED_ROWS", 5)
    found = verify(stored("tree"))
    assert found.findings == []
    assert "too many to replay" in "; ".join(found.unchecked)


def test_earlier_versions_counted_nodes_that_crash_after_the_last_step_as_faulty(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Plan, "effective_faults", property(lambda plan: plan.faults))
        result = run_scenario(tmp_path / "old", **SCENARIOS["tree"], fault=["crash:2134@9"])
    assert result.summary["expected_deliveries"] == 22
    summary = json.loads((result.path / "summary.json").read_text())
    for key in ("cut_off", "cut_off_count", "without_effect"):
        del summary[key]
    (result.path / "summary.json").write_text(json.dumps(summary))
    assert verify(result.path).findings == []


def test_run_of_an_earlier_version_verifies_with_unchecked_parts(copy: Callable[[str], Path]) -> None:
    path = copy("tree")
    summary = json.loads((path / "summary.json").read_text())
    for key in ("cut_off", "cut_off_count", "without_effect"):
        del summary[key]
    summary["claims"].append({"name": "steps", "predicted": 2, "relation": ">=", "measured": 4, "verdict": "holds"})
    (path / "summary.json").write_text(json.dumps(summary))
    found = verify(path)
    assert found.findings == []
    assert "an earlier version wrote it" in "; ".join(found.unchecked)
    assert "the algorithm does not claim" in "; ".join(found.unchecked)


# --- commands --------------------------------------------------------------------------------------------------------


def test_the_command_exits_with_one_for_a_run_that_does_not_verify(
    copy: Callable[[str], Path], stored: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = stored("liar"), copy("tree")
    assert main(["verify", str(good)]) == 0
    assert f"{good}: verified" in capsys.readouterr().out
    change_summary(bad, packets=24)
    assert main(["verify", str(good), str(bad)]) == 1
    assert "packets is 24, and the journal says 23" in capsys.readouterr().out
    assert main(["verify", str(bad), "--json"]) == 1
    (record,) = json.loads(capsys.readouterr().out)
    assert (record["run"], record["verified"]) == (str(bad), False)
    assert main(["verify", str(bad.parent / "nothing")]) == 2


def test_commands_warn_of_runs_that_do_not_verify(
    copy: Callable[[str], Path], stored: Callable[[str], Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    good, bad = stored("tree"), copy("tree")
    commands: list[Callable[[Path], list[str]]] = [
        lambda run: ["report", str(run), "--out", str(tmp_path / "report.html")],
        lambda run: ["compare", str(good), str(run)],
        lambda run: ["export", str(run), "--graphml", str(tmp_path / "run.graphml")],
    ]
    for command in commands:
        assert main(command(good)) == 0
        assert "does not verify" not in capsys.readouterr().err
    forge_row(bad)
    for command in commands:
        assert main(command(bad)) == 0
        error = capsys.readouterr().err
        assert error.startswith("warning: ")
        assert error.count("does not verify") == 1
