"""The history of a run as pages show it: one frame per step, made of the journal rows of that step.

A frame of step t is complete when step t + 1 has run, in which nodes read what was sent in step t. Frames are kept
as JSON, up to `HISTORY_BYTES`; the oldest ones are then folded into the counts with which the history begins.
"""

import json
import threading
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coordinator.history.journal import RECORD
from coordinator.planning.plan import Plan
from coordinator.reports.votes import segments_due
from emunode.model import AGAIN_TREE, Collective, HopOutcome, Step

HISTORY_BYTES: Final = 128 * 2**20
MOST_ARCS: Final = 20_000
"""Busy directed links of one step that a page draws; frames with more list none."""
MEASURED_BYTES: Final = 48 * 2**20
"""Journal rows that are kept to be measured while the run goes on."""
GIVING: Final = (Collective.GATHER, Collective.REDUCE)
"""Collectives in which the picture shows what nodes have sent, since only the target receives."""

Counts = NDArray[np.int64]


class Frame(NamedTuple):
    """The events of one step."""

    step: Step
    text: bytes
    """JSON: `step`; `arcs`, a list of sender, port, receiver, segments, lost, altered, sender, ..; `busy`, the number of
    busy directed links, also if `arcs` is null because there are too many; `gained` and `altered`, lists of rank, segments,
    rank, ..; `lost`, segments. Links are busy with control packets, too; the other counts are of data."""


def node_goals(plan: Plan) -> list[int]:
    """By rank, the segments after which a page shows the node as done."""
    # In a gather, what a node forwards for others is not known before the run.
    return [1] * plan.topology.order if plan.spec.collective in GIVING else segments_due(plan)


class Frames:
    """The frames of a run, and its journal rows as long as they are few. Two threads may use it."""

    def __init__(self, plan: Plan) -> None:
        self._lock = threading.Lock()
        self._giving = plan.spec.collective in GIVING
        self._order = plan.topology.order
        self._degree = plan.topology.degree
        self._pending = np.empty(0, RECORD)
        self._frames: list[Frame] = []
        self._dropped = 0
        self._bytes = 0
        self._base_gained: Counts = np.zeros(self._order, dtype=np.int64)
        self._base_altered: Counts = np.zeros(self._order, dtype=np.int64)
        self._rows: list[np.ndarray] | None = []
        self._row_bytes = 0

    def add(self, rows: Sequence[bytes | bytearray], step: Step) -> None:
        """Take the rows that were reported when `step` had run; the frame of the step before is complete with them."""
        records = np.concatenate([self._pending, *(np.frombuffer(bytes(block), RECORD) for block in rows)])
        complete = records["step"] < step
        self._pending = records[~complete]
        if step > 1:
            self._append(step - 1, records[complete])

    def finish(self, step: Step) -> None:
        """After the last step: append its own frame if it has rows, which are losses."""
        if len(self._pending):
            self._append(step, self._pending)
            self._pending = self._pending[:0]

    @property
    def count(self) -> int:
        """Frames so far, dropped ones included."""
        with self._lock:
            return self._dropped + len(self._frames)

    def since(self, first: int, most_bytes: int) -> tuple[int, list[bytes]]:
        """Frames from number `first` on, about `most_bytes` of them, and the number of the first one returned.

        If `first` was dropped, the base comes in front: JSON with `base`, the number of steps it stands for, and the counts
        `gained` and `altered` of them, by rank.
        """
        with self._lock:
            texts: list[bytes] = []
            if first < self._dropped:
                first = self._dropped
                base = {
                    "base": first,
                    "gained": self._base_gained.tolist(),
                    "altered": self._base_altered.tolist(),
                }
                texts.append(json.dumps(base, separators=(",", ":")).encode())
            size = 0
            for frame in self._frames[first - self._dropped :]:
                texts.append(frame.text)
                size += len(frame.text)
                if size > most_bytes:
                    break
            return first, texts

    def journal(self) -> np.ndarray | None:
        """The journal rows of all frames; None if they became too many."""
        with self._lock:
            return None if self._rows is None else np.concatenate([np.empty(0, RECORD), *self._rows])

    # --- one frame -------------------------------------------------------------------------------------------------

    def _append(self, step: Step, records: np.ndarray) -> None:
        frame = Frame(step, self._text(step, records))
        with self._lock:
            self._frames.append(frame)
            self._bytes += len(frame.text)
            while self._bytes > HISTORY_BYTES and len(self._frames) > 1:
                self._drop(self._frames.pop(0))
            if self._rows is not None:
                self._row_bytes += records.nbytes
                self._rows.append(records)
                if self._row_bytes > MEASURED_BYTES:
                    self._rows = None

    def _drop(self, frame: Frame) -> None:
        content = json.loads(frame.text)
        self._dropped += 1
        self._bytes -= len(frame.text)
        for counts, name in ((self._base_gained, "gained"), (self._base_altered, "altered")):
            changes = np.array(content[name], dtype=np.int64).reshape(-1, 2)
            counts[changes[:, 0]] += changes[:, 1]

    def _text(self, step: Step, records: np.ndarray) -> bytes:
        # Rows of other outcomes are of packets that were not sent.
        records = records[records["outcome"] < HopOutcome.WITHHELD]
        outcome = records["outcome"]
        # Neither acknowledgements and the like nor the repetition of a collective are what a node is due.
        data = records["tree"] < AGAIN_TREE
        first, lost, altered = (outcome == kind for kind in (HopOutcome.FIRST, HopOutcome.LOST, HopOutcome.CORRUPT))
        arc, place = np.unique(records["sender"].astype(np.int64) * self._degree + records["port"], return_inverse=True)
        content = {
            "step": step,
            "busy": len(arc),
            "arcs": self._arcs(records, arc, place, lost, altered) if len(arc) <= MOST_ARCS else None,
            "gained": _by_rank(records["sender"][data & ~lost] if self._giving else records["receiver"][data & first]),
            "altered": _by_rank(records["receiver"][data & altered]),
            "lost": int((data & lost).sum()),
        }
        return json.dumps(content, separators=(",", ":")).encode()

    def _arcs(
        self, records: np.ndarray, arc: Counts, place: NDArray[np.intp], lost: np.ndarray, altered: np.ndarray
    ) -> list[int]:
        count = len(arc)
        receiver = np.zeros(count, dtype=np.int64)
        receiver[place] = records["receiver"]
        columns = (
            arc // max(1, self._degree),
            arc % max(1, self._degree),
            receiver,
            *(np.bincount(place[chosen], minlength=count) for chosen in (slice(None), lost, altered)),
        )
        flat: list[int] = np.stack(columns, axis=1).ravel().tolist()
        return flat


def _by_rank(ranks: np.ndarray) -> list[int]:
    """Rank, count, rank, count, .. of the ranks in an array."""
    found, counts = np.unique(ranks, return_counts=True)
    flat: list[int] = np.stack([found, counts], axis=1).ravel().tolist()
    return flat
