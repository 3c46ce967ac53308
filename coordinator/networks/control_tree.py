"""The tree that takes orders for steps from the coordinator to many hosts: who passes them on to whom, and building it.

With few hosts the coordinator sends each its order. Beyond that a step of all hosts would take time for each of them, one
after the other. Through the tree it takes time for FAN_OUT children on each level, and the number of levels grows with the
logarithm of the number of hosts.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from coordinator.networks.control_channel import ControlChannel
from coordinator.networks.link_waves import LinkWaves

TREE_HOSTS: Final = 200
"""From this many hosts on there is a tree."""
TREE_ORDERS: Final = 64
"""Steps of more hosts than this take the tree, and are then ordered of all hosts."""
FAN_OUT: Final = 16
"""The most children of the coordinator, and of a host."""
COORDINATOR: Final = -1
"""The parent of the hosts at the top."""


def tree_parents(hosts: int, fan_out: int) -> list[int]:
    """Return the parent of each host, COORDINATOR for the hosts at the top.

    The hosts below a host have the numbers that follow its own, so neighbours by number share a part of the tree, as
    they often share a machine.
    """
    parents = [COORDINATOR] * hosts
    blocks = [(COORDINATOR, 0, hosts)]
    for parent, first, end in blocks:  # grows
        size = end - first
        parts = min(fan_out, size)
        for part in range(parts):
            top, after = first + size * part // parts, first + size * (part + 1) // parts
            parents[top] = parent
            blocks.append((top, top + 1, after))
    return parents


class TreeBuilder:
    """Builds the tree of a run, and knows the hosts at its top."""

    def __init__(self, channel: ControlChannel, links: LinkWaves) -> None:
        self._channel = channel
        self._links = links
        self._joined: dict[int, int] = {}

    def on_joined(self, host: int, children: int) -> None:
        """Note that all children of a host have joined it."""
        self._joined[host] = children

    async def build(self, hosts: int) -> Sequence[int]:
        """Let hosts join their parents, and return the hosts at the top."""
        parents = tree_parents(hosts, FAN_OUT)
        children = Counter(parents)
        for host in self._channel.in_order:
            parent = parents[host.index]
            listener = None if parent == COORDINATOR else self._links.listener(parent)
            self._channel.send(host, "tree", listener, children[host.index])
        await self._channel.wait_until(
            lambda: len(self._joined) == hosts,
            "hosts to join the tree",
            explain=lambda: f"{hosts - len(self._joined)} hosts wait for children",
        )
        return [host for host, parent in enumerate(parents) if parent == COORDINATOR]
