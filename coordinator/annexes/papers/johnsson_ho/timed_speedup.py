"""nESBT over SBT by a real clock: figures 16 and 17 of Johnsson and Ho, broadcast on cubes of 2 to 6 dimensions.

On the iPSC/d7 the ratio of the two broadcast times was "approximately n". The length of the message is not in the text; with
P packets of 1 KiB and both directions of a link in use, theory gives n P cycles for SBT and P + n for nESBT, so the ratio is
nP / (P + n). A packet of 1 KiB costs a start-up of 8 ms and 0.8 us a byte (10 Mbit/s). Both broadcasts run over TCP on
the timed clock, in real time.
"""

from collections.abc import Iterator

from coordinator.annexes.papers.base import Section, described
from coordinator.annexes.papers.johnsson_ho.ipsc import KIB, PACKETS_16, SIZES, milliseconds, sections
from coordinator.annexes.papers.run_cache import CachedRun, RunCache
from coordinator.annexes.papers.tables import VERDICT, notes, row_verdict

NOTES = notes("johnsson_ho", "timed_speedup")

TOLERANCE = 0.1
"""Relative tolerance of the measured speed-up."""


def rows(cache: RunCache, driver: str = "local") -> Iterator[dict[str, object]]:
    """Yield one row for each dimension: milliseconds of both broadcasts and their ratio, predicted and measured.

    `undecided` if the machine was late by more than the default limits of a scenario. Takes (n + 1) 60 cycles of 9 ms for
    dimension n, plus the start of two networks.
    """
    cycle = milliseconds(KIB)
    for n in cache.sizes:
        binomial, disjoint = (_run(cache, n, algorithm, driver) for algorithm in ("sbt", "nesbt"))
        predicted = n * PACKETS_16 / (PACKETS_16 + n)
        sbt, nesbt = (1000 * float(trial.number("achieved_seconds")) for trial in (binomial, disjoint))
        found = sbt / nesbt if nesbt else 0.0
        yield {
            "n": n,
            "SBT predicted": round(n * PACKETS_16 * cycle, 2),
            "SBT measured": round(sbt, 2),
            "nESBT predicted": round((PACKETS_16 + n) * cycle, 2),
            "nESBT measured": round(nesbt, 2),
            "speed-up": "nESBT over SBT",
            "paper": f"≈ {n}",
            "predicted": round(predicted, 4),
            "measured": round(found, 4),
            VERDICT: row_verdict(abs(found - predicted) <= TOLERANCE * predicted, trials=[binomial, disjoint]),
        }


def _run(cache: RunCache, n: int, algorithm: str, driver: str) -> CachedRun:
    return cache.run(
        f"hypercube:{n}",
        "broadcast",
        algorithm,
        port_model="exchange",
        message_bytes=PACKETS_16 * KIB,
        segments=PACKETS_16,
        packet_limit=KIB,
        driver=driver,
        clock="timed",
        startup="8ms",
        per_byte="800ns",
    )


def build(cache: RunCache) -> Iterator[Section]:
    """Yield figures 16 and 17."""
    more = [(float(n), float(n)) for n in cache.sizes]
    yield from sections("timed", list(rows(cache)), NOTES["timed"], cache.sizes[-1], n=more)


REPRODUCTION = described("johnsson_ho", "timed_speedup", build, SIZES)
