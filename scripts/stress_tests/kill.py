"""Send signals to every process of a run in every phase: the run must end with a reason and leave nothing behind.

A coordinator in its own process reports its phase; at a mark drawn by the seed a signal goes to the coordinator, one host,
half of the hosts, or the process that forked them. Then the run must end before the deadline, and no process, temporary
file or unfinished run directory may be left, except those of a coordinator that was itself killed: `coordinator clean`
removes them. A stored run must be readable and be `undecided`, or have the complete history and `holds` (a run that is
interrupted after everything was written is valid). The same is tried with hosts in containers if the image exists: then
no container, network or record may be left either.
"""

import contextlib
import os
import random
import signal
import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import psutil
from docker import errors

from coordinator.cli.leftovers import leftovers
from coordinator.networks.launchers.docker import RUN_LABEL, DockerLaunch, connect, find_image
from emunode.errors import RunError
from stress_tests.common import (
    DEADLINE_SECONDS,
    Attempt,
    Budget,
    Experiment,
    Patch,
    Row,
    Say,
    attempt_of,
    in_fork,
    read_run,
    wrap,
)

STALL_SECONDS = {"local": 4.0, "docker": 20.0}
JOIN_SECONDS = 20.0
"""Time limits of these runs; real runs use half a minute and a minute. Containers are slow on a busy machine."""
STEPS = 12
ROUNDS = 5
"""Repetitions of every combination of phase, target and signal."""
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP)
TARGETS = ("coordinator", "one host", "half the hosts", "parent of the hosts")
PHASES = ("start", "hosts joined", "links up", "step", "barrier", "teardown", "collection", "report", "finish")
LAYOUTS = {"local": ("1", "3", "auto"), "docker": ("2", "3")}
"""Ranks per process, by driver."""
SCENARIO = ("star:3", "broadcast", "flood", "--messages", "10")


class ContainerExperiment(Experiment):
    """A run with hosts in containers, whose processes are found through the engine."""

    def __init__(self, folder: Path, arguments: Sequence[str], patch: Patch) -> None:
        def patch_launch(say: Say) -> None:
            os.environ["XDG_STATE_HOME"] = str(folder / "state")
            wrap(DockerLaunch, "__init__", after=lambda launch, *_: Path("run-id").write_text(launch.run))
            patch(say)

        super().__init__(folder, arguments, patch_launch)

    def parent(self) -> psutil.Process | None:
        return None

    def hosts(self) -> list[psutil.Process]:
        found = []
        with contextlib.closing(connect()) as engine:
            for container in self._containers(engine):
                with contextlib.suppress(psutil.Error, errors.NotFound):
                    if pid := engine.inspect_container(container["Id"])["State"]["Pid"]:  # 0 if it does not run
                        found.append(psutil.Process(pid))
        return sorted(found, key=lambda host: host.pid)

    def leftovers(self) -> list[str]:
        os.environ["XDG_STATE_HOME"] = str(self.folder / "state")
        if (self.wait(0) or 0) < 0:
            for each in leftovers():
                each.remove()
        left = super().leftovers() + [f"record {path.name}" for path in self.folder.glob("state/**/*.json")]
        with contextlib.closing(connect()) as engine:
            left += [f"container {container['Names'][0]}" for container in self._containers(engine)]
            networks = engine.networks(filters={"label": f"{RUN_LABEL}={self._run}"}) if self._run else ()
            return left + [f"network {network['Name']}" for network in networks]

    @property
    def _run(self) -> str:
        path = self.folder / "run-id"
        return path.read_text() if path.exists() else ""

    def _containers(self, engine: Any) -> list[dict[str, Any]]:
        if not self._run:
            return []
        found: list[dict[str, Any]] = engine.containers(all=True, filters={"label": f"{RUN_LABEL}={self._run}"})
        return found


