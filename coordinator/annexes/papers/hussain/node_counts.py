"""The node counts of both one-to-all algorithms in one network: by theory, and by a run if there is one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from coordinator.annexes.papers.run_cache import CachedRun, RunCache
from coordinator.annexes.papers.tables import row_verdict
from coordinator.results.claims import Verdict
from emunode.algorithms.eisenstein_jacobi import counts as ej_counts
from emunode.algorithms.eisenstein_jacobi.counts import StepCounts
from emunode.topologies.eisenstein_jacobi import EisensteinJacobi

SIZES = range(1, 4)
A, B = 3, 4
"""alpha = 3 + 4 rho of tables 1 to 3 and figures 15 to 18 and 22."""
ALGORITHMS: Mapping[str, Callable[[EisensteinJacobi], StepCounts]] = {
    "iterative": ej_counts.iterative,
    "improved": ej_counts.improved,
}
PREVIOUS, PROPOSED = ALGORITHMS
"""The algorithms as the paper names them."""
NAMES = {PREVIOUS: "previous", PROPOSED: "proposed"}
STEP_COLUMNS = ("free", "sending", "receiving", "active")


@dataclass(frozen=True)
class Counted:
    """The theoretical counts of one algorithm in one network, and a run, or None if the network is only counted."""

    network: EisensteinJacobi
    counts: StepCounts
    trial: CachedRun | None

    @property
    def predicted(self) -> list[tuple[int, ...]]:
        """Free, sending, receiving and active nodes, step by step."""
        counts = self.counts
        return list(zip(counts.free, counts.senders, counts.receivers, counts.active, strict=True))

    @property
    def measured(self) -> list[tuple[int, ...]] | None:
        """The same counts in the run."""
        return self.trial.table("steps").select(STEP_COLUMNS).rows() if self.trial else None

    def verdict(self, *conditions: bool) -> Verdict:
        """Return "holds" if all conditions are true and the run holds its own claims; counts without a run can be
        violated, too.
        """
        return row_verdict(*conditions, trials=[self.trial] if self.trial else [])


def name_of(network: EisensteinJacobi) -> str:
    """Name the network EJ_{a+brho}^(n)."""
    return network.title.split()[-1]


def counted(cache: RunCache, algorithm: str, a: int, b: int, n: int, *, run: bool) -> Counted:
    """Count the nodes of one algorithm in EJ_{a+b rho}^(n), with a run if `run` is set."""
    network = EisensteinJacobi(a, b, n)
    trial = cache.run(network, "broadcast", algorithm, duplex="half") if run else None
    return Counted(network, ALGORITHMS[algorithm](network), trial)


def together(numbers: Sequence[int]) -> str:
    return " / ".join(f"{number:,}" for number in numbers)
