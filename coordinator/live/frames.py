"""The history of a run as pages show it: one frame per step, with the marks of links and nodes in that step.

A frame of step t is complete when step t has run: what has arrived in it is looked at then, and nodes read just that in step
t + 1. A node that hangs reads when it runs again, and is in the frame of that step. Frames are kept as JSON, up to
`HISTORY_BYTES`; the oldest ones are then folded into the initial counts of the history.
"""

import json
import threading
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from coordinator.features.journals.rows import data_records
from coordinator.history.journal import RECORD, table
from coordinator.networks.base import UnreadArrivals
from coordinator.planning.plan import Plan
from coordinator.reports.scene.nodes import GIVING
from coordinator.reports.scene.packets import NO_MARKS, SENT, framed, marks_of, packets_of, withheld_links
from coordinator.reports.scene.votes import BallotBox, State, segments_due
from coordinator.results.deliveries import silent_sources
from emunode.engine.rank_set import AlteredCopy
from emunode.model import Step

HISTORY_BYTES: Final = 128 * 2**20
MOST_ARCS: Final = 20_000
"""Busy directed links of one step that a page draws; frames with more list none."""
MEASURED_BYTES: Final = 48 * 2**20
"""Journal rows that are kept to be measured while the run goes on."""
BATCH_BYTES: Final = 2**20
"""Journal rows that wait to be counted until a page asks for them: many steps at once take little more time than one."""
STATES: Final = len(State)
ARC: Final = ("sender", "port", "receiver", "segments", "lost", "altered")
GAIN: Final = ("rank", "segments")

StepVotes = tuple[list[int] | None, list[int] | None]
CountArray = NDArray[np.int64]


class StepFrame(NamedTuple):
    """The marks of one step."""

    step: Step
    text: bytes
    """One frame of the page, as JSON:

    * `step`: the number of the step.
    * `arcs`: a flat list of sender, port, receiver, segments, lost, altered for each link; null if there are too many.
    * `busy`: the number of busy directed links, control packets included. All other counts are of data.
    * `withheld`: a flat list of sender, port, receiver where the sender withholds a packet.
    * `gained`, `altered`: flat lists of rank, segments.
    * `lost`: the number of segments.

    Where copies are voted on, two more, both null until votes are counted:

    * `heard`: a flat list of rank, segments whose first copy arrives.
    * `votes`: a flat list of rank, `State`, segments whose vote is settled.

    Without counted votes, every segment that a node gains is the right value. After the last frame, an entry with
    `closing` has the `votes` that stayed open.
    """


def node_goals(plan: Plan) -> list[int]:
    """Return for each rank the number of segments that make a page show the node as done."""
    # In a gather, the number of segments that a node forwards for others is not known before the run.
    return [1] * plan.topology.order if plan.spec.collective in GIVING else segments_due(plan)


class _Base:
    """The counts of the frames that are not kept any more, by rank."""

    def __init__(self, order: int) -> None:
        self.gained, self.altered, self.heard = (np.zeros(order, dtype=np.int64) for _ in range(3))
        self.votes: CountArray = np.zeros((order, STATES), dtype=np.int64)

    def add(self, frame: StepFrame) -> None:
        content = json.loads(frame.text)
        counted = content["heard"] is not None
        for counts, name in (
            (self.gained, "gained"), (self.altered, "altered"), (self.heard, "heard" if counted else "gained"),
        ):  # fmt: skip
            changes = np.array(content[name], dtype=np.int64).reshape(-1, 2)
            counts[changes[:, 0]] += changes[:, 1]
        if counted:
            votes = np.array(content["votes"], dtype=np.int64).reshape(-1, 3)
            self.votes[votes[:, 0], votes[:, 1]] += votes[:, 2]
        else:
            gained = np.array(content["gained"], dtype=np.int64).reshape(-1, 2)
            self.votes[gained[:, 0], State.RIGHT] += gained[:, 1]

    def text(self, count: int) -> bytes:
        """Return JSON: `base`, the number of steps, and their counts; `votes` has one per state."""
        names = ("gained", "altered", "heard", "votes")
        return _json({"base": count, **{name: getattr(self, name).tolist() for name in names}})


