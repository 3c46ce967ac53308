"""How long a run under the timed clock takes without faults."""

from collections.abc import Callable

from coordinator.scenario.model import Scenario, costs_of
from emunode.algorithms.base import Algorithm


def run_time_of(scenario: Scenario) -> Callable[[Algorithm], int] | None:
    """Return a function that gives the nanoseconds of a run of an algorithm without faults; None in lock-step."""
    if scenario.clock != "timed":
        return None

    def run_time(algorithm: Algorithm) -> int:
        from coordinator.history.prediction import completed, prediction  # noqa: PLC0415  # it imports polars

        timetable = completed(prediction(algorithm, (), costs_of(scenario), scenario.step_limit))
        return int(timetable.packets["end"].max() or 0)  # type: ignore[arg-type]

    return run_time
