"""The broadcast of Hussain's Algorithms 1 and 2 as printed, an oracle of `SectorTree`."""

from collections import deque
from collections.abc import Iterator

from emunode.errors import ScenarioError
from emunode.topologies.eisenstein_jacobi import EisensteinJacobi
from emunode.trees.eisenstein_jacobi.sectors import SECTORS, Event, Sector


def improved_broadcast(network: EisensteinJacobi) -> Iterator[Event]:
    """Yield every packet of Hussain's Algorithms 1 and 2, with their counters, from rank 0, by step.

    This is the broadcast as printed, and the oracle of `SectorTree` for b = a + 1. For any other alpha the counters deliver
    twice: raises ScenarioError (field `topology`).

    Erratum: line 6 of Algorithm 1 prints major -rho2 for the packet that leaves via -rho; it must be -rho, as in line 10 of
    Algorithm 3. M is the integer diameter of one dimension.
    """
    if network.b != network.a + 1:
        raise ScenarioError("topology", network.name, "the counters of Algorithm 2 need alpha = a + (a+1) rho")
    # Of one dimension: D - 1 moves remain after the first.
    length = network.diameter // network.dimensions - 1
    waiting = deque([(1, 0, _one_to_all(network.dimensions, length))])
    while waiting:
        step, rank, sends = waiting.popleft()
        # Algorithm 2 begins with a test of step > nM. It never suppresses anything, but it is printed.
        if step > network.diameter:
            continue
        for unit, sector in sends:
            port = 6 * (sector[0] - 1) + unit
            neighbour = network.neighbour(rank, port)
            yield step, rank, port, neighbour
            # A packet that is sent in this step is handled in the next one.
            waiting.append((step + 1, neighbour, _on_sector(sector, length)))


def _one_to_all(d: int, length: int) -> Iterator[tuple[int, Sector]]:
    """Yield (unit, packet) of all six sectors in dimension d, then in every lower dimension (algorithm 1)."""
    for lower in range(d, 0, -1):
        for j in SECTORS:
            # Erratum: the major unit leads over the same port as the packet, for j = 4 too.
            yield j % 6, (lower, j % 6, j - 1, length, length)


def _on_sector(sector: Sector, length: int) -> Iterator[tuple[int, Sector]]:
    """Yield (unit, packet) of everything that the receiver of a packet forwards (algorithm 2)."""
    d, major, minor, x, y = sector
    if x > 0:
        # Remaining length x: one minor move less, and no major move after a minor one.
        yield minor, (d, major, minor, x - 1, 0)
    if y > 0:
        # On the axis only (y > 0): the neighbour is on the axis too and keeps both counters, one less each.
        yield major, (d, major, minor, x - 1, y - 1)
    yield from _one_to_all(d - 1, length)
