"""`coordinator report` and `export`: the files that they write."""

from pathlib import Path

import pytest

from tests.helpers.command_line import Call

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


@pytest.mark.parametrize(
    ("what", "form"),
    [
        ("export goal {run} new", "export {run} --goal old"),
        ("export trace {run} new.json", "export {run} --trace old.json"),
        (
            "export graphml star:3 new --algorithm edt --source 213",
            "export --graphml old --topology star:3 --algorithm edt --source 213",
        ),
        (
            "export msccl ring:4 new --collective allgather --algorithm ring",
            "export --msccl old --topology ring:4 --collective allgather --algorithm ring",
        ),
    ],
)
def test_a_command_writes_what_its_flag_wrote(call: Call, tmp_path: Path, what: str, form: str) -> None:
    call(f"run {FLOOD} --out stored")
    outputs = [call(line.format(run="stored")) for line in (what, form)]
    assert [ended.status for ended in outputs] == [0, 0]
    assert outputs[0].out == outputs[1].out.replace("old", "new")
    new, old = (next(tmp_path.glob(f"{name}*")).read_bytes() for name in ("new", "old"))
    assert new == old