class Frames:
    """The frames of a run, and its journal rows as long as they are few. Two threads may use it."""

    def __init__(self, plan: Plan) -> None:
        self._lock = threading.RLock()
        self._plan = plan
        self._giving = plan.spec.collective in GIVING
        # In all-to-all collectives nothing is due from a faulty node.
        silent = silent_sources(plan)
        self._due = ~pl.col("origin").is_in(silent) if silent else None
        self._read: CountArray = np.empty(0, dtype=np.int64)
        """The ranks whose arrivals in the newest step are known."""
        self._newest = np.empty(0, RECORD)
        """Arrivals of the newest step. The next step reports these rows again, as nodes have read them."""
        self._waiting: list[tuple[Step, np.ndarray]] = []
        """Complete steps that are not counted yet."""
        self._waiting_bytes = 0
        self._frames: list[StepFrame] = []
        self._dropped = 0
        self._bytes = 0
        self._base = _Base(plan.topology.order)
        self._rows: list[np.ndarray] | None = []
        self._row_bytes = 0
        self._altered: list[AlteredCopy] = []
        """Altered copies of steps that wait."""
        self._copies: list[AlteredCopy] = []
        """Altered copies that were read so far."""
        self._newest_copies: Sequence[AlteredCopy] = ()
        self._steps: Step = 0
        """The step of the newest frame."""
        self._closings = 0
        """Entries after the last frame: 1 if votes were open until the end."""
        # With one copy of each segment, votes are counted from the first altered copy on: until then all are right.
        self._box = BallotBox(plan) if plan.spec.redundancy > 1 or self._giving else None

    def add(
        self,
        step: Step,
        rows: Sequence[bytes | bytearray],
        arrivals: UnreadArrivals,
        altered: Sequence[AlteredCopy] = (),
        *,
        after: bool = False,
    ) -> None:
        """Append the frame of `step`, which has run: its own rows among `rows`, and its `arrivals`.

        `altered` are the altered copies that nodes have read in it. A step `after` the last send has no frame.
        """
        reported, newest = _records(rows), _records(arrivals.rows)
        late = reported[(reported["step"] < step) & ~np.isin(reported["receiver"], self._read)]
        shown = np.concatenate([late, reported[reported["step"] == step], newest])
        # Packets to a node that hung are seen now.
        shown["step"] = step
        self._read = np.unique(newest["receiver"])
        with self._lock:
            self._altered += [(step, *copy[1:]) for copy in altered if copy[1] in late["receiver"]]
            self._altered += arrivals.altered_copies
            self._copies += altered
            self._newest, self._newest_copies = newest, arrivals.altered_copies
            if self._rows is not None:
                self._row_bytes += reported.nbytes
                self._rows.append(reported)
                if self._row_bytes > MEASURED_BYTES:
                    self._rows = None
            if len(shown) or not after:
                for each in range(self._steps + 1, step):
                    self._append(each, shown[:0])
                self._append(step, shown)
                self._steps = step

    def finish(self, step: Step) -> None:
        """Let open votes end as they stand after the last step."""
        self._count_waiting()
        closed = None if self._box is None else self._box.close()
        if closed is not None and len(closed):
            votes = _flat(closed, "rank", "state", "count")
            text = _json({"closing": step, "gained": [], "altered": [], "heard": [], "votes": votes})
            with self._lock:
                self._frames.append(StepFrame(step, text))
                self._closings = 1

    @property
    def count(self) -> int:
        """Frames so far, dropped ones included."""
        with self._lock:
            return self._dropped + len(self._frames) + len(self._waiting) - self._closings

    def since(self, first: int, most_bytes: int) -> tuple[int, list[bytes]]:
        """Return frames from number `first` on, about `most_bytes` of them, and the number of the first one returned.

        If `first` was dropped, the base comes in front: JSON with `base`, the number of steps it stands for, and the counts
        `gained`, `altered`, `heard` and `votes` of them, by rank.
        """
        with self._lock:
            self._count_waiting()
            texts: list[bytes] = []
            if first < self._dropped:
                first = self._dropped
                texts.append(self._base.text(first))
            size = 0
            for frame in self._frames[first - self._dropped :]:
                texts.append(frame.text)
                size += len(frame.text)
                if size > most_bytes:
                    break
            return first, texts

    def journal(self) -> tuple[np.ndarray | None, Sequence[AlteredCopy]]:
        """Return the journal rows so far, None if they became too many, and the altered copies."""
        with self._lock:
            rows = None if self._rows is None else np.concatenate([self._newest, *self._rows])
            return rows, [*self._copies, *self._newest_copies]

    # --- one frame -------------------------------------------------------------------------------------------------

    def _append(self, step: Step, records: np.ndarray) -> None:
        self._waiting.append((step, records))
        self._waiting_bytes += records.nbytes
        if self._waiting_bytes > BATCH_BYTES:
            self._count_waiting()

    def _count_waiting(self) -> None:
        """Make the frames of all steps that wait."""
        with self._lock:
            waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
            if not waiting:
                return
            steps = [step for step, _ in waiting]
            contents = self._contents(steps, table(np.concatenate([records for _, records in waiting])))
            for step, content in zip(steps, contents, strict=True):
                frame = StepFrame(step, _json(content))
                self._frames.append(frame)
                self._bytes += len(frame.text)
            while self._bytes > HISTORY_BYTES and len(self._frames) > 1:
                self._drop(self._frames.pop(0))

    def _drop(self, frame: StepFrame) -> None:
        self._dropped += 1
        self._bytes -= len(frame.text)
        self._base.add(frame)

    def _contents(self, steps: Sequence[Step], rows: pl.DataFrame) -> Iterator[dict[str, object]]:
        """Yield the contents of the frames of consecutive steps."""
        sent = rows.filter(pl.col("outcome").is_in(SENT))
        # Neither control segments nor the repetition of a collective are due to a node.
        data = sent.filter(pl.col("tree") < self._plan.first_other_tree)
        packets = packets_of(data.lazy(), self._due)
        marks = marks_of(packets, giving=self._giving)
        links = marks.links if len(data) == len(sent) else marks_of(packets_of(sent.lazy()), giving=False).links
        arrived = packets.filter(pl.col("altered") > 0).group_by("step", "receiver").agg(pl.col("altered").sum())
        withheld = withheld_links(rows.lazy()) if len(rows) > len(sent) else NO_MARKS.withheld
        first = np.array(steps) - 1
        busy, kept, gained = (
            _by_frame(each, columns, first)
            for each, columns in ((links, ARC), (withheld, ARC[:3]), (marks.gains, GAIN))
        )
        altered = _by_frame(framed(arrived, 1).sort("frame", "receiver"), ("receiver", "altered"), first)
        votes = self._votes(steps, data, altered=bool(len(arrived)))
        lost = dict(packets.group_by("step").agg(pl.col("lost").sum()).iter_rows())
        for at, step in enumerate(steps):
            count = len(busy[at]) // len(ARC)
            heard, settled = votes[at]
            yield {
                "step": step,
                "busy": count,
                "arcs": busy[at] if count <= MOST_ARCS else None,
                "withheld": kept[at],
                "gained": gained[at],
                "altered": altered[at],
                "lost": lost.get(step, 0),
                "heard": heard,
                "votes": settled,
            }

    def _votes(self, steps: Sequence[Step], data: pl.DataFrame, *, altered: bool) -> Sequence[StepVotes]:
        """Return for each step the first copies and the settled votes; None if votes are not counted."""
        if self._rows is None:
            self._box = None
        elif self._box is None and altered:
            self._box = BallotBox(self._plan)
            earlier = np.concatenate([np.empty(0, RECORD), *self._rows])
            self._box.add(table(data_records(self._plan, earlier[earlier["step"] < steps[0]])), ())
        if self._box is None:
            return [(None, None)] * len(steps)
        first = np.array(steps) - 1
        heard, settled = (framed(each, 1) for each in self._box.add(data, self._altered))
        self._altered = []
        counts = _by_frame(heard, ("rank", "count"), first), _by_frame(settled, ("rank", "state", "count"), first)
        return list(zip(*counts, strict=True))


def _records(blocks: Sequence[bytes | bytearray]) -> np.ndarray:
    """Return packed rows as records that can be changed."""
    return np.frombuffer(bytearray().join(blocks), RECORD)


def _by_frame(marks: pl.DataFrame, columns: Sequence[str], frames: NDArray[np.int64]) -> list[list[int]]:
    """Return for each frame the values of these columns, row by row; the marks are sorted by frame."""
    of = marks["frame"].to_numpy()
    return [
        _flat(marks[int(low) : int(high)], *columns)
        for low, high in zip(np.searchsorted(of, frames), np.searchsorted(of, frames, side="right"), strict=True)
    ]


def _flat(rows: pl.DataFrame, *columns: str) -> list[int]:
    """Return the values of these columns, row by row."""
    flat: list[int] = np.stack([rows[name].to_numpy() for name in columns], axis=1).ravel().tolist()
    return flat


def _json(content: dict[str, object]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()
