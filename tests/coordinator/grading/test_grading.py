"""Grading: right submissions pass, wrong ones are told which node and why, and none gets out of its process."""

import json
import os
import re
import signal
from contextlib import suppress
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Any

import psutil
import pytest

from coordinator.grading.confinement import MEBIBYTE, Limits
from coordinator.grading.grade import Grade, GradeOptions, grade
from coordinator.grading.layers import Layer
from coordinator.grading.marks import Mark, MarkVerdict
from coordinator.grading.refereed_run import GradedFaults, Referee
from coordinator.grading.scaffold import TARGETS, algorithm_text, network_text
from coordinator.grading.submission import SubmissionEndedError, SubmissionServer
from coordinator.grading.system_calls import architecture
from emunode.algorithms.registry import algorithms
from emunode.errors import ScenarioError
from emunode.model import Collective, CollectiveSpec
from emunode.topologies.registry import parse_topology
from tests.command_line import SECONDS, Call, Running, Start, wait_until

LIMITS = Limits(answer_seconds=120.0, memory_bytes=512 * MEBIBYTE)
FLOOD = """
    import os, random, socket, subprocess, sys, threading, time
    from emunode.algorithms.claims import Claim
    from emunode.algorithms.flooding import Flood, FloodRule
    from emunode.model import Collective, Duplex, PortModel
    from emunode.registry import register

    class R(FloodRule):
        __slots__ = ()
        {rule}

    @register
    class Mine(Flood):
        family, name = "star", "mine"
        duplexes = (Duplex.FULL,)
        tolerated_faults = 0
        {algorithm}
        def rule(self, view):
            return R(self, view)
    {after}
"""
"""A right flooding on the star graph, with room for mistakes."""


def flood(rule: str = "pass", algorithm: str = "", after: str = "") -> str:
    """Return a submission that floods, with these lines put in."""
    places = {"rule": (rule, 4), "algorithm": (algorithm, 4), "after": (after, 0)}
    filled = {name: dedent(text).strip().replace("\n", "\n" + " " * indent) for name, (text, indent) in places.items()}
    return dedent(FLOOD).format(**filled)


def receive(body: str) -> str:
    """Return a rule with this body of `receive`; `sends` is what flooding would send."""
    lines = dedent(body).strip().replace("\n", "\n    ")
    start = "def receive(self, step, packets):\n    sends = list(super().receive(step, packets))"
    return f"{start}\n    {lines}\n    return sends"


def graded(
    folder: Path, text: str, *networks: str, limits: Limits = LIMITS, name: str = "mine.py", **options: Any
) -> Grade:
    """Return the grade of a text on these networks; afterwards no process is left."""
    file = folder / name
    file.write_text(text)
    topologies = [parse_topology(network) for network in networks or ("star:3",)]
    found = grade(file, GradeOptions(topologies, limits=limits, **options), lambda *_: None)
    assert psutil.Process().children(recursive=True) == []
    return found


def marks(found: Grade) -> dict[str, Mark]:
    return {mark.requirement: mark for subject in found.subjects for mark in subject.marks}


def findings(found: Grade) -> str:
    return "\n".join(f"{name}: {each}" for name, mark in marks(found).items() for each in mark.findings)


# --- what is right passes --------------------------------------------------------------------------------------------


def test_right_submission_passes(tmp_path: Path) -> None:
    found = graded(tmp_path, flood(algorithm="del tolerated_faults"), "star:3", "star:4")
    assert findings(found) == ""
    assert found.verdict is MarkVerdict.PASS
    seen = marks(found)
    # Every source of S_3 and S_4.
    assert seen["delivery"].cases == seen["model"].cases == 6 + 24
    # Every node but the source, and every link; S_3 from every source, S_4 from some.
    assert seen["faults"].cases == 6 * (5 + 6) + 8 * (23 + 36)
    assert seen["faults"].notes == ["star:4: every single fault from 8 of 24 sources"]
    assert "at worst 1.00 times the bound" in seen["bound"].notes[0]
    record = found.record()
    assert (record["points"], record["of"], record["verdict"]) == (70, 70, "pass")
    layers = [*record["protection"], *record["not_protected"]]  # type: ignore[misc]
    assert {*layers} | {"other user"} == {*map(str, Layer)}


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize("collective", [*TARGETS, Collective.REDUCE])
def test_scaffold_passes(tmp_path: Path, collective: Collective) -> None:
    found = graded(tmp_path, algorithm_text("my-way", "star", collective, "mine.py"))
    assert (findings(found), found.verdict) == ("", MarkVerdict.PASS)


