"""The command line: what it prints, what it leaves, and the exit status, which says what kind of end it was."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import polars
import pytest
from cyclopts import App
from rich.console import Console

from coordinator.cli import app as cli
from coordinator.cli import render as console
from coordinator.history.run_directory import temporary_prefix
from coordinator.maintenance import doctor
from coordinator.networks.base import Progress
from coordinator.networks.launchers.records import Record
from coordinator.planning import machine
from coordinator.results.claims import claims_of
from coordinator.scenario.model import Scenario
from emunode import __version__
from emunode.algorithms.claims import Claim
from emunode.algorithms.flooding import Flood
from emunode.algorithms.registry import registered
from emunode.errors import RunError
from emunode.faults.kinds import KINDS
from emunode.topologies.registry import parse_topology

ROOT = Path(__file__).resolve().parents[3]


def star(**changes: str) -> tuple[str, ...]:
    """Flags of a small broadcast in memory, but for what is changed."""
    values = {"topology": "star:4", "collective": "broadcast", "algorithm": "greedy-tree", "driver": "memory"} | changes
    return tuple(part for key, value in values.items() for part in (f"--{key}", value))


STAR = star()
LOCAL = star(driver="local")
FLOOD = ("--topology", "star:3", "--collective", "broadcast", "--algorithm", "flood", "--driver", "memory")


class Said(NamedTuple):
    """How a command ended."""

    status: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """What it printed as JSON."""
        return json.loads(self.out)


Call = Callable[..., Said]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Call `coordinator` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path.parent / f"{tmp_path.name}-state"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # for the hosts, where this project is not installed

    def one(*arguments: str) -> Said:
        status = cli.main(list(arguments))
        out, err = capsys.readouterr()
        return Said(status, out, err)

    return one


def nothing_is_left(folder: Path) -> bool:
    """Whether a command left a folder as it was."""
    return list(folder.iterdir()) == []


# --- run -------------------------------------------------------------------------------------------------------------


def test_a_run_shows_each_claim_what_was_delivered_and_where_the_rest_is(call: Call, tmp_path: Path) -> None:
    said = call("run", *STAR, "--source", "1234")
    assert (said.status, said.err) == (0, "")
    (folder,) = (tmp_path / "runs" / "star-4-broadcast-greedy-tree").glob("2*")
    for part in (
        "permutation star graph S_4, 24 nodes, in memory",
        "broadcast from 1234 by greedy-tree, all-port, 1 message of 64 bytes",
        "Tseng-Sheu 1997",
        "delivered 23 of 23 in 4 steps with 23 packets",
        "verdict: holds",
        f"run directory: {folder.relative_to(tmp_path)}",
    ):
        assert part in said.out
    names = {path.name for path in folder.iterdir()}
    assert names >= {"scenario.toml", "summary.json", "faults.json", "log.jsonl"}
    assert names >= {f"{table}.parquet" for table in ("journal", "nodes", "links", "steps")}
    assert (folder.parent / "latest").readlink() == Path(folder.name)


def test_json_is_the_summary(call: Call, tmp_path: Path) -> None:
    said = call("run", *STAR, "--json", "--out", "here")
    assert (said.status, said.err) == (0, "")
    summary = json.loads((tmp_path / "here" / "summary.json").read_text())
    assert said.data == {**summary, "path": str(tmp_path / "here")}
    assert set(said.data) >= {
        "topology", "order", "degree", "collective", "algorithm", "port_model", "driver", "clock", "seed", "redundancy",
        "steps", "packets", "segments", "bytes", "max_link_segments_per_step", "expected_deliveries", "deliveries",
        "intact_deliveries", "delivery_ratio", "duplicates", "virtual_seconds", "wall_seconds", "setup_seconds",
        "links_opened", "journal_hash", "verdict", "claims",
    }  # fmt: skip
    for claim in said.data["claims"]:
        assert set(claim) == {"name", "predicted", "measured", "relation", "verdict", "ratio", "source", "derived"}


def test_real_connections_are_counted(call: Call) -> None:
    said = call("run", *LOCAL)
    assert said.status == 0
    assert "S_4, 24 nodes, 36 TCP connections, " in said.out


def test_a_file_is_run_and_flags_override_it(call: Call, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'topology = "star:4"\ncollective = "broadcast"\nalgorithm = "greedy-tree"\ndriver = "memory"\nseed = 3\n'
    )
    assert call("run", "mine.toml", "--json").data["seed"] == 3
    assert call("run", "mine.toml", "--seed", "4", "--json").data["seed"] == 4
    again = call("run", "--scenario", "mine.toml", "--algorithm", "flood", "--json").data
    assert (again["seed"], again["algorithm"]) == (3, "flood")


def test_the_scenario_of_a_run_is_run_again(call: Call) -> None:
    first = call("run", *STAR, "--fault", "crash:2134@2", "--fault", "crash:4321@3", "--out", "one", "--json").data
    again = call("run", "one/scenario.toml", "--json").data
    assert first["faults"] == ["crash:2134@2", "crash:4321@3"]
    assert again["journal_hash"] == first["journal_hash"]


def test_labels_that_begin_with_a_minus(call: Call) -> None:
    ej = ("--topology", "ej:2+3", "--collective", "broadcast", "--algorithm", "improved", "--driver", "memory")
    assert call("run", *ej, "--source", "-1,0", "--json").data["source"] == "-1,0"
    assert call("run", *ej, "--source=-1,0", "--json", "--fault", "crash:-1,1@1").data["faults"] == ["crash:-1,1@1"]


def test_names_that_look_like_markup_or_patterns(call: Call, tmp_path: Path) -> None:
    said = call("run", *FLOOD, "--out", "[/red]*?[bold]")
    assert said.status == 0
    assert f"run directory: {tmp_path / '[/red]*?[bold]'}" in said.out


# --- exit statuses ---------------------------------------------------------------------------------------------------


def test_status_1_is_for_a_claim_that_is_violated(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Claim("steps", 1, "==", "wishful thinking")
    monkeypatch.setattr("coordinator.results.conclude.claims_of", lambda plan: [*claims_of(plan), wrong])
    said = call("run", *STAR)
    assert said.status == 1
    assert "verdict: violated" in said.out
    assert "wishful thinking" in said.out


BAD_COMMANDS: dict[str, tuple[tuple[str, ...], str]] = {
    "no topology": (
        ("run", "--collective", "broadcast"),
        "scenario: these are required: topology (star:N, hypercube:N, ej:A+B or ej:A+B^DIMENSIONS); algorithm (",
    ),
    "unknown topology": (("run", *star(topology="ring:5")), "invalid topology 'ring:5': known are"),
    "unknown algorithm": (("run", *star(algorithm="gredy-tree")), "did you mean 'greedy-tree'?"),
    "unknown collective": (("run", *star(collective="gossip")), "invalid collective 'gossip'"),
    "no label": (("run", *STAR, "--source", "1235"), "invalid source '1235'"),
    "algorithm of another network": (("run", *star(algorithm="sbt")), "it is defined for broadcast on hypercube"),
    "no such port model": (
        ("run", *STAR, "--port-model", "exchange"),
        "greedy-tree is defined for: all-port, one-port",
    ),
    "no fault": (("run", *STAR, "--fault", "crash:1234"), "it says when as @STEP"),
    "contradiction": (("run", *STAR, "--ranks-per-host", "2"), "the memory driver has no hosts; leave it out"),
    "unknown flag": (("run", *STAR, "--sead", "1"), "--seed"),
    "a flag without its value": (("run", *STAR, "--seed"), "--seed"),
    "no such file": (("run", "nothing.toml"), "the file cannot be read: No such file or directory"),
    "out that is taken": (("run", *STAR, "--out", "/"), "it exists and is not an empty directory"),
    "out that cannot be": (("run", *STAR, "--out", "/dev/null/run"), "it cannot be made: Not a directory"),
    "unknown command": (("rum", *STAR), "rum"),
    "a flag given twice": (("run", *STAR, "--topology", "star:5"), "--topology specified multiple times"),
    "one argument too many": (("run", "a.toml", "b.toml"), "b.toml"),
    "unknown list": (("list", "colours"), "colours"),
    "plan of nothing": (("plan",), "scenario: these are required: topology (star:N"),
    "flag of another command": (("clean", "--seed", "1"), "--seed"),
}


@pytest.mark.parametrize("name", BAD_COMMANDS)
def test_status_2_is_for_what_will_not_do(call: Call, tmp_path: Path, name: str) -> None:
    arguments, message = BAD_COMMANDS[name]
    said = call(*arguments)
    assert said.status == 2
    assert said.out == ""
    assert said.err.startswith("coordinator: ")
    assert message in said.err
    assert nothing_is_left(tmp_path)


@pytest.mark.parametrize(
    ("flags", "because"),
    [
        (("--messages", "5", "--step-limit", "3"), "the step limit of 3 was reached"),
        (
            ("--fault", "crash:123@1"),
            "nothing was delivered at all: the source 123 is crashed, and theory says nothing of that",
        ),
        (("--fault", "crash:123@2"), "the source 123 is crashed, and theory says nothing of that"),
    ],
    ids=["step limit", "nothing delivered", "source"],
)
def test_status_3_is_for_what_could_not_be_told(call: Call, flags: tuple[str, ...], because: str) -> None:
    said = call("run", *FLOOD, *flags)
    assert said.status == 3
    assert f"verdict: undecided ({because})" in said.out
    again = call("run", *FLOOD, *flags, "--json")
    assert (again.status, again.data["verdict"], again.data["undecided_because"]) == (3, "undecided", because)
    assert {claim["verdict"] for claim in again.data["claims"]} <= {"undecided"}


def test_status_4_is_for_what_cannot_work_here(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "descriptor_limit", lambda: 100)
    said = call("run", *LOCAL, "--ranks-per-host", "24")
    assert said.status == 4
    assert said.err == (
        "coordinator: a host would need 136 file descriptors and the limit is 100; use --ranks-per-host 12 or less, "
        "or raise it with `ulimit -n 136`\n"
    )
    assert nothing_is_left(tmp_path)


def test_status_4_is_for_algorithms_that_break_their_promise(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Flood, "validate", Flood.cut)  # flooding with odd cycles needs full-duplex links, and says so
    flags = ("--topology", "ej:1+2", "--collective", "broadcast", "--algorithm", "flood", "--duplex", "half")
    said = call("run", *flags, "--driver", "memory")
    assert said.status == 4
    assert said.err.startswith("coordinator: algorithm error: flood at rank ")
    assert nothing_is_left(tmp_path)


@pytest.mark.parametrize(
    "error", [RunError("no room"), OSError(28, "No space left on device")], ids=["ours", "the system's"]
)
def test_status_4_is_for_what_the_system_refuses(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr("coordinator.history.journal.Journal.add", refuse)
    said = call("run", *FLOOD)
    assert said.status == 4
    assert str(error) in said.err
    assert nothing_is_left(tmp_path)


@pytest.mark.parametrize("error", [OSError, polars.exceptions.ComputeError])
@pytest.mark.parametrize(
    "where",
    [
        "history.journal.Journal.add",
        "results.conclude.measure",
        "execution.run.dump_scenario",
        "execution.run.trio.run",
    ],
)
def test_an_error_refers_to_no_file_that_was_removed(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception], where: str
) -> None:
    def refuse(*_: object) -> None:
        (partial,) = tmp_path.glob("runs/*/.partial-*")
        path = str(partial.absolute() / "journal.parquet")
        raise OSError(28, "No space left on device", path) if error is OSError else error(f"no space left: {path}")

    monkeypatch.setattr(f"coordinator.{where}", refuse)
    said = call("run", *FLOOD)
    assert said.status == 4
    assert "no space left" in said.err.lower()
    assert ".partial" not in said.err
    assert nothing_is_left(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_status_130_is_for_a_run_that_was_interrupted(
    call: Call, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    @contextmanager
    def interrupting(_title: str) -> Iterator[Progress]:
        yield lambda phase, done, _: os.kill(os.getpid(), number) if (phase, done) == ("steps", 2) else None

    monkeypatch.setattr(console, "progress_display", interrupting)
    said = call("run", *FLOOD, "--messages", "50", "--json")
    assert said.status == 130
    assert (said.data["verdict"], said.data["undecided_because"]) == ("undecided", "interrupted")
    assert 0 < said.data["deliveries"] < said.data["expected_deliveries"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("disguise", [None, ValueError("a library gave up")], ids=["plain", "disguised"])
def test_status_130_is_for_any_command_that_was_interrupted(
    call: Call, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, disguise: Exception | None
) -> None:
    def interrupted() -> None:
        try:
            os.kill(os.getpid(), number)
        except KeyboardInterrupt:
            if disguise:
                raise disguise from None
            raise

    monkeypatch.setattr(doctor, "examine", interrupted)
    before = signal.getsignal(number)
    assert call("doctor") == (130, "", "coordinator: interrupted\n")
    assert signal.getsignal(number) is before


# --- plan ------------------------------------------------------------------------------------------------------------


def test_a_plan_says_what_it_takes_and_what_is_claimed(call: Call, tmp_path: Path) -> None:
    said = call("plan", *LOCAL, "--ranks-per-host", "6", "--json")
    assert said.status == 0
    needs = said.data
    expected = {
        "order": 24, "degree": 3, "diameter": 4, "processes": 6, "hosts": 4, "ranks_per_host": 6, "links": 36,
        "descriptors_per_host": 6 * 3 + machine.RESERVED_DESCRIPTORS, "listening_ports": 5,
    }  # fmt: skip
    assert {key: needs[key] for key in expected} == expected
    assert 0 < needs["links_across_hosts"] < 36
    assert needs["memory_bytes"] < needs["memory_available_bytes"]
    assert {"name": "segments", "predicted": 23, "relation": "=="}.items() <= needs["claims"][1].items()
    assert nothing_is_left(tmp_path)


def test_a_plan_in_words(call: Call) -> None:
    said = call("plan", *STAR)
    assert (said.status, said.err) == (0, "")
    assert "permutation star graph S_4: broadcast by greedy-tree, driver memory" in said.out
    assert "receivers_per_step" in said.out


def test_a_plan_of_a_giant_is_instant(call: Call) -> None:
    giant = call("plan", *star(topology="star:9"), "--json").data
    assert (giant["order"], giant["links"], giant["processes"]) == (362_880, 0, 1)


def test_a_plan_that_cannot_work_here_says_so_after_all_the_rest(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "descriptor_limit", lambda: 100)
    said = call("plan", *LOCAL, "--ranks-per-host", "24", "--json")
    assert said.status == 4
    assert said.data["descriptor_limit"] == 100
    assert said.data["claims"]
    assert said.data["possible"] is False
    assert "use --ranks-per-host 12 or less" in said.data["impossible_because"]
    assert said.err == f"coordinator: {said.data['impossible_because']}\n"
    monkeypatch.setattr(machine, "descriptor_limit", lambda: 65)  # no room for a single node
    words = call("plan", *LOCAL)
    assert words.status == 4
    assert "receivers_per_step" in words.out
    assert "file descriptors" in words.err


# --- list ------------------------------------------------------------------------------------------------------------


def test_topologies_are_listed_with_an_example_that_works(call: Call) -> None:
    rows = call("list", "topologies", "--json").data
    assert [row["family"] for row in rows] == ["star", "hypercube", "ej"]
    for row in rows:
        topology = parse_topology(row["example"])
        assert (row["order"], row["degree"], row["diameter"]) == (topology.order, topology.degree, topology.diameter)
    words = call("list", "topologies")
    assert words.status == 0
    assert "hypercube" in words.out


def test_every_algorithm_is_listed(call: Call) -> None:
    rows = call("list", "algorithms", "--json").data
    listed = {(row["topology"], row["collective"], row["algorithm"]) for row in rows}
    assert listed == {(family, str(entry.collective), entry.name) for family, entry in registered()}
    assert all(row["citation"] and row["port_models"] for row in rows)
    assert len(listed) == len(rows)
    assert call("list", "algorithms").status == 0


def test_every_fault_is_listed(call: Call) -> None:
    rows = call("list", "faults", "--json").data
    assert [row["kind"] for row in rows] == list(KINDS)
    assert "crash:LABEL@STEP" in call("list", "faults").out


# --- doctor and clean ------------------------------------------------------------------------------------------------


def test_the_doctor_finds_this_machine_fit_or_says_what_to_do(call: Call) -> None:
    said = call("doctor", "--json")
    assert {finding["state"] for finding in said.data} <= {"good", "limit", "problem"}
    assert said.status == (4 if any(finding["state"] == "problem" for finding in said.data) else 0)
    subjects = [finding["subject"] for finding in said.data]
    assert subjects == [
        "descriptors", "file table", "processes", "loopback", "accept queue", "connection tracking",
        "network namespaces", "memory", "cores", "leftovers", "run directories", "disk", "clock", "containers",
    ]  # fmt: skip
    assert all(finding["remedy"] for finding in said.data if finding["state"] == "problem")
    assert "descriptors" in call("doctor").out


def test_the_doctor_calls_a_problem_a_problem(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "descriptor_limit", lambda: 65)
    said = call("doctor", "--json")
    assert said.status == 4
    assert {"state": "problem", "remedy": "ulimit -n 4096"}.items() <= said.data[0].items()


def findings(said: Said) -> dict[str, tuple[str, str]]:
    """State and what was seen, by subject."""
    return {finding["subject"]: (finding["state"], finding["seen"]) for finding in said.data}


def test_the_doctor_tells_of_a_clock_that_was_set_back(call: Call, tmp_path: Path) -> None:
    call("run", *FLOOD)
    assert findings(call("doctor", "--json"))["clock"][0] == "good"
    (latest,) = tmp_path.glob("runs/*/latest")
    latest.unlink()
    latest.symlink_to("2999-01-01T00-00-00.000Z-0")
    state, seen = findings(call("doctor", "--json"))["clock"]
    assert (state, "2999-01-01T00-00-00.000Z-0" in seen) == ("limit", True)


def test_the_doctor_tells_of_a_disk_that_is_full_or_gone(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, before[1]))
    try:
        said = call("doctor", "--json")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert said.status == 4
    assert findings(said)["disk"][0] == "problem"
    assert findings(said)["disk"][1].endswith("1.0 MiB a file")
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    said = call("doctor", "--json")
    assert said.status == 4
    assert findings(said)["run directories"] == ("problem", "the working directory: No such file or directory")


def test_the_doctor_tells_of_an_engine_that_does_not_answer(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    (finding,) = (finding for finding in call("doctor", "--json").data if finding["subject"] == "containers")
    assert finding["state"] == "limit"
    assert "no Docker engine answers" in finding["seen"]
    assert "DOCKER_HOST" in finding["remedy"]


def test_clean_takes_what_killed_runs_left_and_nothing_else(call: Call, tmp_path: Path) -> None:
    call("run", *FLOOD)
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    folder = tmp_path / "runs" / "star-3-broadcast-flood"
    left = folder / f".partial-{process.pid}-2026-01-01T00-00-00.000Z-0"
    left.mkdir()
    (left / "journal-00000.parquet").write_bytes(b"half a journ")
    (folder / f".partial-{process.pid}-latest").symlink_to(left.name)
    mine = folder / f".partial-{os.getpid()}-2026-01-01T00-00-00.000Z-0"
    mine.mkdir()
    assert [finding["state"] for finding in call("doctor", "--json").data if finding["subject"] == "leftovers"] == [
        "limit"
    ]
    said = call("clean", "--json")
    assert said.status == 0
    assert said.data == {
        "removed": [str(path.relative_to(tmp_path)) for path in (left, folder / f".partial-{process.pid}-latest")]
    }
    assert min(path.name for path in folder.iterdir()) == mine.name
    assert len(list(folder.iterdir())) == 3
    assert call("clean").out == "nothing to clean\n"


def gone() -> int:
    """The number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def test_clean_finds_what_was_left_beside_out(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run killed with SIGKILL while it writes; `clean` is called from another folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    out = tmp_path / "far" / "away"
    flags = ("run", *FLOOD, "--messages", "5000", "--out", str(out))
    with subprocess.Popen([sys.executable, "-m", "coordinator", *flags], stderr=subprocess.DEVNULL) as process:
        while not (left := list(tmp_path.glob("far/.partial-*"))):
            time.sleep(0.01)
        assert call("clean", "--json").data == {"removed": []}  # its process lives
        process.kill()
    assert {"leftovers": "limit"}.items() <= {
        key: state for key, (state, _) in findings(call("doctor", "--json")).items()
    }.items()
    assert call("clean", "--json").data == {"removed": [str(left[0])]}
    assert not left[0].exists()
    assert list((tmp_path / "state").rglob("*/partial/*")) == []
    assert call("clean").out == "nothing to clean\n"


def test_a_run_that_ends_leaves_no_note(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert call("run", *FLOOD, "--out", str(tmp_path / "there")).status == 0
    assert list((tmp_path / "state").rglob("*/partial/*")) == []


def test_a_forged_note_removes_nothing(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    precious = tmp_path / "precious"
    precious.mkdir()
    notes = tmp_path / "state" / "collective-testbench" / "partial"
    notes.mkdir(parents=True)
    (notes / "0123456789abcdef").write_bytes(bytes(precious))
    assert call("clean").status == 0
    assert precious.exists()


def test_clean_finds_what_a_killed_reproduce_left(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.history.run_directory.gettempdir", lambda: str(tmp_path))
    left = tmp_path / f"coordinator-reproduce-{gone()}-abc"
    (left / "1").mkdir(parents=True)
    mine = tmp_path / temporary_prefix()
    mine.mkdir()
    (tmp_path / "coordinator-reproduce-notes").mkdir()  # somebody else's
    assert findings(call("doctor", "--json"))["leftovers"][0] == "limit"
    assert call("clean", "--json").data == {"removed": [str(left)]}
    assert mine.exists()


def test_an_engine_that_does_not_answer_keeps_no_folder_from_being_removed(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    left = tmp_path / "runs" / "x" / f".partial-{gone()}-2026"
    left.mkdir(parents=True)
    Record("1", gone(), 0.0, "", "net", ("one",)).write()

    def refuse(_: Record) -> list[str]:
        raise RunError("no Docker engine answers")

    monkeypatch.setattr("coordinator.networks.launchers.docker.sweep", refuse)
    said = call("clean")
    assert said.status == 4
    assert said.out == f"removed {left.relative_to(tmp_path)}\n"
    assert not left.exists()


# --- what every command has in common --------------------------------------------------------------------------------


def commands(app: App, before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], App]]:
    """Every command there is, those below a command included."""
    for name in app:
        if not name.startswith("-"):
            below = list(commands(app[name], (*before, name)))
            yield from below or [((*before, name), app[name])]


@pytest.mark.parametrize("command", [name for name, _ in commands(cli.app)], ids=" ".join)
def test_every_command_takes_json_and_its_errors_are_json(call: Call, command: tuple[str, ...]) -> None:
    assert "--json" in call(*command, "--help").out
    said = call(*command, "--json", "--no-such-flag")
    assert said.status == said.data["exit_status"] == 2
    assert "--no-such-flag" in said.data["error"]["message"]
    assert said.err.startswith("coordinator: ")


def test_an_error_of_a_field_names_it_in_json(call: Call) -> None:
    error = call("run", *star(topology="star:99"), "--json").data["error"]
    assert (error["kind"], error["field"], error["value"]) == ("ScenarioError", "topology", "star:99")
    assert error["allowed"]


def test_report_and_export_say_what_they_wrote(call: Call, tmp_path: Path) -> None:
    path = call("run", *FLOOD, "--json").data["path"]
    assert (tmp_path / path / "summary.json").exists()
    assert call("report", path, "--json").data == {"written": str(tmp_path / path / "report.html")}
    assert call("export", path, "--graphml", "a.graphml", "--goal", "a.goal", "--json").data == {
        "written": {"graphml": "a.graphml", "goal": "a.goal"}
    }
    assert call("export", path, "--graphml", "b.graphml").out == "wrote graphml: b.graphml\n"
    assert call("export", "--topology", "star:3", "--graphml", "c.graphml").out == "wrote graphml: c.graphml\n"
    assert all((tmp_path / name).stat().st_size for name in ("a.graphml", "a.goal", "b.graphml", "c.graphml"))


@pytest.mark.parametrize(
    ("arguments", "suggestion"),
    [
        (("run", *star(topology="hypercubes:4")), "did you mean hypercube:4?"),
        (("run", *star(topology="starr:99")), "did you mean star:5?"),
        (("run", "--alg", "edt"), "Did you mean --algorithm?"),
        (("run", "--message", "1"), "Did you mean --message-bytes or --messages?"),
    ],
)
def test_suggestions(call: Call, arguments: tuple[str, ...], suggestion: str) -> None:
    said = call(*arguments)
    assert said.status == 2
    assert suggestion in said.err


@pytest.mark.parametrize("name", ["algorithms", "topologies", "faults"])
def test_no_name_is_cut_in_80_columns(call: Call, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(console, "console", lambda: Console(width=80, highlight=False))
    said = call("list", name)
    assert "…" not in said.out
    columns = ("family", "example") if name == "topologies" else ("algorithm", "kind")
    for row in call("list", name, "--json").data:
        assert all(row[column] in said.out for column in columns if column in row)


BOUNDED: dict[str, tuple[str, ...]] = {
    "messages": ("run", *STAR, "--messages", "2147483647"),
    "a range": ("campaign", *STAR, "--faults", "nodes=0", "--vary", "redundancy=1..999999999"),
    "a range of digits": ("campaign", *STAR, "--faults", "nodes=0", "--vary", f"seed=1..{'9' * 4000}"),
    "a grid": ("campaign", *STAR, "--faults", "nodes=0", "--vary", "seed=1..5000", "--vary", "messages=1..5000"),
    "trials": ("campaign", *STAR, "--faults", "nodes=0", "--trials", "99999999999"),
    "workers": ("campaign", *STAR, "--faults", "nodes=0", "--workers", "999999"),
    "a star": ("plan", *star(topology="star:999999999")),
    "a hypercube": ("plan", *star(topology="hypercube:999999999")),
    "a lattice": ("plan", *star(topology="ej:999999999999+3")),
    "dimensions": ("plan", *star(topology="ej:3+4^999999")),
    "a name": ("run", *STAR, "--name", "a" * 300),
    "a time": ("run", *STAR, "--startup", "1e300s"),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_every_size_is_bounded(call: Call, name: str) -> None:
    before = time.monotonic()
    said = call(*BOUNDED[name])
    assert said.status == 2
    assert time.monotonic() - before < 10


def test_the_memory_of_many_messages_is_estimated(call: Call) -> None:
    few, many = (call("plan", *STAR, "--messages", count, "--json").data for count in ("1", "1000000"))
    assert many["memory_bytes"] - few["memory_bytes"] > 23 * 999_999 * 300


# --- help ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command", [(), ("run",), ("plan",), ("list",), ("list", "algorithms"), ("doctor",), ("clean",)]
)
def test_every_command_explains_itself(call: Call, command: tuple[str, ...]) -> None:
    said = call(*command, "--help")
    assert (said.status, said.err) == (0, "")
    assert f"Usage: coordinator {' '.join(command)}".rstrip() in said.out


def test_without_a_command_there_is_help(call: Call) -> None:
    said = call()
    assert said.status == 0
    assert "Usage: coordinator COMMAND" in said.out


def test_every_field_of_a_scenario_is_a_flag(call: Call) -> None:
    for command in ("run", "plan"):
        said = call(command, "--help")
        for field in Scenario.model_fields:
            assert f"--{field.replace('_', '-')}" in said.out


def test_the_version(call: Call) -> None:
    assert call("--version").out.strip() == __version__


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    command = f"{sys.executable} -m coordinator list algorithms --json | head -c 1; echo ${{PIPESTATUS[0]}}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert ended.stdout == "[0\n"
    assert ended.stderr == ""


@pytest.mark.parametrize(
    ("full", "flags", "status"),
    [
        pytest.param("stdout", ("--out", "there"), 4, id="the result cannot be told"),
        pytest.param("stdout", ("--out", "there", "--json"), 4, id="nor as JSON"),
        pytest.param("stderr", ("--seed", "-1"), 2, id="nor what will not do"),
        pytest.param("stderr", ("--out", "/proc/there"), 2, id="nor where no run can be"),
    ],
)
def test_output_that_nobody_takes_is_no_verdict(tmp_path: Path, full: str, flags: tuple[str, ...], status: int) -> None:
    """Where output goes to a file on a full disk, the status is still that of the list; it was 1, for a violated claim."""
    with Path("/dev/full").open("w") as nowhere:
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | {full: nowhere}
        command = [sys.executable, "-m", "coordinator", "run", *star(driver="memory"), *flags]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        ended = subprocess.run(
            command,
            cwd=tmp_path,
            env=environment,
            text=True,
            check=False,
            stdout=streams["stdout"],
            stderr=streams["stderr"],
        )
    assert ended.returncode == status
    assert "Traceback" not in (ended.stderr or "")
    if full == "stdout":
        assert ended.stderr == "coordinator: operating system error: [Errno 28] No space left on device\n"
        assert json.loads((tmp_path / "there" / "summary.json").read_text())["verdict"] == "holds"