def report_phase(phase: str, at: int, stall_seconds: float, say: Say) -> None:
    """Report the beginning of a phase (of step `at`), and stay in it for a moment."""
    from coordinator.execution import drive, sinks
    from coordinator.history.journal import Journal
    from coordinator.history.run_directory import RunDirectory
    from coordinator.networks import control_channel
    from coordinator.networks.host_network import HostNetwork
    from coordinator.networks.launchers.base import Launch
    from coordinator.networks.step_barrier import StepBarrier

    control_channel.STALL_SECONDS, Launch.join_seconds = stall_seconds, JOIN_SECONDS
    reported = False

    def enter(name: str, *_: object) -> None:
        nonlocal reported
        if name == phase and not reported:
            reported = True
            say(name)
            time.sleep(0.03)

    open_and_step = drive._open_and_step

    async def reporting(plan: Any, network: Any, journal: Any, execution: Any, progress: Any, steering: Any) -> None:
        def report(now: str, done: int, total: int) -> None:
            if now != "steps" or done == at:
                enter("step" if now == "steps" else now)
            progress(now, done, total)

        await open_and_step(plan, network, journal, execution, report, steering)

    def ordered(_barrier: Any, _kind: Any, step: int, *_: Any) -> None:
        if step == at:
            enter("barrier")

    drive._open_and_step = reporting
    wrap(StepBarrier, "order", after=ordered)
    wrap(HostNetwork, "close", before=partial(enter, "teardown"))
    wrap(Journal, "close", before=partial(enter, "collection"))
    wrap(sinks, "_draw", before=partial(enter, "report"))
    wrap(RunDirectory, "finish", before=partial(enter, "finish"))
    enter("start")


def send(experiment: Experiment, target: str, number: signal.Signals, draw: random.Random) -> list[psutil.Process]:
    """Send the signal to the existing target processes; the processes reached."""
    hosts, parent = experiment.hosts(), experiment.parent()
    targets = {
        "coordinator": [experiment.coordinator()],
        "one host": draw.sample(hosts, 1) if hosts else [],
        "half the hosts": draw.sample(hosts, (len(hosts) + 1) // 2),
        "parent of the hosts": [parent] if parent else [],
    }[target]
    reached = []
    for process in targets:
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)
            reached.append(process)
    return reached


def ended(experiment: Experiment, target: str, number: signal.Signals, whole: str) -> tuple[int | None, list[str]]:
    """Wait for the end of a run; return its exit status, and what is wrong with its end."""
    status, wrong = experiment.end()
    if status is None:
        return status, wrong
    killed = target == "coordinator" and status < 0
    allowed = (0, 3, 4) if target != "coordinator" else (0,) if number == signal.SIGSTOP else (0, 130, -number)
    if status not in allowed:
        wrong.append(f"exit status {status}: {experiment.stderr()[-300:]}")
    if killed:
        wrong += not_cleaned(experiment)
    else:
        wrong += [f"unfinished: {path.name}" for path in experiment.partial()]
    finished = [path.parent for path in experiment.folder.glob("runs/*/2*/summary.json")]
    others = [path for path in experiment.folder.glob("runs/*/2*") if path not in finished]
    wrong += [f"a run without a summary: {path.name}" for path in others]
    if bool(finished) != (status in (0, 3, 130)) and not killed and not (status == 130 and not finished):
        wrong.append(f"exit status {status} and {len(finished)} runs")
    for folder in finished:
        try:
            summary = in_fork(read_run, folder)
        except Exception as error:
            wrong.append(f"it cannot be read: {error!r}")
            continue
        complete = (summary["verdict"], summary["journal_hash"]) == ("holds", whole)
        if status == 0 and not complete:
            wrong.append("exit status 0 and another history")
        if (status == 3 or (status == 130 and not complete)) and not summary["undecided_because"]:
            wrong.append(f"exit status {status} and {summary['verdict']}")
    return status, wrong


