"""Schedule files in scenarios: the file says collective, algorithm and chunks, and the links that it uses are a network.

A scenario that is resolved has the schedule as text, like a permutation from a file, so that it can be repeated without the
file, and hosts receive it with the record of the run.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from coordinator.annexes.schedules.base import (
    FileVerdict,
    RefusedScheduleError,
    ScheduleFile,
    TimedOperation,
    WrongScheduleError,
)
from coordinator.annexes.schedules.registry import read_schedule
from coordinator.scenario.networks import hold_network, network_of_values
from emunode.annexes import SCHEDULE
from emunode.annexes.schedules.given_base import MOST_NAME
from emunode.annexes.schedules.given_messages import MOST_MESSAGE_BYTES, GivenMessages, GivenOperation, OperationKind
from emunode.annexes.schedules.given_schedule import GivenHop, GivenSchedule
from emunode.errors import ScenarioError
from emunode.model import ROOTLESS, Collective, Rank
from emunode.topologies.base import Topology
from emunode.topologies.table import TableTopology, label_problem

KINDS: Final = {"calc": OperationKind.COMPUTE, "send": OperationKind.SEND, "recv": OperationKind.RECEIVE}
PLAIN_NAME: Final = re.compile(r"[^A-Za-z0-9._+-]+")


class RunnableSchedule(NamedTuple):
    """A schedule file as a run needs it."""

    topology: Topology
    values: Mapping[str, object]
    """The values of a scenario that the file decides, without the network."""


def with_schedule_file(values: Mapping[str, object], named: str) -> dict[str, object]:
    """Return the values of a scenario with the schedule file `named` as text, and with all that the file decides.

    Raises RefusedScheduleError (exit status 2) for a file that cannot run, WrongScheduleError (1) for one whose judgement is
    `violated`, and ScenarioError for values that contradict it.
    """
    network = network_of_values(values)
    found = runnable(Path(named), network, values.get("source"), _capacity(values.get("link_capacity")))
    for name, decided in found.values.items():
        if name != SCHEDULE and str(values.get(name, decided)) != str(decided):
            raise ScenarioError(name, values[name], f"{Path(named).name} says {decided}; leave it out")
    chosen = {} if network is not None else network_values(found.topology)
    return {**values, **chosen, **found.values}


def network_values(topology: Topology) -> dict[str, object]:
    """Return the values of a scenario that name a network of links of a file."""
    return hold_network(topology) if isinstance(topology, TableTopology) else {"topology": topology.name}


def _capacity(value: object) -> int | None:
    text = str(value)
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 and int(text) else None


def runnable(
    path: Path, topology: Topology | None = None, source: object = None, capacity: int | None = None
) -> RunnableSchedule:
    """Return a schedule file for a network, by default for the links that it uses. Raises as `with_schedule`."""
    try:
        changed = path.stat()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise RefusedScheduleError(f"the file cannot be read: {reason}", str(path)) from None
    root = 0
    if source is not None:
        root = _root(str(source), topology)
    return _runnable(path, topology, root, capacity, changed.st_mtime_ns, changed.st_size)


def _root(label: str, topology: Topology | None) -> Rank:
    if topology is not None:
        try:
            return topology.rank(label)
        except ScenarioError as error:
            raise ScenarioError("source", label, error.allowed) from None
    if not (label.isascii() and label.isdecimal() and len(label) < 8):
        raise ScenarioError("source", label, "the number of a node of the schedule is expected")
    return int(label)


# The cache also keeps the network of the links, since a scenario names it by its digest alone.
@lru_cache(8)
def _runnable(
    path: Path, topology: Topology | None, root: Rank, capacity: int | None, _changed: int, _size: int
) -> RunnableSchedule:
    file = read_schedule(path, root=root)
    try:
        if topology is not None:
            file.require_network(topology)
        judgement = file.judge(capacity)
        if judgement.verdict is FileVerdict.VIOLATED:
            at = "" if judgement.line is None else f" (line {judgement.line})"
            raise WrongScheduleError(f"the schedule is wrong, and not run: {judgement.reason}{at}")
        network = topology or network_of_links(file, path.stem)
        given, values = _given(file, network, path.name, capacity)
    except RefusedScheduleError as error:
        raise error.within(str(path)) from None
    return RunnableSchedule(network, {**values, SCHEDULE: given.text})


def _given(
    file: ScheduleFile, topology: Topology, name: str, capacity: int | None
) -> tuple[GivenSchedule | GivenMessages, dict[str, object]]:
    by_label = file.ranks_on(topology)
    rank = {place: by_label[label] for place, label in enumerate(file.labels)}
    operations = file.operations_in_steps(capacity)
    if operations is not None:
        return _given_messages(operations, rank, topology, name)
    timetable = file.timetable(capacity)
    # ALL_RANKS stays.
    hops = [
        GivenHop(hop.step, rank[hop.sender], rank[hop.receiver], rank[hop.origin], rank.get(hop.target, hop.target),
                 hop.segment)
        for hop in timetable.hops
    ]  # fmt: skip
    given = GivenSchedule(
        name[:MOST_NAME],
        topology.order,
        timetable.messages,
        tuple(sorted(rank[folder] for folder in timetable.folders)),
        timetable.stated_steps,
        sorted(hops),
    )
    values: dict[str, object] = {
        "collective": str(timetable.collective), "algorithm": SCHEDULE, "messages": timetable.messages,
    }  # fmt: skip
    if timetable.collective not in ROOTLESS:
        values["source"] = topology.label(rank[timetable.source])
    return given, values


def _given_messages(
    operations: Sequence[TimedOperation], rank: Mapping[Rank, Rank], topology: Topology, name: str
) -> tuple[GivenMessages, dict[str, object]]:
    given = GivenMessages(
        name[:MOST_NAME],
        topology.order,
        0,
        [
            GivenOperation(
                KINDS[each.way],
                rank[each.rank],
                rank[each.peer],
                each.segment,
                each.step,
                each.size,
                each.after,
                each.after_start,
            )
            for each in operations
        ],
    )
    largest = max(given.operations, key=lambda each: each.size)
    if largest.size > MOST_MESSAGE_BYTES:
        ends = f"rank {largest.rank} and rank {largest.peer}"
        raise RefusedScheduleError(
            f"a message between {ends} has {largest.size:,} bytes; at most {MOST_MESSAGE_BYTES:,} are run"
        )
    values: dict[str, object] = {
        "collective": str(Collective.MESSAGES), "algorithm": SCHEDULE, "messages": given.most_messages,
        "message_bytes": given.largest_bytes,
    }  # fmt: skip
    return given, values


def network_of_links(file: ScheduleFile, name: str) -> TableTopology:
    """Return the network of the links that a schedule uses. Raises RefusedScheduleError if it is not connected."""
    labels = file.labels
    rank = {label: place for place, label in enumerate(labels)}
    links = sorted({(min(ends), max(ends)) for ends in ((rank[one], rank[two]) for one, two in file.sends())})
    named = [str(place) for place in range(len(labels))] if any(map(label_problem, labels)) else labels
    try:
        return TableTopology(
            PLAIN_NAME.sub("-", name)[:100] or SCHEDULE,
            named,
            links,
            switches=[rank[label] for label in file.switches],
        )
    except ScenarioError as error:
        raise RefusedScheduleError(f"the links that it uses are no network: {error.allowed}; give --topology") from None
