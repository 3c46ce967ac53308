"""Programs that play nodes: the history of the built-in rule, one error for whatever they do wrong, and nothing left."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import which

import polars as pl
import pytest

import coordinator
from coordinator.execution.sinks import RunResult
from coordinator.execution.verify import verify
from coordinator.scenario.model import read_scenario
from coordinator.scenario.programs import allow_program, is_allowed
from emunode.annexes.programs.process import MAX_LINE, MAX_LOGGED, Program
from emunode.errors import DeadlineError, RuleError, ScenarioError
from emunode.programs import ALLOWED, command_text
from tests.annexes.programs.support import golden_answers
from tests.helpers.command_line import ROOT, SECONDS, Call, Start, fields, wait_until
from tests.helpers.scenarios import Case
from tests.helpers.support import failures, run_scenario

PLUGINS = ROOT / "tests" / "plugins"
PYTHON = shlex.quote(sys.executable)
DIRECT = f"{PYTHON} -SE {PLUGINS / 'direct.py'}"
"""Without packages, Python starts in half of the time."""
BROADCAST = fields("star:3 broadcast program")
LINE = "run --topology star:3 --collective broadcast --algorithm program --driver memory --program"
ALL_SENDS = '{"sends":[{"step":1,"port":0,"segment":[0,-1,0,0]},{"step":1,"port":1,"segment":[0,-1,0,0]}]}'


@pytest.fixture(autouse=True)
def not_allowed() -> Iterator[None]:
    yield
    ALLOWED.clear()


def run_program(out: Path, program: str, **values: object) -> RunResult:
    return run_scenario(
        out, **{"algorithm": "program", "program": allow_program(program), "program_deadline": "60s", **values}
    )


def processes(marker: str) -> list[int]:
    """Return the processes with this text in their command line, or as their working directory, that have not ended."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            is_marked = (
                str((folder / "cwd").readlink()) == marker or marker.encode() in (folder / "cmdline").read_bytes()
            )
            alive = folder.name.isdigit() and "\nState:\tZ" not in (folder / "status").read_text()
        except OSError:
            continue
        if alive and is_marked and int(folder.name) != os.getpid():
            found.append(int(folder.name))
    return found


# --- the same history as the built-in rules --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def greedy(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Provide the greedy tree in C."""
    if not which("cc"):
        pytest.skip("there is no C compiler here")
    program = tmp_path_factory.mktemp("c") / "greedy"
    subprocess.run(["cc", "-O1", "-Wall", "-Werror", "-o", program, PLUGINS / "greedy.c"], check=True)
    return str(program)


@pytest.mark.parametrize("driver", ["memory", "local"])
def test_a_program_in_c_has_the_history_of_the_greedy_tree(driver: str, greedy: str, tmp_path: Path) -> None:
    network = (
        "star:4 broadcast greedy-tree source=3142" if driver == "memory" else "star:3 broadcast greedy-tree source=213"
    )
    values = fields(f"{network} segments=3")
    expected = run_scenario(tmp_path / "rule", **values).summary
    place = {"ranks_per_host": 1} if driver == "local" else {}
    found = run_program(tmp_path / "program", greedy, **{**values, "algorithm": "program"}, driver=driver, **place)
    assert found.verdict == "holds", failures(found)
    assert found.summary["journal_hash"] == expected["journal_hash"]


def awk() -> str:
    """Return an awk that reads line by line."""
    if not which("awk"):
        pytest.skip("there is no awk here")
    version = subprocess.run(["awk", "-W", "version"], capture_output=True, text=True, check=False)
    return "awk -W interactive" if "mawk" in version.stdout + version.stderr else "awk"


@pytest.mark.parametrize("values", ["star:3 segments=3", "ej:1+2 source=1,-1", "torus:3x4 fault=crash:0,1@2"])
def test_a_program_in_awk_has_the_history_of_flooding(values: str, tmp_path: Path) -> None:
    topology, *more = values.split()
    scenario = fields(" ".join((topology, "broadcast flood", *more)))
    expected = run_scenario(tmp_path / "rule", **scenario).summary
    found = run_program(tmp_path / "run", f"{awk()} -f {PLUGINS / 'flood.awk'}", **{**scenario, "algorithm": "program"})
    assert found.summary["journal_hash"] == expected["journal_hash"]


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize(
    ("collective", "deliveries"),
    [("broadcast", 4), ("scatter", 4), ("gather", 4), ("allgather", 20), ("alltoall", 20)],
)
def test_every_collective_without_arithmetic(collective: str, deliveries: int, tmp_path: Path) -> None:
    values = fields(f"complete:5 {collective} program messages=2 segments=2")
    drivers = ("memory", "local") if collective == "alltoall" else ("memory", "memory")
    runs = [run_program(tmp_path / f"{at}", DIRECT, **values, driver=drivers[at]) for at in (0, 1)]
    for each in runs:
        assert each.verdict == "holds", failures(each)
        assert each.summary["deliveries"] == 2 * deliveries
        assert each.summary["steps"] == 4
    assert runs[0].summary["journal_hash"] == runs[1].summary["journal_hash"]


