"""The driver ssh: hosts on the machines of a host file, one connection of ssh for each machine.

Every machine needs this Python at the same path. Endpoint and token go through the connection, so no file system is shared.
"""

import shlex
from collections.abc import Sequence
from typing import Final, TextIO

from coordinator.annexes.clusters.cluster import ClusterLaunch, Starter
from coordinator.annexes.clusters.options import ClusterOptions
from coordinator.planning.plan import Plan
from emunode.errors import RunError, ScenarioError

FLAGS: Final = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=15", "-o", "ServerAliveInterval=15")
"""A connection that asks for a password would wait for ever, and a lost machine is noticed within a minute."""


class SshLaunch(ClusterLaunch):
    """Hosts on the machines of a host file, with consecutive indices on each machine."""

    program = "ssh"
    package = "OpenSSH"

    def starters(self, hosts: int) -> Sequence[Starter]:
        room = sum(node.slots for node in self.nodes)
        if hosts > room:
            raise RunError(f"the host file has room for {room} hosts, and the run has {hosts}: raise its slots")
        first, starters = 0, []
        for node in self.nodes:
            count = min(node.slots, hosts - first)
            if count:
                starters.append(self._starter(node.name, first, count))
            first += count
        return starters

    def starter_on(self, node: str, host: int) -> Starter:
        return self._starter(node, host, 1)

    def _starter(self, node: str, first: int, count: int) -> Starter:
        command = self.host_command("-", "--index", first, "--processes", count, "--node", node)
        return Starter(self.command_on(node, command), join_by_input=True)

    def command_on(self, node: str, command: Sequence[str]) -> Sequence[str]:
        # The shell of the other machine splits the words again.
        return [*self.launcher, *FLAGS, node, shlex.join(command)]


def launch(plan: Plan, log: TextIO) -> SshLaunch:
    """Return the launcher of the driver ssh; ScenarioError without a host file."""
    if ClusterOptions.of(plan.scenario).host_file is None:
        raise ScenarioError("host_file", None, "the driver ssh needs --host-file FILE, with a machine on each line")
    return SshLaunch(plan, log)
