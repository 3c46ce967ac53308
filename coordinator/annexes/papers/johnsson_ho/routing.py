"""The routing rules of section 8 of Johnsson and Ho 1986, read from the hops of runs.

The text states how a node on the iPSC finds the ports of a message from its own address: for broadcasting down nESBT by
the port of arrival, for personalised communication down SBnT by its destination, and at the source by one table that is
rotated from port to port.
"""

from collections.abc import Iterator

from coordinator.annexes.papers.johnsson_ho.common import ALL, MESSAGE_BYTES, ONE
from coordinator.annexes.papers.johnsson_ho.lemmas import rotated
from coordinator.annexes.papers.run_cache import RunCache
from coordinator.annexes.papers.tables import stated
from emunode.model import Port, Rank


def routing(cache: RunCache) -> Iterator[dict[str, object]]:
    """Yield three statements at every size; the last one for prime n."""
    for n in cache.sizes:
        cube, order = f"hypercube:{n}", 1 << n
        nesbt = cache.run(cube, "broadcast", "nesbt", port_model=ALL, message_bytes=MESSAGE_BYTES, segments=n)
        sbnt = cache.run(cube, "scatter", "sbnt-postorder", port_model=ONE, message_bytes=MESSAGE_BYTES)
        if cache.rehearsing:
            continue
        row = stated("johnsson_ho_section_8", n=n, N=order)
        sent: dict[tuple[int, Rank], set[Port]] = {}
        came: dict[tuple[int, Rank], Port] = {}
        for tree, sender, port, receiver in (
            nesbt.journal().select("tree", "sender", "port", "receiver").collect().iter_rows()
        ):
            sent.setdefault((tree, sender), set()).add(port)
            came[tree, receiver] = port
        passed = sum(sent.get(place, set()) == forwarded(place[1], port, n) for place, port in came.items())
        yield {"n": n} | row("nESBT", passed, nesbt)
        hops = sbnt.journal().sort("step").select("sender", "port", "target").collect().rows()
        inner = [(sender, port, target) for sender, port, target in hops if sender]
        right = sum(port == towards(sender, target, n) for sender, port, target in inner)
        yield {"n": n} | row("SBnT", right, sbnt)
        if all(n % divisor for divisor in range(2, n)):
            own = [(port, target) for sender, port, target in hops if not sender and target != order - 1]
            tables = {port: [target for by, target in own if by == port] for port in range(n)}
            same = sum(tables[port] == [rotated(target, port, n) for target in tables[0]] for port in range(n))
            yield {"n": n} | row("table", same, sbnt)


def forwarded(address: Rank, port: Port, n: int) -> set[Port]:
    """Return the ports where a node passes a broadcast packet on that came by `port` (section 8.2)."""
    if not address >> port & 1:
        return set()
    left = [(port + step) % n for step in range(1, n + 1)]
    last = next(bit for bit in left if address >> bit & 1)
    ports = left[: left.index(last) + 1]
    return {*ports} - ({last} if last == port else set())


def base(address: Rank, n: int) -> int:
    """Return the least number of right rotations that minimises an address (section 3.6)."""
    return min(range(n), key=lambda steps: (rotated(address, -steps, n), steps))


def towards(address: Rank, destination: Rank, n: int) -> Port:
    """Return the port of a message down SBnT from node 0: the first differing bit left of the base (section 8.3)."""
    differing, first = address ^ destination, base(address, n)
    return next(bit for step in range(1, n + 1) if differing >> (bit := (first + step) % n) & 1)