def test_network_scaffold_passes(tmp_path: Path) -> None:
    found = graded(tmp_path, network_text("my-ring", "mine.py"))
    assert (findings(found), found.verdict) == ("", MarkVerdict.PASS)
    assert marks(found)["links"].cases == 3


def test_algorithm_on_a_network_of_the_submission(tmp_path: Path) -> None:
    text = network_text("my-ring", "mine.py")
    found = graded(tmp_path, text + flood(algorithm="family = 'my-ring'").replace("class R(", "\nclass R("))
    assert (findings(found), found.verdict) == ("", MarkVerdict.PASS)
    assert marks(found)["delivery"].cases == 3 + 4 + 7


def test_scaffolds_refuse_bad_names() -> None:
    for name, family in (("Bad Name", "star"), ("edt", "star"), ("flood", "any"), ("a" * 41, "star"), ("x", "nowhere")):
        with pytest.raises(ScenarioError):
            algorithm_text(name, family, Collective.BROADCAST, "x.py")
    with pytest.raises(ScenarioError, match="there is a family"):
        network_text("star", "x.py")


# --- what is wrong is named ------------------------------------------------------------------------------------------

WRONG = {
    "in the same step": (
        flood(receive("sends = [(step, port, segment) for _, port, segment in sends]")),
        r"model: star:3, all-port, 123: 213 sent in step 1 what arrived in step 1: the first possible step is 2",
    ),
    "port that is not there": (
        flood(receive("sends = [(when, 7, segment) for when, _, segment in sends]")),
        r"model: .* sends over port 7 in step 2; permutation star graph S_3 has ports 0\.\.1",
    ),
    "node that does not forward": (
        flood(receive("if self._view.rank in (1, 2, 3, 4): sends = []")),
        r"delivery: star:3, all-port, 123: not reached: 132, 312",
    ),
    "invented message": (
        flood("""
            def start(self):
                yield from super().start()
                if self._view.rank == 5:
                    yield 1, 0, (self._algorithm.spec.source, -1, 0, 0, bytes(720))
        """),
        r"model: star:3, all-port, 123: \w+ in step 1 sends segment 0 of 123, which it has not received before",
    ),
    "altered message": (
        flood(receive("sends = [(when, port, (*segment[:4], bytes(720))) for when, port, segment in sends]")),
        r"model: .* in step 2 sends segment 0 of 123 with other bytes than its origin",
    ),
    "too many ports": (
        flood(algorithm="port_models = (PortModel.ONE_PORT,)"),
        r"model: star:3, one-port, 123: 123 sends on ports \[0, 1\] and receives on ports \[\] in step 1; .* not one-port",
    ),
    "too much in a packet": (
        flood(
            "def start(self):\n    return [send for send in super().start() for _ in range(2)]",
            "link_capacity = 1",
        ),
        r"model: .*123 sends 2 segments on port 0 in step 1; a packet holds 1",
    ),
    "false claim": (
        flood(algorithm="def claims(self):\n    return [Claim('steps', 2, '<=', 'me')]"),
        r"claims: star:3, all-port, 123: claims steps <= 2, measured 3",
    ),
    "false redundancy": (
        flood(receive("sends = [send for send in sends if self._view.rank != 2]"), "tolerated_faults = 1"),
        r"faults: star:3, all-port, \d+, redundancy 1, (crash|down):\S+: not reached: \d+",
    ),
    "refuses its own port model": (
        flood(algorithm="""
            port_models = (PortModel.ALL_PORT, PortModel.EXCHANGE)
            def validate(self):
                self.port_models = (PortModel.ALL_PORT,)
                super().validate()
        """),
        r"model: star:3, exchange: refused: invalid port_model",
    ),
    "exception": (
        flood(receive("sends = sends[99]")),
        r"model: star:3, all-port, 123: in step 2: \d{3}: line \d+: IndexError",
    ),
    "endless": (
        flood(receive("sends = [(step + 1, packets[0][0], packets[0][1][0])]")),
        r"model: .* it does not end: in step 320 there are still sends, by \d{3}",
    ),
    "send before the first step": (
        flood("def start(self):\n    return [(0, *send[1:]) for send in super().start()]"),
        "model: star:3, all-port, 123: 123 sends in step 0; the first step is 1",
    ),
    "send that is none": (
        flood(receive("sends = [(step + 1.5, port, segment) for _, port, segment in sends]")),
        r"model: star:3, all-port, 123: in step 2: 213: TypeError: a send is \(step, port, segment\)",
    ),
    "port model that does not exist": (
        flood(algorithm="port_models = ('two-port',)"),
        "loads: mine: port_models has 'two-port'; expected some of all-port",
    ),
    "claim that is no number": (
        flood(algorithm="def claims(self):\n    return [Claim('steps', 'three', '<=', 'me')]"),
        "claims: .* claims steps <= 'three', which is not a number",
    ),
    "error that cannot be shown": (
        "class E(Exception):\n    def __str__(self): raise self\nraise E\n",
        "loads: line 3: E: its text cannot be read",
    ),
    "answers that are malformed": (
        flood(after="""
            from coordinator.grading.session import SubmissionSession
            SubmissionSession.answer = lambda *_: {"refused": 5, "denied": 7}
        """),
        "limits: .*malformed answer",
    ),
    "shared dictionary": (
        flood(
            receive("""
                mine = self._view.rank
                BOARD.add(mine)
                neighbour = self._algorithm.topology.neighbour
                sends = [send for send in sends if neighbour(mine, send[1]) not in BOARD]
            """),
            after="BOARD = set()",
        ),
        r"locality: star:3, all-port, 123, \d+ alone: in step 2 it sends on ports",
    ),
    "clock": (
        flood(receive("time.monotonic()")),
        r"locality: .* alone: it calls time\.monotonic",
    ),
    "chance": (flood(receive("random.random()")), r"locality: .* alone: it calls random\.random"),
    "syntax": ("def broken(:\n", r"loads: line 1: SyntaxError"),
    "import": ("import no_such_module\n", r"loads: line 1: ModuleNotFoundError"),
    "registers nothing": ("x = 1\n", r"loads: it registers nothing"),
    "missing method": (
        flood(after="""
            from emunode.algorithms.base import Algorithm
            @register
            class A(Algorithm):
                family, name, collective, citation = "star", "a", Collective.BROADCAST, "me"
        """),
        r"loads: line \d+: RegistrationError: .* does not define claims, rule",
    ),
    "name that is taken": (flood(algorithm="name = 'edt'"), r"loads: line \d+: RegistrationError: .*'star broadcast edt'"),
    "exit at import": ("import sys\nsys.exit(0)\n", r"loads: line 2: SystemExit: 0"),
}  # fmt: skip


