"""`coordinator list runs` and `open`, and the index that every run updates."""

import signal
import sys
from pathlib import Path

import pytest

from coordinator.api.console import PlainConsole
from coordinator.cli import render, runs
from coordinator.history.stored.writing import replace_file
from tests.helpers.command_line import Call, command, run_process

FLOOD = "--topology star:3 --collective broadcast --algorithm flood --driver memory"


@pytest.fixture(autouse=True)
def no_display(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in runs.DISPLAYS:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Provide the addresses that a browser was given; there is one."""
    addresses: list[str] = []
    monkeypatch.setenv("BROWSER", "some")

    def open_address(address: str) -> bool:
        addresses.append(address)
        return True

    monkeypatch.setattr("webbrowser.open", open_address)
    return addresses


@pytest.mark.draws
def test_every_run_updates_the_index(call: Call, tmp_path: Path) -> None:
    first = call(f"run {FLOOD} --json").data["path"]
    second = call(f"run {FLOOD} --seed 7 --fault crash:213@1 --json").data["path"]
    third = call(f"run {FLOOD} --out runs/mine --json").data["path"]
    assert call(f"run {FLOOD} --out elsewhere").status == 0
    page = (tmp_path / "runs" / "index.html").read_text()
    for run in (first, second, Path(third).relative_to(tmp_path)):
        assert f'href="{Path(run).relative_to("runs")}/report.html"' in page
        assert (Path(run) / "thumbnail.svg").read_text().startswith("<svg")
    assert page.count('<td class="run">') == 3
    assert '<td class="faults">crash:213@1</td>' in page
    assert not (tmp_path / "index.html").exists()
    ended = call("list runs --json")
    assert [run["path"] for run in ended.data] == ["runs/mine", second, first]
    assert [run["seed"] for run in ended.data] == [0, 7, 0]


def test_a_run_is_complete_even_if_the_index_cannot_be_written(call: Call, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "index.html").write_text("mine")
    ended = call(f"run {FLOOD}")
    assert ended.status == 0
    assert "the index of runs was not updated: " in ended.out
    assert (tmp_path / "runs" / "index.html").read_text() == "mine"


def test_the_list_fits_80_columns(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert call("list runs").out == "no runs in runs\n"
    for seed in range(3):
        call(f"run {FLOOD} --seed {seed} --name a-name-with-hyphens-and-more-of-them")
    folder = "a-name-with-hyphens-and-more-of-them/2"
    whole = call("list runs --last 2").out.splitlines()
    assert sum(folder in line for line in whole) == 2
    assert whole[0].split() == ["run", "delivered", "steps", "packets", "faults", "seed", "verdict"]
    assert [line.split()[-2] for line in whole if "holds" in line] == ["2", "1"]
    assert whole[-1] == "and 1 older run: --last 0 lists all"
    monkeypatch.setenv("COLUMNS", "80")
    lines = call("list runs --last 2").out.splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith(" a-name-with-hyphens-") for line in lines) == 2
    assert sum("holds" in line for line in call("list runs --last 0").out.splitlines()) == 3


def test_runs_are_filtered_sorted_and_grouped(call: Call) -> None:
    for name, flags in {"three": "", "two": "--fault crash:213@1", "four": "--message-bytes 9"}.items():
        line = FLOOD.replace("star:3", "star:4") if name == "four" else FLOOD
        assert call(f"run {line} --name {name} {flags}").status in (0, 3)

    def listed(flags: str) -> list[str]:
        return [run["path"].split("/")[1] for run in call(f"list runs --json {flags}").data]

    assert listed("") == ["four", "two", "three"]
    assert listed("--sort packets") == ["two", "three", "four"]
    assert listed("--sort run") == ["four", "three", "two"]
    assert listed("--filter 'STAR:3 crash'") == ["two"]
    assert listed("--sort time --last 1 --filter star:3") == ["two"]
    text = call("list runs --group topology").out
    assert text.index("star:4") < text.index("four/") < text.index("star:3") < text.index("two/")
    assert "no runs that contain 'star:9'" in call("list runs --filter star:9").out


def test_open_shows_the_newest_run(call: Call, tmp_path: Path, opened: list[str]) -> None:
    call(f"run {FLOOD}")
    path = tmp_path / call(f"run {FLOOD} --seed 1 --json").data["path"]
    ended = call("open")
    assert (ended.status, ended.out, ended.err) == (0, f"{path}/report.html\n", "")
    # A report that is missing is drawn.
    (path / "report.html").unlink()
    assert call("open star-3-broadcast-flood --json").data == {"page": f"{path}/report.html", "opened": True}
    assert (path / "report.html").exists()
    (tmp_path / "runs" / "index.html").unlink()
    assert call("open --index").out == "runs/index.html\n"
    assert opened == [(path / "report.html").as_uri()] * 2 + [(tmp_path / "runs" / "index.html").as_uri()]


def test_clean_removes_what_was_half_written_elsewhere(call: Call, tmp_path: Path) -> None:
    """A process is killed while it replaces a file, such as metrics; `clean` is called in another folder."""
    (tmp_path / "far").mkdir()
    target = tmp_path / "far" / "run.prom"
    replace_file(target, "old")
    halted = (
        "import os, signal; from pathlib import Path; from coordinator.history.stored.writing import replace_file; "
        "Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL); "
        f"replace_file(Path({str(target)!r}), 'new')"
    )
    assert run_process(tmp_path, [sys.executable, "-c", halted]).status == -signal.SIGKILL
    assert target.read_text() == "old"
    (left,) = (path for path in target.parent.iterdir() if path != target)
    assert call("clean --json").data == {"removed": [str(left.relative_to(tmp_path))], "elsewhere": 0}
    assert [path.name for path in target.parent.iterdir()] == ["run.prom"]
    assert call("clean").out == "nothing to clean\n"


def test_run_opens_its_report(call: Call, tmp_path: Path, opened: list[str]) -> None:
    path = tmp_path / call(f"run {FLOOD} --open --json").data["path"]
    assert opened == [(path / "report.html").as_uri()]


def test_without_a_display_the_path_is_printed(call: Call, tmp_path: Path) -> None:
    path = tmp_path / call(f"run {FLOOD} --json").data["path"]
    ended = call("open")
    assert (ended.status, ended.out) == (0, f"{path}/report.html\n")
    assert ended.err.startswith("not opened: this machine has no display")
    assert call("open --json").data["opened"] is False
    ended = call(f"run {FLOOD} --open --out here")
    assert ended.status == 0
    assert f"{tmp_path}/here/report.html: not opened: " in ended.err


def as_terminal(output: render.TextOutput) -> None:
    """Begin an output that is a terminal."""
    output.is_terminal, output._console = True, PlainConsole(width=200)


def test_a_terminal_shows_the_address_of_the_report(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "file:" not in call(f"run {FLOOD}").out
    monkeypatch.setattr(render.TextOutput, "__init__", as_terminal)
    address = call(f"run {FLOOD} --out 'a b'").out.splitlines()[-1].removeprefix("report: ")
    assert address == (tmp_path / "a b" / "report.html").as_uri()


def test_a_browser_that_fails_is_reported(call: Call, tmp_path: Path) -> None:
    path = call(f"run {FLOOD} --json").data["path"]
    # A path without browsers: `webbrowser` would try others.
    ended = run_process(tmp_path, command("coordinator open"), BROWSER="/bin/false", PATH="")
    assert (ended.status, ended.out) == (0, f"{tmp_path / path}/report.html\n")
    assert "no browser could be started" in ended.err
