"""The filter of system calls: what it refuses, what Python needs, and its decisions by arguments."""

import errno
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from coordinator.annexes.grading import system_calls
from coordinator.annexes.grading.system_calls import (
    ARCHITECTURES,
    CHECKED_CALLS,
    FREE_CALLS,
    MISSING_CALLS,
    Instruction,
)
from tests.annexes.grading.confinement_support import ANOTHER_USER, IS_ROOT, needs_filter
from tests.helpers.command_line import ROOT
from tests.helpers.support import golden_rows

EVERY_NUMBER: Final = """
import ctypes, errno, json, sys
from coordinator.annexes.grading import system_calls as calls
from emunode import runtime as libc
kind = calls.architecture()
allowed = calls.allowed_numbers(kind)
libc.call("prctl", 38, 1, 0, 0, 0)
calls.install(kind)
found = {}
# On x86-64 the calls 335 and 336 return from probes of the kernel, past all filters, and end any other process by SIGILL.
probes = (335, 336) if kind.column == 0 else ()
for number in [*range(700), 5000, 1 << 20, (1 << 30) - 1]:
    if number not in allowed and number not in probes:
        try:
            libc.call_number(number, "call", 0, 0, 0, 0, 0, 0)
            found[number] = 0
        except OSError as error:
            found[number] = error.errno
print(json.dumps(found))
"""


@needs_filter
def test_every_call_outside_the_list_is_refused() -> None:
    done = subprocess.run([sys.executable, "-c", EVERY_NUMBER], cwd=ROOT, capture_output=True, text=True, check=True)
    found = {int(number): error for number, error in json.loads(done.stdout).items()}
    assert len(found) > 550
    assert set(found.values()) == {errno.EPERM, errno.ENOSYS}
    missing = {number for number, error in found.items() if error == errno.ENOSYS}
    assert missing == set(MISSING_CALLS.values()) | {number for number in found if number > system_calls.NEWEST_CALL}


PYTHON_AT_WORK: Final = """
import sys, threading
sys.path.insert(0, sys.argv[1])
from coordinator.annexes.grading import system_calls as calls
from emunode import runtime as libc
libc.call("prctl", 38, 1, 0, 0, 0)
calls.install(calls.architecture())
import asyncio.events, concurrent.futures, ctypes, decimal, hashlib, json, locale, os, random, resource, secrets, time
import tempfile, traceback, unittest, uuid, zoneinfo
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    squares = list(pool.map(lambda x: x * x, range(100)))
condition = threading.Condition()
with condition:
    condition.wait(0.01)
time.sleep(0.001)
time.process_time(), time.thread_time(), time.localtime(), os.cpu_count(), os.getppid(), os.uname()
resource.getrusage(resource.RUSAGE_SELF), resource.getrlimit(resource.RLIMIT_AS), os.sched_getaffinity(0)
secrets.token_bytes(8), random.SystemRandom().random(), hashlib.sha256(b"x").hexdigest()
with open(os.__file__) as file:
    file.read()
os.listdir(os.path.dirname(os.__file__)), os.path.exists("/nowhere"), os.isatty(0)
data = bytearray(1 << 26)
del data
print(sum(squares))
"""


def interpreters() -> dict[str, str]:
    """Return every interpreter of this machine that may run this program: one for each version and place."""
    places = [Path(sys.executable), Path("/usr/bin/python3"), Path("/usr/local/bin/python3")]
    places += sorted(Path.home().glob(".pyenv/versions/3.*/bin/python3"))
    found = {}
    for place in places:
        if place.exists():
            shown = subprocess.run([place, "-V"], capture_output=True, text=True, check=False).stdout
            version = re.search(r"3\.(\d+)", shown)
            if version and int(version[1]) >= 11:
                found[f"{place.resolve().parent}: {shown.strip()}"] = str(place)
    return found


