"""Profile: where a flood in memory spends its time, by part of the code; what plain Python leaves to gain.

The profiler adds the same time to every call, so parts that consist of small functions look larger than they are.
"""

import cProfile
import pstats
from collections import Counter
from collections.abc import Iterator

from benchmarks.networks import plan_of
from benchmarks.record import Note, Options, Row, Section
from emunode.engine.memory import MemoryEngine

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
    """Shares of the parts, the largest first."""
    plan = plan_of(topology="star:4" if options.quick else "star:6")
    _flood(plan.algorithm)  # fills the caches of the network
    profile = cProfile.Profile()
    for _ in range(options.turns):
        profile.runcall(_flood, plan.algorithm)
    shares: Counter[str] = Counter()
    # (file, line, function) -> (calls, primitive calls, own seconds, ..)
    for (file, _, function), (_, _, own, *_) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        path = file.rpartition("emunode/")[2] if "emunode/" in file else ""
        part = next(part for prefix, part in PARTS if path.startswith(prefix))
        shares[CREATING if function == "__init__" else part] += own
    subject = f"flood on {plan.topology.name} in memory"
    for part, seconds in shares.most_common():
        yield Row(subject, part, 100 * seconds / shares.total(), "% of CPU time")


def _flood(algorithm: object) -> None:
    network, step = MemoryEngine(algorithm), 0  # type: ignore[arg-type]
    while network.busy:
        step += 1
        network.step(step)


SECTION = Section("shares of the CPU time of a flood in memory, by part of the code", rows, seconds=3)
