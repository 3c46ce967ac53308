"""Folders that somebody else has made: no command writes through a symbolic link, and readers see whole files."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.execution.verify import verify
from coordinator.history.stored.left_behind import partial_of
from coordinator.history.stored.writing import open_to_append, replace_file, replacing
from tests.helpers.command_line import Call, fields
from tests.helpers.support import run_and_draw

PRECIOUS = "a file of somebody else\n"


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Path]:
    """Provide a file that links lead to; it must not change."""
    path = tmp_path / "precious"
    path.write_text(PRECIOUS)
    yield path
    assert path.read_text() == PRECIOUS
    assert path.stat().st_nlink == 1


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return run_and_draw(tmp_path / "run", **fields("star:3 broadcast edt")).path


def link(path: Path, target: Path) -> Path:
    path.unlink(missing_ok=True)
    path.symlink_to(target)
    return path


# --- the function ----------------------------------------------------------------------------------------------------


def test_a_link_is_replaced(tmp_path: Path, target: Path) -> None:
    path = link(tmp_path / "page.html", target)
    replace_file(path, "new")
    assert (path.is_symlink(), path.read_text()) == (False, "new")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["page.html", "precious"]


def test_a_link_named_as_the_unfinished_file_is_not_followed(tmp_path: Path, target: Path) -> None:
    path = tmp_path / "page.html"
    link(partial_of(path), target)
    replace_file(path, ["a", "b"])
    assert path.read_text() == "ab"
    assert not partial_of(path).exists()


def test_an_exception_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "table"
    replace_file(path, b"old")
    with pytest.raises(ZeroDivisionError), replacing(path) as file:
        file.write(b"new" * (1 // 0))
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("table", b"old")]


def test_named_devices_and_pipes_are_written_in_place(tmp_path: Path) -> None:
    replace_file(Path("/dev/null"), "nothing")
    assert Path("/dev/null").is_char_device()
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    replace_file(path, "words", named=True)
    assert os.read(reader, 100) == b"words"
    os.close(reader)
    assert path.is_fifo()


def test_a_pipe_without_a_name_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    os.mkfifo(path)
    replace_file(path, "words")
    assert path.read_text() == "words"


def test_a_folder_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        replace_file(tmp_path, "new")


def test_nothing_is_appended_through_a_link_or_to_a_pipe(tmp_path: Path, target: Path) -> None:
    with pytest.raises(OSError, match="records is a symbolic link"):
        open_to_append(link(tmp_path / "records", target))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="pipe is not a regular file"):
        open_to_append(tmp_path / "pipe")


# --- commands --------------------------------------------------------------------------------------------------------

RUN = "run --topology star:3 --collective broadcast --algorithm edt --driver memory --quiet"


def test_a_report_is_not_written_through_links(call: Call, run: Path, target: Path) -> None:
    for name in ("report.html", "thumbnail.svg"):
        link(run / name, target)
    assert call("report", run).status == 0
    assert "<html" in (run / "report.html").read_text()
    assert not any((run / name).is_symlink() for name in ("report.html", "thumbnail.svg"))


@pytest.mark.parametrize(
    "line",
    [
        "report {run} --out {out}",
        "compare {run} {run} --out {out}",
        "compare {run} {run} --plot {out}.svg",
        "export {run} --goal {out}",
        "export {run} --graphml {out}",
        "export {run} --trace {out}",
        "graph star:3 --picture {out}.svg",
        "certify --topology star:3 --algorithm edt --redundancy 2 --faults nodes=1 --out {out}.json",
        RUN + " --metrics {out}",
    ],
)
def test_files_are_not_written_through_links(line: str, call: Call, run: Path, tmp_path: Path, target: Path) -> None:
    links = [link(tmp_path / f"out{suffix}", target) for suffix in ("", ".svg", ".json")]
    ended = call(line.format(run=run, out=tmp_path / "out"))
    assert ended.status == 0, ended.err
    assert sum(not path.is_symlink() for path in links) == 1


def test_campaigns_and_sweeps_are_not_written_through_links(call: Call, tmp_path: Path, target: Path) -> None:
    lines = {
        "campaign": "campaign --topology star:3 --algorithm edt --faults nodes=1 --trials 4 --engine messages --out",
        "sweep": "sweep --topology star:3 --algorithm edt --out",
    }
    for kind, line in lines.items():
        folder = tmp_path / kind
        assert call(line, folder).status == 0
        appended = {"campaign": ("trials.jsonl", "log.jsonl"), "sweep": ("rows.jsonl",)}[kind]
        replaced = [path for path in folder.iterdir() if path.name not in (*appended, "campaign.toml", "sweep.toml")]
        assert len(replaced) >= 3
        for path in replaced:
            link(path, target)
        assert call(line, folder).status == 0
        assert verify_links(folder) == []
        for name in appended:
            spoilt = Path(shutil.copytree(folder, tmp_path / f"{kind}-{name}"))
            (spoilt / appended[0]).write_text("")  # something is left to run
            link(spoilt / name, target)
            refused = call(line, spoilt)
            assert (refused.status, len(refused.err.splitlines())) == (2, 1)
            assert "symbolic link" in refused.err


def verify_links(folder: Path) -> list[str]:
    """Return the links in a folder."""
    return [path.name for path in folder.rglob("*") if path.is_symlink()]


def test_links_in_a_run_directory_are_findings(run: Path, tmp_path: Path, target: Path) -> None:
    link(run / "report.html", target)
    link(run / "more", tmp_path)
    found = verify(run)
    assert found.findings == ["more: it is a symbolic link", "report.html: it is a symbolic link"]


@pytest.mark.usefixtures("empty_folder")
def test_a_folder_of_runs_that_is_a_link_is_refused(call: Call, run: Path) -> None:
    elsewhere = run.parent / "elsewhere"
    elsewhere.mkdir()
    Path("runs").mkdir()
    Path("runs/mine").symlink_to(elsewhere)
    for line in (f"{RUN} --name mine", f"{RUN} --out runs/mine/x"):
        ended = call(line)
        assert ended.status == 2
        assert "runs/mine is a symbolic link; name the folder that it leads to" in ended.err
    Path("runs/other").symlink_to(run)
    for line in ("report other", "report runs/other", "verify other", "compare other other", "open other"):
        ended = call(line)
        assert ended.status == 2
        assert "runs/other is a symbolic link" in ended.err
    assert list(elsewhere.iterdir()) == []


@pytest.mark.usefixtures("empty_folder")
def test_latest_is_followed_to_a_folder_beside_it_only(call: Call, run: Path) -> None:
    assert call(RUN).status == 0
    (folder,) = (path for path in Path("runs").iterdir() if path.is_dir())
    assert call("verify", folder).status == 0
    link(folder / "latest", run)
    ended = call("verify", folder)
    assert ended.status == 2
    assert "latest is a symbolic link" in ended.err


@pytest.mark.usefixtures("empty_folder")
def test_the_index_does_not_replace_a_page_that_is_a_link(call: Call, target: Path) -> None:
    assert call(RUN).status == 0
    link(Path("runs/index.html"), target)
    ended = call("open --index")
    assert ended.status == 4
    assert "it is a symbolic link" in ended.err
    assert json.loads(call("list runs --json").out)
