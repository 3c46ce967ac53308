"""`coordinator` as a process: a bug in an algorithm, and early interrupts."""

import re
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.command_line import Running, arguments, command, fresh, run_process

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


# --- Ctrl-C and SIGTERM ----------------------------------------------------------------------------------------------


def catches(pid: int, number: signal.Signals) -> bool:
    """Return whether a process has a handler for a signal: then the interpreter runs code of this project."""
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


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_an_early_interrupt_ends_with_130_and_no_traceback(tmp_path: Path, name: str, stop: signal.Signals) -> None:
    """At three moments from the first line on: among imports, in the run, while it ends. Some come after the end.

    The two signals have different moments; `scripts/stress kill` sends every signal in every phase.
    """
    statuses = set()
    # The first moment is always that of the first line: on a busy machine all others may come after the end.
    for moment in (0, *range(1 + (stop == signal.SIGINT), 8, 4)):
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
