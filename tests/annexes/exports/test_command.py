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


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("export gif nowhere a.gif", "invalid run 'nowhere'"),
        ("export msccl nowhere a.xml", "invalid run 'nowhere'"),
        ("export msccl sta:3 a.xml --algorithm edt", "invalid topology 'sta:3'"),
        ("export gif run", "--file requires an argument"),
        ("export lattice run a", "writes one of chakra, csv, "),
    ],
)
def test_a_command_refuses_what_it_cannot_write(call: Call, tmp_path: Path, line: str, message: str) -> None:
    ended = call(line)
    assert ended.status == 2
    assert message in ended.err
    assert not [*tmp_path.iterdir()]
