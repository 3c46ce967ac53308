"""SIGKILL one process at a random time, in networks with one process per node, and hold what follows against memory.

A planned kill is a fault of the scenario, `crash:LABEL@WHEN` at a random step or virtual time: the driver kills the
process of the node, and the run must end as the same scenario does in memory, with the same journal hash, deliveries,
claims and exit status. An unplanned kill comes at a random moment from the start of the hosts on: the run must end undecided
with its reason, or with the complete history. Nothing may hang, and nothing may be left behind.
"""

import contextlib
import json
import random
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from coordinator.execution.run import run
from coordinator.execution.sinks import DirectorySink
from coordinator.networks.launchers.docker import DockerLaunch
from coordinator.networks.launchers.local import LocalLaunch
from coordinator.planning.plan import make_plan
from coordinator.scenario.model import make_scenario
from emunode.errors import ScenarioError
from emunode.topologies.base import Topology
from stress_tests.common import (
    DEADLINE_SECONDS,
    Attempt,
    Budget,
    Experiment,
    Row,
    Say,
    attempt_of,
    in_fork,
    words_of,
    wrap,
)
from stress_tests.kill import ContainerExperiment, ended, no_containers, send
from tests.helpers.command_line import fields

Values = dict[str, Any]
COLLECTIVES = (
    "star:3 broadcast edt redundancy=2",
    "star:3 allgather hamiltonian-cycle port_model=one-port",
    "hypercube:3 broadcast sbt segments=3",
    "hypercube:3 gather nesbt",
    "ej:1+2 broadcast independent-trees redundancy=3",
    "ej:1+2 broadcast flood messages=4",
)
TIMED = "clock=timed startup=20ms per_byte=0s lateness_limit=1.0 worst_lateness_limit=1e9"
"""Slow enough for a machine that runs several networks at once."""
CONDITIONS = (
    "",
    "fault_knowledge=neighbours",
    "fault_knowledge=detect:2",
    "reliable=true fault=loss:*:0.1",
    "repair=next-port",
    "fault_knowledge=detect:1 on_failure=shrink",
    TIMED,
    f"{TIMED} fault=loss:*:0.1",
    f"{TIMED} reliable=true retransmit_after=60ms attempts=4",
    f"{TIMED} fault_knowledge=detect:2 keep_alive=50ms",
)
UNDISTURBED = [fields(line) for line in (COLLECTIVES[0], f"{COLLECTIVES[2]} {TIMED}", COLLECTIVES[5])]
"""The runs that unplanned kills disturb."""
HISTORY = ("journal_hash", "steps", "packets", "deliveries", "intact_deliveries")
VERDICT = ("verdict", "undecided_because")
LATE = "the machine was late"
"""Why a timed run with the right history may be undecided all the same."""


class Expected(NamedTuple):
    """The result of a scenario in memory."""

    summary: Mapping[str, Any]
    exit_status: int

    @property
    def end(self) -> float:
        """The last step, or under the timed clock the time of the last receipt in seconds."""
        return float(self.summary.get("intended_seconds", self.summary["steps"]))


def in_memory(values: Values) -> Expected:
    """Run a scenario in memory."""
    plan = make_plan(make_scenario({**values, "driver": "memory"}))
    with tempfile.TemporaryDirectory() as folder:
        result = run(plan, DirectorySink(Path(folder) / "run", draw=False))
    return Expected(json.loads(json.dumps(result.summary)), result.exit_status)


def command_of(values: Values, driver: str) -> list[str]:
    """Return the command that runs a scenario with one process per node."""
    return ["run", *words_of({"driver": driver, "ranks_per_host": 1, **values})]


def count_kills(_say: Say) -> None:
    """Let the coordinator write a line for every process that it kills because of a fault."""

    def note(*_: object) -> None:
        with Path("kills").open("a") as file:
            file.write("killed\n")

    for launch in (LocalLaunch, DockerLaunch):
        wrap(launch, "kill", before=note)


def draw_scenario(draw: random.Random, seed: int) -> tuple[Values, Topology]:
    """Return a collective under conditions that it allows."""
    while True:
        scenario = fields(f"{draw.choice(COLLECTIVES)} {draw.choice(CONDITIONS)}", seed=seed)
        with contextlib.suppress(ScenarioError):
            return scenario, make_plan(make_scenario(scenario)).topology


