"""From a plan to its network: the driver and the clock decide."""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final, TextIO

from coordinator.networks.base import MemoryNetwork, Network, Timed, TimedMemoryNetwork
from coordinator.planning.plan import Plan
from coordinator.scenario.drivers import DRIVERS
from emunode.annexes import load

if TYPE_CHECKING:
    from coordinator.networks.launchers.base import Launch

OF_HOSTS: Final[Mapping[str, str]] = {
    "steps": "coordinator.networks.host_network:HostNetwork",
    "timed": "coordinator.networks.timed:TimedHostNetwork",
}
"""The networks of hosts by their clock; a run in memory imports neither."""


def make_network(plan: Plan, log: TextIO) -> Network | Timed:
    """Return the network of a plan; hosts that this process starts write to `log`."""
    if plan.scenario.clock != "timed":
        return make_stepped_network(plan, log)
    timed: Timed = load(OF_HOSTS["timed"])(plan, make_launch(plan, log)) if plan.hosts else TimedMemoryNetwork(plan)
    return timed


def make_stepped_network(plan: Plan, log: TextIO) -> Network:
    """Return the network of a plan that runs in lock-step."""
    if not plan.hosts:
        return MemoryNetwork(plan)
    stepped: Network = load(OF_HOSTS["steps"])(plan, make_launch(plan, log))
    return stepped


def make_launch(plan: Plan, log: TextIO) -> "Launch":
    """Return the launcher of a plan's driver. Only its module is imported: the SDK of Docker alone takes a third of a
    second.
    """
    launcher = DRIVERS[plan.scenario.driver].launcher
    launch: Launch = (import_module(launcher).launch if isinstance(launcher, str) else launcher)(plan, log)
    return launch
