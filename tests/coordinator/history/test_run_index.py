"""The index of runs follows from the files of the runs, whatever else lies beside them, and is never half written."""

import json
import os
import re
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.history import run_index
from coordinator.history.run_index import INDEX, RunEntry, index_folder, read_runs, write_index
from coordinator.reports.index_page import MOST_SHOWN, index_page
from emunode import __version__
from emunode.errors import RunError
from tests.helpers.command_line import ROOT, SECONDS, fields
from tests.helpers.support import run_scenario

SUMMARY = {
    "version": __version__, "topology": "star:4", "collective": "broadcast", "algorithm": "edt", "driver": "memory",
    "clock": "steps", "seed": 3, "steps": 7, "verdict": "holds",
    "undecided_because": None, "faults": ["crash:2134@2"], "journal_hash": "00ff",
}  # fmt: skip


def add_run(root: Path, path: str, **values: object) -> Path:
    """Return a run directory with nothing but its summary."""
    folder = root / path
    folder.mkdir(parents=True)
    (folder / "summary.json").write_text(json.dumps({**SUMMARY, **values}))
    return folder


def listed(page: Path) -> list[str]:
    """The runs that the page shows, by the addresses of their reports."""
    return re.findall(r'<div><a href="([^"]*)/report.html">', page.read_text())


def stamp(number: int) -> str:
    return f"2026-01-01T00-00-{number // 1000:02}.{number % 1000:03}Z-0"


def test_runs_of_both_levels_are_found_newest_first(tmp_path: Path) -> None:
    add_run(tmp_path, "a/2026-01-01T00-00-00.000Z-0")
    add_run(tmp_path, "b/2026-03-01T12-30-15.250Z-7", verdict="undecided", undecided_because="interrupted")
    add_run(tmp_path, "a/2026-02-01T00-00-00.000Z-0")
    mine = add_run(tmp_path, "mine")
    os.utime(mine / "summary.json", (0, 0))
    (tmp_path / "a" / "latest").symlink_to("2026-02-01T00-00-00.000Z-0")
    runs = read_runs(tmp_path)
    assert [run.path for run in runs] == [
        "b/2026-03-01T12-30-15.250Z-7", "a/2026-02-01T00-00-00.000Z-0", "a/2026-01-01T00-00-00.000Z-0", "mine",
    ]  # fmt: skip
    assert [run.time for run in runs[:1] + runs[-1:]] == ["2026-03-01T12:30:15.250Z", "1970-01-01T00:00:00.000Z"]
    assert (runs[0].verdict, runs[0].undecided_because, runs[0].seed, runs[0].faults) == (
        "undecided", "interrupted", 3, "crash:2134@2",
    )  # fmt: skip


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b'{"verdict": 3, "topology": "x"}', b"\xff\xfe", b"[" * 100_000]
)
def test_a_broken_or_foreign_folder_is_skipped(tmp_path: Path, content: bytes) -> None:
    add_run(tmp_path, "good")
    broken = add_run(tmp_path, "broken")
    (broken / "summary.json").write_bytes(content)
    (tmp_path / "file").touch()
    (tmp_path / "empty" / "inner").mkdir(parents=True)
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / ".partial-1-index.html").touch()
    add_run(tmp_path, ".partial-1-x")
    assert listed(write_index(tmp_path, index_page)) == ["good"]


def test_an_update_reads_only_what_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        add_run(tmp_path, f"a/{stamp(number)}")
    write_index(tmp_path, index_page)
    add_run(tmp_path, f"a/{stamp(3)}")
    changed = tmp_path / "a" / stamp(0) / "summary.json"
    changed.write_text(json.dumps({**SUMMARY, "verdict": "violated"}))
    os.utime(changed, (1, 1))
    read: list[str | bytes] = []
    loads = json.loads

    def loads_counted(text: str | bytes, **options: Any) -> object:
        read.append(text)
        return loads(text, **options)

    monkeypatch.setattr("json.loads", loads_counted)
    page = write_index(tmp_path, index_page)
    assert len(read) == 2, "the new run and the changed one"
    assert listed(page) == [f"a/{stamp(number)}" for number in (3, 2, 1, 0)]
    assert page.read_text().count('<td class="state violated">') == 1


