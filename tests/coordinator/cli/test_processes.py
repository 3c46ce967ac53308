"""`coordinator` as a process: streams that cannot be written, a bug in an algorithm, a full disk, early interrupts."""

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.command_line import ROOT, Running, command, environment, fresh, run_process

RUN = "run --topology star:3 --collective broadcast --algorithm bfs-tree --driver memory"
FAILING = """
import os
from emunode.algorithms.tree_collective import ForwardRule

where = os.environ["FAILING"]
original = getattr(ForwardRule, where)

def fail(self, *arguments):
    if where == "receive" and self._view.rank != 3:
        return original(self, *arguments)
    raise KeyError("no such piece")

setattr(ForwardRule, where, fail)
"""
"""A `sitecustomize` module, which host processes import too: an algorithm with a bug."""


# --- streams ---------------------------------------------------------------------------------------------------------


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
    """Its number must not go to another file, into which the output would then be written."""
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
    line = " ".join(command(f"coordinator {RUN} {flags}"))
    ended = run_process(tmp_path, ["bash", "-c", f"{line} {redirection}"])
    assert ended.status == status
    assert "Traceback" not in ended.err
    if full == "stdout":
        assert ended.err == "coordinator: operating system error: [Errno 28] No space left on device\n"
        assert json.loads((tmp_path / "there" / "summary.json").read_text())["verdict"] == "holds"


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize(("workers", "kilobytes"), [(1, 8), (2, 1), (2, 40)])
def test_a_campaign_on_a_full_disk_ends_with_one_line(tmp_path: Path, workers: int, kilobytes: int) -> None:
    grid = "--topology star:4 --algorithm edt --redundancy 3 --faults nodes=0..3 --trials 400 --out camp"
    line = " ".join(command(f"coordinator campaign {grid} --workers", workers))
    ended = run_process(tmp_path, ["bash", "-c", f"ulimit -f {kilobytes}; exec {line}"])
    assert ended.status == 4
    lines = [line for line in ended.err.splitlines() if not line.startswith("campaign: ")]
    assert lines == ["coordinator: operating system error: [Errno 27] File too large"]


# --- an algorithm with a bug -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("driver", "where", "rank", "step"),
    [
        ("memory", "__init__", 0, 1),
        ("memory", "receive", 3, 3),
        ("local", "start", 0, 1),
        ("local", "receive", 3, 3),
        ("local --clock timed", "receive", 3, 3),
    ],
)
def test_an_exception_in_an_algorithm_has_rank_step_and_line(
    tmp_path: Path, driver: str, where: str, rank: int, step: int
) -> None:
    (tmp_path / "sitecustomize.py").write_text(FAILING)
    line = f"coordinator run --topology star:4 --collective broadcast --algorithm bfs-tree --driver {driver}"
    ended = run_process(tmp_path, command(line), PYTHONPATH=f"{tmp_path}:{ROOT}", FAILING=where)
    assert (ended.status, ended.out) == (4, "")
    (line,) = [line for line in ended.err.splitlines() if not re.match(r"permutation star graph S_4: ", line)]
    assert re.fullmatch(
        rf"coordinator: algorithm error: bfs-tree at rank {rank}, step {step}, line \d+ of \S+\.py: "
        r"KeyError: 'no such piece'",
        line,
    )
    assert not (tmp_path / "runs").exists()


# --- Ctrl-C and SIGTERM ----------------------------------------------------------------------------------------------


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler for a signal: then the interpreter runs code of this project."""
    status = Path(f"/proc/{pid}/status").read_text()
    (mask,) = re.findall(r"SigCgt:\s*([0-9a-f]+)", status)
    return bool(int(mask, 16) >> (number - 1) & 1)


COMMANDS = {
    "run": RUN,
    "local run": "run --topology star:4 --collective broadcast --algorithm flood",
    "doctor": "doctor",
    "campaign": "campaign --topology star:4 --algorithm flood --faults nodes=0..2 --trials 50",
    "json": "list algorithms --json",
}


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_an_early_interrupt_ends_with_130_and_no_traceback(tmp_path: Path, name: str, stop: signal.Signals) -> None:
    """At eight moments from the first line on: among imports, in the run, while it ends. Some come after the end.

    The two signals take turns at the moments; `scripts/stress kill` sends every signal in every phase.
    """
    statuses = set()
    # The first moment is always that of the first line: on a busy machine all others may come after the end.
    for moment in (0, *range(1 + (stop == signal.SIGINT), 8, 2)):
        process = Running(tmp_path, fresh(command(f"coordinator {COMMANDS[name]}")))
        while process.process.poll() is None and not catches(process.process.pid, signal.SIGTERM):
            time.sleep(0.001)
        time.sleep(0.12 * moment)
        process.process.send_signal(stop)
        status, _, err = process.end()
        process.close()
        statuses.add(status)
        assert "Traceback" not in err, (moment, err)
        assert "ignored" not in err, (moment, err)
        # a run and a campaign that have begun say so on standard output, with what they kept
        assert status != 130 or "interrupted" in err or name in ("run", "local run", "campaign"), (moment, err)
    assert statuses <= {130, 0, 4 if name == "doctor" else 0}
    assert 130 in statuses
