"""Confinement: escapes that succeed without it are refused by each layer that is to stop them, alone and with all."""

import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from coordinator.grading import system_calls
from coordinator.grading.confinement import surroundings
from coordinator.grading.layers import Layer, Protection
from coordinator.grading.system_calls import ARCHITECTURES, CHECKED_CALLS, FREE_CALLS, MISSING_CALLS, Instruction
from tests.command_line import ROOT
from tests.coordinator.grading.escapes import ESCAPES, Escape
from tests.coordinator.grading.test_grading import findings, flood, graded, receive

IS_ROOT: Final = os.geteuid() == 0
ANOTHER_USER: Final = 12345
USERS: Final = {"root": None, "another user": ANOTHER_USER} if IS_ROOT else {"this user": 0}
LAYERS: Final = [layer for layer in Layer if layer is not Layer.HOOK]
"""Without the audit hook: a submission can get around it, and the escapes act as if they had."""
EVERY_ESCAPE: Final = tuple(each.name for each in ESCAPES)
needs_filter: Final = pytest.mark.skipif(
    system_calls.architecture() is None, reason="there is no table of system calls for this machine"
)


@cache
def tried(user: int | None, layers: tuple[Layer, ...], escapes: tuple[str, ...] = EVERY_ESCAPE) -> dict[str, Any]:
    """Return results of escapes for a user with these layers, by name, and the protection that held."""
    order = {"user": user, "layers": list(map(str, layers)), "escapes": escapes}
    done = subprocess.run(
        [sys.executable, "-m", "tests.coordinator.grading.escapes", json.dumps(order)],
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


def possible(user: int | None) -> list[Escape]:
    """Return escapes that succeed for this user on this machine when nothing confines them."""
    results = tried(user, ())["results"]
    return [each for each in ESCAPES if results[each.name] == "succeeded"]


def test_there_are_many_escapes_with_names_of_their_own() -> None:
    assert len({each.name for each in ESCAPES}) == len(ESCAPES) >= 130


@pytest.mark.parametrize("user", USERS.values(), ids=USERS)
def test_escapes_succeed_without_confinement(user: int | None) -> None:
    """Otherwise a refusal would prove nothing."""
    found = {each.name for each in possible(user)}
    rights = IS_ROOT and user is None
    expected = {each.name for each in ESCAPES if not each.optional and (rights or not each.root_only)}
    assert expected - found == set()
    assert len(found) >= 60


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("user", USERS.values(), ids=USERS)
@pytest.mark.parametrize("layer", [each for each in LAYERS if any(each in escape.stopped_by for escape in ESCAPES)])
def test_each_layer_stops_its_escapes_alone(user: int | None, layer: Layer) -> None:
    feasible = possible(user)
    meant = tuple(each.name for each in feasible if layer in each.stopped_by)
    # One escape is enough to learn whether the layer holds.
    found = tried(user, (layer,), meant or (feasible[0].name,))
    if layer not in found["protection"]:
        pytest.skip(f"{layer} is for root only")
    if found["protection"][layer] is not None:
        pytest.skip(f"this machine has no {layer}: {found['protection'][layer]}")
    if not meant and user is not None:
        pytest.skip(f"{layer} changes nothing for a user without rights")
    assert meant
    assert [name for name in meant if found["results"][name] == "succeeded"] == []


@pytest.mark.parametrize("user", USERS.values(), ids=USERS)
@pytest.mark.parametrize("without", [None, Layer.FILTER], ids=["all", "all but the filter"])
def test_layers_together_stop_what_each_stops(user: int | None, without: Layer | None) -> None:
    found = tried(user, tuple(layer for layer in LAYERS if layer is not without))
    held = {layer for layer, reason in found["protection"].items() if reason is None}
    meant = [each.name for each in ESCAPES if held & each.stopped_by]
    assert [name for name in meant if found["results"][name] == "succeeded"] == []
    if Layer.FILTER in held and Layer.ROOT in held and Layer.DESCRIPTORS in held:
        # Nothing is left over.
        assert len(meant) == len(ESCAPES)


# --- the filter ------------------------------------------------------------------------------------------------------

EVERY_NUMBER: Final = """
import ctypes, errno, json, sys
from coordinator.grading import system_calls as calls
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
from coordinator.grading import system_calls as calls
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
    if IS_ROOT and python.startswith("/usr/") and os.access(ROOT, os.X_OK):
        users.append(ANOTHER_USER)  # type: ignore[arg-type]
    for user in users:
        done = subprocess.run(command, cwd="/", capture_output=True, text=True, user=user, check=False)
        if user is not None and "PermissionError" in done.stderr:
            continue  # this program is in a folder of root
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


O_CREAT, O_ASYNC, O_TMPFILE_BIT = 0o100, 0o20000, 0o20000000
OWN, OTHER = 4711, 4712
DECISIONS: Final[list[tuple[str, tuple[int, ...], bool]]] = [
    ("openat", (-100, 0, 0), True),
    ("openat", (-100, 0, 0o2000000), True),
    ("openat", (-100, 0, 1), False),
    ("openat", (-100, 0, 2), False),
    ("openat", (-100, 0, 3), False),
    ("openat", (-100, 0, O_CREAT), False),
    ("openat", (-100, 0, O_TMPFILE_BIT), False),
    ("openat", (-100, 0, O_ASYNC), False),
    ("clone", (0x3D0F00,), True),
    ("clone", (0x7D0F00,), True),
    ("clone", (17,), False),
    ("clone", (0x3D0F00 | 17,), False),
    ("clone", (0x3D0F00 | 0x10000000,), False),
    ("clone", (0x3D0F00 | 1 << 32,), False),
    ("clone", (0x3D0F00 & ~0x10000,), False),
    ("kill", (OWN, 6), True),
    ("kill", (OWN, 9), False),
    ("kill", (OTHER, 6), False),
    ("kill", (-1, 6), False),
    ("kill", (0, 6), False),
    ("tgkill", (OWN, 5000, 6), True),
    ("tgkill", (OWN, 5000, 19), False),
    ("tgkill", (OTHER, OTHER, 6), False),
    ("fcntl", (3, 1), True),
    ("fcntl", (3, 1030, 10), True),
    ("fcntl", (3, 4, 0o4000), True),
    ("fcntl", (3, 4, 0o4000 | O_ASYNC), False),
    ("fcntl", (3, 4, 1 << 40), False),
    ("fcntl", (3, 8, OTHER), False),
    ("fcntl", (3, 10, 9), False),
    ("fcntl", (3, 15, 1), False),
    ("fcntl", (3, 1024, 0), False),
    ("ioctl", (1, 0x5401), True),
    ("ioctl", (1, 0x5452), False),
    ("ioctl", (1, 0x5412), False),
    ("prctl", (15,), True),
    ("prctl", (1, 0), False),
    ("prctl", (22, 2), False),
    ("prlimit64", (0, 3, 0, 1 << 40), True),
    ("prlimit64", (0, 3, 1 << 40, 0), False),
    ("prlimit64", (OTHER, 3, 0, 1 << 40), False),
    ("sendto", (3, 1 << 40, 4, 0x4000, 0), True),
    ("sendto", (3, 1 << 40, 4, 0, 1 << 40), False),
    ("sendto", (3, 1 << 40, 4, 1, 0), False),
    ("madvise", (0, 4096, 4), True),
    ("madvise", (0, 4096, 100), False),
    ("sched_getaffinity", (0, 8), True),
    ("sched_getaffinity", (OTHER, 8), False),
    ("membarrier", (8,), True),
    ("membarrier", (1,), False),
    ("mmap", (0, 4096, 7), True),
]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_arguments_decide(name: str) -> None:
    kind = ARCHITECTURES[name]
    program = system_calls.program(kind, OWN)
    assert len(program) < 4096
    numbers = {call: columns[kind.column] for call, columns in FREE_CALLS.items()}
    numbers |= {call: columns[kind.column] for call, (columns, _, _) in CHECKED_CALLS.items()}
    for call, arguments, allowed in DECISIONS:
        number = numbers[call]
        assert number is not None
        found = decided(program, kind.code, number, *arguments)
        assert (found == system_calls.ALLOW) is allowed, (call, arguments, hex(found))
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


# --- the machine lacks a layer ---------------------------------------------------------------------------------------

WITHOUT_CALLS: Final = """
import os, sys
from coordinator.grading import system_calls as calls
from emunode import runtime as libc
code, *numbers = map(int, sys.argv[1].split(","))
program = [(calls.LOAD, 0, 0, calls.NUMBER)]
for number in numbers:
    program += [(calls.JUMP_EQUAL, 0, 1, number), (calls.RETURN, 0, 0, calls.FAIL | code)]
calls.program = lambda *_: [*program, (calls.RETURN, 0, 0, calls.ALLOW)]
libc.call("prctl", 38, 1, 0, 0, 0)
calls.install(calls.architecture())
os.execv(sys.executable, [sys.executable, "-m", "coordinator", "check", *sys.argv[2:]])
"""
"""Runs the command in a machine without some system calls: an old kernel, or a container that forbids them."""


def checked_without(calls: str, file: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    file.write_text(flood())
    command = [sys.executable, "-c", WITHOUT_CALLS, calls, str(file), "--topology", "star:3", *flags]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)


@needs_filter
def test_grade_says_which_layers_did_not_hold(tmp_path: Path) -> None:
    done = checked_without(f"{errno.ENOSYS},444", tmp_path / "mine.py")
    assert done.returncode == 0, done.stderr
    assert "not confined by: Landlock (landlock_create_ruleset: Function not implemented)" in done.stdout
    assert re.search(r"^confined by: resource limits, .*system call filter, audit hook$", done.stdout, re.MULTILINE)


@needs_filter
def test_submission_is_not_executed_without_required_confinement(tmp_path: Path) -> None:
    unshare = 272 if system_calls.architecture() is ARCHITECTURES["x86_64"] else 97
    done = checked_without(f"{errno.EPERM},{unshare}", tmp_path / "mine.py", "--json", "--require-confinement")
    assert done.returncode == 4
    message = json.loads(done.stdout)["error"]["message"]
    assert (
        "was not executed, since this machine does not confine it fully: no sealed root (unshare: Operation" in message
    )
    assert all(f"{layer} (" in message for layer in (Layer.NETWORK, Layer.IPC, Layer.PROCESSES, Layer.USER_NAMESPACE))
    done = checked_without(f"{errno.EPERM},{unshare}", tmp_path / "mine.py", "--json")
    record = json.loads(done.stdout)
    assert (done.returncode, record["verdict"]) == (0, "pass")
    assert record["not_protected"]["process namespace"] == "unshare: Operation not permitted"
    assert "system call filter" in record["protection"]


WITHOUT_RIGHT: Final = """
import os, sys
from emunode import runtime as libc
libc.call("prctl", 24, 21, 0, 0, 0)
os.execv(sys.executable, [sys.executable, "-m", "coordinator", "check", *sys.argv[1:]])
"""
"""Runs the command without CAP_SYS_ADMIN, as root in a container does."""


@pytest.mark.skipif(not IS_ROOT, reason="no other user has this right")
def test_root_without_its_rights_makes_namespaces_as_others_do(tmp_path: Path) -> None:
    reason = tried(ANOTHER_USER, (Layer.ROOT,))["protection"][Layer.ROOT]
    if reason is not None:
        pytest.skip(f"other users have no namespaces here: {reason}")
    file = tmp_path / "mine.py"
    file.write_text(flood())
    command = [sys.executable, "-c", WITHOUT_RIGHT, str(file), "--topology", "star:3", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    record = json.loads(done.stdout)
    assert (done.returncode, record["verdict"]) == (0, "pass")
    assert {"sealed root", "process namespace", "network namespace", "IPC namespace"} <= {*record["protection"]}
    # In its namespace of users there is no other user.
    assert [*record["not_protected"]] == ["other user"]


@pytest.mark.skipif(not IS_ROOT, reason="only root becomes another user")
def test_a_private_interpreter_rules_out_another_user(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir(0o700)
    (private / "module.py").touch()
    found = surroundings(list(Layer), [private], Protection())
    assert found.other_user is None
    assert found.no_other_user is not None
    assert f"{private}: Permission denied" in found.no_other_user
    public = surroundings(list(Layer), [Path("/usr/bin/env")], Protection())
    assert (public.other_user is None, public.no_other_user) == (False, None)


def test_submission_cannot_have_its_grader_killed(tmp_path: Path) -> None:
    """By the owner of a pipe, which no rule about signals sees."""
    found = graded(
        tmp_path,
        flood(
            receive("""
                import fcntl
                read, write = os.pipe()
                for command, value in (fcntl.F_SETOWN, os.getppid()), (fcntl.F_SETSIG, 9), (fcntl.F_SETFL, os.O_ASYNC):
                    fcntl.fcntl(read, command, value)
                os.write(write, b"x")
            """)
        ),
    )
    assert "limits: it tried fcntl.fcntl" in findings(found)


def test_submission_sees_its_own_source(tmp_path: Path) -> None:
    """Although it cannot read its file."""
    found = graded(tmp_path, flood(after="import inspect\nprint(inspect.getsource(R).split()[:2])"))
    assert found.printed.startswith("['class', 'R(FloodRule):']\n")


def test_submission_gets_no_variables_and_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN_OF_THE_TEACHER", "secret")
    found = graded(tmp_path, flood(after="print(sorted(os.environ), os.getcwd(), os.listdir('.'))"))
    assert "TOKEN" not in found.printed
    assert str(tmp_path) not in found.printed
    if found.protection.holds(Layer.ROOT):
        assert "/submission []" in found.printed
