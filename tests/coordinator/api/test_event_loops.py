"""The Python API in notebooks and programs: other event loops, threads, Ctrl-C, progress."""

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import trio

import coordinator as tb
from coordinator import aio
from tests.helpers.annex_support import needs_every_annex


def run_once(messages: int = 3, **options: Any) -> str:
    run = tb.network("star:3").broadcast("greedy-tree", messages=messages, **options)
    journal_hash: str = run.summary["journal_hash"]
    return journal_hash


@pytest.fixture(scope="module")
def the_hash() -> str:
    """Provide the hash of the journal that every run here has."""
    return run_once()


def in_asyncio(function: Callable[[], Any]) -> Any:
    async def main() -> Any:
        return function()

    return asyncio.run(main())


def in_trio(function: Callable[[], Any]) -> Any:
    async def main() -> Any:
        return function()

    return trio.run(main)


def in_thread(function: Callable[[], Any]) -> Any:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def plainly(function: Callable[[], Any]) -> Any:
    return function()


@pytest.mark.parametrize("driver", ["memory", "local"])
@pytest.mark.parametrize("place", [in_asyncio, in_trio, in_thread, lambda run: in_thread(lambda: in_asyncio(run))])
def test_calls_work_wherever_another_loop_runs(
    place: Callable[[Callable[[], Any]], Any], driver: str, the_hash: str
) -> None:
    before = threading.active_count()
    assert place(lambda: run_once(driver=driver)) == the_hash
    # Fewer: a thread that trio keeps for ten seconds after an earlier test may have ended.
    assert threading.active_count() <= before


@pytest.mark.skipif(os.getuid() != 0, reason="needs root: this process has several threads")
def test_a_network_namespace_does_not_outlive_its_run(the_hash: str) -> None:
    before = Path("/proc/self/ns/net").readlink()
    seen: set[Path] = set()

    def note(_phase: str, _done: int, _total: int) -> None:
        seen.add(Path("/proc/thread-self/ns/net").readlink())

    assert run_once(driver="local", netns="always", progress=note) == the_hash
    assert len(seen) == 1
    assert before not in seen
    assert Path("/proc/self/ns/net").readlink() == before


def test_two_threads_run_at_once(the_hash: str) -> None:
    results: list[str] = []
    threads = [
        threading.Thread(target=lambda: results.append(run_once(driver="local", ranks_per_host=6))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [the_hash, the_hash]


# --- Ctrl-C ----------------------------------------------------------------------------------------------------------


MANY = 1000
"""Messages of a run that takes minutes unless it is interrupted."""


def interrupt(phase: str, done: int, _total: int) -> None:
    """Ctrl-C in the second step; in other threads than the main one, it takes effect in a later step."""
    if phase == "steps" and done >= 2:
        if done == 2:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)


@pytest.mark.parametrize("driver", ["memory", "local"])
@pytest.mark.parametrize("place", [plainly, in_asyncio, in_trio])
def test_ctrl_c_ends_the_hosts_and_is_raised(
    place: Callable[[Callable[[], Any]], Any], driver: str, tmp_path: Path
) -> None:
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(KeyboardInterrupt):
        place(lambda: run_once(MANY, driver=driver, progress=interrupt, out=tmp_path / "run"))
    assert psutil.Process().children(recursive=True) == []
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
    stored = tb.Run.read(tmp_path / "run")
    assert (stored.verdict, stored.undecided) == ("undecided", "interrupted")
    assert stored.journal.height > 0


def test_ctrl_c_ends_a_campaign(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.campaigns.runner.SETTLING_SECONDS", 0)
    shown: list[int] = []

    def stop(_phase: str, done: int, _total: int) -> None:
        if not shown:
            os.kill(os.getpid(), signal.SIGINT)
        shown.append(done)

    trials = 100_000_000
    with pytest.raises(KeyboardInterrupt):
        tb.campaign(tb.network("star:5"), "broadcast", "edt", faults="nodes=3", trials=trials, workers=2, progress=stop)
    assert psutil.Process().children(recursive=True) == []
    assert shown[-1] < trials


# --- trio ------------------------------------------------------------------------------------------------------------


async def test_async_calls_let_other_tasks_run(the_hash: str) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await trio.sleep(0.001)
            ticks += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tick)
        run = await aio.network("star:3").broadcast("greedy-tree", messages=3, driver="local")
        nursery.cancel_scope.cancel()
    assert run.summary["journal_hash"] == the_hash
    assert ticks > 3


async def test_a_cancelled_call_ends_its_hosts(tmp_path: Path) -> None:
    with trio.CancelScope() as scope:
        token = trio.lowlevel.current_trio_token()

        def cancel(phase: str, done: int, _total: int) -> None:
            if phase == "steps" and done >= 2:
                token.run_sync_soon(scope.cancel)
                time.sleep(0.1)  # in the thread of the run, so that the cancellation comes before its end

        call = aio.network("star:3").broadcast
        await call("flood", messages=MANY, driver="local", progress=cancel, out=tmp_path / "run")
    assert scope.cancelled_caught
    assert psutil.Process().children(recursive=True) == []
    assert tb.Run.read(tmp_path / "run").undecided == "interrupted"


@needs_every_annex
async def test_async_calls_raise_the_same_errors() -> None:
    with pytest.raises(tb.ScenarioError):
        await aio.network("star:3").broadcast("greedy-trees")
    certificate = await aio.certify(aio.network("star:3"), "broadcast", "flood", faults="nodes<=1")
    assert certificate.verdict == "holds"


def test_ctrl_c_in_a_trio_program() -> None:
    async def main() -> None:
        await aio.network("star:3").broadcast("greedy-tree", messages=MANY, driver="local", progress=interrupt)

    with pytest.raises(KeyboardInterrupt):
        trio.run(main)
    assert psutil.Process().children(recursive=True) == []


# --- progress --------------------------------------------------------------------------------------------------------


def test_scripts_are_silent_unless_asked(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.api.console.SPARSE_SECONDS", -1)
    run_once()
    assert capsys.readouterr() == ("", "")
    run_once(progress=True)
    assert "permutation star graph S_3: steps 3\n" in capsys.readouterr().err


def test_a_notebook_shows_one_line_that_disappears(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[str, str]] = []

    def update(data: dict[str, str], *, raw: bool) -> None:
        assert raw
        shown.append(("update", data["text/plain"]))

    handle = SimpleNamespace(update=update)

    def display(data: dict[str, str], *, raw: bool, display_id: bool) -> Any:
        assert raw
        assert display_id
        shown.append(("display", data["text/plain"]))
        return handle

    kernel = SimpleNamespace(kernel=object())
    ipython = SimpleNamespace(get_ipython=lambda: kernel, display=SimpleNamespace(display=display))
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setattr("coordinator.api.progress.NOTEBOOK_SECONDS", -1)
    in_asyncio(run_once)
    assert shown[0] == ("display", "permutation star graph S_3: steps 1")
    assert shown[-1] == ("update", "")
    assert len(shown) > 3
    shown.clear()
    run_once(progress=False)
    assert shown == []