def planned(budget: Budget, driver: str, number: int) -> Attempt:
    """One run with a planned crash at a random time."""
    draw = random.Random(budget.seed * 1_000_003 + number)
    scenario, topology = draw_scenario(draw, number)
    undisturbed = in_fork(in_memory, scenario)
    timed = "clock" in scenario
    # Up to the end of the run without the crash: until then the crash is still to come.
    when = f"{draw.uniform(0, undisturbed.end) * 1e3:.6f}ms" if timed else str(draw.randint(1, int(undisturbed.end)))
    crash = f"crash:{topology.label(draw.randrange(topology.order))}@{when}"
    scenario["fault"] = (*scenario.get("fault", ()), crash)
    expected = in_fork(in_memory, scenario)
    folder, command = budget.scratch / f"planned-{driver}-{number}", command_of(scenario, driver)
    kind = ContainerExperiment if driver == "docker" else Experiment
    busy = False
    with kind(folder, command, count_kills) as experiment:
        status, wrong = experiment.end()
        if status is not None:
            wrong += [f"unfinished: {path.name}" for path in experiment.partial()]
            # Only containers start so slowly that hosts are late on a busy machine.
            busy = driver == "docker" and status in (3, 4) and experiment.timed_out()
            wrong += [] if busy else differences(expected, status, experiment)
        kills = (folder / "kills").read_text().count("killed") if (folder / "kills").exists() else 0
        # Under the timed clock no process is killed once all packets have arrived.
        if kills > 1 or (not kills and not busy and not (timed and float(when[:-2]) / 1e3 >= expected.end)):
            wrong.append(f"{kills} processes were killed")
        experiment.keep = bool(wrong)
    return attempt_of(
        f"planned {number}: {' '.join(command)}", wrong, [f"exit {status}", *["kills"] * kills], busy=busy
    )


def differences(expected: Expected, status: int, experiment: Experiment) -> list[str]:
    """Return differences between the end of a run and that in memory."""
    if status not in (expected.exit_status, 3):
        return [f"exit status {status} instead of {expected.exit_status}: {experiment.stderr()[-300:]}"]
    summary = experiment.summaries()[0]
    found, wanted = dict(summary), dict(expected.summary)
    late = str(summary["undecided_because"]).startswith(LATE)
    names = HISTORY if late else (*HISTORY, *VERDICT)
    if not late:
        for each in (found, wanted):
            each |= {f"claim {claim['name']}": claim["verdict"] for claim in each["claims"]}
        names = (*names, *(name for name in wanted if name.startswith("claim ")))
    return [
        f"{name} is {found.get(name)} instead of {wanted[name]}" for name in names if found.get(name) != wanted[name]
    ]


def unplanned(budget: Budget, ends: Mapping[int, tuple[str, float]], number: int) -> Attempt:
    """Return one run with a host killed at a random moment; `ends`: hash of each run and how long its hosts live."""
    draw = random.Random(budget.seed * 1_000_033 + number)
    which = number % len(ends)
    whole, seconds = ends[which]
    command = command_of(UNDISTURBED[which], "local")
    reached: list[psutil.Process] = []
    with Experiment(budget.scratch / f"unplanned-{number}", command) as experiment:
        wait_for_hosts(experiment)
        time.sleep(draw.uniform(0, seconds))
        with contextlib.suppress(psutil.NoSuchProcess):  # the coordinator may have ended
            reached = send(experiment, "one host", signal.SIGKILL, draw)
        status, wrong = ended(experiment, "one host", signal.SIGKILL, whole)
        experiment.keep = bool(wrong)
    return attempt_of(
        f"unplanned {number}: {' '.join(command)}", wrong, [f"exit {status}", *["kills" for _ in reached]]
    )


def wait_for_hosts(experiment: Experiment) -> None:
    """Wait until the first host has been started, or the coordinator has ended."""
    while not experiment.hosts() and experiment.wait(0) is None:
        time.sleep(0.01)


def run_section(budget: Budget) -> Iterator[Row]:
    """Yield a thousand planned kills and three hundred unplanned ones with processes, and fifty planned ones with
    containers.
    """
    yield report(
        Row("planned SIGKILL at a random time, as in memory"), partial(planned, budget, "local"), budget.times(1000, 16)
    )
    ends = {}
    for number, values in enumerate(UNDISTURBED):
        with Experiment(budget.scratch / f"whole-{number}", command_of(values, "local")) as undisturbed:
            wait_for_hosts(undisturbed)
            began = time.monotonic()
            while undisturbed.hosts():
                time.sleep(0.01)
            seconds = time.monotonic() - began
            undisturbed.wait(DEADLINE_SECONDS)
            ends[number] = undisturbed.summaries()[0]["journal_hash"], seconds
    yield report(
        Row("unplanned SIGKILL of a node at a random moment"), partial(unplanned, budget, ends), budget.times(300, 8)
    )
    row = Row("planned SIGKILL of a node in a container", note=no_containers())
    yield row if row.note else report(row, partial(planned, budget, "docker"), budget.times(50, 2), processes=2)


def report(row: Row, attempt: Any, times: int, processes: int = 5) -> Row:
    """Make the attempts and note how they ended."""
    counts = row.run_all(attempt, range(times), processes=processes)
    row.require(counts, ["kills"], "there were no")
    row.tell(counts)
    return row
