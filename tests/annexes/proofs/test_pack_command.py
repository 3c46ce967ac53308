"""`coordinator pack`: archives of runs and certificates."""

import json
import zipfile
from pathlib import Path

from tests.annexes.proofs.archives_support import CHECKER, judge
from tests.helpers.command_line import Call
from tests.helpers.scenarios import Case


def test_a_run_is_packed_with_digests(call: Call, tmp_path: Path) -> None:
    run = Case("star:3 broadcast edt").stored(tmp_path / "run").path
    ended = call("pack", run, "run.zip")
    assert (ended.status, ended.out, ended.err) == (0, "run.zip\n", "")
    with zipfile.ZipFile(tmp_path / "run.zip") as archive:
        assert archive.testzip() is None
        assert {"scenario.toml", "journal.csv"} <= {Path(name).name for name in archive.namelist()}
    assert call("pack", run, "again.zip", "--json").data == {"written": "again.zip"}
    assert (tmp_path / "again.zip").read_bytes() == (tmp_path / "run.zip").read_bytes()
    assert judge(CHECKER, tmp_path / "run.zip").status == 0
    refused = call("pack", run, "missing/run.zip")
    assert (refused.status, refused.err.count("\n")) == (2, 1)
    (run / "journal.parquet").unlink()
    refused = call("pack", run, "again.zip")
    assert (refused.status, "it cannot be packed: journal.parquet: no such file" in refused.err) == (2, True)


def test_an_altered_run_is_packed_with_a_warning(call: Call, tmp_path: Path) -> None:
    run = Case("star:3 broadcast edt").stored(tmp_path / "run").path
    summary = json.loads((run / "summary.json").read_text())
    (run / "summary.json").write_text(json.dumps(summary | {"packets": 99}))
    ended = call("pack", run, "run.zip")
    assert ended.status == 0
    assert ended.err.startswith("warning: ")
    assert "does not verify" in ended.err


def test_other_files_are_refused(call: Call, tmp_path: Path) -> None:
    (tmp_path / "letter.json").write_text("dear")
    (tmp_path / "empty.json").write_text("{}")
    for name in ("nothing", "letter.json", "empty.json"):
        ended = call(f"pack {name} out.zip")
        assert (ended.status, ended.out) == (2, "")
        assert name in ended.err
    assert "it cannot be packed: not a certificate" in ended.err
    assert not (tmp_path / "out.zip").exists()
