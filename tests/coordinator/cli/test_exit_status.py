"""Every way in which a command can end has its exit status; 1 is only for what was judged and found wrong."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from coordinator.cli import app as cli
from emunode.errors import RunError

ROOT = Path(__file__).resolve().parents[3]
RUN = ("run", "--topology", "star:3", "--collective", "broadcast", "--algorithm", "bfs-tree", "--driver", "memory")
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


def coordinator(*arguments: str) -> list[str]:
    """The command line of a process."""
    return [sys.executable, "-m", "coordinator", *arguments]


def environment(**more: str) -> dict[str, str]:
    """Variables of a process that finds this project."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


def ended(folder: Path, arguments: Sequence[str], **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        coordinator(*arguments), cwd=folder, env=environment(**more), capture_output=True, text=True, check=False
    )


# --- a reader that goes away -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (RUN, 0),
        ((*RUN, "--json"), 0),
        ((*RUN, "--fault", "crash:123@1"), 3),
        ((*RUN, "--seed", "-1"), 2),
        ((*RUN, "--seed", "-1", "--json"), 2),
        (("list", "algorithms", "--json"), 0),
    ],
)
@pytest.mark.parametrize("streams", ["stdout", "both"])
def test_a_reader_that_goes_away_changes_no_status(
    tmp_path: Path, arguments: tuple[str, ...], status: int, streams: str
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.run(
        coordinator(*arguments),
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


def test_a_stream_that_is_closed_is_no_error(tmp_path: Path) -> None:
    """Its number must not go to another file, into which the output would then be written."""
    command = " ".join(coordinator(*RUN, "--out", "there"))
    process = subprocess.run(["bash", "-c", f"{command} >&- 2>&- <&-"], cwd=tmp_path, env=environment(), check=False)
    assert process.returncode == 0
    assert json.loads((tmp_path / "there" / "summary.json").read_text())["verdict"] == "holds"


# --- an algorithm with a bug -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("driver", [("memory",), ("local",), ("local", "--clock", "timed")], ids=" ".join)
@pytest.mark.parametrize(("where", "rank", "step"), [("__init__", 0, 1), ("start", 0, 1), ("receive", 3, 3)])
def test_an_exception_in_an_algorithm_says_where(
    tmp_path: Path, driver: tuple[str, ...], where: str, rank: int, step: int
) -> None:
    (tmp_path / "sitecustomize.py").write_text(FAILING)
    flags = ("--topology", "star:4", "--collective", "broadcast", "--algorithm", "bfs-tree", "--driver", *driver)
    process = ended(tmp_path, ("run", *flags), PYTHONPATH=f"{tmp_path}:{ROOT}", FAILING=where)
    assert process.returncode == 4
    assert process.stdout == ""
    (line,) = [line for line in process.stderr.splitlines() if not re.match(r"permutation star graph S_4: ", line)]
    assert re.fullmatch(
        rf"coordinator: algorithm error: bfs-tree at rank {rank}, step {step}, line \d+ of \S+\.py: "
        r"KeyError: 'no such piece'",
        line,
    )
    assert not (tmp_path / "runs").exists()


def test_an_error_that_nobody_foresaw_is_no_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise ValueError("a mistake of ours")

    monkeypatch.setattr("coordinator.maintenance.doctor.examine", fail)
    assert cli.main(["doctor"]) == 4
    said = capsys.readouterr()
    assert said.out == ""
    assert "Traceback" in said.err  # for whoever reports it
    assert said.err.endswith("coordinator: internal error: ValueError: a mistake of ours\n")


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (MemoryError(), 4, "out of memory"),
        (RunError("no room"), 4, "no room"),
        (OSError(28, "No space left on device"), 4, "operating system error: [Errno 28] No space left on device"),
        (ExceptionGroup("", [ExceptionGroup("", [OSError(28, "full")])]), 4, "operating system error: [Errno 28] full"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (BaseExceptionGroup("", [KeyboardInterrupt()]), 130, "interrupted"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("as_json", [False, True])
def test_errors_have_one_line_and_a_status(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    status: int,
    message: str,
    as_json: bool,
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr("coordinator.maintenance.doctor.examine", fail)
    assert cli.main(["doctor", *["--json"] * as_json]) == status
    said = capsys.readouterr()
    assert said.err == f"coordinator: {message}\n"
    if as_json:
        record = json.loads(said.out)
        assert (record["exit_status"], record["error"]["message"]) == (status, message)
    else:
        assert said.out == ""


# --- a full disk -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("kilobytes", [1, 8, 40])
def test_a_campaign_on_a_full_disk_ends_with_one_line(tmp_path: Path, workers: str, kilobytes: int) -> None:
    flags = "--topology star:4 --algorithm edt --redundancy 3 --faults nodes=0..3 --trials 400 --out camp --workers"
    command = f"ulimit -f {kilobytes}; exec {' '.join(coordinator('campaign', *flags.split(), workers))}"
    process = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert process.returncode == 4
    lines = [line for line in process.stderr.splitlines() if not line.startswith("campaign: ")]
    assert lines == ["coordinator: operating system error: [Errno 27] File too large"]


# --- Ctrl-C and SIGTERM ----------------------------------------------------------------------------------------------


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler for a signal: that is when the interpreter has begun with our code."""
    status = Path(f"/proc/{pid}/status").read_text()
    (mask,) = re.findall(r"SigCgt:\s*([0-9a-f]+)", status)
    return bool(int(mask, 16) >> (number - 1) & 1)


def interrupted(folder: Path, arguments: Sequence[str], number: signal.Signals, seconds: float) -> tuple[int, str]:
    """Send a signal so long after a command began; its status, and what it said."""
    with subprocess.Popen(
        coordinator(*arguments),
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while not catches(process.pid, signal.SIGTERM):
            time.sleep(0.001)
        time.sleep(seconds)
        process.send_signal(number)
        _, said = process.communicate()
        return process.returncode, said


COMMANDS: dict[str, tuple[str, ...]] = {
    "run": RUN,
    "local run": ("run", "--topology", "star:4", "--collective", "broadcast", "--algorithm", "flood"),
    "doctor": ("doctor",),
    "campaign": (
        "campaign",
        "--topology",
        "star:4",
        "--algorithm",
        "flood",
        "--faults",
        "nodes=0..2",
        "--trials",
        "50",
    ),
    "json": ("list", "algorithms", "--json"),
}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_in_the_first_second_ends_with_130_and_no_traceback(
    tmp_path: Path, name: str, number: signal.Signals
) -> None:
    """At eight moments from the first line on: among imports, in the run, while it ends. Some come after the end."""
    statuses = set()
    for moment in range(8):
        status, said = interrupted(tmp_path, COMMANDS[name], number, 0.12 * moment)
        statuses.add(status)
        assert "Traceback" not in said, (moment, said)
        assert "ignored" not in said, (moment, said)
        # a run and a campaign that have begun say so on standard output, with what they kept
        assert status != 130 or "interrupted" in said or name in ("run", "local run", "campaign"), (moment, said)
    assert statuses <= {130, 0, 4 if name == "doctor" else 0}
    assert 130 in statuses


def test_an_interrupt_waits_for_the_end_of_an_import(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Raised within the import system, it could be printed and lost, or leave half a module behind."""
    (tmp_path / "slow_to_import.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nWHOLE = True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    whole: list[bool] = []

    def look() -> None:
        import slow_to_import  # type: ignore[import-not-found]

        whole.append(slow_to_import.WHOLE)
        time.sleep(1)
        pytest.fail("the interrupt was lost")

    monkeypatch.setattr("coordinator.maintenance.doctor.examine", look)
    handlers: list[Callable[..., object]] = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGALRM)]  # type: ignore[misc]
    assert cli.main(["doctor"]) == 130
    assert whole == [True]
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGALRM)] == handlers


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_within_a_finalizer_is_not_lost(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    class Finalized:
        def __del__(self) -> None:
            os.kill(os.getpid(), number)

    def look() -> None:
        Finalized()
        time.sleep(1)
        pytest.fail("the interrupt was lost")

    monkeypatch.setattr("coordinator.maintenance.doctor.examine", look)
    assert cli.main(["doctor"]) == 130
    assert capsys.readouterr().err == "coordinator: interrupted\n"
