"""Every file of a stored run is compared, or named as not checked; pages must say what the run says."""

import shutil
from pathlib import Path

import pytest

from coordinator.api.verification import verify
from coordinator.execution import stored_pages
from coordinator.execution.stored_pages import LOG
from emunode import __version__
from tests.helpers.command_line import fields
from tests.helpers.support import run_and_draw

SCENARIOS = {
    "steps": "star:3 broadcast greedy-tree fault=crash:213@2",
    "timed": "hypercube:2 broadcast sbt clock=timed",
    "votes": "star:3 broadcast edt redundancy=2 fault=byzantine:213",
    "numbers": "ring:4 reduce bfs-tree values=float32 message_bytes=8",
    "undecided": "star:4 broadcast greedy-tree step_limit=2",
}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    return {name: run_and_draw(folder / name, **fields(scenario)).path for name, scenario in SCENARIOS.items()}


@pytest.mark.parametrize("name", SCENARIOS)
def test_no_file_can_be_changed_unnoticed(stored: dict[str, Path], name: str, tmp_path: Path) -> None:
    files = sorted(path.name for path in stored[name].iterdir())
    assert {"report.html", "thumbnail.svg", "summary.json", LOG} < set(files)
    for file in files:
        copy = Path(shutil.copytree(stored[name], tmp_path / file / name))
        with (copy / file).open("ab") as opened:
            opened.write(b"\n# more" if file.endswith("toml") else b"<!-- more -->")
        found = verify(copy)
        named = [line for line in (*found.findings, *found.unchecked) if line.startswith(f"{file}: ")]
        if file == LOG:
            assert found.statement.endswith(f"; {LOG} is not checked") or name == "undecided"
        elif file != "scenario.toml":  # a comment changes no scenario
            assert named, file


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_run_verifies_under_another_name(stored: dict[str, Path], name: str, tmp_path: Path) -> None:
    moved = Path(shutil.copytree(stored[name], tmp_path / "a name with <letters> & more"))
    assert verify(moved).findings == []


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("report.html", "holds", "violated"),
        ("report.html", "1 segment", "2 segments"),
        ("report.html", "Run steps.", "Run <script>alert(1)</script>."),
        ("thumbnail.svg", "#d55e00", "#009e73"),
    ],
)
def test_a_page_that_says_something_else_is_a_finding(
    stored: dict[str, Path], tmp_path: Path, file: str, old: str, new: str
) -> None:
    copy = Path(shutil.copytree(stored["steps"], tmp_path / "steps"))
    text = (copy / file).read_text()
    assert old in text
    (copy / file).write_text(text.replace(old, new))
    assert verify(copy).findings == [f"{file}: differs from the run; `coordinator report` draws it again"]


def test_digits_that_a_library_rounds_otherwise_are_no_finding(stored: dict[str, Path], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(stored["steps"], tmp_path / "steps"))
    text = (copy / "thumbnail.svg").read_text()
    places = stored_pages.DECIMAL.findall(text)
    for shift, findings in ((0.01, 0), (1.0, 1)):
        (copy / "thumbnail.svg").write_text(text.replace(places[0], f"{float(places[0]) + shift:.2f}"))
        assert len(verify(copy).findings) == findings


def test_pages_of_another_version_and_foreign_files_are_named(
    stored: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = Path(shutil.copytree(stored["steps"], tmp_path / "steps"))
    (copy / "notes.txt").touch()
    (copy / "report.html").write_text("of a later patch")
    monkeypatch.setattr(stored_pages, "__version__", f"{__version__}.1")
    found = verify(copy)
    assert found.findings == []
    assert found.unchecked == ["notes.txt: it is not a file of a run", "report.html: another version drew it"]
    assert found.outcome == "verified but for what is not checked"
