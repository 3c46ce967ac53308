"""Running totals of a run, counted from its journal rows as they come in: for progress and metrics, not for claims."""

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from coordinator.history.journal import RECORD
from emunode.host.placement import Placement
from emunode.model import CONTROL_TREE, HopOutcome

KEPT_STEPS: Final = 3
"""Rows of a packet come within this many steps: its losses in its own step, its arrivals in the next one."""
STEP_SHIFT, SENDER_SHIFT = 40, 16
"""A packet as one number: step, sender and port."""


class RunCounters:
    """Totals so far. Other threads may read them at any time; each is right at some moment of the last step.

    A packet is the traffic of one directed link in one step, and segments are counted once per hop, as in
    `summary.json`.
    """

    def __init__(self, placement: Placement | None) -> None:
        """Begin at 0; `placement` is the placement of the ranks on hosts, None in memory."""
        self.steps = 0
        """The last step with a packet."""
        self.packets = 0
        self.bytes = 0
        self.outcomes: list[int] = [0] * len(HopOutcome)
        """Segments, by HopOutcome."""
        self.packets_across_hosts = 0
        """Packets between ranks of different hosts."""
        self.received_by_host: NDArray[np.int64] = np.zeros(placement.hosts if placement else 0, dtype=np.int64)
        """Segments that arrived, by the host that runs the receiver."""
        self._host_of: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        """The host of each rank; empty in memory."""
        if placement is not None:
            self._host_of = np.array([placement.host(rank) for rank in range(placement.order)], dtype=np.int32)
        self._recent: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        """The packets of recent steps, sorted, since their rows may come in several parts."""

    @property
    def segments(self) -> int:
        """Segments sent, once per hop."""
        return sum(self.outcomes)

    def add(self, blocks: Iterable[bytes | bytearray]) -> None:
        """Count packed rows, without the rows of acknowledgements and of segments that were not sent."""
        rows = np.frombuffer(b"".join(blocks), dtype=RECORD)
        rows = rows[(rows["tree"] < CONTROL_TREE) & (rows["outcome"] != HopOutcome.WITHHELD)]
        if not len(rows):
            return
        packets = (
            (rows["step"].astype(np.int64) << STEP_SHIFT)
            | (rows["sender"].astype(np.int64) << SENDER_SHIFT)
            | rows["port"].astype(np.int64)
        )
        if len(self._host_of):
            found, first = np.unique(packets, return_index=True)
            new = first[~np.isin(found, self._recent, assume_unique=True)]
            between = self._host_of[rows["sender"][new]] != self._host_of[rows["receiver"][new]]
            self.packets_across_hosts += int(between.sum())
        together = np.union1d(self._recent, packets)
        self.packets += len(together) - len(self._recent)
        self.steps = int(together[-1]) >> STEP_SHIFT
        self._recent = together[together >= (self.steps - KEPT_STEPS) << STEP_SHIFT]
        self.bytes += int(rows["bytes"].sum(dtype=np.int64))
        counts = np.bincount(rows["outcome"], minlength=len(self.outcomes)).tolist()
        self.outcomes = [before + count for before, count in zip(self.outcomes, counts, strict=True)]
        if len(self._host_of):
            arrived = rows["receiver"][rows["outcome"] != HopOutcome.LOST]
            self.received_by_host += np.bincount(self._host_of[arrived], minlength=len(self.received_by_host))
