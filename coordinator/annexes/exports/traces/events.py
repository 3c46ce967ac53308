"""The content of a trace of a run, whatever its format: packets, faults and suspicions with their places and times."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final, NamedTuple

import polars as pl

from coordinator.annexes.exports.space_time.packet_times import packet_times, suspicion_words
from coordinator.reports.data import RunData
from emunode.errors import ScenarioError
from emunode.model import Port, Rank, Step
from emunode.topologies.base import Topology

TIMES: Final = (("start", "end", False), ("started", "ended", True))
"""The columns of the intended times and of the achieved times of packets."""


class PacketSpan(NamedTuple):
    """A packet by its intended or its achieved times, in seconds."""

    sender: Rank
    port: Port
    receiver: Rank
    step: Step
    bytes: int
    kind: str
    """Of `STYLES` (`space_time_chart`)."""
    start: float
    end: float
    following: float | None
    """The start of the next packet of the port, if there is one."""


class TraceMark(NamedTuple):
    """A fault or a suspicion of a node: at one of its ports, or of the node as a whole."""

    rank: Rank
    port: Port | None
    name: str
    kind: str
    seconds: float


class TraceEvents:
    """The events of a run. Raises ScenarioError (field `run`) if the network or the journal is not available."""

    def __init__(self, data: RunData) -> None:
        packets = packet_times(data)
        if data.topology is None or packets is None:
            raise ScenarioError("run", str(data.path), "its network or journal is missing; " + data.reasons)
        self.topology: Topology = data.topology
        self.about = {key: data.get(key) for key in ("topology", "collective", "algorithm", "clock", "journal_hash")}
        self._data, self._packets = data, packets

    @cached_property
    def marks(self) -> list[TraceMark]:
        """Suspicions in the order of their file, then faults in the order of the scenario."""
        return [*self._suspicions(), *self._faults()]

    @property
    def ranks(self) -> list[Rank]:
        """The nodes with events, and rank 0."""
        named = self._packets.select(rank=pl.concat_list("sender", "receiver").explode()).unique()["rank"].to_list()
        return sorted({*named, *(mark.rank for mark in self.marks), 0})

    def links(self) -> Iterator[tuple[Rank, Port, Rank, bool]]:
        """Yield sender, port and receiver of the packets of each link, once with False, and once with True if it has
        achieved times.
        """
        used = self._packets.select("sender", "port", "receiver", achieved=pl.col("started").is_not_null())
        yield from used.unique().sort("sender", "port", "achieved").iter_rows()

    def spans(self, *, achieved: bool) -> Iterator[PacketSpan]:
        """Yield the packets by port and start; a packet without an achieved end has its start as its end."""
        began, ended = TIMES[achieved][:2]
        packets = self._packets.filter(pl.col(began).is_not_null())
        ordered = packets.sort("sender", "port", began).with_columns(
            following=pl.col(began).shift(-1).over("sender", "port"), last=pl.coalesce(ended, began)
        )
        columns = ("sender", "port", "receiver", "step", "bytes", "kind", began, "last", "following")
        for row in ordered.select(columns).iter_rows():
            yield PacketSpan(*row)

    def _suspicions(self) -> Iterator[TraceMark]:
        for each in self._data.suspicions:
            rank, port, seconds = (each.get(key) for key in ("rank", "port", "seconds"))
            if not (isinstance(rank, int) and isinstance(port, int) and isinstance(seconds, int | float)):
                continue
            if 0 <= rank < self.topology.order and port >= 0:
                yield TraceMark(rank, port, suspicion_words(each), "suspicion", float(seconds))

    def _faults(self) -> Iterator[TraceMark]:
        for fault in self._data.faults:
            rank, port = fault.get("rank", fault.get("sender")), fault.get("port")
            if isinstance(rank, int):
                words = f"{fault.get('kind')} {fault.get('label')}"
                yield TraceMark(rank, port if isinstance(port, int) else None, words, "fault", self._begin(fault))

    def _begin(self, fault: dict[str, Any]) -> float:
        """Return the time of a fault; in lock-step the beginning of its step."""
        seconds = fault.get("seconds")
        if not isinstance(seconds, int | float):
            later = self._packets.filter(pl.col("step") >= fault.get("step", 0))["start"].min()
            seconds = later if isinstance(later, float) else self._packets["end"].max() or 0.0
        return float(seconds)  # type: ignore[arg-type]
