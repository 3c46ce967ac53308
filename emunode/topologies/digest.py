"""Digests of numbered networks: equal digests mean equal ranks, ports and links, and with labels equal labels too.

The digests are of the numbering, not of the isomorphism class: the same network numbered in another order differs.
"""

from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from itertools import chain, islice

from emunode.topologies.base import Topology

CHUNK = 4096
"""Lines that are hashed at once."""


def network_sha256(topology: Topology, check: Callable[[], None] = lambda: None) -> str:
    """Return the SHA-256 of the order, the number of links, every label by rank, and the lines of `links_sha256`, in
    hexadecimal.

    `check` is called now and then; it may raise an exception to end the work.
    """
    header = f"network 1\n{topology.order} {topology.link_count}\n"
    labels = (f"{topology.label(rank)}\n" for rank in topology.ranks())
    return _digest(chain([header], labels, _link_lines(topology)), check)


def links_sha256(topology: Topology) -> str:
    """Return the SHA-256 of a line `rank port neighbour its_port` for every link, ordered by its lower rank and port
    there.
    """
    return _digest(_link_lines(topology))


def _link_lines(topology: Topology) -> Iterator[str]:
    return (f"{rank} {port} {other} {its_port}\n" for rank, port, other, its_port in topology.links())


def _digest(lines: Iterable[str], check: Callable[[], None] = lambda: None) -> str:
    digest = sha256()
    remaining = iter(lines)
    while chunk := "".join(islice(remaining, CHUNK)):
        digest.update(chunk.encode())
        check()
    return digest.hexdigest()
