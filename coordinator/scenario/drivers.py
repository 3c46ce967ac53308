"""The drivers: where the ranks of a run execute. To add one, write its launcher and add a line to `DRIVERS`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple


class Driver(NamedTuple):
    """What scenarios and plans have to know of a driver."""

    launcher: str
    """The module that starts its hosts, imported on use: its `launch(plan, log)` makes the `Launch`. Empty: no hosts."""
    most_hosts: int | None = None
    """The most hosts that `--ranks-per-host auto` starts; None: as many as there are cores, or as descriptors require."""
    local_processes: bool = False
    """Whether hosts are processes of this machine, in its network namespace and under its limits."""
    local_memory: bool = True
    """Whether hosts use the memory of this machine."""


DRIVERS: Mapping[str, Driver] = {
    "memory": Driver("", most_hosts=0),
    "local": Driver("coordinator.networks.launchers.local", local_processes=True),
    "docker": Driver("coordinator.networks.launchers.docker", most_hosts=24),
    "join": Driver("coordinator.networks.launchers.join", most_hosts=24, local_memory=False),
}

if TYPE_CHECKING:
    DriverName = str
else:  # the choices of a scenario; a type checker needs a literal that is written out
    DriverName = Literal[tuple(DRIVERS)]
