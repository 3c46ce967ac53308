"""The view of a run on a terminal: its lines, their bounds, and when it is shown."""

import io
import os
import pty
import re
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console

from coordinator.cli import run_view
from coordinator.cli.run_view import MOST_HOSTS, RunView
from coordinator.execution.observer import RunObserver
from emunode.net.wire import ROW
from tests.helpers.command_line import SECONDS, Call, command, environment, fields, flags
from tests.helpers.scenarios import Case

FLOOD = fields("star:3 broadcast flood driver=memory")


def observer_of(scenario: str) -> RunObserver:
    return RunObserver(Case(scenario).plan)


def lines_of(view: RunView, width: int = 80) -> list[str]:
    file = io.StringIO()
    Console(file=file, width=width, force_terminal=True, color_system=None, highlight=False).print(view.render())
    return [line.rstrip() for line in file.getvalue().splitlines()]


def rows(receivers: list[int], *, step: int = 1, outcome: int = 0) -> list[bytes]:
    return [ROW.pack(step, 0, receiver, 0, -1, 0, 64, 0, 0, outcome) for receiver in receivers]


def test_it_shows_what_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    observer = observer_of("star:3 broadcast flood driver=local ranks_per_host=3 fault=crash:213@2 fault=crash:321@9")
    view = RunView(observer)
    assert lines_of(view)[:2] == [f"{'permutation star graph S_3: broadcast by flood':<76} 0 s", "setting up"]
    observer.progress("hosts joined", 2, 2)
    observer.progress("links up", 6, 6)
    observer.counters.add([*rows([1, 2, 3, 4, 4]), *rows([1], step=2, outcome=3)])
    observer.progress("steps", 1, 0)
    observer.progress("steps", 2, 0)
    observer.progress("steps", 3, 0)  # nothing is sent: nodes read what came in step 2
    now = 102.0
    shown = lines_of(view)
    assert shown[0].endswith(" 2 s")
    assert shown[1:3] == [
        "step 2, 2 packets, 5 segments delivered, 1 lost",
        "2 of 2 hosts, 6 links, 1 of 2 faults in force",
    ]
    # Ranks 0 to 2 are on host 0, and 5 segments arrived in 2 s.
    rates = [re.fullmatch(r"(host +\d) +(█+) +([\d.]+) segments/s", line) for line in shown[3:]]
    assert [(found[1], found[3]) for found in rates if found] == [("host     0", "1"), ("host     1", "2")]
    assert rates[1] is not None
    assert rates[0] is not None
    assert len(rates[1][2]) > len(rates[0][2])


@pytest.mark.parametrize("width", [80, 40])
def test_it_has_few_lines_that_fit(width: int) -> None:
    observer = observer_of("star:5 broadcast flood driver=local ranks_per_host=1")
    observer.progress("links up", 240, 240)
    observer.progress("steps", 123_456, 0)
    observer.counters.add(rows(list(range(120)) * 9))
    lines = lines_of(RunView(observer), width)
    assert len(lines) == 3 + MOST_HOSTS + 1
    assert max(map(len, lines)) <= width
    if width == 80:
        assert lines[-1].split()[:2] == ["all", "hosts"]


def test_the_timed_clock_shows_its_timetable() -> None:
    observer = observer_of("star:3 broadcast flood driver=local clock=timed startup=1ms per_byte=1us")
    observer.progress("milliseconds", 120, 4000)
    assert lines_of(RunView(observer))[1] == "120 of 4,000 ms of the timetable"


# --- on a terminal ---------------------------------------------------------------------------------------------------


def on_a_terminal(folder: Path, *more: object) -> tuple[int, str, str]:
    """Run `coordinator run` with standard error on a terminal of 80 columns; the status and both outputs."""
    leader, follower = pty.openpty()
    try:
        with subprocess.Popen(
            command("coordinator run", *flags(**FLOOD), *more),
            cwd=folder,
            env=environment(TERM="xterm", COLUMNS="80", LINES="24"),
            stdout=subprocess.PIPE,
            stderr=follower,
            stdin=subprocess.DEVNULL,
            text=True,
        ) as process:
            os.close(follower)
            shown, deadline = b"", time.monotonic() + SECONDS
            while time.monotonic() < deadline:
                if not select.select([leader], [], [], 0.1)[0]:
                    continue
                try:
                    shown += os.read(leader, 2**16)
                # The other end was closed.
                except OSError:
                    break
            assert process.stdout is not None
            return process.wait(SECONDS), process.stdout.read(), shown.decode()
    finally:
        os.close(leader)


def test_it_is_shown_on_a_terminal_and_removed_at_the_end(tmp_path: Path) -> None:
    status, out, shown = on_a_terminal(tmp_path, "--messages", 50)
    assert status == 0
    assert "verdict: holds" in out
    assert "permutation star graph S_3: broadcast by flood" in shown
    assert "\x1b[2K" in shown, "lines are erased"
    assert shown.count("permutation star graph") < 4 * run_view.REFRESHES_PER_SECOND * 30, "it does not flood"


@pytest.mark.parametrize(
    ("flag", "terminal", "viewed"),
    [("--seed=1", True, 1), ("--seed=1", False, 0), ("--quiet", True, 0), ("--json", True, 0)],
)
def test_when_it_is_shown(
    call: Call, monkeypatch: pytest.MonkeyPatch, flag: str, *, terminal: bool, viewed: int
) -> None:
    shown: list[RunObserver] = []

    @contextmanager
    def record(observer: RunObserver) -> Iterator[None]:
        shown.append(observer)
        yield

    monkeypatch.setattr("coordinator.cli.execute.run_view", record)
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal, raising=False)
    ended = call("run", *flags(**FLOOD), flag)
    assert (ended.status, len(shown)) == (0, viewed)
    assert [observer.counters.packets > 0 for observer in shown] == [True] * viewed
    if flag == "--quiet":
        assert ended.err == ""


@pytest.mark.parametrize("more", [[], ["--no-open"]], ids=["opened", "not opened"])
def test_a_terminal_with_a_display_opens_the_page_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str]
) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >{tmp_path}/opened.part\nmv {tmp_path}/opened.part {tmp_path}/opened\n')
    browser.chmod(0o700)
    monkeypatch.setenv("BROWSER", str(browser))
    status, _, shown = on_a_terminal(tmp_path, "--watch", "--watch-timeout", "2s", *more)
    assert status == 3
    printed = re.search(r"watch it at (http://127.0.0.1:\d+/#)(\S+)", shown)
    assert printed
    if more:
        assert not (tmp_path / "opened").exists()
        return
    opened = (tmp_path / "opened").read_text().strip()
    # Not the token itself: every user can read the command line of the browser.
    assert opened.startswith(f"{printed[1]}once-")
    assert printed[2] not in opened