@pytest.mark.exhaustive(one_in=6)
@pytest.mark.parametrize(("text", "expected"), WRONG.values(), ids=WRONG)
def test_wrong_submission_is_told_why(tmp_path: Path, text: str, expected: str) -> None:
    found = graded(tmp_path, text)
    assert found.verdict is MarkVerdict.FAIL
    assert re.search(expected, findings(found)), findings(found)


BUILT_IN = """
    from emunode.algorithms.registry import algorithms
    from emunode.model import Collective
    from emunode.registry import register

    Old = algorithms("star", Collective.{collective})["{name}"]

    @register
    class Mine(Old):
        name = "mine"
"""


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("collective", "name"), [("REDUCE_SCATTER", "edt-dfs"), ("UNICAST", None), ("ALLGATHER", "edt-dfs-ack")]
)
def test_built_in_algorithms_pass_under_another_name(tmp_path: Path, collective: str, name: str | None) -> None:
    """Also those that fold contributions, have one target, or send acknowledgements."""
    name = name or next(iter(algorithms("star", Collective[collective])))
    found = graded(tmp_path, dedent(BUILT_IN).format(collective=collective, name=name))
    assert (findings(found), found.verdict) == ("", MarkVerdict.PASS)


def test_contribution_that_is_folded_three_times_is_found(tmp_path: Path) -> None:
    """The exclusive or of three copies is that of one, so contributions are counted too."""
    text = algorithm_text("mine", "star", Collective.REDUCE, "mine.py")
    again = """
    from emunode.algorithms.base import Rule

    class Again(Rule):
        def __init__(self, rule): self.rule = rule
        def three(self, sends): return [(step + more, *rest) for step, *rest in sends for more in (0, 20, 40)]
        def start(self): return self.three(self.rule.start())
        def receive(self, step, packets): return self.three(self.rule.receive(step, packets)) if step < 20 else []

    before = Mine.rule
    Mine.rule = lambda self, view: Again(before(self, view))
    """
    found = graded(tmp_path, text + dedent(again))
    assert re.search(r"delivery: .* the result at \d{3} has the contribution of .* more than once", findings(found))


