"""Send signals to every process of a run in every phase: the run must end with a reason and leave nothing behind.

A coordinator in a process of its own says how far it is; at a mark drawn by the seed a signal goes to the coordinator,
one host, half of them, or the process that forked them. Then: it ends before the deadline; no process, temporary file or
half-written run is left (but for the folder of a coordinator that was itself killed, which `coordinator clean` takes);
what was kept can be read and says `undecided`, or is the whole history and `holds` (told to stop when all is written, a
run stands). The same with hosts in containers, where an engine has the image: then no container, network or record is left
either, but for those of a killed coordinator, which `coordinator clean` takes.
"""

import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import psutil
from docker import errors

from coordinator.networks.launchers.docker import RUN_LABEL, DockerLaunch, connect, find_image, sweep
from coordinator.networks.launchers.records import orphans
from emunode.errors import RunError
from stress_tests.common import Budget, Experiment, Row, each, in_fork, preload, readable

STALL_SECONDS = 4.0
JOIN_SECONDS = 20.0
"""Time-outs of these runs; real runs use half a minute and a minute."""
DEADLINE_SECONDS = 90.0
STEPS = 12
ROUNDS = 5
"""Repetitions of every combination of phase, target and signal."""
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP)
TARGETS = ("coordinator", "one host", "half the hosts", "parent of the hosts")
PHASES = ("start", "hosts joined", "links up", "step", "barrier", "teardown", "collection", "report", "finish")
LAYOUTS = {"local": ("1", "3", "auto"), "docker": ("2", "3")}
"""Ranks per process, by driver."""
SCENARIO = ("--topology", "star:3", "--collective", "broadcast", "--algorithm", "flood", "--messages", "10")


class Contained(Experiment):
    """A run with hosts in containers, whose processes are found through the engine."""

    def __init__(self, folder: Path, arguments: Sequence[str], patch: Callable[[Callable[[str], None]], None]) -> None:
        def patched(say: Callable[[str], None]) -> None:
            os.environ["XDG_STATE_HOME"] = str(folder / "state")
            before = DockerLaunch.__init__

            def noted(launch: DockerLaunch, *plan: Any) -> None:
                before(launch, *plan)
                Path("run-id").write_text(launch.run)

            DockerLaunch.__init__ = noted  # type: ignore[method-assign]
            patch(say)

        super().__init__(folder, arguments, patched)

    def parent(self) -> psutil.Process | None:
        return None

    def hosts(self) -> list[psutil.Process]:
        found = []
        with contextlib.closing(connect()) as engine:
            for one in self._containers(engine):
                with contextlib.suppress(psutil.Error, errors.NotFound):
                    if pid := engine.inspect_container(one["Id"])["State"]["Pid"]:  # else it does not run
                        found.append(psutil.Process(pid))
        return sorted(found, key=lambda host: host.pid)

    def leftovers(self) -> list[str]:
        os.environ["XDG_STATE_HOME"] = str(self.folder / "state")
        if (self.wait_status or 0) < 0:
            for record in orphans():
                sweep(record)
        left = super().leftovers() + [f"record {path.name}" for path in self.folder.glob("state/**/*.json")]
        with contextlib.closing(connect()) as engine:
            left += [f"container {one['Names'][0]}" for one in self._containers(engine)]
            networks = engine.networks(filters={"label": f"{RUN_LABEL}={self._run}"}) if self._run else ()
            return left + [f"network {one['Name']}" for one in networks]

    @property
    def _run(self) -> str:
        path = self.folder / "run-id"
        return path.read_text() if path.exists() else ""

    def _containers(self, engine: Any) -> list[dict[str, Any]]:
        if not self._run:
            return []
        found: list[dict[str, Any]] = engine.containers(all=True, filters={"label": f"{RUN_LABEL}={self._run}"})
        return found


