"""TE-CCL JSON: flows that name chunk, source, link and epoch, and demands that name the epoch of their completion."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from coordinator.annexes.schedules.base import (
    LARGEST,
    MOST_OPERATIONS,
    MOST_RANKS,
    FileClaim,
    FileJudgement,
    HopTimetable,
    RefusedScheduleError,
    ScheduleFormat,
    ScheduleSource,
    refuse_large_numbers,
)
from coordinator.annexes.schedules.hop_file import ChunkHop, HopFile, sorted_names
from coordinator.annexes.schedules.json_object import is_object, parse_object
from emunode.model import Step
from emunode.registry import register

FLOW: Final = re.compile(
    r"Chunk ([0-9]{1,9}) from ([0-9]{1,9}) traveled over ([0-9]{1,9})->([0-9]{1,9})"
    r"(?: with volume ([0-9.eE+-]{1,30}))? in epoch ([0-9]{1,9})(?: via switches ([0-9, ]{1,200}))?",
    re.ASCII,
)
DEMAND: Final = re.compile(
    r"Demand at ([0-9]{1,9}) for chunk ([0-9]{1,9}) from ([0-9]{1,9}) met by epoch ([0-9]{1,9})", re.ASCII
)
EPOCHS: Final = "Epochs_Required"


@register
class TecclFormat(ScheduleFormat):
    """The JSON that TE-CCL writes."""

    name = "te-ccl"
    suffixes = (".json",)

    def recognises(self, source: ScheduleSource) -> bool:
        return is_object(source.data, b"-Flows")

    def read(self, source: ScheduleSource) -> "TecclFile":
        document = parse_object(source.data, "TE-CCL")
        flows = _under(document, lambda key: key.endswith("-Flows"), "-Flows")
        if not isinstance(flows, list) or not flows:
            raise RefusedScheduleError("no flow: nothing to check")
        if len(flows) > MOST_OPERATIONS:
            raise RefusedScheduleError(f"it has {len(flows):,} flows; at most {MOST_OPERATIONS:,} are read")
        return TecclFile(document, flows)


def _under(document: Mapping[str, Any], matches: Any, name: str) -> Any:
    keys = [key for key in document if matches(key)]
    if len(keys) != 1:
        raise RefusedScheduleError(f"one key that ends with {name!r} expected, found {len(keys)}")
    return document[keys[0]]


class TecclFile(HopFile):
    """The flows of a TE-CCL file."""

    format = TecclFormat.name

    def __init__(self, document: Mapping[str, Any], flows: Sequence[Any]) -> None:
        self._via: list[tuple[str, ...]] = []
        hops = []
        for number, flow in enumerate(flows):
            found = FLOW.fullmatch(flow) if isinstance(flow, str) else None
            if found is None:
                refuse_large_numbers(f"flow {number}", str(flow), FLOW)
                raise RefusedScheduleError(f"flow {number}: {str(flow)[:60]!r} is not a flow of TE-CCL")
            chunk, origin, sender, receiver, volume, epoch, switches = found.groups()
            if volume is not None and _number(volume) != 1:
                raise RefusedScheduleError(f"flow {number}: volume {volume} of a chunk; parts of chunks are not run")
            if sender == receiver:
                raise RefusedScheduleError(f"flow {number}: {sender} sends to itself")
            hops.append(ChunkHop(int(epoch) + 1, _name(sender), _name(receiver), _name(origin), int(chunk)))
            self._via.append(tuple(_name(each.strip()) for each in switches.split(",")) if switches else ())
        # Epochs in order; within an epoch the order of the file.
        order = sorted(range(len(hops)), key=lambda place: hops[place].step)
        self.hops = [hops[place] for place in order]
        self._via = [self._via[place] for place in order]
        self.claimed = _claimed_epochs(document)
        self._seconds = [_stated(document, name) for name in ("Epoch_Duration", "Collective_Finish_Time")]
        self.demands = _demands(document)
        self.nodes = sorted_names(name for hop in self.hops for name in hop[1:4])
        self.switches = frozenset(name for via in self._via for name in via)
        if self.switches & set(self.nodes):
            raise RefusedScheduleError(f"{min(self.switches & set(self.nodes))} is a switch, and it sends or receives")
        if len(self.nodes) > MOST_RANKS:
            raise RefusedScheduleError(f"it has {len(self.nodes):,} nodes; at most {MOST_RANKS:,} are read")
        wanted: dict[tuple[str, int], set[str]] = {}
        for receiver, origin, chunk in self.demands:
            wanted.setdefault((origin, chunk), set()).add(receiver)
        if wanted and len(self.nodes) > 2 and all(len(each) == 1 for each in wanted.values()):
            self.targets = {key: min(each) for key, each in wanted.items()}
            for hop in self.hops:
                if (hop.origin, hop.chunk) not in self.targets:
                    raise RefusedScheduleError(f"chunk {hop.chunk} of {hop.origin} is in no demand")
        self.collective = "allgather" if self.targets is None else "alltoall"

    def ways(self) -> Iterator[tuple[ChunkHop, Sequence[str]]]:
        for hop, via in zip(self.hops, self._via, strict=True):
            yield hop, (hop.sender, *via, hop.receiver)

    def judge(self, capacity: int | None = None) -> FileJudgement:
        found = super().judge(capacity)
        claims, (duration, finish) = [], self._seconds
        if self.claimed is not None:
            claims.append(FileClaim("epochs", self.claimed, found.steps or 0, "<="))
            if duration is not None and finish is not None:
                claims.append(FileClaim("finish time in seconds", finish, self.claimed * duration))
        late = [key for key, epoch in self.demands.items() if self.since.get(key, 0) > epoch + 1]
        if self.demands:
            missed = sum(key not in self.since and key[0] != key[1] for key in self.demands)
            met = len(self.demands) - len(late) - missed
            claims.append(FileClaim("demands met in their epochs", len(self.demands), met))
        found = replace(found, claims=tuple(claims))
        if self.claimed is not None and self.claimed < (found.steps or 0):
            found = found.violated(f"{self.claimed} epochs are claimed, {found.steps} are used")
        if late:
            receiver, origin, chunk = late[0]
            epoch, later = self.demands[late[0]], self.since[late[0]] - 1
            found = found.violated(
                f"chunk {chunk} of {origin} meets the demand of {receiver} in epoch {later}, and epoch {epoch} is claimed"
            )
        return found

    def at(self, step: Step) -> str:
        return f"epoch {step - 1}"

    def timetable(self, capacity: int | None = None) -> HopTimetable:
        if self.switches:
            raise RefusedScheduleError("hops that cross switches within an epoch are judged, and not run")
        return replace(super().timetable(capacity), stated_steps=self.claimed or 0)


def _demands(document: Mapping[str, Any]) -> dict[tuple[str, str, int], int]:
    """Return by (node, origin, chunk) the epoch of completion of each demand that is listed with its paths."""
    paths: Any = next((value for key, value in document.items() if key.lower().endswith("chunk paths")), {})
    if not isinstance(paths, dict):
        raise RefusedScheduleError("the paths of chunks are no object")
    found = {}
    for text in paths:
        demand = DEMAND.fullmatch(text)
        if demand is None:
            refuse_large_numbers("a demand", text, DEMAND)
            raise RefusedScheduleError(f"{text[:60]!r} is not a demand of TE-CCL")
        found[_name(demand[1]), _name(demand[3]), int(demand[2])] = int(demand[4])
    return found


def _stated(document: Mapping[str, Any], name: str) -> float | None:
    """Return a number of the file by the end of its key, behind a dash; None if it states none."""
    value = next((value for key, value in document.items() if key.endswith(f"-{name}")), None)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LARGEST:
        raise RefusedScheduleError(f"{name} is {value!r:.40}; expected a number from 0 to {LARGEST:,}")
    return float(value)


def _claimed_epochs(document: Mapping[str, Any]) -> int | None:
    """Return the number of epochs that the file claims; None if it claims none."""
    value = next((value for key, value in document.items() if key.endswith(EPOCHS)), None)
    if value is not None and (type(value) is not int or not 0 <= value <= LARGEST):
        raise RefusedScheduleError(f"{EPOCHS} is {value!r:.40}; expected a whole number from 0 to {LARGEST:,}")
    return value


def _name(text: str) -> str:
    return str(int(text)) if text.isdecimal() else text


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return -1.0