def test_findings_are_one_line_of_printable_text() -> None:
    mark = Mark("model", "")
    mark.add(["a\n\nb \x1b[2J" + "x" * 1000])
    assert mark.findings[0].startswith("a b \\x1b[2Jxxx")
    assert len(mark.findings[0]) < 320


def test_bound_and_port_model_can_be_required(tmp_path: Path) -> None:
    slow = flood("""
        def start(self):
            for step, port, segment in super().start():
                yield step + 1, port, segment
    """)
    found = graded(tmp_path, slow, within=1.2)
    assert marks(found)["bound"].verdict is MarkVerdict.FAIL
    assert "1.33 times the bound" in findings(found)
    found = graded(tmp_path, flood(), port_models=("one-port",))
    assert marks(found)["model"].verdict is MarkVerdict.FAIL
    assert "one-port: refused" in findings(found)


# --- what tries to escape --------------------------------------------------------------------------------------------

TRIES = {
    "endless loop": (receive("while True: pass"), "it did not answer within 1 s"),
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
    "waits at import": (None, "loads: it did not answer within 1 s"),
}  # fmt: skip


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize(("rule", "expected"), TRIES.values(), ids=TRIES)
def test_submission_that_misbehaves_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str | None, expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    # Those that are stopped for what they do get the time for it on a busy machine.
    seconds = 1.0 if "did not answer" in expected else SECONDS
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


def test_a_reason_is_printed_once(tmp_path: Path, call: Call) -> None:
    file = tmp_path / "mine.py"
    file.write_text(flood(rule=receive("time.sleep(1000)")))
    ended = call("check --topology star:3 --answer-seconds 1", file)
    assert ended.status == 1
    assert ended.out.count("no case could be run") == ended.out.count("the rest was not tried") == 1
    assert "model, delivery, locality: no case could be run" in ended.out


def test_system_calls_are_denied_where_the_hook_is_not_asked(tmp_path: Path) -> None:
    calls = ("os.setsid()", "os.mkfifo('left')", "os.pidfd_open(os.getppid())", "os.sched_setaffinity(0, {0})")
    tries = "".join(f"try: {call}\nexcept PermissionError: denied += 1\n" for call in calls)
    text = flood(receive(f"denied = 0\n{tries}raise KeyError('denied', denied)"))
    assert "KeyError: ('denied', 4)" in findings(graded(tmp_path, text))


def test_printing_a_little_is_allowed_and_shown(tmp_path: Path) -> None:
    found = graded(tmp_path, flood(after="print('hello')"))
    assert found.verdict is MarkVerdict.PASS
    assert found.printed.startswith("hello\n")


def test_time_that_is_over_is_undecided(tmp_path: Path) -> None:
    found = graded(tmp_path, flood(), limits=Limits(answer_seconds=120.0, total_seconds=0.001))
    assert found.verdict is MarkVerdict.UNDECIDED
    assert "the grader stops after" in str(found.record())


