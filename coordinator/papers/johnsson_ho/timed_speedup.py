"""nESBT over SBT by a real clock: figures 16 and 17 of Johnsson and Ho, broadcast on cubes of 2 to 6 dimensions.

On the iPSC/d7 the ratio of the two broadcast times was "approximately n". The length of the message is not in the text; with
P packets of 1 KiB and both directions of a link in use, theory has n P cycles for SBT and P + n for nESBT, so the ratio is
nP / (P + n). A packet of 1 KiB costs a start-up of 8 ms and 0.8 us a byte (10 Mbit/s). Both broadcasts run over TCP under
the timed clock, where that is real time.
"""

from collections.abc import Iterator

from coordinator.papers.base import Reproduction, Section
from coordinator.papers.johnsson_ho.common import PAPER
from coordinator.papers.johnsson_ho.ipsc import KIB, PACKETS_16, SIZES, Drawing, milliseconds
from coordinator.papers.run_cache import RunCache, Trial
from coordinator.papers.tables import VERDICT, Table, notes, row_verdict

NOTES = notes("johnsson_ho", "timed_speedup")

TOLERANCE = 0.1
"""Share by which a measured speed-up may differ from the predicted one."""


def rows(cache: RunCache, driver: str = "local") -> Iterator[dict[str, object]]:
    """One row for each dimension: milliseconds of both broadcasts and their ratio, predicted and measured.

    `undecided` where the machine was late by more than a scenario allows by itself. Takes (n + 1) 60 cycles of 9 ms for
    dimension n, and the bringing up of two networks.
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


def _run(cache: RunCache, n: int, algorithm: str, driver: str) -> Trial:
    return cache.run(
        topology=f"hypercube:{n}",
        collective="broadcast",
        algorithm=algorithm,
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
    """Figures 16 and 17."""
    found = list(rows(cache))
    yield Table(
        "Figures 16 and 17: SBT and nESBT by the clock, milliseconds",
        found,
        NOTES["timed"],
    )
    yield Drawing(
        "Figure 17: speed-up of nESBT over SBT by the clock",
        "speed-up",
        "n",
        "{}",
        ("dimensions of the cube", "time of SBT / time of nESBT"),
        "Lines: predicted, nP/(P + n). Marks: measured over TCP, by the clock.",
    ).of(found, n=[(float(n), float(n)) for n in cache.sizes])


REPRODUCTION = Reproduction(
    name="johnsson-ho-timed",
    title="Experiments on the Intel iPSC, by the clock",
    paper=f"{PAPER}, section 8, figures 16 and 17",
    description="Broadcast by SBT and nESBT over TCP under the timed clock: speed-up near n.",
    build=build,
    sizes=SIZES,
)
