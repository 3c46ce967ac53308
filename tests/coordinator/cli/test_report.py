"""`coordinator report`: the report of a stored run, drawn again."""

from pathlib import Path

import pytest

from tests.helpers.command_line import Call
from tests.helpers.scenarios import Case
from tests.helpers.support import run_and_draw


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Provide a stored run with its report."""
    return run_and_draw(tmp_path / "run", **Case("star:3 broadcast edt").values).path


def test_the_report_is_drawn_again(run: Path, call: Call) -> None:
    page = run / "report.html"
    before = page.read_bytes()
    page.unlink()
    ended = call("report", run)
    assert (ended.status, ended.out, ended.err) == (0, f"{page}\n", "")
    assert page.read_bytes() == before


def test_another_file_leaves_the_run_alone(run: Path, call: Call, tmp_path: Path) -> None:
    before = sorted(path.name for path in run.iterdir())
    assert call("report", run, "--out", tmp_path / "page.html", "--json").data == {
        "written": str(tmp_path / "page.html")
    }
    assert (tmp_path / "page.html").read_bytes() == (run / "report.html").read_bytes()
    assert sorted(path.name for path in run.iterdir()) == before