# --- what programs do wrong ------------------------------------------------------------------------------------------

ANSWERS = golden_answers("answers") | {"deep JSON": ("[" * 100_000, "it is not JSON: maximum recursion depth")}


@pytest.mark.parametrize("case", ANSWERS)
def test_a_wrong_answer_is_one_error_with_its_line(case: str, call: Call, tmp_path: Path) -> None:
    answer, words = ANSWERS[case]
    (tmp_path / "answer").write_text(f"{answer}\n")
    (tmp_path / "node.sh").write_text(f"read -r line\ncat {tmp_path}/answer\nsleep 60\n")
    ended = call(LINE, "sh node.sh")
    assert ended.status == 4
    assert ended.err.startswith("coordinator: algorithm error: the program of rank 0 (123)")
    assert words in ended.err
    assert not list(tmp_path.glob("runs/*/2*"))
    # Killed with the session of the program, and on a busy machine a moment later.
    wait_until(lambda: not processes(str(tmp_path / "node.sh")), "the end of the programs")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("exit 3", "ended with status 3 in step 1, after line 0 of its output"),
        ("echo the reason >&2; exit 1", "its last error output: the reason"),
        ("kill -9 $$", "was killed by signal 9"),
        ("read -r line; exec >&-; sleep 60", "closed its output"),
        ("cat /dev/zero", f"wrote a line of more than {MAX_LINE:,} bytes"),
        (f"read -r line; echo '{ALL_SENDS}'; exit 0", ""),
    ],
    ids=["dies", "says why", "killed", "closes its output", "floods", "dies later"],
)
def test_a_program_that_ends_or_floods(text: str, words: str, call: Call, tmp_path: Path) -> None:
    (tmp_path / "node.sh").write_text(text + "\n")
    ended = call(LINE, "sh node.sh")
    assert ended.status == 4
    assert "the program of rank " in ended.err
    assert words in ended.err
    # Killed with the session of the program, and on a busy machine a moment later.
    wait_until(lambda: not processes(str(tmp_path / "node.sh")), "the end of the programs")


def test_the_port_model_is_enforced(call: Call, tmp_path: Path) -> None:
    (tmp_path / "node.sh").write_text(f"read -r line; echo '{ALL_SENDS}'; sleep 60\n")
    ended = call(f"{LINE} 'sh node.sh' --port-model one-port")
    assert (ended.status, "program at rank 0, step 1: sends on ports [0, 1], which one-port" in ended.err) == (4, True)


@pytest.mark.draws
@pytest.mark.parametrize("driver", ["memory", "local"])
def test_a_missed_deadline_makes_the_run_undecided(driver: str, call: Call, tmp_path: Path) -> None:
    # The first answer comes in time, and then the neighbours say nothing, with a child that holds the pipes open.
    (tmp_path / "node.sh").write_text(
        f"read -r line\ncase $line in *'init\",\"rank\":0,'*) echo '{ALL_SENDS}';; esac\nsleep 4321 & sleep 4321\n"
    )
    line = f"{LINE} 'sh node.sh' --program-deadline 300ms --json --out late".replace("memory", driver)
    ended = call(line)
    assert ended.status == 3, ended.err
    assert ended.data["verdict"] == "undecided"
    assert "did not answer within 0.3 s in step 1" in ended.data["undecided_because"]
    assert (tmp_path / "late" / "report.html").exists()
    wait_until(lambda: not processes(str(tmp_path / "node.sh")), "the end of the programs")


def test_standard_error_is_logged_within_a_bound(tmp_path: Path) -> None:
    node = tmp_path / "node.py"
    node.write_text(
        "import sys\nsys.stderr.write('x' * 3_000_000)\nsys.stderr.flush()\n" + (PLUGINS / "direct.py").read_text()
    )
    result = run_program(tmp_path / "run", f"{PYTHON} -SE {node}", **fields("complete:3 broadcast program"))
    assert result.verdict == "holds"
    log = (result.path / "log.jsonl").read_text()
    assert MAX_LOGGED <= log.count("x") < 4 * MAX_LOGGED
    assert "rank 0 (0)" in log


# --- processes -------------------------------------------------------------------------------------------------------


