"""Exit statuses: each kind of ending has its own; 1 is only for a judgement that something is wrong.

Status 2 is in `test_refused.py`, and endings that need a process of its own are in `test_processes.py`.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import polars
import pytest

from coordinator.cli import execute
from coordinator.networks.base import Progress
from coordinator.results.claims import claims_of
from emunode.algorithms.claims import Claim
from emunode.algorithms.flooding import Flood
from emunode.errors import RunError
from emunode.faults.kinds import Loss
from tests.helpers.command_line import Call

FLOOD = "run --topology star:3 --collective broadcast --algorithm flood --driver memory"
STOPS = pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
Replace = Callable[[Callable[[], object]], None]


@pytest.fixture
def replace_doctor(monkeypatch: pytest.MonkeyPatch) -> Replace:
    """Replace what `coordinator doctor` does."""
    return lambda replacement: monkeypatch.setattr("coordinator.cli.doctor.examine", replacement)


def raising(error: BaseException) -> Callable[..., None]:
    """Return a function that raises this error."""

    def fail(*_: object) -> None:
        raise error

    return fail


def test_status_1_is_for_a_violated_claim(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Claim("steps", 1, "==", "wishful thinking")
    monkeypatch.setattr(
        "coordinator.results.conclude.claims_of",
        lambda plan: claims_of(plan)._replace(kept=[*claims_of(plan).kept, wrong]),
    )
    ended = call(FLOOD)
    assert ended.status == 1
    assert "verdict: violated" in ended.out
    assert "wishful thinking" in ended.out


@pytest.mark.parametrize(
    ("flags", "because", "reason"),
    [
        ("--messages 5 --step-limit 3", "the step limit of 3 was reached", "not yet served"),
        (
            "--fault crash:123@1",
            "nothing was delivered at all: the source 123 is crashed, and theory makes no claim about that",
            "undecided by theory",
        ),
        (
            "--fault crash:123@2",
            "the source 123 is crashed, and theory makes no claim about that",
            "undecided by theory",
        ),
    ],
    ids=["step limit", "nothing delivered", "source"],
)
def test_status_3_is_for_undecided_runs(call: Call, flags: str, because: str, reason: str) -> None:
    ended = call(f"{FLOOD} {flags}")
    assert ended.status == 3
    assert f"verdict: undecided ({reason.removeprefix('undecided ')}: {because})" in ended.out
    again = call(f"{FLOOD} {flags} --json")
    assert (again.status, again.data["verdict"], again.data["undecided_because"]) == (3, "undecided", because)
    assert again.data["reason"] == reason
    assert {claim["verdict"] for claim in again.data["claims"]} <= {"undecided"}


# --- 4: could not run ------------------------------------------------------------------------------------------------


def test_status_4_is_for_algorithms_that_break_their_own_rules(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Flood, "validate", Flood.cut)  # flooding with odd cycles needs full-duplex links, and says so
    ended = call("run --topology ej:1+2 --collective broadcast --algorithm flood --duplex half --driver memory")
    assert ended.status == 4
    assert ended.err.startswith("coordinator: algorithm error: flood at rank ")
    assert list(tmp_path.iterdir()) == []


def test_an_error_in_a_kind_of_fault_is_not_one_of_the_algorithm(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Loss, "apply", raising(ValueError("seven")))
    for engine in ("memory", "local"):
        ended = call(f"{FLOOD.replace('memory', engine)} --quiet --fault loss:123>213:1")
        assert ended.status == 4
        assert ended.err.startswith(
            "coordinator: error in a kind of fault: fault loss at rank 0, port 0, step 1: ValueError: seven"
        )


@pytest.mark.parametrize("error", [OSError, polars.exceptions.ComputeError, RunError])
@pytest.mark.parametrize(
    "where",
    [
        "history.journal.Journal.add",
        "results.conclude.measure",
        "execution.sinks.stored_scenario",
        "execution.drive._open_and_step",
    ],
)
def test_an_error_in_a_run_mentions_no_removed_file(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception], where: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        (partial,) = tmp_path.glob("runs/*/.partial-*")
        path = "" if error is RunError else str(partial.absolute() / "journal.parquet")
        raise OSError(28, "No space left on device", path) if error is OSError else error(f"no space left: {path}")

    monkeypatch.setattr(f"coordinator.{where}", refuse)
    ended = call(FLOOD)
    assert ended.status == 4
    assert "no space left" in ended.err.lower()
    assert ".partial" not in ended.err
    assert list(tmp_path.iterdir()) == []


def test_an_unexpected_error_has_a_traceback_and_is_no_verdict(call: Call, replace_doctor: Replace) -> None:
    replace_doctor(raising(ValueError("a mistake of ours")))
    ended = call("doctor")
    assert (ended.status, ended.out) == (4, "")
    assert "Traceback" in ended.err  # for a bug report
    assert ended.err.endswith("coordinator: internal error: ValueError: a mistake of ours\n")


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
def test_errors_have_one_line_and_a_status(
    call: Call, replace_doctor: Replace, error: BaseException, status: int, message: str
) -> None:
    replace_doctor(raising(error))
    assert call("doctor") == (status, "", f"coordinator: {message}\n")
    ended = call("doctor --json")
    assert (ended.status, ended.err) == (status, f"coordinator: {message}\n")
    assert (ended.data["exit_status"], ended.data["error"]["message"]) == (status, message)


# --- 130: interrupted ------------------------------------------------------------------------------------------------


@STOPS
def test_status_130_is_for_interrupted_runs(call: Call, monkeypatch: pytest.MonkeyPatch, stop: signal.Signals) -> None:
    @contextmanager
    def interrupting(_title: str) -> Iterator[Progress]:
        yield lambda phase, done, _: os.kill(os.getpid(), stop) if (phase, done) == ("steps", 2) else None

    monkeypatch.setattr(execute, "on_stderr", interrupting)
    ended = call(f"{FLOOD} --messages 50 --json")
    assert ended.status == 130
    assert (ended.data["verdict"], ended.data["undecided_because"]) == ("undecided", "interrupted")
    assert 0 < ended.data["deliveries"] < ended.data["expected_deliveries"]


def interrupt_oneself(stop: signal.Signals) -> None:
    os.kill(os.getpid(), stop)


def interrupt_disguised(stop: signal.Signals) -> None:
    """A library replaces the interrupt by an error of its own."""
    try:
        os.kill(os.getpid(), stop)
    except KeyboardInterrupt:
        raise ValueError("a library gave up") from None


def interrupt_in_finalizer(stop: signal.Signals) -> None:
    class Finalized:
        def __del__(self) -> None:
            os.kill(os.getpid(), stop)

    Finalized()


@STOPS
@pytest.mark.parametrize("interrupt", [interrupt_oneself, interrupt_disguised, interrupt_in_finalizer])
def test_status_130_is_for_any_interrupted_command(
    call: Call, replace_doctor: Replace, stop: signal.Signals, interrupt: Callable[[signal.Signals], None]
) -> None:
    def examine() -> None:
        interrupt(stop)
        time.sleep(1)
        pytest.fail("the interrupt was lost")

    replace_doctor(examine)
    before = signal.getsignal(stop)
    assert call("doctor") == (130, "", "coordinator: interrupted\n")
    assert signal.getsignal(stop) is before


def test_an_interrupt_waits_for_the_end_of_an_import(
    call: Call, replace_doctor: Replace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Raised within the import system, it could be printed and lost, or leave half a module behind."""
    (tmp_path / "slow_to_import.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nWHOLE = True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    whole: list[bool] = []

    def examine() -> None:
        import slow_to_import  # type: ignore[import-not-found]

        whole.append(slow_to_import.WHOLE)
        time.sleep(1)
        pytest.fail("the interrupt was lost")

    replace_doctor(examine)
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGALRM)]
    assert call("doctor").status == 130
    assert whole == [True]
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGALRM)] == handlers
