"""The driver mpi: hosts that mpirun or mpiexec starts, of Open MPI or MPICH. The processes exchange no MPI messages.

Both launchers end all processes when one ends early, so a process stays after a kill of its host (`emunode.host.process`).
"""

import os
from collections.abc import Sequence
from enum import Enum
from typing import Final, TextIO

from coordinator.annexes.clusters.cluster import ClusterLaunch, Starter, run_command
from coordinator.planning.plan import Plan
from emunode.errors import RunError

VERSION_SECONDS: Final = 20.0


class MpiLauncher(Enum):
    """The kinds of mpirun, whose options differ."""

    OPEN_MPI = "Open MPI"
    MPICH = "MPICH"


class MpiLaunch(ClusterLaunch):
    """Hosts that one mpirun starts; the rank of a process is the index of its host."""

    program = "mpirun"
    package = "MPI"

    def __init__(self, plan: Plan, log: TextIO) -> None:
        super().__init__(plan, log)
        self._kind = MpiLauncher.OPEN_MPI

    async def coordinator_address(self) -> str:
        self._kind = await self._find_kind()
        return await super().coordinator_address()

    async def _find_kind(self) -> MpiLauncher:
        _, text = await run_command([*self.launcher, "--version"], f"{self.launcher[0]} --version", VERSION_SECONDS)
        # mpirun names its runtime: OpenRTE in version 4, PRRTE in version 5.
        if any(name in text for name in ("Open MPI", "OpenRTE", "PRRTE")):
            return MpiLauncher.OPEN_MPI
        if "HYDRA" in text or "MPICH" in text:
            return MpiLauncher.MPICH
        first = text.strip().splitlines()[:1] or ["nothing"]
        raise RunError(f"{self.launcher[0]} is neither of Open MPI nor of MPICH: its --version prints {first[0]!r}")

    def starters(self, hosts: int) -> Sequence[Starter]:
        names = [f"{node.name}:{node.slots}" for node in self.nodes]
        return [Starter(self._mpirun(hosts, names, self.host_command()))]

    def starter_on(self, node: str, host: int) -> Starter:
        return Starter(self.command_on(node, self.host_command("", "--index", host)))

    def command_on(self, node: str, command: Sequence[str]) -> Sequence[str]:
        # Without a host file, all hosts are on this machine.
        return self._mpirun(1, [node], command) if self.nodes else command

    def _mpirun(self, processes: int, names: Sequence[str], command: Sequence[str]) -> list[str]:
        """Return the command of mpirun that starts processes on machines, each written NAME or NAME:SLOTS."""
        if self._kind is MpiLauncher.MPICH:
            machines = ["-hosts", ",".join(names)] if names else []
            return [*self.launcher, *machines, "-n", str(processes), *command]
        machines = ["--host", ",".join(names)] if names else []
        # One process for a host that mostly waits: more than there are cores, and none bound to a core.
        shared = ["--bind-to", "none", "--oversubscribe"]
        if os.geteuid() == 0:
            shared.append("--allow-run-as-root")
        return [*self.launcher, *shared, *machines, "-n", str(processes), *command]


def launch(plan: Plan, log: TextIO) -> MpiLaunch:
    """Return the launcher of the driver mpi."""
    return MpiLaunch(plan, log)
