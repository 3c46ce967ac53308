"""Both bounds on an allgather at once: the diameter in start-ups, and (N - 1) / degree blocks over a link in transfer.

Breadth-first broadcast (Zhao et al. 2022) takes as many start-ups as the diameter, T_L, and the sum of the loads of its
phases in transfer, T_B. The loads are computed by Hall's condition and not from the table that a run executes. A run of N
nodes with c segments per block has c N (N - 1) transmissions; beyond `MOST_SEGMENTS` only the computation is shown.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import lcm

from coordinator.annexes.papers.any_network.directed import directed_networks
from coordinator.annexes.papers.base import Section, described
from coordinator.annexes.papers.run_cache import CachedRun, RunCache
from coordinator.annexes.papers.tables import VERDICT, Table, compared, notes, unmeasured
from coordinator.theory.lower_bounds import inverse_rate
from emunode.algorithms.any_network.last_hops import phases
from emunode.topologies.registry import parse_topology

NOTES = notes("any_network", "both_bounds")
MOST_SEGMENTS = 3_000_000
"""The longest run: some minutes, and 1 GB of memory."""
NETWORKS = {
    3: ("star:3", "hypercube:3", "ej:1+2", "ej:2+3", "gaussian:2+3"),
    4: (
        "star:4", "hypercube:4", "ej:3+4", "ej:2+5", "gaussian:3+4", "torus:4x4", "torus:3x4", "pancake:4", "bubble-sort:4",
        "ccc:3",
    ),
    5: ("star:5", "hypercube:5", "hypercube:6", "ej:4+5", "ej:5+6", "gaussian:5+6", "torus:4x4x4", "pancake:5"),
    6: ("star:6", "hypercube:7", "hypercube:8", "hypercube:9", "pancake:6", "star:7", "hypercube:10"),
}  # fmt: skip
"""The networks beside S_n, by n: networks that meet both bounds, and others."""
BESIDE = {
    3: ("star:3", "hypercube:3", "ej:2+3"),
    4: ("star:4", "hypercube:4", "ej:3+4"),
    5: ("star:5", "hypercube:5"),
    6: ("star:6", "hypercube:6"),
}
"""By n: the networks where the algorithms of papers run beside it."""
BLOCK_BYTES = 60
"""A multiple of all degrees up to 6: the algorithms of the papers cut a block into as many parts."""
ALGORITHMS = {
    "star": (
        ("mbst-levels", "NL, a level a packet (Tseng-Sheu)"),
        ("mbst", "NL, a block a packet (Fragopoulou-Akl)"),
        ("rotated-trees", "rotated trees (Tseng-Sheu)"),
    ),
    "hypercube": (
        ("nrbrg", "nRBRG (Johnsson-Ho)"),
        ("sbt", "SBT (Johnsson-Ho)"),
        ("nrsbt", "nRSBT (Johnsson-Ho)"),
        ("nesbt", "nESBT (Johnsson-Ho)"),
        ("sbnt", "SBnT (Johnsson-Ho)"),
    ),
    "ej": (("three-phase", "three phases (Hussain)"), ("two-phase", "two phases")),
}
"""By family: the algorithms of papers, with their names in the papers."""


def _rows(cache: RunCache) -> Iterator[dict[str, object]]:
    for n in cache.sizes:
        for name in NETWORKS[n]:
            yield from _network_rows(cache, name)


def _network_rows(cache: RunCache, name: str) -> Iterator[dict[str, object]]:
    """Yield the start-ups and transfer of one network, measured where the run is short enough."""
    topology = parse_topology(name)
    found, order = phases(topology), topology.order
    chunks = found.whole_chunks
    fits = chunks * order * (order - 1) <= MOST_SEGMENTS
    # Segments of equal size: `transfer_bytes` is exact only then.
    size = lcm(BLOCK_BYTES, chunks)
    trial = cache.run(name, "allgather", "bfb-packed", segments=chunks, message_bytes=size) if fits else None
    start_ups, bound = len(found.loads), inverse_rate(topology)
    both = "yes" if found.transfer == bound else "no"
    about = {"network": name, "N": order, "both": both}
    transfer = None if trial is None else Fraction(int(trial.number("transfer_bytes")), size)
    startups = None if trial is None else int(trial.number("startups"))
    yield _row(trial, "T_L", Fraction(start_ups), startups, Fraction(topology.diameter), about)
    yield _row(trial, "T_B", found.transfer, transfer, bound, about)


def _row(
    trial: CachedRun | None,
    quantity: str,
    predicted: Fraction,
    measured: Fraction | int | None,
    bound: Fraction,
    about: dict[str, object],
) -> dict[str, object]:
    """Return a row of floats with the exact fractions beside them."""
    exact = {**about, "time": quantity, "exact": str(predicted)}
    if trial is None or measured is None:
        return {**exact, **unmeasured(float(predicted), bound=float(bound))}
    return {**exact, **compared(float(predicted), float(measured), trial, bound=float(bound))}


def _beside(cache: RunCache) -> Iterator[dict[str, object]]:
    """Yield the algorithms of the papers, and breadth-first broadcast, on the same network and blocks."""
    for n in cache.sizes:
        for name in BESIDE[n]:
            topology = parse_topology(name)
            size = lcm(BLOCK_BYTES, phases(topology).whole_chunks)
            family = ALGORITHMS[topology.family]
            for algorithm, title in (*family, ("bfb-packed", "BFB (Zhao et al.)")):
                segments = phases(topology).whole_chunks if algorithm == "bfb-packed" else 1
                trial = cache.run(name, "allgather", algorithm, segments=segments, message_bytes=size)
                startups = int(trial.number("startups"))
                blocks = Fraction(int(trial.number("transfer_bytes")), size)
                bound = inverse_rate(topology)
                yield {
                    "network": name,
                    "algorithm": title,
                    "T_L": startups,
                    "diameter": topology.diameter,
                    "measured": float(blocks),
                    "lower bound": float(bound),
                    "ratio": round(float(blocks / bound), 4),
                    "both": "yes" if startups == topology.diameter and blocks == bound else "no",
                    VERDICT: str(trial.verdict),
                }


def _directed() -> Iterator[dict[str, object]]:
    for network in directed_networks():
        about: dict[str, object] = {"network": network.title, "N": network.order}
        loads = network.loads()
        transfer, bound = sum(loads, Fraction(0)), Fraction(network.order - 1, network.degree)
        about["both"] = "yes" if transfer == bound else "no"
        yield _row(None, "T_L", Fraction(len(loads)), None, Fraction(len(loads)), about)
        yield _row(None, "T_B", transfer, None, bound, about)


def build(cache: RunCache) -> Iterator[Section]:
    """Yield the table of networks, the comparison with the papers, and the directed networks."""
    yield Table("Both bounds on an allgather at once", _rows(cache), NOTES["networks"])
    yield Table("Beside the algorithms of the papers", _beside(cache), NOTES["beside"])
    yield Table("Directed networks, computed only", _directed(), NOTES["directed"])


SIZES: Sequence[int] = tuple(NETWORKS)
REPRODUCTION = described("any_network", "both_bounds", build, range(min(SIZES), max(SIZES) + 1))