def patch(phase: str, at: int, say: Callable[[str], None]) -> None:
    """Report the beginning of each phase, and stay in it for a moment."""
    from coordinator.execution import drive, run
    from coordinator.history.journal import Journal
    from coordinator.history.run_directory import RunDirectory
    from coordinator.networks import control_channel
    from coordinator.networks.host_network import HostNetwork
    from coordinator.networks.launchers.base import Launch
    from coordinator.networks.step_barrier import StepBarrier

    control_channel.STALL_SECONDS, Launch.join_seconds = STALL_SECONDS, JOIN_SECONDS
    told: list[str] = []

    def tell(name: str) -> None:
        if name == phase and not told:
            told.append(name)
            say(name)
            time.sleep(0.03)

    def before(owner: Any, method: str, name: str) -> None:
        whole = getattr(owner, method)

        def wrapped(*arguments: Any, **options: Any) -> Any:
            tell(name)
            return whole(*arguments, **options)

        setattr(owner, method, wrapped)

    def during(phase_now: str, done: int, _: int) -> None:
        tell({"steps": "step" if done == at else ""}.get(phase_now, phase_now))

    open_and_step = drive._open_and_step

    async def listened(plan: Any, network: Any, journal: Any, execution: Any, progress: Any) -> None:
        def both(*news: Any) -> None:
            during(*news)
            progress(*news)

        await open_and_step(plan, network, journal, execution, both)

    drive._open_and_step = listened
    order = StepBarrier.order

    def ordered(self: Any, name: Any, step: int, *rest: Any) -> None:
        order(self, name, step, *rest)
        if step == at:
            tell("barrier")

    StepBarrier.order = ordered  # type: ignore[method-assign]
    before(HostNetwork, "close", "teardown")
    before(Journal, "close", "collection")
    before(run, "_draw", "report")
    before(RunDirectory, "finish", "finish")
    tell("start")


