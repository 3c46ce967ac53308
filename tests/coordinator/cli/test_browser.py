"""`run --open` and `open`: the report in a browser, or its path."""

from pathlib import Path

import pytest

from coordinator.cli import browser, render
from tests.command_line import Call, command, run_process

FLOOD = "--topology star:3 --collective broadcast --algorithm flood --driver memory"


@pytest.fixture(autouse=True)
def no_display(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in browser.DISPLAYS:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that a browser was given; there is one."""
    addresses: list[str] = []
    monkeypatch.setenv("BROWSER", "some")

    def open_address(address: str) -> bool:
        addresses.append(address)
        return True

    monkeypatch.setattr("webbrowser.open", open_address)
    return addresses


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
    output.is_terminal, output._is_plain = True, False


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
