"""Limits of schedules, and their sizes before any is traced."""

from typing import Final

from emunode.algorithms.base import Algorithm

TRACE_HOPS: Final = 4_000_000
"""Hops of the largest schedule that is traced: about a minute, and more than a gigabyte."""
LOSS_HOPS: Final = 500_000
"""Hops of the largest schedule with computed losses: some ten seconds, most of them for the run without faults."""
HOP_BYTES: Final = 1000
"""Memory per hop of a schedule with computed losses. Measured: 960 for 80,638 hops in S_8."""
MOST_STEPS: Final = 2**18
"""Steps of the longest schedule that is traced."""


class InexactError(Exception):
    """The reason why a schedule cannot be evaluated exactly."""


def stated_hops(algorithm: Algorithm) -> int | None:
    """Return the largest number of hops that the claims allow in a run without faults, or None without such a claim."""
    stated = [claim.predicted for claim in algorithm.claims() if claim.name == "segments" and claim.relation != ">="]
    return min((int(hops) for hops in stated if not isinstance(hops, tuple)), default=None)
