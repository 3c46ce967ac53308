"""From a plan to its network: the driver and the clock decide."""

from importlib import import_module
from typing import TextIO

from coordinator.networks.base import MemoryNetwork, Network
from coordinator.networks.host_network import HostNetwork
from coordinator.networks.launchers.base import Launch
from coordinator.networks.timed import Timed, TimedHostNetwork, TimedMemoryNetwork
from coordinator.planning.plan import Plan
from coordinator.scenario.drivers import DRIVERS


def make_network(plan: Plan, log: TextIO) -> Network | Timed:
    """The network of a plan; hosts that this process starts write to `log`."""
    if plan.scenario.clock == "timed":
        return TimedHostNetwork(plan, make_launch(plan, log)) if plan.hosts else TimedMemoryNetwork(plan)
    return make_stepped_network(plan, log)


def make_stepped_network(plan: Plan, log: TextIO) -> Network:
    """The network of a plan that runs in lock-step."""
    return HostNetwork(plan, make_launch(plan, log)) if plan.hosts else MemoryNetwork(plan)


def make_launch(plan: Plan, log: TextIO) -> Launch:
    """The launcher of a plan's driver. Only its module is imported: the SDK of Docker alone takes a third of a second."""
    launch: Launch = import_module(DRIVERS[plan.scenario.driver].launcher).launch(plan, log)
    return launch
