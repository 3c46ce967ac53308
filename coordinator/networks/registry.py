"""From a plan to its network: the driver and the clock decide."""

from importlib import import_module
from typing import TYPE_CHECKING, TextIO

import trio

from coordinator.networks.base import Checkpoint, MemoryNetwork, Network
from coordinator.networks.host_network import HostNetwork
from coordinator.networks.timed import Timed, TimedHostNetwork, TimedMemoryNetwork
from coordinator.planning.plan import Plan
from coordinator.scenario.drivers import DRIVERS

if TYPE_CHECKING:
    from coordinator.networks.launchers.base import Launch


def make_network(plan: Plan, log: TextIO, checkpoint: Checkpoint = trio.lowlevel.checkpoint) -> Network | Timed:
    """Return the network of a plan; hosts that this process starts write to `log`, steps in memory await `checkpoint`."""
    if plan.scenario.clock != "timed":
        return make_stepped_network(plan, log, checkpoint)
    return TimedHostNetwork(plan, make_launch(plan, log)) if plan.hosts else TimedMemoryNetwork(plan)


def make_stepped_network(plan: Plan, log: TextIO, checkpoint: Checkpoint = trio.lowlevel.checkpoint) -> Network:
    """Return the network of a plan that runs in lock-step."""
    if not plan.hosts:
        return MemoryNetwork(plan, checkpoint)
    return HostNetwork(plan, make_launch(plan, log))


def make_launch(plan: Plan, log: TextIO) -> "Launch":
    """Return the launcher of a plan's driver. Only its module is imported: the SDK of Docker alone takes a third of a
    second.
    """
    launcher = DRIVERS[plan.scenario.driver].launcher
    launch: Launch = (import_module(launcher).launch if isinstance(launcher, str) else launcher)(plan, log)
    return launch
