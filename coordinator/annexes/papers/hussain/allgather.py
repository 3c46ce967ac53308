"""All-to-all broadcasting in Eisenstein-Jacobi networks: Hussain, section 4.2, Algorithms 3 and 4.

The paper claims that every node receives the N^n - 1 messages of all others, in 3 n M steps of half-duplex links. The claims
are compared with runs of the algorithm as printed, of its correction, and of the two-phase algorithm with a third fewer
steps. In the printed reading each node starts a phase once, since only this reading delivers exactly once in one
dimension.
"""

from collections.abc import Iterator

from coordinator.annexes.papers.base import Section, described
from coordinator.annexes.papers.hussain.node_counts import name_of
from coordinator.annexes.papers.run_cache import CachedRun, RunCache
from coordinator.annexes.papers.tables import ERRATUM, VERDICT, Table, notes, row_verdict
from emunode.algorithms.eisenstein_jacobi.literal import RestartAllgather, RestartOwnAllgather
from emunode.topologies.eisenstein_jacobi import EisensteinJacobi

NOTES = notes("hussain", "allgather")

SIZES = range(1, 4)
NETWORKS = {1: ((1, 2), (2, 3), (3, 4), (4, 5)), 2: ((1, 2), (2, 3)), 3: ((1, 2),)}
"""alpha of the networks, by number of dimensions."""
READINGS = {
    "as printed": ("three-phase-printed", 3),
    "corrected": ("three-phase", 3),
    "two phases": ("two-phase", 2),
    "two phases, by dimension": ("dimension-wise", 2),
}
"""Algorithm, and number of phases of n M steps each."""


def reached_as_printed(network: EisensteinJacobi) -> int:
    """Return the number of nodes whose difference from a source lies in sectors of one phase: 3 (((N+2)/3)^n - 1)."""
    return int(3 * (((network.modulus + 2) // 3) ** network.dimensions - 1))


def _rows(cache: RunCache) -> Iterator[dict[str, object]]:
    for n in cache.sizes:
        for a, b in NETWORKS[n]:
            network = EisensteinJacobi(a, b, n)
            for reading, (algorithm, phases) in READINGS.items():
                trial = cache.run(network, "allgather", algorithm, duplex="half")
                yield _row(network, reading, phases, trial)


def _row(network: EisensteinJacobi, reading: str, phases: int, trial: CachedRun) -> dict[str, object]:
    others, printed = network.order - 1, reading == "as printed"
    predicted = reached_as_printed(network) if printed else others
    received, rest = divmod(int(trial.number("intact_deliveries")), network.order)
    steps = int(trial.number("steps"))
    # Algorithm 3 as printed serves only the sectors of one phase in all dimensions
    wrong = printed and predicted != others
    fits = steps == phases * network.diameter and trial.number("illegal_hops") == 0 and trial.number("duplicates") == 0
    return {
        "network": name_of(network),
        "algorithm": reading,
        "messages per node, paper": None if "two" in reading else f"{others:,}{f' {ERRATUM}' if wrong else ''}",
        "predicted": predicted,
        "measured": received,
        "steps, paper 3nM": None if "two" in reading else 3 * network.diameter,
        "steps": steps,
        "most messages in a packet": int(trial.number("max_link_segments_per_step")),
        VERDICT: row_verdict(not rest, received == predicted, fits, trials=[trial], refuted=wrong),
    }


RESTARTED = {1: ((1, 2), (2, 3), (3, 4)), 2: ((1, 2),), 3: ()}
"""alpha of the networks where Algorithm 4 is taken literally: its traffic grows with (2M)^(2n)."""
RESTARTS = {"of the packet": RestartAllgather, "of the node": RestartOwnAllgather}
"""The message that ALL-TO-ALL(n, 1, phase+1) sends; line 6 does not specify it."""


def _restarts(cache: RunCache) -> Iterator[dict[str, object]]:
    for n in cache.sizes:
        for a, b in RESTARTED[n]:
            network = EisensteinJacobi(a, b, n)
            for message, algorithm in RESTARTS.items():
                trial = cache.run(network, "allgather", algorithm.name, duplex="half")
                yield _restart_row(network, message, trial)


def _restart_row(network: EisensteinJacobi, message: str, trial: CachedRun) -> dict[str, object]:
    """Compare phase 1: it reaches K nodes in two sectors with f packets that have step > nM; each packet repeats all of
    it.
    """
    n, others = network.dimensions, network.order - 1
    served = ((network.modulus + 2) // 3) ** n - 1
    repeats = (2 * network.a) ** n
    predicted = network.order * served * (1 + repeats + repeats**2)
    reached = others if message == "of the packet" else reached_as_printed(network)
    received, rest = divmod(int(trial.number("intact_deliveries")), network.order)
    segments, legal = int(trial.number("segments")), trial.number("illegal_hops") == 0
    return {
        "network": name_of(network),
        "restarts the message": message,
        "receipts, paper": f"{network.order * others:,} {ERRATUM}",
        "predicted": predicted,
        "measured": segments,
        "messages per node, paper": f"{others:,}{f' {ERRATUM}' if reached != others else ''}",
        "messages per node": received,
        "steps": int(trial.number("steps")),
        VERDICT: row_verdict(segments == predicted, received == reached, not rest, legal, trials=[trial], refuted=True),
    }


def build(cache: RunCache) -> Iterator[Section]:
    """Yield the readings of the algorithms, then Algorithm 4 taken literally."""
    yield Table(
        "Section 4.2: all-to-all broadcasting, as printed, corrected and in two phases", _rows(cache), NOTES["readings"]
    )
    if restarts := list(_restarts(cache)):
        yield Table("Algorithm 4 with its restart taken literally", restarts, NOTES["restarts"])


REPRODUCTION = described("hussain", "allgather", build, SIZES)
