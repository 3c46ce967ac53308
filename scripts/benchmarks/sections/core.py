"""I/O core: one process, step after step, every link end sends one packet and receives one.

Bare: `os.write` on each descriptor, an edge-triggered epoll, `os.readv` until short. Ours: `FramedStreams` under trio with a
parked task per node, as in a host. All use the same sockets, each in its own process that inherits them.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

from benchmarks.interleaved import interleave
from benchmarks.networks import connected
from benchmarks.record import Options, Row, Section
from benchmarks.subprocesses import measure
from emunode.topologies.registry import parse_topology

OURS = "I/O core"
CASES = (("star:5", 70, 0.80), ("star:6", 70, 0.88), ("star:6", 16384, 0.88), ("hypercube:10", 70, 0.90))
"""Network, packet size, target for the share."""
QUICK_CASES = (("star:4", 70, None),)


def rows(options: Options) -> Iterator[Row]:
    """Yield the I/O core beside the bare loop."""
    for name, size, wanted in QUICK_CASES if options.quick else CASES:
        yield from _case(name, size, wanted, options)


def _case(name: str, size: int, wanted: float | None, options: Options) -> Iterator[Row]:
    topology = parse_topology(name)
    with connected(topology) as ends:
        work = 4_000 if options.quick else 60_000
        rounds = max(3, work * 70 // (len(ends) * max(70, size // 4)))
        requested: dict[str, Any] = {"fds": ends, "ends": ends, "size": size}
        comparison = interleave(
            partial(measure, "bare", "packets", rounds=rounds, **requested),
            {
                OURS: partial(measure, "ours", "packets", rounds=rounds, degree=topology.degree, **requested),
            },
            options.turns,
        )
    yield from comparison.rows(f"{name}, {size}-byte packets", "packets/CPU s", OURS, at_least=wanted)


SECTION = Section("packets per CPU second of the I/O core", rows, seconds=60)
