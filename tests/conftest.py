"""Hypothesis profiles, the sample of exhaustive tests, and fixtures.

HYPOTHESIS_PROFILE chooses a profile; by default it is `sampled`, and `repeatable` with `--all`.
"""

import compileall
import fcntl
import gc
import os
import re
import signal
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final
from zlib import crc32

# Polars reads this when it is imported. Threads that wait for work take a fifth of the time of a short run.
os.environ["POLARS_MAX_THREADS"] = "1"

import polars as pl
import pytest
from hypothesis import HealthCheck, settings

from coordinator.annexes import installed
from coordinator.cli.invoke import main
from coordinator.reports.pages import compile_templates
from coordinator.scenario.named import NAMED
from emunode.annexes import MissingAnnexError
from emunode.plugins import LOADED
from emunode.runtime import collect_seldom
from tests.helpers.assembled_commands import assemble_once
from tests.helpers.browser import Browser, find_chromium
from tests.helpers.command_line import ROOT, Call, Ended, Running, Start, arguments, command
from tests.helpers.support import REPEATABLE_EXAMPLES, forget_plugins

assert pl.thread_pool_size() == 1
# Programs that tests start compute with the usual number of threads.
del os.environ["POLARS_MAX_THREADS"]

pytest.register_assert_rewrite("tests.contract")

# No verdict may depend on the speed or load of the machine.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

settings.register_profile("sampled", UNHURRIED, derandomize=True, max_examples=20)
settings.register_profile("repeatable", UNHURRIED, derandomize=True, max_examples=REPEATABLE_EXAMPLES)
settings.register_profile("thorough", UNHURRIED, max_examples=2000, print_blob=True)


# A shell ignores SIGINT in background jobs, and nohup SIGHUP. Every process below inherits that: no test could end one.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

FIRST = ("test_site.py", "test_docs.py", "test_cluster.py", "test_launcher_pages.py", "test_local.py", "test_join.py")
"""Files with tests that take longest, then files with tests that mostly wait."""


MISSING: Final = re.compile("belongs to the annex ([a-z]+), which is not installed")


class SkippedWithoutAnnex:
    """Skips what asks for an annex that this tree does not have (`scripts/test --without`)."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self) -> Generator[None, object, object]:
        """Skip a test whose fixtures ask for one."""
        return (yield from self._skipped())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, object, object]:
        """Skip a test that asks for one."""
        return (yield from self._skipped())

    def _skipped(self) -> Generator[None, object, object]:
        try:
            return (yield)
        except MissingAnnexError as error:
            pytest.skip(str(error))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--all`."""
    parser.addoption("--all", action="store_true", help="run slow tests, and all parameter sets of exhaustive ones")


def pytest_configure(config: pytest.Config) -> None:
    """Compile the packages once, before test processes start, and choose the number of examples of properties.

    Tests start programs by the thousand. Test modules ask for multiples of the number of examples.
    """
    if not hasattr(config, "workerinput"):
        for package in ("emunode", "coordinator"):
            compileall.compile_dir(ROOT / package, quiet=2)  # also where PYTHONDONTWRITEBYTECODE is set
        compile_templates()
    config.pluginmanager.register(WaitingFirst())
    config.pluginmanager.register(SkippedWithoutAnnex())
    default = "repeatable" if config.getoption("--all") else "sampled"
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", default))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without garbage collections, a third of the time, leave what was collected out of later ones, and run those
    as rarely as the programs do.

    Test modules are compiled once and stored, also where PYTHONDONTWRITEBYTECODE is set: pytest finds a stored module by the
    hash of its text, and compiling takes half of the time of a collection in each process.
    """
    gc.disable()
    stored, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    try:
        return (yield)
    finally:
        sys.dont_write_bytecode = stored
        collect_seldom()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Collect what tests have left behind once, so that the five collections of pytest find nothing to go through."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)  # before other plug-ins look at every item: most parameter sets of exhaustive tests go
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect slow tests and most parameter sets of exhaustive ones, unless `--all`, `-m` or a test's name selects them.

    The sample is the same in every session: it depends on the names of the tests alone.
    """
    if config.getoption("--all") or config.option.markexpr or any("::" in argument for argument in config.args):
        return
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    seen: set[str] = set()
    for item in items:
        marks = {mark.name: mark for mark in item.iter_markers()}
        function = item.nodeid.partition("[")[0]
        # The first parameter set of each function always runs.
        sampled = "exhaustive" not in marks or function not in seen or _is_sampled(item, marks["exhaustive"])
        (kept if sampled and "slow" not in marks else left_out).append(item)
        seen.add(function)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


def _is_sampled(item: pytest.Item, mark: pytest.Mark) -> bool:
    return crc32(item.nodeid.encode()) % int(mark.kwargs["one_in"]) == 0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Withdraw the plug-ins that a test has loaded itself, and what it has named: other tests in this process shall not
    have them.
    """
    before = {*LOADED}
    try:
        return (yield)
    finally:
        forget_plugins(before)
        NAMED.clear()


class WaitingFirst:
    """A plug-in that puts tests first that run one at a time, take longest, or wait for processes, jobs and deadlines.

    Each test process begins with an equal part of the list and later takes tests from the end of another's part. So one
    process waits through most of the run, while the others use both cores.
    """

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Sort by the kind of test, after every other plug-in has put the items in its order."""
        places = {name: 1 + place for place, name in enumerate(FIRST)}
        items.sort(
            key=lambda item: 0 if item.get_closest_marker("docker") else places.get(item.path.name, 1 + len(FIRST))
        )


@pytest.fixture
def the_engine() -> Iterator[None]:
    """Provide exclusive use of the Docker engine among test processes: these tests check that no container is
    left over.
    """
    with (Path(tempfile.gettempdir()) / "testbench-engine.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, started once per process: a start takes as long as several tests. Fixtures of pages reset it."""
    program = find_chromium()
    if program is None:
        pytest.skip("Chromium not found (Debian, Ubuntu: apt install chromium; or set CHROMIUM)")
    with Browser(program) as opened:
        yield opened


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide an empty working directory, a state folder beside it, and a path on which host processes find
    this project.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path.parent / f"{tmp_path.name}-state"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path


@pytest.fixture
def call(
    request: pytest.FixtureRequest,
    empty_folder: Path,  # noqa: ARG001  # the working directory
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Call:
    """Call `coordinator` in this process, in an empty folder: `call("run --topology star:3", "--out", path)`.

    Runs have a report in tests marked `draws`: it takes as long as a small run.
    """

    assemble_once(monkeypatch)
    draws = request.node.get_closest_marker("draws")

    def call_one(line: str, *more: object) -> Ended:
        # Only here: other runs of the test are drawn as they ask for it.
        with pytest.MonkeyPatch.context() as patch:
            if not draws:
                patch.setattr("coordinator.execution.sinks._draw", lambda _: None)
            status = main(arguments(line, *more))
        ended = Ended(status, *capsys.readouterr())
        if status == 2 and (missing := MISSING.search(ended.err)) and missing[1] not in installed() and not hidden:
            pytest.skip(f"without the annex {missing[1]}")
        return ended

    hidden = "without" in request.fixturenames  # a test that hides the annexes itself
    return call_one


@pytest.fixture
def start(empty_folder: Path) -> Iterator[Start]:
    """Start a module as a program, such as `start("emunode --coordinator", endpoint)`; it is killed after the test."""
    with ExitStack() as stack:

        def start_one(line: str, *more: object, **variables: object) -> Running:
            running = Running(empty_folder, command(line, *more), **variables)
            stack.callback(running.close)
            return running

        yield start_one
