"""The figures that papers compare algorithms by under faults, of the trials of one variant at one point."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from coordinator.campaigns.counts import Counts
from coordinator.campaigns.statistics import t_interval
from coordinator.planning.plan import Plan
from emunode.model import Collective, Step

FIELD_FIGURES: Final = (
    "tfr_one_to_one", "tfr_one_to_all", "mean_latency", "mean_latency_low", "mean_latency_high", "max_latency",
    "max_latency_low", "max_latency_high", "stretch", "stretch_low", "stretch_high", "redundancy_cost",
)  # fmt: skip
INFORMED: Final = "informed_nodes_per_step"


def field_figures(counts: Counts, plan: Plan, fault_free: Step | None, *, exact: bool) -> dict[str, object]:
    """Return the figures of decided trials; None where one does not apply.

    A figure is None as well if the record is of an earlier version that did not have it.

    - `tfr_one_to_one`, `tfr_one_to_all`: of a broadcast or scatter, the share of pairs (trial, healthy node but the
      source) where the node is not served, and the share of trials where some healthy node is not.
    - `mean_latency`, `max_latency`: mean over the trials with a served node of the mean and the longest latency of the
      served nodes, in steps.
    - `stretch`: `max_latency` divided by `fault_free`, the longest latency without faults.
    - The ends of the 95% intervals of these three (`t_interval`); the figure itself if the trials are all sets (`exact`).
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
            means, longest = (times.mean, times.mean_squares), (times.longest, times.squares)
            figures |= _with_interval("mean_latency", times.trials, *means, 1, exact=exact)
            figures |= _with_interval("max_latency", times.trials, *longest, 1, exact=exact)
            if fault_free:
                figures |= _with_interval("stretch", times.trials, *longest, fault_free, exact=exact)
        if plan.spec.collective is Collective.BROADCAST:
            informed = _informed(times.by_step, trials)
    shown = {name: None if value is None else round(value, 9) for name, value in figures.items()}
    return {**shown, INFORMED: informed}


def _with_interval(
    name: str, trials: int, total: Fraction | int, squares: Fraction | int, unit: int, *, exact: bool
) -> dict[str, float | None]:
    """Return the mean of values in multiples of `unit`, and its interval; the interval of equal values is left out."""
    value = float(total) / trials / unit
    low, high = (value, value) if exact else t_interval(trials, float(total), float(squares)) or (None, None)
    ends = (low, high) if exact or low is None or high is None else (low / unit, high / unit)
    return {name: value, f"{name}_low": ends[0], f"{name}_high": ends[1]}


def _informed(by_step: Mapping[Step, int], trials: int) -> tuple[float, ...]:
    nodes, informed = 0, []
    for step in range(max(by_step, default=0) + 1):
        nodes += by_step.get(step, 0)
        informed.append(round(1 + nodes / trials, 6))
    return tuple(informed)
