"""Messages of hosts as typed records, decoded and checked where they enter the coordinator.

The counterpart of `emunode.host.orders`. A record has the right shape and names hosts that exist; anything else is a
FrameError, and closes that host's connection. So an exception behind this point is a mistake of ours.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from emunode.engine.rank_set import AlteredCopy, KeptResult
from emunode.errors import FrameError
from emunode.host.control_tree import SubtreeReport
from emunode.model import Step
from emunode.net import validation, wire


class DataReceived(NamedTuple):
    """The host has this many bytes of the numbers that the user gives."""

    taken: int


class Listening(NamedTuple):
    """The host listens for links at `port`; it will dial the hosts `to_dial`."""

    port: int
    nonce: bytes
    to_dial: Sequence[int]


class LinkProgress(NamedTuple):
    """Links of a host after a wave: dialled, accepted, and still to dial in later waves."""

    wave: int
    dialled: int
    accepted: int
    left: int


class JournalRows(NamedTuple):
    """Journal rows ahead of a report."""

    rows: bytes


class AlteredCopies(NamedTuple):
    """Altered copies that arrived in the step before."""

    copies: Sequence[AlteredCopy]


class StepReport(NamedTuple):
    """A host is done with `step`: packets sent and received so far, by peer host, and journal rows.

    `due` is the next step when it sends without receiving anything first, or 0.
    """

    step: Step
    sent: Mapping[int, int]
    received: Mapping[int, int]
    due: Step
    rows: bytes


class Received(NamedTuple):
    """Packets received in `step` by sending host, when that changed after the report."""

    step: Step
    received: Mapping[int, int]


class TreeJoined(NamedTuple):
    """All children of the host in the tree of control have joined it."""

    children: int


class SubtreeReceived(NamedTuple):
    """Packets received in `step` by the hosts of a subtree, since their report."""

    step: Step
    received: int


class HostHere(NamedTuple):
    """The host answers, although it has reported nothing for long."""


class ReceivedResult(NamedTuple):
    """A part of the result that a rank of the host has."""

    part: KeptResult


class ResultsSent(NamedTuple):
    """The host has sent all results of its ranks."""


class HostFailed(NamedTuple):
    """The host cannot continue; `kind` is the class name of the exception."""

    kind: str
    text: str


class HopTimes(NamedTuple):
    """Times of hops under the timed clock (`wire.TIME`)."""

    times: bytes


class Prepared(NamedTuple):
    """The host is ready for the timed clock to start."""


class Heartbeat(NamedTuple):
    """The host runs, under the timed clock."""


class HostReached(NamedTuple):
    """The host has done all that comes before a hang that stops its process, under the timed clock."""

    nanoseconds: int


class Finished(NamedTuple):
    """All ranks of the host are done, under the timed clock."""


Message = (
    DataReceived
    | Listening
    | LinkProgress
    | JournalRows
    | AlteredCopies
    | StepReport
    | Received
    | TreeJoined
    | SubtreeReport
    | SubtreeReceived
    | HostHere
    | ReceivedResult
    | ResultsSent
    | HostFailed
    | HopTimes
    | Prepared
    | Heartbeat
    | HostReached
    | Finished
)


def read_message(frame: bytes, hosts: int) -> Message:
    """Decode a message from a host in a run of `hosts` hosts; FrameError if it is malformed."""
    name, *fields = wire.decode_control(frame)
    decode = DECODERS.get(str(name))
    if decode is None:
        raise FrameError(f"unknown message {name!r:.80}")
    return decode(fields, hosts)


def _data_received(fields: Sequence[object], _hosts: int) -> DataReceived:
    return DataReceived(*validation.integers(fields, 1))


def _listening(fields: Sequence[object], hosts: int) -> Listening:
    port, nonce, to_dial = validation.items(fields, 3)
    return Listening(
        validation.integer(port, 1, 65535), validation.nonce(nonce), validation.integers(to_dial, most=hosts - 1)
    )


def _links(fields: Sequence[object], _hosts: int) -> LinkProgress:
    return LinkProgress(*validation.integers(fields, 4))


def _rows(fields: Sequence[object], _hosts: int) -> JournalRows:
    (rows,) = validation.items(fields, 1)
    return JournalRows(validation.rows(rows))


def _altered_copies(fields: Sequence[object], _hosts: int) -> AlteredCopies:
    (copies,) = validation.items(fields, 1)
    return AlteredCopies(validation.altered_copies(copies))  # type: ignore[arg-type]  # seven integers each


def _report(fields: Sequence[object], hosts: int) -> StepReport:
    step, sent, received, due, rows = validation.items(fields, 5)
    return StepReport(
        validation.integer(step),
        validation.counts(sent, hosts),
        validation.counts(received, hosts),
        validation.integer(due),
        validation.rows(rows),
    )


def _received(fields: Sequence[object], hosts: int) -> Received:
    step, received = validation.items(fields, 2)
    return Received(validation.integer(step), validation.counts(received, hosts))


def _result(fields: Sequence[object], _hosts: int) -> ReceivedResult:
    rank, owner, segment, payload = validation.items(fields, 4)
    return ReceivedResult(
        (
            validation.integer(rank),
            validation.integer(owner),
            validation.integer(segment),
            validation.octets(payload),
        )
    )


def _tree_joined(fields: Sequence[object], hosts: int) -> TreeJoined:
    (children,) = validation.integers(fields, 1, 0, hosts)
    return TreeJoined(children)


def _subtree_received(fields: Sequence[object], _hosts: int) -> SubtreeReceived:
    return SubtreeReceived(*validation.integers(fields, 2))


def _failed(fields: Sequence[object], _hosts: int) -> HostFailed:
    kind, text = validation.items(fields, 2)
    return HostFailed(validation.text(kind), validation.text(text))


def _times(fields: Sequence[object], _hosts: int) -> HopTimes:
    (times,) = validation.items(fields, 1)
    return HopTimes(validation.octets(times, wire.TIME.size))


def _reached(fields: Sequence[object], _hosts: int) -> HostReached:
    (nanoseconds,) = validation.integers(fields, 1, 0, validation.INT64 - 1)
    return HostReached(nanoseconds)


def _without_fields(record: Callable[[], Message]) -> Callable[[Sequence[object], int], Message]:
    def decode(fields: Sequence[object], _hosts: int) -> Message:
        validation.items(fields, 0)
        return record()

    return decode


DECODERS: Mapping[str, Callable[[Sequence[object], int], Message]] = {
    "data_received": _data_received,
    "listening": _listening,
    "links": _links,
    "rows": _rows,
    "altered_copies": _altered_copies,
    "report": _report,
    "received": _received,
    "tree_joined": _tree_joined,
    "subtree": SubtreeReport.from_fields,
    "subtree_received": _subtree_received,
    "here": _without_fields(HostHere),
    "failed": _failed,
    "times": _times,
    "prepared": _without_fields(Prepared),
    "heartbeat": _without_fields(Heartbeat),
    "reached": _reached,
    "finished": _without_fields(Finished),
    "result": _result,
    "results_sent": _without_fields(ResultsSent),
}
