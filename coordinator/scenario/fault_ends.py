"""The texts of faults, ended at one moment: from then on nothing is broken."""

from collections.abc import Iterable, Iterator

from coordinator.scenario.fault_sets import REPAIRS
from coordinator.scenario.fault_syntax import parse_fault, read_time, read_when, write_time
from emunode.errors import ScenarioError
from emunode.faults.effects import Stops
from emunode.faults.kinds import Moment, NodeFault, field_names, stated
from emunode.model import Rank, Step
from emunode.topologies.base import Topology


def ended(specs: Iterable[str], topology: Topology, at: int | str) -> Iterator[str]:
    """Yield the texts of faults, each ended at the beginning of a step, or at a time; later faults are left out.

    Crashed nodes recover then. Texts that end before stay as they are. ScenarioError for a fault that cannot end.
    """
    end = _end(at)
    down: dict[Rank, str] = {}
    for spec in specs:
        records = parse_fault(spec, topology)
        kind, _, rest = spec.partition(":")
        where, marked, when = rest.rpartition("@") if "@" in rest else (rest, "", "")
        begin, last = (marked and read_when(when)) or (1, None)
        if begin == 1 and isinstance(end, Moment) and not isinstance(begin, Moment):
            # From the very beginning on: the same in both units.
            begin = Moment(0)
        if isinstance(begin, Moment) != isinstance(end, Moment):
            unit = "times" if isinstance(begin, Moment) else "steps"
            raise ScenarioError("heal_at", at, f"{spec} is given by {unit}: state the end of all faults in {unit} too")
        if kind in REPAIRS:
            if begin <= end:
                for record in records:
                    down.pop(record.rank if isinstance(record, NodeFault) else -1, None)
                yield spec
        elif "last" in field_names(type(records[0])):
            final = end if isinstance(end, Moment) else end - 1
            if begin < end:
                stop = final if last is None else min(last, final)
                yield f"{kind}:{where}@{_written(begin)}-{_written(stop)}"
        elif isinstance(records[0], NodeFault) and any(
            isinstance(effect, Stops) and effect.forgets for effect in stated(records[0])
        ):
            if begin < end:
                down[records[0].rank] = where
                yield spec
        else:
            raise ScenarioError("heal_at", at, f"{spec} never ends")
    yield from (f"recover:{label}@{_written(end)}" for label in down.values())


def _end(at: int | str) -> Step:
    if isinstance(at, int):
        return at
    nanoseconds = read_time(at)
    if nanoseconds is None:
        raise ScenarioError("heal_at", at, "a time such as 50ms, in whole nanoseconds")
    return Moment(nanoseconds)


def _written(moment: Step) -> str:
    return write_time(moment) if isinstance(moment, Moment) else str(moment)
