"""Many scenarios over several processes, and their results as one table."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

import polars as pl
import trio

from coordinator.api.campaigns import on_disk
from coordinator.api.networks import BaseNetwork, network
from coordinator.api.options import require_number, scenario_values
from coordinator.api.progress import ProgressOption, progress_display
from coordinator.api.rows import run_row
from coordinator.api.threads import call
from coordinator.campaigns.runner import check_workers
from coordinator.campaigns.worker_pool import LostWorkerError, Worker, encode, look_for_stopped, write_greeting
from coordinator.execution.stop_signal import InterruptGuard
from coordinator.networks.base import Progress
from coordinator.planning.machine import this_machine
from coordinator.scenario.model import Scenario, make_scenario, plain_values
from emunode.errors import ScenarioError

WORKER: Final = "coordinator.api.map_worker"
LEAVE_SECONDS: Final = 8.0
"""The time that a worker has to end its run before it is killed. Hosts of a run end within five seconds."""

Answer = dict[str, Any]


def map(  # noqa: A001  # as `map` of an executor: called `tb.map`
    scenarios: Iterable[Mapping[str, object]],
    *,
    workers: int | None = None,
    timeout: float | None = None,
    progress: ProgressOption = None,
) -> pl.DataFrame:
    """Run many scenarios in processes of their own, and return one table: a row for each, as of `Run.row()`, in their order.

    Each scenario has the keys of a scenario file, or `faults` in place of `fault`; `topology` is a name or a `Network`. Runs
    are in memory unless `driver` says otherwise. `workers` is the number of processes, by default one for each core.

    The column `error` has the reason why a run was refused or could not be done, took more than `timeout` seconds, or lost
    its process; the other runs go on. The processes load the plug-ins that scenarios
    name. They lack everything that the program registered itself.

    Raises ScenarioError, before anything runs, with the number of the first invalid scenario; and
    KeyboardInterrupt if interrupted, after all processes have ended.

    >>> import coordinator as tb
    >>> jobs = [{"topology": f"star:{n}", "collective": "broadcast", "algorithm": "greedy-tree"} for n in (3, 4)]
    >>> tb.map(jobs, workers=1)["steps"].to_list()
    [3, 4]
    """
    require_number("workers", workers)
    check_workers(workers)
    require_number("timeout", timeout, (int, float))
    if timeout is not None and not timeout > 0:
        raise ScenarioError("timeout", timeout, "a number of seconds above 0")
    with ExitStack() as kept, progress_display(progress, "map") as show:
        names, checked = _checked(scenarios, kept)
        size = min(workers or this_machine().cores, len(checked))
        answers, interrupted = call(_run_all, checked, size, timeout, show) if checked else ([], False)
    if interrupted:
        raise KeyboardInterrupt
    rows = [_row(*each) for each in zip(names, checked, answers, strict=True)]
    return pl.DataFrame(rows, infer_schema_length=None)


def _checked(scenarios: Iterable[Mapping[str, object]], kept: ExitStack) -> tuple[list[str], list[Scenario]]:
    """Validate scenarios, and return the names of their networks with them.

    Networks that only this process has are written to files for as long as `kept` is open.
    """
    files: dict[BaseNetwork, Mapping[str, object]] = {}
    names, checked = [], []
    for number, given in enumerate(scenarios):
        try:
            if not isinstance(given, Mapping):
                raise ScenarioError("scenario", given, "expected a mapping with the keys of a scenario file")
            options = dict(given)
            net = options.pop("topology", None)
            if net is None:
                raise ScenarioError("topology", None, "every scenario names its network")
            net = net if isinstance(net, BaseNetwork) else network(net)
            if net not in files:
                files[net] = kept.enter_context(on_disk(net))
            values: dict[str, object] = {**files[net]}
            values.update((name, options.pop(name)) for name in ("collective", "algorithm") if name in options)
            faults: Any = options.pop("faults", options.pop("fault", ()))
            names.append(net.name)
            checked.append(make_scenario(scenario_values(values, faults, options)))
        except ScenarioError as error:
            raise ScenarioError(error.field, error.value, f"{error.allowed} (scenario {number})") from None
    return names, checked


def _row(network_name: str, scenario: Scenario, answer: Answer) -> dict[str, Any]:
    # A run that did not happen has the fields of its scenario only.
    row = answer.get("row") or run_row("", plain_values(scenario), {})
    return {**row, "topology": network_name, "error": answer.get("error")}


def _run_all(
    scenarios: Sequence[Scenario], size: int, timeout: float | None, show: Progress
) -> tuple[list[Answer], bool]:
    """Run scenarios in `size` processes; return the answers in their order, and whether the call was interrupted."""
    answers: list[Answer] = [{}] * len(scenarios)
    with InterruptGuard() as stop:
        trio.run(_Mapping(scenarios, size, timeout, show, answers).run, stop)
    return answers, stop.requested


class _Mapping:
    """One call of `map`: its processes; each takes the next scenario as soon as it is free."""

    def __init__(
        self,
        scenarios: Sequence[Scenario],
        size: int,
        timeout: float | None,
        show: Progress,
        answers: list[Answer],
    ) -> None:
        self._scenarios = scenarios
        self._size = size
        self._timeout = timeout
        self._show = show
        self._answers = answers
        self._greeting = write_greeting([], {entry for each in scenarios for entry in each.plugin})
        self._log = Path(os.devnull).open("w")  # noqa: SIM115  # closed by `run`
        self._workers: set[Worker] = set()
        self._stopped: set[Worker] = set()
        self._done = 0

    async def run(self, stop: InterruptGuard) -> None:
        """Run all scenarios, until they are done or `stop` is requested."""
        numbered = iter(enumerate(self._scenarios))
        with self._log, trio.CancelScope() as scope:
            stop.cancels(scope)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(look_for_stopped, self._workers, self._end_stopped)
                async with trio.open_nursery() as working:
                    for _ in range(self._size):
                        working.start_soon(self._work, numbered)
                nursery.cancel_scope.cancel()

    async def _work(self, numbered: Iterator[tuple[int, Scenario]]) -> None:
        worker: Worker | None = None
        try:
            for place, scenario in numbered:
                if worker is None:
                    worker = Worker(self._greeting, self._log, WORKER)
                    self._workers.add(worker)
                self._answers[place], lost = await self._ask(worker, scenario)
                if lost:
                    await self._end(worker)
                    worker = None
                self._done += 1
                self._show("runs", self._done, len(self._scenarios))
        finally:
            if worker is not None:
                await self._end(worker)

    async def _ask(self, worker: Worker, scenario: Scenario) -> tuple[Answer, bool]:
        """Return the answer of a process, or the reason of its silence, and whether the process is lost."""
        try:
            with trio.fail_after(float("inf") if self._timeout is None else self._timeout):
                await worker.send(encode(scenario.model_dump(mode="json", exclude_none=True)))
                return json.loads(await worker.receive()), False
        except trio.TooSlowError:
            return {"error": f"it took more than {self._timeout:g} s, and was ended"}, True
        except LostWorkerError as error:
            return {"error": "its process was stopped, and was ended" if worker in self._stopped else str(error)}, True

    async def _end(self, worker: Worker) -> None:
        """End a process and all that it has started."""
        self._workers.discard(worker)
        worker.stop()
        with trio.move_on_after(LEAVE_SECONDS, shield=True), suppress(trio.BrokenResourceError):
            await worker.gone()
        worker.dismiss()
        worker.end()

    def _end_stopped(self, stopped: set[Worker]) -> None:
        self._stopped |= stopped
        for worker in stopped:
            worker.stop()
