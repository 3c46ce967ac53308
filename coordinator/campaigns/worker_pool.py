"""A pool of worker processes that run trials, and the lines of JSON exchanged with them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Self, TextIO

import trio

from coordinator.campaigns.trial_runner import Trial, TrialResult, TrialSink
from coordinator.history.stored.records import read_record
from coordinator.scenario.model import Scenario, make_scenario
from coordinator.scenario.named import NAMED, require_named
from coordinator.scenario.plugins import loaded_plugins
from emunode.errors import EmulatorError, FaultError, RuleError, RunError, ScenarioError
from emunode.model import Plugin
from emunode.plugins import load_received
from emunode.runtime import LOOK_SECONDS, is_stopped

BATCH = 16
"""Trials that are sent to a worker at once."""
LEAVE_SECONDS = 5.0


class WorkerPool:
    """Runs trials in `size` processes. Leaving the context ends them."""

    def __init__(self, scenarios: Sequence[Scenario], size: int, log: TextIO) -> None:
        self._scenarios = scenarios
        self._size = size
        self._log = log
        self._workers: list[Worker] = []

    async def __aenter__(self) -> Self:
        # A checkpoint, as every async function of trio has one.
        await trio.lowlevel.checkpoint()
        greeting = write_greeting(self._scenarios)
        self._workers = [Worker(greeting, self._log) for _ in range(self._size)]
        return self

    async def __aexit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.dismiss()
        with trio.move_on_after(LEAVE_SECONDS, shield=True):
            for worker in self._workers:
                await worker.gone()
        for worker in self._workers:
            worker.end()

    async def run(self, trials: Iterable[Trial], sink: TrialSink) -> None:
        numbered = enumerate(trials)
        failures: list[Exception] = []

        async def work(worker: Worker) -> None:
            try:
                await worker.work(numbered, sink)
            except Exception as error:  # from the worker, or from the sink on a full disk
                failures.append(error)
                # The other workers stop as well; the first failure is reported.
                nursery.cancel_scope.cancel()

        def fail(stopped: set["Worker"]) -> None:
            pids = ", ".join(str(pid) for pid in sorted(worker.pid for worker in stopped))
            failures.append(RunError(f"a worker process ({pids}) is stopped"))
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(look_for_stopped, self._workers, fail)
            async with trio.open_nursery() as working:
                for worker in self._workers:
                    working.start_soon(work, worker)
            nursery.cancel_scope.cancel()
        if failures:
            raise failures[0]


async def look_for_stopped(workers: Collection["Worker"], report: Callable[[set["Worker"]], None]) -> None:
    """Call `report` with the workers whose processes are stopped at two looks in a row, until cancelled.

    A stopped process never answers; a short stop does no harm. `workers` may change meanwhile.
    """
    before: set[Worker] = set()
    while True:
        await trio.sleep(LOOK_SECONDS)
        stopped = {worker for worker in workers if is_stopped(worker.pid)}
        if still := stopped & before:
            report(still)
        before = stopped


class LostWorkerError(RunError):
    """A worker process has ended although it was not told to."""


class Worker:
    """One worker process, as its parent sees it: it answers each line on standard input by one on standard output."""

    def __init__(self, greeting: bytes, log: TextIO, module: str = "coordinator.campaigns.worker") -> None:
        """Start a process that executes `module`; `greeting` is sent to it in front of the first lines."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            # A session of its own, so that Ctrl-C reaches only the parent: the parent decides.
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        # Duplicates: trio owns these, and Popen's own files are closed at once.
        self._in = trio.lowlevel.FdStream(os.dup(self._process.stdin.fileno()))
        self._out = trio.lowlevel.FdStream(os.dup(self._process.stdout.fileno()))
        self._process.stdin.close()
        self._process.stdout.close()
        self._pending = bytearray()
        self._greeting = greeting

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    async def work(self, numbered: Iterator[tuple[int, Trial]], sink: TrialSink) -> None:
        """Run trials until there are no more."""
        # `numbered` is shared by all workers: each takes the next batch, so none waits for a slow one.
        while batch := list(islice(numbered, BATCH)):
            await self.send(b"".join(encode(trial) for _, trial in batch))
            for place, trial in batch:
                sink(place, trial, read_answer(await self.receive()))

    async def send(self, lines: bytes) -> None:
        """Send lines. Raises LostWorkerError if the process has ended."""
        # The greeting is sent once, in front of the first lines.
        greeting, self._greeting = self._greeting, b""
        try:
            await self._in.send_all(greeting + lines)
        except trio.BrokenResourceError:
            raise self._lost() from None

    async def receive(self) -> bytes:
        """Return the next answer. Raises LostWorkerError if the process has ended."""
        while True:
            line, newline, rest = self._pending.partition(b"\n")
            if newline:
                # Bytes beyond the line belong to the next result.
                self._pending = rest
                return bytes(line)
            data = await self._out.receive_some(65536)
            if not data:
                raise self._lost()
            self._pending += data

    def _lost(self) -> LostWorkerError:
        try:
            # It has closed its output, so it is about to end.
            status = self._process.wait(0.5)
        except subprocess.TimeoutExpired:
            return LostWorkerError("a worker process ended unexpectedly")
        cause = f"was killed by signal {-status}" if status < 0 else f"exit status {status}"
        return LostWorkerError(f"a worker process ended unexpectedly ({cause})")

    def stop(self) -> None:
        """Ask the process to end its work and itself, by SIGTERM; a stopped process is continued for this."""
        for number in (signal.SIGTERM, signal.SIGCONT):
            self._process.send_signal(number)

    def dismiss(self) -> None:
        """Close the standard input of the process, so that the process ends."""
        self._in.close()

    async def gone(self) -> None:
        """Wait until the process has closed its standard output."""
        while await self._out.receive_some(65536):
            pass

    def end(self) -> None:
        """Kill the process if it has not ended after half a second."""
        self._out.close()
        try:
            # It has closed its output, so it is about to end.
            self._process.wait(0.5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def encode(value: object) -> bytes:
    """Return a value as a line of JSON."""
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def write_answer(answer: TrialResult | EmulatorError) -> bytes:
    """Return a result or an error as a line."""
    if isinstance(answer, TrialResult):
        return encode(vars(answer))
    fields = [answer.field, answer.value, answer.allowed] if isinstance(answer, ScenarioError) else [str(answer)]
    return encode({"error": type(answer).__name__, "fields": fields})


ERRORS: Mapping[str, type[EmulatorError]] = {
    error.__name__: error for error in (FaultError, RuleError, RunError, ScenarioError)
}


def read_answer(line: bytes) -> TrialResult:
    """Read an answer, the inverse of `write_answer`; raises the error that the line describes."""
    if line.startswith(b'{"error"'):
        fields = json.loads(line)
        raise ERRORS.get(fields["error"], RunError)(*fields["fields"])
    return read_record(TrialResult, line)


def write_greeting(scenarios: Sequence[Scenario], further: Iterable[str] = ()) -> bytes:
    """Return the first line that a worker reads: the scenarios, and the plug-ins that they name, with `further` ones."""
    for scenario in scenarios:
        require_named(scenario)
    named = {entry for scenario in scenarios for entry in scenario.plugin}.union(further)
    plugins = set(loaded_plugins(sorted(named), all_of_them=True))
    return encode(
        {
            "plugins": sorted(plugins),
            "named": sorted(NAMED),
            "scenarios": [scenario.model_dump(mode="json", exclude_none=True) for scenario in scenarios],
        }
    )


def read_greeting(line: bytes) -> list[Scenario]:
    """Load the plug-ins of a greeting, and note what the user has named to the parent process; returns its scenarios."""
    greeting = json.loads(line)
    NAMED.update((name, text) for name, text in greeting["named"])
    for plugin in greeting["plugins"]:
        load_received(Plugin(*plugin))
    return [make_scenario(values) for values in greeting["scenarios"]]


def trial_of(line: bytes) -> Trial:
    """Return the trial in a line after the greeting."""
    variant, faults, seed = json.loads(line)
    return Trial(variant, tuple(faults), seed)