def test_judge_does_not_believe_the_submission(tmp_path: Path) -> None:
    """Changes to the modules of its own process, and false words about itself, change no verdict."""
    found = graded(
        tmp_path,
        flood(
            receive("sends = []"),
            "def claims(self):\n    return [Claim('intact_deliveries', 5, '==', 'me')]",
            after="""
                import coordinator.grading.refereed_run as judge
                judge.Referee._judge_deliveries = lambda self: None
                from coordinator.grading.session import SubmissionSession
                step = SubmissionSession.do_step
                SubmissionSession.do_step = lambda self, **given: {**step(self, **given), "deliveries": 5, "passed": True}
            """,
        ),
    )
    assert "delivery: star:3, all-port, 123: not reached: 132, 312, 231" in findings(found)


def test_a_play_that_ends_names_its_reason() -> None:
    star = parse_topology("star:3")
    spec = CollectiveSpec(star.name, Collective.BROADCAST, "mine", 0, message_bytes=64)
    with SubmissionServer("mine.py", flood(receive("os._exit(9)")), LIMITS) as server:
        with server.process() as process, pytest.raises(SubmissionEndedError, match="exit status 9"):
            Referee(star, spec, GradedFaults()).referee(process, ("star", "broadcast", "mine"))
        # The server is as fresh as before.
        with server.process() as process:
            assert [each["key"] for each in process.loaded["algorithms"]] == [["star", "broadcast", "mine"]]


# --- ends of processes -----------------------------------------------------------------------------------------------


def without_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grade as if the submission had got around the audit hook."""
    layers = [layer for layer in Layer if layer is not Layer.HOOK]
    monkeypatch.setattr("coordinator.grading.grade.SubmissionServer", partial(SubmissionServer, layers=layers))


OWN_ENDS = {
    "segmentation fault": ("import ctypes\nctypes.string_at(0)", "its process was ended by SIGSEGV"),
    "abort": ("os.abort()", "its process was ended by SIGABRT"),
    "its memory limit": ("x = bytearray(1 << 40)", "MemoryError"),
    "kill of itself": ("os.kill(os.getpid(), 9)", "PermissionError"),
    "stop of itself": ("os.kill(os.getpid(), 19)", "PermissionError"),
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
            return len(children) >= 2 and children[-1].cpu_times().user > 0.3
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


# --- Gradescope ------------------------------------------------------------------------------------------------------


def test_results_for_gradescope(tmp_path: Path, call: Call) -> None:
    """The fields are those of its documentation: scores, states and texts of tests, and no markup."""
    file = tmp_path / "mine.py"
    file.write_text(flood(receive("sends = []")))
    ended = call(f"check {file} --topology star:3 --gradescope {tmp_path}/results.json --json")
    grade_record = json.loads(ended.out)
    found = json.loads((tmp_path / "results.json").read_text())
    assert ended.status == 1
    assert {*found} == {
        "score", "execution_time", "output", "output_format", "test_output_format", "test_name_format", "extra_data",
        "tests",
    }  # fmt: skip
    assert found["score"] == grade_record["points"] == sum(test.get("score", 0) for test in found["tests"])
    assert sum(test.get("max_score", 0) for test in found["tests"]) == grade_record["of"]
    tests = {test["name"]: test for test in found["tests"]}
    delivery = tests["algorithm broadcast mine: delivery"]
    assert (delivery["score"], delivery["max_score"], delivery["status"]) == (0, 10, "failed")
    assert "star:3, all-port, 123: not reached: 132, 312, 231" in delivery["output"]
    assert tests["file the file: loads"]["status"] == "passed"
    assert "score" not in tests["algorithm broadcast mine: bound"]
    assert {found[name] for name in found if name.endswith("_format")} == {"text"}
    assert found["extra_data"]["protection"] == grade_record["protection"]


def test_results_need_a_folder(tmp_path: Path, call: Call) -> None:
    file = tmp_path / "mine.py"
    file.write_text(flood())
    ended = call(f"check {file} --topology star:3 --gradescope {tmp_path}/no/results.json")
    assert ended.status == 2
    assert "invalid gradescope" in ended.err
