"""The figures that papers compare algorithms by under faults, of the trials of one variant at one point."""

from collections.abc import Mapping
from typing import Final

from coordinator.campaigns.counts import Counts
from coordinator.planning.plan import Plan
from emunode.model import Collective, Step

FIELD_FIGURES: Final = (
    "tfr_one_to_one", "tfr_one_to_all", "mean_latency", "max_latency", "stretch", "redundancy_cost",
)  # fmt: skip
INFORMED: Final = "informed_nodes_per_step"


def field_figures(counts: Counts, plan: Plan, fault_free: Step | None) -> dict[str, object]:
    """Return the figures of decided trials; None where one does not apply, or is not in the record of an earlier
    version.

    - `tfr_one_to_one`, `tfr_one_to_all`: of a broadcast or scatter, the share of pairs (trial, healthy node but the
      source) where the node is not served, and the share of trials where some healthy node is not.
    - `mean_latency`, `max_latency`: mean over the trials with a served node of the mean and the longest latency of the
      served nodes, in steps.
    - `stretch`: `max_latency` divided by `fault_free`, the longest latency without faults.
    - `redundancy_cost`: packets per trial, divided by the nodes with data less one.
    - `informed_nodes_per_step`: of a broadcast, by step from 0 on: mean number of served nodes that have everything due to
      them, and the source.
    """
    figures: dict[str, float | None] = dict.fromkeys(FIELD_FIGURES)
    informed: tuple[float, ...] | None = None
    trials, times = counts.decided, counts.times
    if trials and plan.spec.collective in (Collective.BROADCAST, Collective.SCATTER):
        # Every node is due the same number of messages.
        figures["tfr_one_to_one"] = counts.nodes_lost * plan.spec.messages / counts.messages_due
        figures["tfr_one_to_all"] = 1 - counts.served / trials
    if trials:
        figures["redundancy_cost"] = times.packets / trials / max(1, len(plan.topology.data_ranks) - 1)
        if times.trials:
            figures["mean_latency"] = float(times.mean / times.trials)
            longest = times.longest / times.trials
            figures["max_latency"] = longest
            figures["stretch"] = longest / fault_free if fault_free else None
        if plan.spec.collective is Collective.BROADCAST:
            informed = _informed(times.by_step, trials)
    shown = {name: None if value is None else round(value, 9) for name, value in figures.items()}
    return {**shown, INFORMED: informed}


def _informed(by_step: Mapping[Step, int], trials: int) -> tuple[float, ...]:
    nodes, found = 0, []
    for step in range(max(by_step, default=0) + 1):
        nodes += by_step.get(step, 0)
        found.append(round(1 + nodes / trials, 6))
    return tuple(found)
