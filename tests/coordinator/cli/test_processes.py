"""`coordinator` as a process: a bug in an algorithm, and early interrupts."""

import json
import re
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

from emunode.stop_signals import STOP_SIGNALS
from tests.helpers.command_line import Running, arguments, command, fresh, run_process, wait_until

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
"""A `sitecustomize` module of host processes: an algorithm with a bug."""
PROGRAM = """
import os, runpy
os.environ["PYTHONPATH"] = os.getcwd() + ":" + os.environ["PYTHONPATH"]
runpy.run_path("sitecustomize.py")  # a distribution may have a module of this name, which has been imported
from coordinator.__main__ import main
main()
"""


# --- an algorithm with a bug -----------------------------------------------------------------------------------------


@pytest.mark.exhaustive(one_in=2)
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
    line = f"run --topology star:4 --collective broadcast --algorithm bfs-tree --driver {driver}"
    ended = run_process(tmp_path, [sys.executable, "-c", PROGRAM, *arguments(line)], FAILING=where)
    assert (ended.status, ended.out) == (4, "")
    (line,) = [line for line in ended.err.splitlines() if not re.match(r"permutation star graph S_4: ", line)]
    assert re.fullmatch(
        rf"coordinator: algorithm error: bfs-tree at rank {rank}, step {step}, line \d+ of \S+\.py: "
        r"KeyError: 'no such piece'",
        line,
    )
    assert not (tmp_path / "runs").exists()


# --- Ctrl-C, SIGTERM and SIGHUP --------------------------------------------------------------------------------------


def catches(pid: int, number: signal.Signals) -> bool:
    """Return whether a process has a handler for a signal: then the interpreter runs code of this project."""
    status = Path(f"/proc/{pid}/status").read_text()
    (mask,) = re.findall(r"SigCgt:\s*([0-9a-f]+)", status)
    return bool(int(mask, 16) >> (number - 1) & 1)


FLOOD = "run --topology star:4 --collective broadcast --algorithm flood"
COMMANDS = {
    "run": RUN,
    "local run": FLOOD,
    "doctor": "doctor",
    "campaign": "campaign --topology star:4 --algorithm flood --faults nodes=0..2 --trials 50",
    "json": "list algorithms --json",
}


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_early_interrupt_ends_with_130_and_no_traceback(tmp_path: Path, name: str, stop: signal.Signals) -> None:
    """At three moments from the first line on: among imports, in the run, while it ends. Some come after the end.

    The signals have different moments; `scripts/stress kill` sends every signal in every phase.
    """
    statuses = set()
    # The first moment is always that of the first line: on a busy machine all others may come after the end.
    for moment in (0, *range(1 + (stop == signal.SIGINT), 8, 4)):
        process = Running(tmp_path, fresh(command(f"coordinator {COMMANDS[name]}")))
        while process.process.poll() is None and not catches(process.process.pid, STOP_SIGNALS[-1]):
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


IN_TERMINAL = """
import contextlib, os, pty, select, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
while not os.path.exists(sys.argv[1]):
    if select.select([terminal], [], [], 0.01)[0]:
        with contextlib.suppress(OSError):  # nohup writes to a file
            os.read(terminal, 10_000)
"""
"""Runs a program in a terminal of its own until a file exists, and leaves; the terminal is closed then."""


@pytest.mark.parametrize("ignoring", [False, True], ids=["closed", "nohup"])
def test_a_closed_terminal_ends_a_run_which_is_kept(tmp_path: Path, ignoring: bool) -> None:
    messages = 3000 if ignoring else 90_000
    line = fresh(command(f"coordinator {FLOOD} --messages {messages} --out out"))
    sign = tmp_path / "sign"
    before = [shutil.which("nohup") or "nohup"] if ignoring else []
    program = [sys.executable, "-c", IN_TERMINAL, str(sign), *before, *map(str, line)]
    outside = Running(tmp_path, [str(word) for word in program])
    wait_until(lambda: list(tmp_path.glob(".partial-*")) or (tmp_path / "out").exists(), "a folder of the run")
    sign.touch()
    assert outside.end().status == 0
    outside.close()
    wait_until((tmp_path / "out" / "summary.json").exists, "the end of the run")
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["verdict"] == ("holds" if ignoring else "undecided")
    assert not list(tmp_path.glob(".partial-*"))
