"""Processes of submissions: what misbehaves is stopped, and what ends from outside is not graded."""

import os
import re
import signal
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest

from coordinator.annexes.grading.confinement import MEBIBYTE, Limits
from coordinator.annexes.grading.layers import Layer
from coordinator.annexes.grading.marks import MarkVerdict
from coordinator.annexes.grading.submission import SubmissionServer
from coordinator.annexes.grading.system_calls import architecture
from tests.annexes.grading.submissions import findings, flood, graded, marks, receive
from tests.helpers.command_line import SECONDS, Running, Start, wait_until

TRIES = {
    "endless loop": (receive("while True: pass"), "it did not answer within 0.2 s"),
    "endless start": ("def start(self):\n    while True: yield 1, 0, (0, -1, 0, 0, b'')", "more than 200,000 sends"),
    "memory": (receive("x = bytearray(1 << 40)"), "MemoryError"),
    "output": (receive("while True: print('x' * 1000)"), "limits: .*it printed more than 65,536 bytes"),
    "output of the descriptor": (receive("while True: os.write(1, b'x' * 1000)"), "limits: .*it printed more than 65,536"),
    "fork": (receive("os.fork()"), "limits: it tried os.fork"),
    "hidden fork": (receive("try: os.fork()\nexcept Exception: pass"), "limits: it tried os.fork"),
    "program": (receive("subprocess.run(['sleep', '100'])"), "limits: it tried subprocess.Popen"),
    "exit": (receive("os._exit(3)"), "limits: .*it ended its process with exit status 3"),
    "exit exception": (receive("sys.exit(4)"), "model: .*SystemExit: 4"),
    "kills its parent": (receive("os.kill(os.getppid(), 9)"), "limits: it tried os.kill"),
    "kills everything": (receive("os.kill(-1, 9)"), "limits: it tried os.kill"),
    "writes a file": (receive("open('left', 'w')"), "limits: it tried open of 'left' to write"),
    "removes a file": (receive("os.remove('mine.py')"), "limits: it tried os.remove"),
    "socket": (receive("socket.create_connection(('127.0.0.1', 9), 1)"), "limits: it tried socket.__new__"),
    "closes its channel": (receive("os.closerange(3, 64)"), "limits: .*(closed its connection|ended its process)"),
    "forges an answer": (
        receive("for fd in range(3, 64):\n    try: os.write(fd, b'\\x02\\x00\\x00\\x00{}')\n    except OSError: pass"),
        "its process sent a malformed answer",
    ),
    "deep recursion": (receive("def f(): return f()\nf()"), "model: .*RecursionError"),
    "crash": (receive("import ctypes\nctypes.string_at(0)"), "ctypes|SIGSEGV"),
    "raises its limits": (receive("import resource\nresource.setrlimit(9, (-1, -1))"), "it tried resource.set"),
    "waits at import": (None, "loads: it did not answer within 0.2 s"),
}  # fmt: skip


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize(("rule", "expected"), TRIES.values(), ids=TRIES)
def test_submission_that_misbehaves_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str | None, expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    # Those that are stopped for what they do get the time for it on a busy machine.
    seconds = 0.2 if "did not answer" in expected else SECONDS
    text = "import time\ntime.sleep(1000)\n" if rule is None else flood(rule)
    found = graded(tmp_path, text, limits=Limits(answer_seconds=seconds, memory_bytes=256 * MEBIBYTE))
    assert found.verdict is MarkVerdict.FAIL
    assert re.search(expected, findings(found)), findings(found)
    assert [each.name for each in tmp_path.iterdir()] == ["mine.py"]


@pytest.mark.skipif(architecture() is None, reason="there is no table of system calls for this machine")
def test_a_fork_costs_points_once(tmp_path: Path) -> None:
    """The call costs the points of `limits`, and nothing arrives; the port model is not judged by it."""
    found = graded(tmp_path, flood(rule=receive("os.fork()")))
    seen = marks(found)
    assert "it tried os.fork" in seen["limits"].findings
    assert (seen["model"].required, seen["model"].cases, seen["delivery"].passed) == (False, 0, 0)
    assert seen["model"].notes == ["not judged: every run ended with a call that is not allowed"]
    pretended = graded(tmp_path, flood(rule=receive("raise PermissionError('a submission may not call os.fork')")))
    assert marks(pretended)["model"].verdict is MarkVerdict.FAIL


def test_system_calls_are_denied_where_the_hook_is_not_asked(tmp_path: Path) -> None:
    calls = ("os.setsid()", "os.mkfifo('left')", "os.pidfd_open(os.getppid())", "os.sched_setaffinity(0, {0})")
    tries = "".join(f"try: {call}\nexcept PermissionError: denied += 1\n" for call in calls)
    text = flood(receive(f"denied = 0\n{tries}os.write(1, b'%d denied' % denied)"))
    found = graded(tmp_path, text)
    assert found.printed.startswith("4 denied")
    # The kernel tells the grader, whatever the submission catches.
    for call in ("setsid", "mknodat", "pidfd_open", "sched_setaffinity"):
        assert f"it tried {call}" in marks(found)["limits"].findings


