"""Exports of schedules to the formats of synthesisers, for every algorithm whose schedule is fixed."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import polars as pl

from coordinator.annexes.schedules.base import HopTimetable, RefusedScheduleError, ScheduleFile, TimedHop
from coordinator.annexes.schedules.chakra_writer import chakra_traces
from coordinator.annexes.schedules.forestcoll_writer import forestcoll_lines
from coordinator.annexes.schedules.formats.msccl import msccl_file
from coordinator.annexes.schedules.goal import goal_lines
from coordinator.annexes.schedules.msccl_writer import MscclText
from coordinator.annexes.schedules.registry import read_schedule
from coordinator.features.base import ResolvedRun
from coordinator.history.stored.reading import exists
from coordinator.history.stored.writing import replace_file
from coordinator.reports.pictures import write_lines
from coordinator.theory.dependence.schedule import Schedule, plain_algorithm, trace
from coordinator.theory.dependence.size import InexactError
from emunode.algorithms.base import Algorithm, Dependence
from emunode.algorithms.tree_collective import tree_count
from emunode.errors import ScenarioError
from emunode.model import FOLDING

MOST_EXPORTED_HOPS: Final = 250_000


class WrittenSchedule(NamedTuple):
    """A schedule file that was written, and what it does not say."""

    path: Path
    dropped: Sequence[str]


def fixed_schedule(algorithm: Algorithm, step_limit: int = 2**18) -> Schedule:
    """Return the traced schedule of an algorithm. Raises ScenarioError (field `algorithm`) if its steps are not fixed."""
    name, spec = algorithm.name, algorithm.spec
    if algorithm.dependence is not Dependence.FIXED:
        reason = (
            "only a schedule in fixed steps can be written, and this one waits for packets or chooses by them; run it, and "
            "write what the run did: coordinator export goal RUN FILE"
        )
        raise ScenarioError("algorithm", name, reason)
    if spec.repair is not None:
        raise ScenarioError("repair", spec.repair.rule, "a schedule that faults change is not written; leave it out")
    if spec.broken:
        raise ScenarioError(
            "fault_knowledge", str(spec.knowledge), "a schedule that faults change is not written; leave it out"
        )
    try:
        return trace(plain_algorithm(algorithm), step_limit, MOST_EXPORTED_HOPS)[0]
    except InexactError as error:
        raise ScenarioError("algorithm", name, f"its schedule cannot be written: {error}") from None


def timetable_of(algorithm: Algorithm, step_limit: int = 2**18) -> HopTimetable:
    """Return the timetable of an algorithm. Raises ScenarioError if its steps are not fixed, or files cannot hold it."""
    spec = algorithm.spec
    if spec.redundancy > 1:
        raise ScenarioError(
            "redundancy", spec.redundancy, "schedule files name chunks, and no copies of one; leave it out"
        )
    if len(algorithm.topology.data_ranks) < algorithm.topology.order:
        raise ScenarioError("topology", algorithm.topology.name, "switches have no program in schedule files")
    schedule = fixed_schedule(algorithm, step_limit)
    columns = (schedule.step, schedule.sender, schedule.receiver, schedule.origin, schedule.target, schedule.segment)
    hops = [TimedHop(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
    whole = algorithm.collective in FOLDING and len(algorithm.block_owners) == 1
    return HopTimetable(
        algorithm.collective,
        spec.source,
        algorithm.topology.order,
        spec.messages * algorithm.segments_per_message,
        hops,
        tuple(algorithm.result_folders) if whole else (),
    )


def write_schedules(plan: ResolvedRun, files: Mapping[str, Path]) -> dict[str, WrittenSchedule]:
    """Write the schedule of a plan in formats, by their names in `WRITERS`. Raises ScenarioError."""
    return {name: WRITERS[name](plan, path) for name, path in files.items()}


def write_msccl(plan: ResolvedRun, path: Path) -> WrittenSchedule:
    """Write the schedule of a plan as MSCCL XML. Raises ScenarioError."""
    timetable = timetable_of(plan.algorithm)
    return _written(plan, path, timetable, MscclText(timetable, _name(plan)).lines())


def write_forestcoll(plan: ResolvedRun, path: Path) -> WrittenSchedule:
    """Write the trees of the allgather of a plan as ForestColl XML. Raises ScenarioError."""
    timetable = timetable_of(plan.algorithm)
    labels = [str(rank) for rank in range(timetable.ranks)]
    return _written(plan, path, timetable, forestcoll_lines(timetable, labels, _name(plan)))


def write_chakra(plan: ResolvedRun, path: Path) -> WrittenSchedule:
    """Write the schedule of a plan as Chakra traces, PATH.0.et and so on. Raises ScenarioError."""
    timetable = timetable_of(plan.algorithm)
    text = "".join(MscclText(timetable, _name(plan)).lines())
    program = msccl_file(text.encode(), timetable.source).program
    beyond = path.with_name(f"{path.name}.{timetable.ranks}.et")
    if exists(beyond):
        raise ScenarioError(
            "chakra", str(path), f"{beyond.name} exists, and would be part of the set; choose another name"
        )
    for rank, data in enumerate(chakra_traces(program, plan.algorithm.largest_segment_bytes)):
        _replace(path.with_name(f"{path.name}.{rank}.et"), data)
    return _described(plan, path.with_name(f"{path.name}.0.et"), timetable)


def write_goal(plan: ResolvedRun, path: Path) -> WrittenSchedule:
    """Write the packets of the schedule of a plan as GOAL text. Raises ScenarioError."""
    schedule = fixed_schedule(plan.algorithm)
    names = ("step", "sender", "receiver")
    rows = pl.DataFrame({**{name: getattr(schedule, name) for name in names}, "bytes": schedule.size})
    packets = rows.group_by(names).agg(pl.col("bytes").sum(), lost=pl.lit(value=False))
    write_lines(path, goal_lines(plan.topology, f"{plan.spec.collective} by {plan.spec.algorithm}", packets), "goal")
    dropped = ["what packets contain", "labels of nodes, which are numbers in the file"]
    # By packet, its hops.
    sent = Counter(zip(*(rows[name].to_list() for name in names), strict=True))
    operations = read_schedule(path).operations_in_steps() or ()
    again = dict.fromkeys((each.step, each.rank, each.peer) for each in operations if each.way == "send")
    if sent.keys() != again.keys():
        moved = _described_moves(sent, again)
        dropped.insert(0, f"steps in which a node waits for nothing: {moved}")
    return WrittenSchedule(path, dropped)


def _replace(path: Path, data: bytes) -> None:
    try:
        replace_file(path, data, named=True)
    except OSError as error:
        raise ScenarioError("chakra", str(path), f"cannot be written: {error.strerror}") from None


WRITERS: Final[Mapping[str, Callable[[ResolvedRun, Path], WrittenSchedule]]] = {
    "msccl": write_msccl,
    "forestcoll": write_forestcoll,
    "chakra": write_chakra,
    "goal": write_goal,
}
"""By format; to add one, add its function."""


def _name(plan: ResolvedRun) -> str:
    return f"{plan.topology.name} {plan.spec.collective} {plan.spec.algorithm}"


def _written(
    plan: ResolvedRun,
    path: Path,
    timetable: HopTimetable,
    lines: Iterable[str],
) -> WrittenSchedule:
    write_lines(path, iter(lines), "schedule")
    return _described(plan, path, timetable)


def _described(plan: ResolvedRun, path: Path, timetable: HopTimetable) -> WrittenSchedule:
    """Return a file that was written with what it leaves out, by reading it again."""
    dropped = _moved(timetable, read_schedule(path, root=timetable.source))
    if tree_count(plan.algorithm) > 1:
        dropped.insert(0, f"the numbers of {tree_count(plan.algorithm)} trees")
    return WrittenSchedule(path, [*dropped, "labels of nodes, which are numbers in the file"])


def _moved(timetable: HopTimetable, file: ScheduleFile) -> list[str]:
    """Return how the steps of a file differ from the steps of its schedule, in words."""
    loads = Counter((hop.step, hop.sender, hop.receiver) for hop in timetable.hops)
    capacity = max(loads.values())
    before = Counter(timetable.hops)
    try:
        plain, again = (Counter(file.timetable(each).hops) for each in (None, capacity))
    except RefusedScheduleError as error:
        return [f"the form in which it runs: {error.allowed}"]
    if again != before:
        return [f"steps: read again with --link-capacity {capacity}, {_described_moves(before, again)}"]
    if plain != before:
        needed = f"read it with --link-capacity {capacity}, or else {_described_moves(before, plain)}"
        return [f"the link capacity: {needed}"]
    return []


def _described_moves(before: Counter[Any], after: Mapping[Any, object]) -> str:
    """Describe how many hops change their step, and the last steps; keys begin with the step."""
    ends = [max((each[0] for each in hops), default=0) for hops in (before, after)]
    moved = f"{sum(count for each, count in before.items() if each not in after)} of {before.total()} hops move"
    return f"{moved}, and {ends[0]} steps become {ends[1]}" if ends[0] != ends[1] else moved
