"""Escapes tried with chosen layers, and the command on a machine that lacks something."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from coordinator.annexes.grading import system_calls
from coordinator.annexes.grading.layers import Layer
from tests.annexes.grading.escapes import ESCAPES
from tests.annexes.grading.submissions import flood
from tests.helpers.command_line import ROOT, Ended, run_process

IS_ROOT: Final = os.geteuid() == 0


ANOTHER_USER: Final = 12345


EVERY_ESCAPE: Final = tuple(each.name for each in ESCAPES)


needs_filter: Final = pytest.mark.skipif(
    system_calls.architecture() is None, reason="there is no table of system calls for this machine"
)


@cache
def tried(user: int | None, layers: tuple[Layer, ...], escapes: tuple[str, ...] = EVERY_ESCAPE) -> dict[str, Any]:
    """Return results of escapes for a user with these layers, by name, and the protection that held."""
    order = {"user": user, "layers": list(map(str, layers)), "escapes": escapes}
    done = subprocess.run(
        [sys.executable, "-m", "tests.annexes.grading.escapes", json.dumps(order)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr.decode()) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    assert [name for name, result in found["results"].items() if result.startswith("broken")] == []
    return found


WITHOUT_CALLS: Final = """
import sys
from coordinator.cli.invoke import main
from coordinator.annexes.grading import system_calls as calls
from emunode import runtime as libc
code, *numbers = map(int, sys.argv[1].split(","))
program = [(calls.LOAD, 0, 0, calls.NUMBER)]
for number in numbers:
    program += [(calls.JUMP_EQUAL, 0, 1, number), (calls.RETURN, 0, 0, calls.FAIL | code)]
calls.program = lambda *_: [*program, (calls.RETURN, 0, 0, calls.ALLOW)]
libc.call("prctl", 38, 1, 0, 0, 0)
calls.install(calls.architecture())
sys.exit(main(["check", *sys.argv[2:]]))
"""
"""Runs the command in a machine without some system calls: an old kernel, or a container that forbids them."""


def checked_without(calls: str, file: Path, *flags: str) -> Ended:
    file.write_text(flood())
    return run_process(ROOT, [sys.executable, "-c", WITHOUT_CALLS, calls, file, "--topology", "star:3", *flags])
