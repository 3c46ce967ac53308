"""Profile: where hosts and a flood in memory spend their time, by part of the code; what plain Python leaves to gain.

Hosts are sampled by a timer of processor time. The flood is too short for that; its profiler adds the same time to every
call, so parts that consist of small functions look larger than they are.
"""

import cProfile
import pstats
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

from benchmarks import sampled
from benchmarks.networks import plan_of
from benchmarks.record import Note, Options, Row, Section
from emunode.engine.memory import MemoryEngine
from emunode.play import play
from emunode.runtime import collect_seldom

CREATING = "creating nodes, rules and views"
PARTS = (
    ("engine/rank_set", CREATING),
    ("algorithms/base", CREATING),
    ("engine/node", "nodes: reading, deciding, merging"),
    ("engine/", "engine: handing over packets"),
    ("net/wire", "journal rows"),
    ("algorithms/", "rules of the algorithm"),
    ("topologies/", "arithmetic of the network"),
    ("", "built-in functions"),
)
"""Part of a path, and the part of the work; the first that fits counts."""


def rows(options: Options) -> Iterator[Row | Note]:
    """Yield shares of the parts, the largest first."""
    yield from _of_hosts(options)
    plan = plan_of(topology="star:4" if options.quick else "star:6")
    _flood(plan.algorithm)  # fills the caches of the network
    collect_seldom()  # as in a run: a collection would count for the function that it interrupts
    profile = cProfile.Profile()
    for _ in range(options.turns):
        profile.runcall(_flood, plan.algorithm)
    shares: Counter[str] = Counter()
    # (file, line, function) -> (calls, primitive calls, own seconds, ..)
    for (file, _, function), (_, _, own, *_) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        path = file.rpartition("emunode/")[2] if "emunode/" in file else ""
        part = next(part for prefix, part in PARTS if path.startswith(prefix))
        shares[CREATING if function == "__init__" else part] += own
    yield from _as_rows(f"flood on {plan.topology.name} in memory", shares)


def _of_hosts(options: Options) -> Iterator[Row | Note]:
    """Yield shares of host processes while packets cross, while links come up, and in idle steps."""
    small, large, steps = ("star:4", "star:4", 20) if options.quick else ("star:5", "star:6", 60)
    linked = small if options.quick else "star:7"
    idle_steps = 2_000 if options.quick else 15_000
    cases: tuple[tuple[str, Callable[[], Counter[str]]], ...] = (
        (f"packets on {small}", partial(sampled.packets, small, 5 * steps)),
        (f"packets on {large}", partial(sampled.packets, large, steps)),
        (f"links of {linked}", partial(sampled.links, linked)),
        ("idle steps, 2 hosts", partial(sampled.idle, small, 2, idle_steps)),
    )
    for subject, take in cases:
        shares: Counter[str] = Counter()
        for _ in range(options.turns):
            shares += take()
        if shares:
            yield from _as_rows(subject, shares)
        else:
            yield Note(f"{subject}: too short for a sample")


def _as_rows(subject: str, shares: Counter[str]) -> Iterator[Row]:
    for part, weight in shares.most_common():
        yield Row(subject, part, 100 * weight / shares.total(), "% of CPU time")


def _flood(algorithm: object) -> None:
    for _ in play(MemoryEngine(algorithm)):  # type: ignore[arg-type]
        pass


SECTION = Section("shares of the CPU time of hosts and of a flood in memory, by part of the code", rows, seconds=60)
