"""The driver slurm: hosts that srun starts, in the allocation of this process or in one of its own.

A job of its own is recorded by name before Slurm is asked for it, so that `coordinator clean` cancels the job of a run that
was killed at any moment.
"""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Final, TextIO

import trio

from coordinator.annexes.clusters.cluster import (
    ClusterLaunch,
    Starter,
    address_towards,
    require_program,
    run_command,
)
from coordinator.history.stored.left_behind import Record, new_record
from coordinator.planning.plan import Plan
from emunode.errors import RunError
from emunode.launched import launcher_place
from emunode.logging import log

PACKAGE: Final = "Slurm"
GRANTED: Final = re.compile(r"Granted job allocation (\d+)")
OF_STEP: Final = re.compile(
    r"SLURM_(STEP\w*|NNODES|NTASKS\w*|NPROCS|PROCID|LOCALID|NODEID|GTIDS|TASK\w*|TASKS_PER_NODE|CPU_BIND\w*|DISTRIBUTION|"
    r"SRUN_COMM_\w+|LAUNCH_NODE_IPADDR)$"
)
"""Variables of a step that srun would take for its own flags."""
SHARED: Final = ("--overlap", "--mpi=none", "--input=none")
"""A step shares the processors of other steps of its job: a fault is a further step on the node of its host."""


class SlurmLaunch(ClusterLaunch):
    """Hosts that one srun starts, one task for each host."""

    program = "srun"
    package = PACKAGE

    def __init__(self, plan: Plan, log: TextIO) -> None:
        super().__init__(plan, log)
        self._record: Record | None = None

    def programs(self) -> Sequence[str]:
        # What cancels the job too, before there is one.
        return [self.launcher[0], "squeue", "scontrol", *([] if self.job else ["salloc", "scancel"])]

    async def coordinator_address(self) -> str:
        place = launcher_place(os.environ)
        if place is not None and place.rank > 0:
            raise RunError(
                f"this is task {place.rank} of the {place.size} tasks of a step, and each of them would start a run: "
                "start one coordinator, by srun --ntasks=1"
            )
        if not self.job:
            await self._allocate()
        nodes = await self._nodes_of_job()
        _, text = await self._ask(["scontrol", "--oneliner", "show", "node", nodes[0]])
        address = re.search(r"\bNodeAddr=(\S+)", text)
        return address_towards(address[1] if address else nodes[0])

    def environment(self) -> Mapping[str, str]:
        # A coordinator in a step has variables that would confine srun to the nodes and tasks of that step.
        return {name: value for name, value in os.environ.items() if not OF_STEP.match(name)}

    async def _allocate(self) -> None:
        """Ask for an allocation, and wait for it as long as for a host."""
        name = f"testbench-{self.run}"
        record = new_record(run=self.run, driver="slurm", objects=(name,))
        record.write()
        self._record = record
        words = ["salloc", "--no-shell", f"--ntasks={self._plan.hosts}"]
        # The name last, because the last of equal flags counts: the job is cancelled by this name.
        words += [*self.launcher[1:], f"--job-name={name}"]
        status, text = await run_command(words, "salloc", self.join_seconds)
        granted = GRANTED.search(text)
        if status or granted is None:
            raise RunError(f"Slurm gives no allocation: {text.strip() or f'salloc ended with status {status}'}")
        self.job = granted[1]

    async def _nodes_of_job(self) -> list[str]:
        """Return the names of the nodes of the job."""
        _, nodes = await self._ask(["squeue", "--noheader", "--format=%N", "--jobs", self.job])
        _, names = await self._ask(["scontrol", "show", "hostnames", nodes.strip()])
        return names.split()

    async def _ask(self, command: Sequence[str]) -> tuple[int, str]:
        status, text = await run_command(command, command[0])
        if status or not text.strip():
            raise RunError(f"{command[0]} does not answer about job {self.job}: {text.strip() or f'status {status}'}")
        return status, text

    def starters(self, hosts: int) -> Sequence[Starter]:
        # A task that fails must not end the others: the coordinator judges what its end means.
        flags = [f"--ntasks={hosts}", "--kill-on-bad-exit=0", "--wait=0"]
        if self._record is None:
            # The allocation was not made for these hosts. They mostly wait, and share its processors if they have to.
            flags.append("--overcommit")
        return [Starter([*self._srun(*flags), *self.host_command()])]

    def starter_on(self, node: str, host: int) -> Starter:
        return Starter(self.command_on(node, self.host_command("", "--index", host)))

    def command_on(self, node: str, command: Sequence[str]) -> Sequence[str]:
        return [*self._srun("--ntasks=1", "--nodes=1", f"--nodelist={node}"), *command]

    def _srun(self, *flags: str) -> list[str]:
        return [self.launcher[0], f"--jobid={self.job}", *SHARED, *flags]

    async def stop(self) -> None:
        await super().stop()
        record, self._record = self._record, None
        if record is None:
            return
        with trio.CancelScope(shield=True):
            try:
                await _cancel(record)
            except RunError as error:
                log("left behind", remedy="coordinator clean", what=record.objects, error=str(error))


async def _cancel(record: Record) -> None:
    """Cancel the job of a run, if it has not ended, and remove the record. RunError if Slurm does not answer."""
    (name,) = record.objects
    status, text = await run_command(["scancel", f"--name={name}"], "scancel")
    if status:
        raise RunError(f"scancel does not cancel the job {name}: {text.strip() or f'status {status}'}")
    record.remove()


def remaining(record: Record) -> list[str]:
    """Return the name of the job of a killed run, which may have ended."""
    return [f"job {name}" for name in record.objects]


def sweep(record: Record) -> list[str]:
    """Cancel the job of a killed run; return its name. RunError if Slurm does not answer, or is not installed: then the job
    is named once, and its record is removed.
    """
    try:
        require_program("scancel", PACKAGE)
    except RunError as error:
        record.remove()
        (name,) = record.objects
        raise RunError(f"{error}; if the job still runs, this cancels it: scancel --name={name}") from None
    trio.run(_cancel, record)
    return remaining(record)


def launch(plan: Plan, log: TextIO) -> SlurmLaunch:
    """Return the launcher of the driver slurm."""
    return SlurmLaunch(plan, log)
