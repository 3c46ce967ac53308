"""The work of `coordinator run`: the files that flags ask for, and options that do not go together."""

from pathlib import Path

import pytest

from tests.helpers.command_line import Call

FLOOD = "run --topology star:3 --collective broadcast --algorithm flood --driver memory"


def test_metrics_are_written_at_the_end(call: Call, tmp_path: Path) -> None:
    summary = call(f"{FLOOD} --metrics run.prom --json").data
    text = (tmp_path / "run.prom").read_text()
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert any(float(value) == summary["packets"] for value in values.values())
    assert values.keys()


def test_a_quiet_run_shows_its_result_alone(call: Call) -> None:
    quiet, usual = call(f"{FLOOD} --quiet --out one"), call(f"{FLOOD} --out other")
    assert (quiet.status, quiet.err) == (0, "")
    assert quiet.out.splitlines()[:2] == usual.out.splitlines()[:2]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--join-seconds 5s", "the memory driver has no hosts; leave it out"),
        ("--metrics .", "expected HOST:PORT, or a file in a folder that can be written to"),
        ("--metrics 127.0.0.1:70000", "expected a port from 0 to 65535"),
        ("--watch-port 70000 --watch", "invalid watch_port '70000'"),
        ("--watch-timeout 5s", "watch"),
        ("--no-open", "invalid no_open True: only a run with --watch"),
    ],
)
def test_flags_without_use_are_refused(call: Call, tmp_path: Path, flags: str, message: str) -> None:
    ended = call(f"{FLOOD} {flags}")
    assert (ended.status, ended.out) == (2, "")
    assert message in ended.err
    assert list(tmp_path.iterdir()) == []