def not_cleaned(experiment: Experiment) -> list[str]:
    """Return unfinished run directories of a killed coordinator that `coordinator clean` would not remove."""
    with contextlib.chdir(experiment.folder):
        found = {path.absolute() for each in leftovers() for path in each.files}
    left = {path.absolute() for path in experiment.partial()} - found
    return [f"clean would not remove {path.name}" for path in left]


def interrupt(budget: Budget, whole: str, driver: str, number: int) -> Attempt:
    """One experiment; counts its exit status, and its phase if the signal reached a process."""
    draw = random.Random(budget.seed * 1_000_003 + number)
    every = experiments(driver)
    phase, target, sent = every[number % len(every)]
    layout = draw.choice(LAYOUTS[driver])
    name = f"{number}: {sent.name} to {target}, {phase}, --driver {driver} --ranks-per-host {layout}"
    arguments = ("run", *SCENARIO, "--driver", driver, "--ranks-per-host", layout)
    kind = ContainerExperiment if driver == "docker" else Experiment
    patch = partial(report_phase, phase, draw.randint(1, STEPS - 2), STALL_SECONDS[driver])
    wrong: list[str] = []
    reached: list[psutil.Process] = []
    with kind(budget.scratch / f"kill-{driver}-{number}", arguments, patch) as experiment:
        stopped_early = not experiment.wait_for_mark()
        busy = stopped_early and experiment.timed_out()
        if not stopped_early:
            time.sleep(draw.choice((0.0, 0.0, draw.random() * 0.02, draw.random() * 0.3)))
            reached = send(experiment, target, sent, draw)
        elif not busy:
            wrong.append("the phase was not reached")
        if sent == signal.SIGSTOP and target == "coordinator":
            time.sleep(0.3)
            for process in reached:
                with contextlib.suppress(psutil.Error):
                    process.send_signal(signal.SIGCONT)
        # A run that gave up before its signal ends like one whose hosts were lost.
        status, more = ended(experiment, "nothing" if busy else target, sent, whole)
        experiment.keep = bool(wrong := wrong + more)
    return attempt_of(name, wrong, [f"exit {status}", *([phase] if reached else [])], busy=busy)


def experiments(driver: str) -> list[tuple[str, str, signal.Signals]]:
    """Return every phase with every target and signal; the parent of the hosts exists only without containers."""
    return list(product(PHASES, TARGETS if driver == "local" else TARGETS[:-1], SIGNALS))


def run_section(budget: Budget) -> Iterator[Row]:
    """Yield five hundred experiments with processes and one round with containers, or a sample."""
    with Experiment(budget.scratch / "kill-whole", ("run", *SCENARIO)) as undisturbed:
        status = undisturbed.wait(DEADLINE_SECONDS)
        if status:
            yield Row("whole", wrong=[f"an undisturbed run ends with status {status}"])
            return
        whole = undisturbed.summaries()[0]["journal_hash"]
    yield kill(budget, whole, "local", budget.times(ROUNDS * len(experiments("local")), 16), processes=5)
    yield kill(budget, whole, "docker", budget.times(len(experiments("docker")), 4), processes=2)


def kill(budget: Budget, whole: str, driver: str, times: int, processes: int) -> Row:
    """Run `times` experiments with one driver, spread over all combinations."""
    row = Row("signals to any process at any phase" if driver == "local" else "the same with hosts in containers")
    if driver == "docker" and (reason := no_containers()):
        row.note = reason
        return row
    every = len(experiments(driver))
    # a sample is spread over all phases
    numbers = range(times) if times >= every else [number * every // times for number in range(times)]
    counts = row.run_all(partial(interrupt, budget, whole, driver), numbers, processes=processes)
    if not budget.sample:
        row.require(counts, PHASES, "no process was reached in phase")
    row.tell(counts)
    return row


def no_containers() -> str:
    """Return why no hosts can be started in containers; empty if they can."""
    try:
        find_image()
    except RunError as error:
        return f"left out: {error}"
    return ""
