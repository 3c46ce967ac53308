"""All-to-all broadcasting in Eisenstein-Jacobi networks: Hussain, section 4.2, Algorithms 3 and 4.

The paper's claims: every node receives the N^n - 1 messages of all others, in 3 n M steps of half-duplex links. They are
held against runs of the algorithm as printed (each node starting a phase once, the only reading that is exactly once in one
dimension), of its correction, and of the two-phase algorithm that takes a third less.
"""

from collections.abc import Iterator

from coordinator.papers.base import ERRATUM, VERDICT, Lab, Reproduction, Section, Table, Trial, row_verdict
from coordinator.papers.hussain import PAPER, name_of
from emunode.topology.eisenstein_jacobi import EisensteinJacobi

SIZES = range(1, 4)
NETWORKS = {1: ((1, 2), (2, 3), (3, 4), (4, 5)), 2: ((1, 2), (2, 3)), 3: ((1, 2),)}
"""alpha of the networks of each number of dimensions."""
READINGS = {
    "as printed": ("three-phase-printed", 3),
    "corrected": ("three-phase", 3),
    "two phases": ("two-phase", 2),
    "two phases, by dimension": ("dimension-wise", 2),
}
"""Algorithm, and phases of n M steps."""


def reached_as_printed(network: EisensteinJacobi) -> int:
    """Nodes whose difference from a source has its components in sectors of one phase: 3 (((N+2)/3)^n - 1)."""
    return int(3 * (((network.modulus + 2) // 3) ** network.dimensions - 1))


def _rows(lab: Lab) -> Iterator[dict[str, object]]:
    for n in lab.sizes:
        for a, b in NETWORKS[n]:
            network = EisensteinJacobi(a, b, n)
            for reading, (algorithm, phases) in READINGS.items():
                trial = lab.run(topology=network.name, collective="allgather", algorithm=algorithm, duplex="half")
                yield _row(network, reading, phases, trial)


def _row(network: EisensteinJacobi, reading: str, phases: int, trial: Trial) -> dict[str, object]:
    others, printed = network.order - 1, reading == "as printed"
    predicted = reached_as_printed(network) if printed else others
    received, rest = divmod(int(trial.number("intact_deliveries")), network.order)
    steps = int(trial.number("steps"))
    wrong = printed and predicted != others
    fits = steps == phases * network.diameter and trial.number("illegal_hops") == 0 and trial.number("duplicates") == 0
    return {
        "network": name_of(network),
        "algorithm": reading,
        "messages a node, paper": None if "two" in reading else f"{others:,}{f' {ERRATUM}' if wrong else ''}",
        "predicted": predicted,
        "measured": received,
        "steps, paper 3nM": None if "two" in reading else 3 * network.diameter,
        "steps": steps,
        "most messages in a packet": int(trial.number("max_link_segments_per_step")),
        VERDICT: str(row_verdict([not rest, received == predicted, fits], [trial], refuted=wrong)),
    }


NOTES = (
    "Half-duplex links, all ports. No step uses a link both ways, and nothing comes twice; both are judged in every row.",
    (
        f"{ERRATUM} In two and more dimensions a phase serves only the sectors of its own, in every dimension: a "
        "target whose "
        "difference from the source has components in sectors of different phases gets nothing. 3(((N+2)/3)^n - 1) "
        "of N^n - 1 "
        "messages arrive, as measured. The correction restarts every message that a node holds, not its own only."
    ),
    (
        f"{ERRATUM} Algorithm 4 restarts a phase on every packet with step > nM, of which each node gets (2M)^n: "
        "traffic would "
        "grow by that factor in each phase. All rows restart once a phase."
    ),
    (
        "Two phases use the ports +1, +rho, +rho2 and then their opposites: 2nM steps. By dimension: fewer and "
        "larger packets. "
        "Neither is in the paper."
    ),
)


def build(lab: Lab) -> Iterator[Section]:
    """One table."""
    yield Table("Section 4.2: all-to-all broadcasting, printed, corrected and in two phases", list(_rows(lab)), NOTES)


REPRODUCTION = Reproduction(
    name="hussain-allgather",
    title="All-to-all broadcasting in Eisenstein-Jacobi networks",
    paper=f"{PAPER}, section 4.2",
    description="Whether all messages arrive in three phases: as printed, corrected, and in two phases.",
    build=build,
    sizes=SIZES,
)