@needs_filter
@pytest.mark.parametrize("python", interpreters().values(), ids=interpreters())
def test_python_works_within_the_filter(python: str) -> None:
    """Also one that was built for another C library, for root and for a user to whom its folder is open."""
    command = [python, "-c", PYTHON_AT_WORK, str(ROOT)]
    users = [None]
    # A project in a folder of root, such as a temporary one, is closed to all others.
    module = ["test", "-r", str(ROOT / "coordinator" / "__init__.py")]
    if IS_ROOT and python.startswith("/usr/") and not subprocess.run(module, user=ANOTHER_USER, check=False).returncode:
        users.append(ANOTHER_USER)  # type: ignore[arg-type]
    for user in users:
        done = subprocess.run(command, cwd="/", capture_output=True, text=True, user=user, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "328350\n", "")


def decided(program: Sequence[Instruction], code: int, number: int, *arguments: int) -> int:
    """Decide about one call as the kernel does."""
    values = [*arguments, *[0] * (6 - len(arguments))]
    record = {system_calls.NUMBER: number & 0xFFFFFFFF, system_calls.ARCHITECTURE: code}
    for place, value in enumerate(values):
        record[system_calls.ARGUMENTS + 8 * place] = value & 0xFFFFFFFF
        record[system_calls.ARGUMENTS + 8 * place + 4] = (value >> 32) & 0xFFFFFFFF
    at = word = 0
    while True:
        operation, if_true, if_false, operand = program[at]
        at += 1
        tests = {
            system_calls.JUMP_EQUAL: word == operand,
            system_calls.JUMP_GREATER: word > operand,
            system_calls.JUMP_AT_LEAST: word >= operand,
            system_calls.JUMP_SET: bool(word & operand),
        }
        if operation == system_calls.RETURN:
            return operand
        if operation == system_calls.LOAD:
            word = record[operand]
        elif operation == system_calls.AND:
            word &= operand
        else:
            at += if_true if tests[operation] else if_false


PROCESSES: Final = {"own": 4711, "other": 4712}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_arguments_decide(name: str) -> None:
    kind = ARCHITECTURES[name]
    program = system_calls.program(kind, PROCESSES["own"])
    assert len(program) < 4096
    numbers = {call: columns[kind.column] for call, columns in FREE_CALLS.items()}
    numbers |= {call: columns[kind.column] for call, (columns, _, _) in CHECKED_CALLS.items()}
    for row in golden_rows("grading", "decisions"):
        number, allowed = numbers[row["call"]], row["allowed"] == "yes"
        arguments = [PROCESSES[each] if each in PROCESSES else int(each, 0) for each in row["arguments"].split()]
        assert number is not None
        found = decided(program, kind.code, number, *arguments)
        assert (found == system_calls.ALLOW) is allowed, (row, hex(found))
    for other in ARCHITECTURES.values():
        expected = system_calls.KILL if other is not kind else system_calls.ALLOW
        assert decided(program, other.code, numbers["read"] or 0) == expected
    assert decided(program, kind.code, system_calls.X32_CALL | 1) == system_calls.KILL
    assert decided(program, 0x40000003, 20) == system_calls.KILL  # 32-bit calls of x86


HEADERS: Final = {
    "x86_64": (Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), Path("/usr/include/asm/unistd_64.h")),
    "aarch64": (Path("/usr/include/asm-generic/unistd.h"),),
}


@pytest.mark.parametrize("name", HEADERS)
def test_numbers_are_those_of_the_kernel(name: str) -> None:
    header = next((path for path in HEADERS[name] if path.exists()), None)
    if header is None:
        pytest.skip(f"the kernel's header for {name} is not installed")
    text = header.read_text()
    lines = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)$", text, re.MULTILINE)
    known = {call: int(number) for call, number in lines}
    if name == "aarch64":
        known["newfstatat"] = known["fstatat"]  # the name of the table for 32 bits
    ours = system_calls.allowed_numbers(ARCHITECTURES[name]) | {each: call for call, each in MISSING_CALLS.items()}
    assert {call: number for number, call in ours.items() if known.get(call) != number} == {}
