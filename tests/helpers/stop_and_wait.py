"""One segment down one tree over reliable links, by stop and wait: a judge that knows nothing of the product."""

from collections.abc import Mapping
from typing import Final

LONGEST_BACK_OFF: Final = 64
"""The longest time-out with back-off, in first time-outs, as the page on reliable links states it."""


def arrivals(
    parents: Mapping[str, str], outages: Mapping[tuple[str, str], range], after: int, *, back_off: bool
) -> dict[str, int]:
    """Return by node the step when the first copy arrives, while directed links are down in some steps.

    The parent sends in the step after its receipt, then again after each time-out, until a copy crosses. Acknowledgements
    decide nothing about a first copy.
    """
    steps: dict[str, int] = {}

    def step_of(node: str) -> int:
        if node not in parents:
            return 0
        if node not in steps:
            step, wait = step_of(parents[node]) + 1, after
            while step in outages.get((parents[node], node), ()):
                step, wait = step + wait, min(wait * 2, LONGEST_BACK_OFF * after) if back_off else wait
            steps[node] = step
        return steps[node]

    return {node: step_of(node) for node in parents}
