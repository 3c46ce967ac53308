"""Digests of a numbered network: equal digests mean equal ranks, ports and labels, not only isomorphic graphs.

The text of a network is `network 1`, its order and number of links, every label by rank, and a line for every link: the
lower rank, its port, the higher rank, its port. Links are ordered by the lower rank and its port.
"""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import chain

from emunode.topologies.base import Topology


def network_sha256(topology: Topology) -> str:
    """SHA-256 of the whole text, as 64 hexadecimal digits."""
    head = ("network 1\n", f"{topology.order} {topology.link_count}\n")
    labels = (f"{topology.label(rank)}\n" for rank in topology.ranks())
    return _digest(chain(head, labels, _link_lines(topology)))


def links_sha256(topology: Topology) -> str:
    """SHA-256 of the lines of the links: the digest of ranks and ports, whatever the nodes are called."""
    return _digest(_link_lines(topology))


def _link_lines(topology: Topology) -> Iterator[str]:
    for rank, port, neighbour, its_port in topology.links():
        yield f"{rank} {port} {neighbour} {its_port}\n"


def _digest(lines: Iterable[str]) -> str:
    digest = sha256()
    for line in lines:
        digest.update(line.encode())
    return digest.hexdigest()