def test_a_program_starts_and_ends_with_its_rank() -> None:
    words = [sys.executable, str(PLUGINS / "direct.py")]
    program = Program(words, SECONDS, "rank 0")
    with pytest.raises(Exception, match="was not named here, so it is not executed"):
        program.ask(b"{}\n", 1)
    ALLOWED.add(command_text(words))
    assert program.ask(b'{"type":"step"}\n', 1) == b'{"sends": []}'
    process = program._process
    assert process is not None
    del program
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("driver", ["memory", "local"])
def test_programs_die_with_a_killed_coordinator(driver: str, start: Start, tmp_path: Path) -> None:
    (tmp_path / "node.sh").write_text(f"touch {tmp_path}/started\nexec sleep 4321\n")
    line = f"coordinator {LINE} 'sh node.sh' --program-deadline 60s".replace("memory", driver)
    run = start(line)
    run.wait_for((tmp_path / "started").exists, "a program")
    assert len(processes(str(tmp_path))) >= 2
    run.process.kill()
    run.process.wait()
    wait_until(lambda: not processes(str(tmp_path)), "the end of all processes")


@pytest.mark.parametrize("driver", ["memory", "local"])
def test_ctrl_c_does_not_wait_for_an_answer(driver: str, start: Start, tmp_path: Path) -> None:
    # A host that is killed takes its programs with it, but not their children.
    text = "sleep 4321 &\nwait\n" if driver == "memory" else "exec sleep 4321\n"
    (tmp_path / "node.sh").write_text(f"touch {tmp_path}/started\n{text}")
    line = f"coordinator {LINE} 'sh node.sh' --program-deadline 60s".replace("memory", driver)
    run = start(line)
    run.wait_for((tmp_path / "started").exists, "a program")
    run.process.send_signal(signal.SIGINT)
    # Sooner than the program has to answer.
    assert run.process.wait(50) == 130
    wait_until(lambda: not processes(str(tmp_path)), "the end of all processes")


def test_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    node = tmp_path / "node"
    node.write_text("no program\n")
    node.chmod(0o700)
    with pytest.raises(RuleError, match=r"cannot be started: Exec format error"):
        run_program(tmp_path / "run", str(node), **BROADCAST)


def test_the_deadline_holds_for_each_answer() -> None:
    ALLOWED.add(command_text(["sleep", "60"]))
    with pytest.raises(DeadlineError):
        Program(["sleep", "60"], 0.2, "rank 0").ask(b"x" * 2_000_000 + b"\n", 1)


# --- permission ------------------------------------------------------------------------------------------------------


def test_a_program_is_executed_only_if_the_user_names_it(call: Call, tmp_path: Path) -> None:
    node = tmp_path / "node.py"
    node.write_text((PLUGINS / "direct.py").read_text())
    line = f"run --topology complete:4 --collective broadcast --algorithm program --program '{PYTHON} node.py'"
    first = call(f"{line} --out one --json")
    assert first.status == 0, first.err
    assert str(read_scenario(tmp_path / "one" / "scenario.toml")["program"]).startswith(
        f"{sys.executable} {node} @sha256:"
    )
    ALLOWED.clear()
    node.rename(tmp_path / "moved.py")
    for command in ("run", "plan"):
        ended = call(f"{command} one/scenario.toml")
        assert (ended.status, f"add --program '{sys.executable} {node}'" in ended.err) == (2, True)
    again = call(f"run one/scenario.toml --driver memory --program '{PYTHON} moved.py' --json")
    assert again.data["journal_hash"] == first.data["journal_hash"]
    (tmp_path / "moved.py").write_text("# altered\n")
    ended = call(f"run one/scenario.toml --program '{PYTHON} moved.py'")
    assert (ended.status, "digest mismatch: the scenario says" in ended.err) == (2, True)


def test_verify_replays_only_a_program_that_is_named(tmp_path: Path) -> None:
    result = run_program(tmp_path / "run", DIRECT, **fields("complete:4 broadcast program"))
    found = verify(result.path).record()
    assert (found["run"], found["verified"], found["findings"], found["unchecked"]) == (str(result.path), True, [], [])
    ALLOWED.clear()
    (note,) = verify(result.path).unchecked
    assert f"--program '{DIRECT}'" in note
    journal = result.path / "journal.parquet"
    pl.read_parquet(journal).head(2).write_parquet(journal)
    assert not verify(result.path).verified


@pytest.mark.parametrize(
    ("values", "field", "words"),
    [
        ({"algorithm": "flood"}, "program", "it needs --algorithm program"),
        ({"program_deadline": "0s"}, "program_deadline", "greater than 0"),
    ],
)
def test_a_refused_scenario_allows_no_program(values: dict[str, object], field: str, words: str) -> None:
    with pytest.raises(ScenarioError, match=words) as caught:
        _ = Case({**BROADCAST, "program": DIRECT, **values}).plan
    assert caught.value.field == field
    assert not is_allowed(DIRECT)


def test_trials_start_no_programs(call: Call) -> None:
    ended = call(f"certify --topology star:3 --algorithm program --faults nodes=1 --program '{DIRECT}'")
    assert (ended.status, "trials do not start programs" in ended.err) == (2, True)


def test_the_python_api_takes_a_program() -> None:
    run = coordinator.network("complete:4").broadcast("program", program=DIRECT, program_deadline="60s")
    assert run.verdict == "holds"
    assert run.summary["deliveries"] == 3
