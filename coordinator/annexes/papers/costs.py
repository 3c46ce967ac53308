"""Runs and seconds of reproductions: stored in costs.csv for the list, and expected for single runs.

`scripts/reproduction-costs` measures all of them and writes the file again; a test holds the numbers of runs against a
count. Seconds are processor time plus the waiting time of timed runs, so that other work on the machine is left out.
"""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from coordinator.planning.claims import fault_free_claims
from coordinator.planning.plan import Plan
from coordinator.planning.resources import deliveries
from emunode.model import Collective

FILE = Path(__file__).with_name("costs.csv")
ALL = "--all"
"""The row for all reproductions in one process, where they share runs."""
COLUMNS = ("name", "runs", "seconds")
RUN_SECONDS = 0.05
"""A run without hops: plan, tables and files. Measured over all reproductions, as the next two constants."""
RANK_SECONDS = 80e-6
HOP_SECONDS = 11e-6
PERSONALISED = (Collective.SCATTER, Collective.GATHER, Collective.ALLTOALL)


@dataclass(frozen=True)
class RunEstimate:
    """Number of runs, and seconds on two idle cores."""

    runs: int
    seconds: float
    kept: int = 0
    """Runs that an interrupted process has left; `seconds` are for the others."""

    def __str__(self) -> str:
        kept = f", {self.kept:,} of them kept from before" if self.kept else ""
        return f"{self.runs:,} runs{kept}, about {duration(self.seconds)}"


def duration(seconds: float) -> str:
    """Return the seconds up to one minute, then minutes and tens of seconds."""
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    whole = round(seconds / 10) * 10
    return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"


def expected_seconds(plan: Plan) -> float:
    """Estimate the time of a run from its deliveries; each takes one hop, or one per link of its path."""
    hops = deliveries(plan) * plan.scenario.redundancy
    if plan.spec.collective in PERSONALISED:
        hops *= max(1, (plan.topology.known_diameter or 1) * 2 // 3)
    seconds = RUN_SECONDS + RANK_SECONDS * plan.topology.order + HOP_SECONDS * hops
    return seconds + (_virtual_seconds(plan) if plan.scenario.clock == "timed" else 0.0)


def _virtual_seconds(plan: Plan) -> float:
    """Return the time that the algorithm claims for a run under the timed clock (real time); 0 without such a claim."""
    claimed = (claim.predicted for claim in fault_free_claims(plan).kept if claim.name == "virtual_seconds")
    return max((float(value) for value in claimed if isinstance(value, int | float)), default=0.0)


@cache
def _costs() -> dict[str, RunEstimate]:
    with FILE.open(encoding="utf-8", newline="") as file:
        return {row["name"]: RunEstimate(int(row["runs"]), float(row["seconds"])) for row in csv.DictReader(file)}


def cost_of(name: str) -> RunEstimate | None:
    """Return the stored estimate for one reproduction at all sizes, or for `--all`; None for a reproduction of a
    plug-in.
    """
    return _costs().get(name)
