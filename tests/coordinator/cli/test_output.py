"""Streams of `coordinator` that are closed or full."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from cyclopts import Parameter

from coordinator.cli.output import PageFlags, RunOutput
from tests.coordinator.cli.conftest import help_of
from tests.helpers.command_line import Call, arguments, command, environment, run_process
from tests.helpers.warm_programs import make_shim

LIMITED = """
import resource, sys
from coordinator.__main__ import main
size = int(sys.argv.pop(1)) * 1024
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
main()
"""
RUN = "run --topology star:3 --collective broadcast --algorithm bfs-tree --driver memory"


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize(
    ("line", "status", "streams"),
    [
        (RUN, 0, "both"),
        (f"{RUN} --json", 0, "stdout"),
        (f"{RUN} --fault crash:123@1", 3, "stdout"),
        (f"{RUN} --seed -1", 2, "both"),
        (f"{RUN} --seed -1 --json", 2, "stdout"),
        (f"{RUN} --seed -1 --json", 2, "both"),
        ("list algorithms --json", 0, "both"),
    ],
)
def test_a_closed_pipe_changes_no_status(tmp_path: Path, line: str, status: int, streams: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.run(
        command(f"coordinator {line}"),
        cwd=tmp_path,
        env=environment(),
        stdout=writer,
        stderr=writer if streams == "both" else subprocess.PIPE,
        check=False,
        text=True,
    )
    os.close(writer)
    assert process.returncode == status
    assert "Traceback" not in (process.stderr or "")
    assert "Broken pipe" not in (process.stderr or "")


def test_a_closed_stream_is_no_error(tmp_path: Path) -> None:
    """Its number must not go to another file, or the output would then be written there."""
    line = " ".join(command(f"coordinator {RUN} --out there"))
    assert run_process(tmp_path, ["bash", "-c", f"{line} >&- 2>&- <&-"]).status == 0
    assert json.loads((tmp_path / "there" / "summary.json").read_text())["verdict"] == "holds"


@pytest.mark.parametrize(
    ("full", "flags", "status"),
    [
        ("stdout", "--out there", 4),
        ("stdout", "--out there --json", 4),
        ("stderr", "--seed -1", 2),
        ("stderr", "--out /proc/there", 2),
    ],
)
def test_output_on_a_full_disk_never_ends_with_status_1(tmp_path: Path, full: str, flags: str, status: int) -> None:
    redirection = ">/dev/full" if full == "stdout" else "2>/dev/full"
    make_shim(tmp_path / "coordinator", "-m", "coordinator")
    ended = run_process(tmp_path, ["bash", "-c", f"./coordinator {RUN} {flags} {redirection}"])
    assert ended.status == status
    assert "Traceback" not in ended.err
    if full == "stdout":
        assert ended.err == "coordinator: operating system error: [Errno 28] No space left on device\n"
        assert json.loads((tmp_path / "there" / "summary.json").read_text())["verdict"] == "holds"


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize(("workers", "kilobytes"), [(1, 8), (2, 1), (2, 40)])
def test_a_campaign_on_a_full_disk_ends_with_one_line(tmp_path: Path, workers: int, kilobytes: int) -> None:
    grid = "--topology star:4 --algorithm edt --redundancy 3 --faults nodes=0..3 --trials 400 --out camp"
    line = arguments(f"campaign {grid} --workers {workers}")
    ended = run_process(tmp_path, [sys.executable, "-c", LIMITED, kilobytes, *line])
    assert ended.status == 4
    lines = [line for line in ended.err.splitlines() if not line.startswith("campaign: ")]
    (only,) = lines
    assert only.startswith("coordinator: operating system error: [Errno 27] File too large: 'camp/")


# --- flags of run and serve --------------------------------------------------------------------------------------------


def flags_of(kind: type[Any]) -> dict[str, Parameter]:
    """Return the help of the flags of a record, by their names."""
    hints = get_type_hints(kind, include_extras=True)
    return {f"--{name.replace('_', '-')}": hint.__metadata__[0] for name, hint in hints.items()}


@pytest.mark.usefixtures("wide_terminal")
@pytest.mark.parametrize(("command", "kinds"), [("run", (RunOutput, PageFlags)), ("serve", (RunOutput,))])
def test_help_shows_each_flag_with_its_text(call: Call, command: str, kinds: tuple[type[Any], ...]) -> None:
    lines = help_of(call, command).splitlines()
    for kind in kinds:
        for flag, text in flags_of(kind).items():
            (line,) = (line for line in lines if f" {flag} " in line or f" {flag}  " in line)
            assert text.help is not None
            assert text.help in line
            assert text.metavar is None or f"{flag} {text.metavar}" in line
