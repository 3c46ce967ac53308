"""`coordinator report` and `export`: the files that they write."""

from pathlib import Path

from tests.command_line import Call

FLOOD = "--topology star:3 --collective broadcast --algorithm flood --driver memory"


def test_report_and_export_print_the_files_that_they_write(call: Call, tmp_path: Path) -> None:
    path = call(f"run {FLOOD} --json").data["path"]
    assert call("report --json", path).data == {"written": str(tmp_path / path / "report.html")}
    assert call("export --graphml a.graphml --goal a.goal --json", path).data == {
        "written": {"graphml": "a.graphml", "goal": "a.goal"}
    }
    assert call("export --graphml b.graphml", path).out == "wrote graphml: b.graphml\n"
    assert call("export --topology star:3 --graphml c.graphml").out == "wrote graphml: c.graphml\n"
    assert all((tmp_path / name).stat().st_size for name in ("a.graphml", "a.goal", "b.graphml", "c.graphml"))