def test_the_page_is_made_again_from_the_runs_alone(tmp_path: Path) -> None:
    for number in range(3):
        add_run(tmp_path, f"a/{stamp(number)}")
    page = write_index(tmp_path, index_page)
    whole = page.read_text()
    page.unlink()
    assert write_index(tmp_path, index_page).read_text() == whole
    # What the page holds is believed only if every value has its type.
    page.write_text(re.sub(r'("steps":)7', r'\1"7"', whole))
    assert write_index(tmp_path, index_page).read_text() == whole
    page.write_text(whole.replace("star:4", "star:9"))
    assert write_index(tmp_path, index_page, fresh=True).read_text() == whole
    page.write_text(whole[: len(whole) // 2])
    assert write_index(tmp_path, index_page).read_text() == whole


def test_a_page_of_another_origin_is_kept(tmp_path: Path) -> None:
    (tmp_path / INDEX).write_text("<html>mine</html>")
    with pytest.raises(RunError, match="not an index of runs"):
        write_index(tmp_path, index_page)
    assert (tmp_path / INDEX).read_text() == "<html>mine</html>"
    assert [path.name for path in tmp_path.iterdir()] == [INDEX]


def test_old_runs_are_counted(tmp_path: Path) -> None:
    add_run(tmp_path, "one")
    (entry,) = read_runs(tmp_path)
    page = index_page([entry] * (MOST_SHOWN + 2))
    assert page.count('<td class="run">') == MOST_SHOWN
    assert "1,002 runs, newest first" in page
    assert "2 older: " in page


def test_the_page_says_what_differs_from_defaults(tmp_path: Path) -> None:
    scenario = "star:3 broadcast edt redundancy=2 reliable=True packet_limit=100 startup=5ms"
    run_scenario(tmp_path / "one", **fields(scenario))
    (entry,) = read_runs(tmp_path)
    assert "memory, over 2 trees, start-up 5ms, packets of at most 100 bytes, reliable links" in index_page([entry])
    (tmp_path / "one" / "scenario.toml").write_text("not TOML")
    (damaged,) = read_runs(tmp_path)
    assert damaged.options == {}


@given(text=st.text(max_size=30), path=st.text(st.characters(exclude_characters="/\0", codec="utf-8"), min_size=1))
def test_no_text_becomes_markup(text: str, path: str) -> None:
    words = dict.fromkeys(run_index.WORDS, text + '</script><img src="x"><script>')
    entry = RunEntry(
        path=path,
        time=text,
        **words,
        faults=text,
        fault_count=1,
        seed=1,
        redundancy=None,
        segments=None,
        options={"startup": words["driver"], "reliable": True},
        steps=None,
        packets=None,
        delivered=3,
        expected=4,
        has_picture=False,
        version=__version__,
        modified=2,
    )
    page = index_page([entry])
    assert page.count("<script") == index_page([]).count("<script")
    assert '<img src="x"' not in page
    data = page.partition(run_index.DATA_BEGIN)[2].partition(run_index.DATA_END)[0]
    assert json.loads(data) == [{**entry.__dict__}]


def test_only_runs_in_the_folder_of_runs_are_listed(empty_folder: Path) -> None:
    runs = empty_folder / "runs"
    assert index_folder(runs / "net" / stamp(0)) == runs
    assert index_folder(runs / "mine") == runs
    assert index_folder(runs / "deep" / "deeper" / "mine") is None
    assert index_folder(empty_folder / "elsewhere") is None
    assert index_folder(runs) is None


# --- several processes -----------------------------------------------------------------------------------------------

WRITE = """
import json, os, sys
from pathlib import Path
from coordinator.history.run_index import write_index
from coordinator.reports.index_page import index_page
root, (name, *others), count = Path(sys.argv[1]), sys.argv[2].split(), int(sys.argv[3])
{patch}
print("ready", flush=True)
input()
children = []
for other in others:
    children.append(os.fork())
    if not children[-1]:
        name, children = other, []
        break
for number in range(count):
    folder = root / name / str(number)
    folder.mkdir(parents=True)
    (folder / "summary.json").write_text(sys.argv[4])
    write_index(root, index_page)
sys.exit(any(os.waitpid(child, 0)[1] for child in children))
"""
HALT_BEFORE_RENAMING = "Path.replace = lambda *_: (print('halted', flush=True), input())"


def writer(root: Path, names: str, count: int, patch: str = "") -> subprocess.Popen[str]:
    """Return a process that adds runs and updates the index after each of them, once it is given a line.

    For each further name it does so in a forked process.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", WRITE.format(patch=patch), root, names, str(count), json.dumps(SUMMARY)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def begin(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def test_two_processes_write_the_index_at_once(tmp_path: Path) -> None:
    writers = writer(tmp_path, "a b", 8)
    begin(writers)
    seen, deadline = 0, time.monotonic() + SECONDS
    while writers.returncode is None:
        assert time.monotonic() < deadline
        with suppress(subprocess.TimeoutExpired):
            writers.wait(0.01)
        if (tmp_path / INDEX).exists():
            assert (tmp_path / INDEX).read_text().endswith("</html>")
            assert len(listed(tmp_path / INDEX)) >= seen, "a run was lost"
            seen = len(listed(tmp_path / INDEX))
    assert writers.returncode == 0
    assert sorted(listed(tmp_path / INDEX)) == sorted(f"{name}/{number}" for name in "ab" for number in range(8))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", INDEX]
    writers.communicate()


def test_a_killed_writer_leaves_a_valid_index(tmp_path: Path) -> None:
    add_run(tmp_path, "old")
    before = write_index(tmp_path, index_page).read_text()
    with writer(tmp_path, "new", 1, HALT_BEFORE_RENAMING) as process:
        begin(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "halted\n"
        assert (tmp_path / f".partial-{process.pid}-{INDEX}").exists()
        process.kill()
    assert (tmp_path / INDEX).read_text() == before
    # Its lock ended with it.
    assert sorted(listed(write_index(tmp_path, index_page))) == ["new/0", "old"]


def test_a_lock_is_not_waited_for_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_index, "LOCK_SECONDS", 0.02)
    with run_index._locked(tmp_path), pytest.raises(RunError, match="another run has been writing it"):
        write_index(tmp_path, index_page)
