"""The window of a failure process, and its outages as fault specifications."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from coordinator.scenario.fault_processes import Outage, Window
from coordinator.scenario.fault_sets import FaultSetSpec, FaultSetTerm
from coordinator.scenario.fault_syntax import write_time
from emunode.errors import ScenarioError
from emunode.faults.kinds import Moment
from emunode.model import Rank

if TYPE_CHECKING:
    from coordinator.scenario.fault_draws import FaultSites, Link


def process_window(fault_set: FaultSetSpec, places: "FaultSites", field: str = "faults") -> Window:
    """Where the outages of a process may begin; without an end, until the end of the run without faults."""
    window = fault_set.window
    end = None if window.is_endless else window.end
    if not fault_set.in_time:
        final = places.algorithm.final_step if end is None else end - 1
        if final is None:
            reason = f"{places.algorithm.name} has no known last step; give one, as in @1-20"
            raise ScenarioError(field, fault_set.name, reason)
        return Window(window.start, final + 1)
    if places.run_time is None:
        reason = "it is given by times, and lock-step counts steps: use --clock timed, or steps, such as mttf:100"
        raise ScenarioError(field, fault_set.name, reason)
    begin = window.start if isinstance(window.start, Moment) else 0
    # A process that would begin after the end of the run has no event.
    return Window(begin, max(begin, end or places.run_time()), timed=True)


def specs_of(
    fault_set: FaultSetSpec, places: "FaultSites", part: FaultSetTerm, place: "Rank | Link", outage: Outage
) -> Iterator[str]:
    """One outage as fault specifications."""
    shown = write_time if fault_set.in_time else str
    begin, repaired = outage
    if not part.on_links:
        yield places.spec(part, place, shown(begin))
        if repaired is not None:
            yield f"recover:{places.topology.label(place)}@{shown(repaired)}"  # type: ignore[arg-type]
        return
    # The last step of an interval is part of it, but an interval of times does not include its end.
    last = None if repaired is None else repaired if fault_set.in_time else repaired - 1
    yield places.spec(part, place, shown(begin) if last is None else f"{shown(begin)}-{shown(last)}")