def strike(experiment: Experiment, target: str, number: signal.Signals, draw: random.Random) -> list[psutil.Process]:
    """Send the signal to the existing target processes; the processes reached."""
    hosts, parent = experiment.hosts(), experiment.parent()
    victims = {
        "coordinator": [psutil.Process(experiment.pid)],
        "one host": draw.sample(hosts, 1) if hosts else [],
        "half the hosts": draw.sample(hosts, (len(hosts) + 1) // 2),
        "parent of the hosts": [parent] if parent else [],
    }[target]
    reached = []
    for victim in victims:
        with contextlib.suppress(psutil.Error):
            victim.send_signal(number)
            reached.append(victim)
    return reached


def judge(experiment: Experiment, target: str, number: signal.Signals, status: int | None, whole: str) -> list[str]:
    """Problems with the end of a run."""
    if status is None:
        return [f"it hangs: no end within {DEADLINE_SECONDS:g} s"]
    wrong = experiment.leftovers()
    killed = target == "coordinator" and status < 0
    allowed = (0, 3, 4) if target != "coordinator" else (0,) if number == signal.SIGSTOP else (0, 130, -number)
    if status not in allowed:
        wrong.append(f"exit status {status}: {experiment.stderr()[-300:]}")
    if "Traceback" in experiment.stderr():
        wrong.append("a traceback on standard error")
    left = experiment.partial()
    if left and not killed:
        wrong.append(f"half-written: {left[0].name}")
    finished = [path.parent for path in experiment.folder.glob("runs/*/2*/summary.json")]
    others = [path for path in experiment.folder.glob("runs/*/2*") if path not in finished]
    if others:
        wrong.append(f"a run without a summary: {others[0].name}")
    if bool(finished) != (status in (0, 3, 130)) and not killed and not (status == 130 and not finished):
        wrong.append(f"exit status {status} and {len(finished)} runs")
    for folder in finished:
        try:
            summary = in_fork(partial(readable, folder))
        except Exception as error:
            wrong.append(f"it cannot be read: {error!r}")
            continue
        if status == 0 and (summary["verdict"], summary["journal_hash"]) != ("holds", whole):
            wrong.append("exit status 0 and another history")
        whole_at_last = status == 130 and (summary["verdict"], summary["journal_hash"]) == ("holds", whole)
        if status in (3, 130) and not whole_at_last and not summary["undecided_because"]:
            wrong.append(f"exit status {status} and {summary['verdict']}")
    return wrong


def clean(experiment: Experiment) -> list[str]:
    """`coordinator clean` must remove the folder of a killed coordinator and nothing else."""
    from coordinator.history.run_directory import abandoned

    partial_folders = set(experiment.partial())
    taken = set(abandoned(experiment.folder / "runs"))
    return [f"clean would not take {path.name}" for path in partial_folders - taken]


def try_once(budget: Budget, whole: str, driver: str, number: int) -> tuple[str, int | None, list[str]]:
    """One experiment: the phase in which a signal reached a process (or ""), the exit status, the problems."""
    draw = random.Random(budget.seed * 1_000_003 + number)
    every = experiments(driver)
    phase, target, sent = every[number % len(every)]
    layout = draw.choice(LAYOUTS[driver])
    name = f"{number}: {sent.name} to {target}, {phase}, --driver {driver} --ranks-per-host {layout}"
    arguments = ("run", *SCENARIO, "--driver", driver, "--ranks-per-host", layout)
    folder = budget.scratch / f"kill-{driver}-{number}"
    experiment = KINDS[driver](folder, arguments, partial(patch, phase, draw.randint(1, STEPS - 2)))
    wrong: list[str] = []
    reached: list[psutil.Process] = []
    try:
        for _ in experiment.marks():
            time.sleep(draw.choice((0.0, 0.0, draw.random() * 0.02, draw.random() * 0.3)))
            reached = strike(experiment, target, sent, draw)
            break
        else:
            wrong.append("the phase never came")
        if sent == signal.SIGSTOP and target == "coordinator":
            time.sleep(0.3)
            for victim in reached:
                with contextlib.suppress(psutil.Error):
                    victim.send_signal(signal.SIGCONT)
        status = experiment.wait(DEADLINE_SECONDS)
        wrong += judge(experiment, target, sent, status, whole)
        if status is not None and status < 0:
            wrong += clean(experiment)
    finally:
        experiment.close(keep=bool(wrong))
    return phase if reached else "", status, [f"{name}: {one}" for one in wrong]


KINDS: dict[str, type[Experiment]] = {"local": Experiment, "docker": Contained}


def experiments(driver: str) -> list[tuple[str, str, signal.Signals]]:
    """Every phase with every target and signal; the parent of the hosts exists only without containers."""
    return list(product(PHASES, TARGETS if driver == "local" else TARGETS[:-1], SIGNALS))


def run_section(budget: Budget) -> list[Row]:
    """Five hundred experiments with processes and one round with containers, or a sample."""
    preload()
    first = Experiment(budget.scratch / "kill-whole", ("run", *SCENARIO), lambda _: None)
    status = first.wait(DEADLINE_SECONDS)
    whole = first.summaries()[0]["journal_hash"] if status == 0 else ""
    first.close(keep=False)
    if not whole:
        return [Row("kill", "whole", wrong=[f"an undisturbed run ends with status {status}"])]
    local = Row("kill", "signals to any process at any phase")
    kill(budget, whole, "local", local, budget.times(ROUNDS * len(experiments("local")), 24), processes=5)
    docker = Row("kill", "the same with hosts in containers")
    try:
        find_image()
    except RunError as error:
        docker.note = f"left out: {error}"
    else:
        kill(budget, whole, "docker", docker, budget.times(len(experiments("docker")), 4), processes=2)
    return [local, docker]


def kill(budget: Budget, whole: str, driver: str, row: Row, times: int, processes: int) -> None:
    """Run `count` experiments with one driver, spread over all combinations."""
    began = time.monotonic()
    every = len(experiments(driver))
    # a sample is spread over all phases
    numbers = range(times) if times >= every else [number * every // times for number in range(times)]
    ends: Counter[int | None] = Counter()
    struck: Counter[str] = Counter()
    for phase, status, wrong in each(partial(try_once, budget, whole, driver), numbers, processes):
        row.tried += 1
        ends[status] += 1
        struck[phase] += 1
        row.wrong += wrong
        for one in wrong:
            print(f"  kill {one}", flush=True)
    missed = struck.pop("", 0)
    row.wrong += [
        f"no process was reached in phase {phase}" for phase in PHASES if not struck[phase] and not budget.sample
    ]
    row.note = "exit " + ", ".join(f"{status}: {times}" for status, times in sorted(ends.items(), key=str))
    row.note += f"; {row.tried - missed} signals reached a process"
    row.seconds = round(time.monotonic() - began, 1)