def without_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grade as if the submission had got around the audit hook."""
    layers = [layer for layer in Layer if layer is not Layer.HOOK]
    monkeypatch.setattr("coordinator.annexes.grading.grade.SubmissionServer", partial(SubmissionServer, layers=layers))


OWN_ENDS = {
    "segmentation fault": ("import ctypes\nctypes.string_at(0)", "its process was ended by SIGSEGV"),
    "abort": ("os.abort()", "its process was ended by SIGABRT"),
    "its memory limit": ("x = bytearray(1 << 40)", "MemoryError"),
    "kill of itself": ("os.kill(os.getpid(), 9)", "limits: it tried kill"),
    "stop of itself": ("os.kill(os.getpid(), 19)", "limits: it tried kill"),
}


@pytest.mark.skipif(architecture() is None, reason="there is no table of system calls for this machine")
@pytest.mark.parametrize(("rule", "expected"), OWN_ENDS.values(), ids=OWN_ENDS)
def test_end_that_a_submission_causes_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str, expected: str
) -> None:
    """It cannot end itself in a way that looks like somebody else's doing, which would leave it without a grade."""
    without_hook(monkeypatch)
    found = graded(tmp_path, flood(receive(rule)))
    assert found.verdict is MarkVerdict.FAIL
    assert expected in findings(found)


def looping_check(tmp_path: Path, start: Start) -> tuple[Running, list[psutil.Process]]:
    """Start the command on a submission that loops; returns its processes too, the submission's last."""
    file = tmp_path / "mine.py"
    file.write_text("while True: pass\n")
    grader = start(f"coordinator check {file} --topology star:3 --answer-seconds 300 --gradescope results.json")
    children: list[psutil.Process] = []

    def looping() -> bool:
        children[:] = psutil.Process(grader.process.pid).children(recursive=True)
        # The server, and the process in which the submission loops as it is loaded; one before it only tells its layers.
        with suppress(psutil.NoSuchProcess):
            return len(children) >= 2 and children[-1].cpu_times().user > 0.15
        return False

    grader.wait_for(looping, "the submission loops")
    return grader, children


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (signal.SIGKILL, "ended from outside by SIGKILL, by somebody, or because this machine had no memory left"),
        (signal.SIGTERM, "ended from outside by SIGTERM, by somebody"),
        (signal.SIGSTOP, "stopped from outside (SIGSTOP)"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_submission_that_is_ended_from_outside_is_not_graded(
    tmp_path: Path, start: Start, number: signal.Signals, reason: str
) -> None:
    grader, children = looping_check(tmp_path, start)
    children[-1].send_signal(number)
    ended = grader.end()
    assert ended.status == 4
    assert f"coordinator: could not grade it: its process was {reason}\n" in ended.err
    assert not (grader.folder / "results.json").exists()
    wait_until(lambda: not any(alive(child.pid) for child in children), "no process is left")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=lambda number: number.name)
@pytest.mark.parametrize("place", [0, -2], ids=["first", "last"])
def test_grader_without_its_server_does_not_grade(
    tmp_path: Path, start: Start, number: signal.Signals, place: int
) -> None:
    grader, children = looping_check(tmp_path, start)
    if number is signal.SIGSTOP and place == 0 and len(children) > 2:
        pytest.skip("this process only waits for the server, which goes on")
    children[place].send_signal(number)
    ended = grader.end()
    assert (ended.status, "Traceback" in ended.err) == (4, False), ended.err
    assert "could not grade it: " in ended.err
    wait_until(lambda: not any(alive(child.pid) for child in children), "no process is left")


def test_interrupt_while_the_server_starts_is_quiet(tmp_path: Path, start: Start) -> None:
    """Ctrl-C reaches all processes of the terminal, also one that has not got as far as to ignore it."""
    file = tmp_path / "mine.py"
    file.write_text(flood())
    grader = start(f"coordinator check {file} --topology star:3")
    grader.wait_for(psutil.Process(grader.process.pid).children, "the server starts")
    children = psutil.Process(grader.process.pid).children(recursive=True)
    os.killpg(grader.process.pid, signal.SIGINT)
    ended = grader.end()
    assert ended.status == 130
    assert "Traceback" not in ended.err
    assert ended.err.endswith("coordinator: interrupted\n")
    wait_until(lambda: not any(alive(child.pid) for child in children), "no process is left")


def alive(pid: int) -> bool:
    return bool(psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_nothing_is_left_of_a_grader_that_is_stopped(tmp_path: Path, start: Start, number: signal.Signals) -> None:
    grader, children = looping_check(tmp_path, start)
    grader.process.send_signal(number)
    ended = grader.end()
    status = ended.status
    assert "Traceback" not in ended.err
    assert status == (-number if number is signal.SIGKILL else 130)
    wait_until(lambda: not any(alive(child.pid) for child in children), "no process is left")
