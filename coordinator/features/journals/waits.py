"""Nodes that wait when a run ends, and the hop where their messages got stuck.

The schedule of the run without faults names the hops of every message. A message that did not come is followed back from its
receiver to the first hop that did not arrive although its sender had all that it sends on: the *stuck hop*. The journal
tells its fate: given up, sent in vain, withheld, or never sent.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import polars as pl

from coordinator.features.base import Evidence, ResolvedRun
from coordinator.features.journals.rows import ARRIVED, IS_DATA, IS_REPETITION, IS_REQUEST
from coordinator.history.timetable import PACKET
from coordinator.theory.dependence.schedule import BEGIN, Schedule, plain_algorithm, trace
from coordinator.theory.dependence.size import InexactError
from emunode.model import ALL_RANKS, Rank, Step
from emunode.terminal import plural

MOST_HOPS: Final = 200_000
"""Hops of the largest schedule where stuck hops are searched: about a second."""
MOST_ROWS: Final = 20
"""Most stuck hops that are stated."""
COPY: Final = ("sender", "port", "origin", "target", "tree", "segment")
LinkCopy = tuple[int, ...]


class Wait(NamedTuple):
    """Nodes that wait for the same hop."""

    nodes: Sequence[str]
    rule: str
    """The rule that makes the nodes wait."""
    what: str
    because: str

    def record(self) -> dict[str, object]:
        """Return plain values, for summary.json."""
        return {"nodes": list(self.nodes), "rule": self.rule, "for": self.what, "because": self.because}


class Attempts(NamedTuple):
    """The transmissions of one copy on one link in a journal."""

    number: int
    last: Step
    arrived: bool
    withheld: bool


def settled_at(run: ResolvedRun, evidence: Evidence) -> int | None:
    """Return the step, or under the timed clock the time in nanoseconds, of the last new arrival at a healthy node.

    Of a collective that ran again its last arrival counts.
    """
    healthy = ~pl.col("receiver").is_in(list(run.judged.states))
    new = ((pl.col("outcome") == "first") & IS_DATA) | (IS_REPETITION & ARRIVED)
    rows = evidence.journal.filter(new, healthy)
    if run.scenario.clock != "timed":
        found: int | None = rows.select(pl.col("step").max()).collect().item()
        return found or 0
    if evidence.timetable is None:
        return None
    ends = evidence.timetable.arriving.lazy().join(rows, on=PACKET, how="semi").select(pl.col("end").max())
    return int(ends.collect().item() or 0)


def waits(run: ResolvedRun, evidence: Evidence) -> list[Wait]:
    """Return the waits of the unserved nodes, by stuck hop; without a reason where the schedule cannot be traced."""
    label, rule = run.topology.label, run.spec.algorithm
    if run.spec.agreement is not None:
        because = "no decision stands by which it runs again for them"
        return [
            Wait([label(rank) for rank in evidence.unserved], "agreement", "the collective on what is left", because)
        ]
    asked = _requests(evidence.journal) if run.spec.asks else {}
    try:
        schedule = trace(plain_algorithm(run.algorithm), run.scenario.step_limit, MOST_HOPS)[0]
    except InexactError as error:
        because = f"its way is not known: {error}"
        return [Wait([label(rank) for rank in evidence.unserved], rule, "a message due to them", because)]
    stuck = _stuck(schedule, _attempts(evidence.journal), evidence.unserved)
    found = []
    for (hop, attempts), ranks in sorted(stuck.items(), key=lambda each: (int(schedule.step[each[0][0]]), each[0][0])):
        sender, receiver = int(schedule.sender[hop]), int(schedule.receiver[hop])
        target = int(schedule.target[hop])
        what = f"segment {schedule.segment[hop]} of {label(int(schedule.origin[hop]))}" + (
            f" for {label(target)}" if target != ALL_RANKS else ""
        )
        because = f"{label(sender)} {_fate(run, attempts)} {label(receiver)}{_state(run, sender)}"
        tried = [asked[rank] for rank in ranks if rank in asked]
        if tried:
            requests, last = sum(number for number, _ in tried), max(step for _, step in tried)
            because += f"; {plural(requests, 'request')}, the last in step {last}"
        found.append(Wait([label(rank) for rank in sorted(ranks)], rule, what, because))
    return found[:MOST_ROWS]


def _fate(run: ResolvedRun, attempts: Attempts) -> str:
    """Return in words how a node treated a copy, up to the name of its receiver."""
    links = run.spec.reliable
    if not attempts.number:
        return "never sent it to"
    if attempts.withheld:
        return f"withheld it in step {attempts.last} from"
    if links is not None and attempts.number >= links.attempts:
        return f"gave it up after {attempts.number} attempts, the last in step {attempts.last}, to"
    times = "once" if attempts.number == 1 else f"{attempts.number} times, the last"
    return f"sent it {times} in step {attempts.last}, in vain, to"


def _state(run: ResolvedRun, sender: Rank) -> str:
    """Return in words the state of a faulty sender."""
    state = run.judged.states.get(sender)
    if state is None:
        return ""
    forgot = any(rank == sender for _, rank in run.judged.timeline.recoveries)
    return ", after it crashed and forgot what it had" if forgot else f"; it is {state}"


def _attempts(journal: pl.LazyFrame) -> Mapping[LinkCopy, Attempts]:
    """Return the transmissions of each copy on each link."""
    withheld = pl.col("outcome") == "withheld"
    rows = (
        journal.filter(IS_DATA | withheld)
        .group_by(*COPY)
        .agg(
            pl.col("step").n_unique(),
            last=pl.col("step").max(),
            arrived=(ARRIVED & ~withheld).any(),
            kept=withheld.all(),
        )
        .collect()
    )
    return {tuple(row[: len(COPY)]): Attempts(*row[len(COPY) :]) for row in rows.iter_rows()}


def _requests(journal: pl.LazyFrame) -> Mapping[Rank, tuple[int, Step]]:
    """Return for each node how many requests it sent, and the step of the last one."""
    rows = journal.filter(IS_REQUEST).group_by("sender").agg(pl.len(), last=pl.col("step").max()).collect()
    return {rank: (number, last) for rank, number, last in rows.iter_rows()}


def _stuck(
    schedule: Schedule, sent: Mapping[LinkCopy, Attempts], unserved: Iterable[Rank]
) -> dict[tuple[int, Attempts], set[Rank]]:
    """Return the stuck hops of all messages that are due to the unserved ranks, with the ranks that wait for them.

    A rank that has one copy of a segment does not wait for the others.
    """
    columns = [getattr(schedule, name).tolist() for name in COPY]
    copies: list[LinkCopy] = list(zip(*columns, strict=True))
    receivers, targets = schedule.receiver.tolist(), schedule.target.tolist()
    unknown = Attempts(0, 0, arrived=False, withheld=False)
    crossed = [sent.get(copy, unknown).arrived for copy in copies]
    waiting = set(unserved)
    due: dict[tuple[int, ...], list[int]] = {}
    for hop, (receiver, target) in enumerate(zip(receivers, targets, strict=True)):
        if receiver in waiting and target in (ALL_RANKS, receiver):
            _, _, origin, _, _, segment = copies[hop]
            due.setdefault((receiver, origin, segment), []).append(hop)
    found: dict[tuple[int, Attempts], set[Rank]] = {}
    for (receiver, _, _), hops in due.items():
        if not any(crossed[hop] for hop in hops):
            for hop in hops:
                for stuck in _first_stuck(schedule, crossed, hop):
                    found.setdefault((stuck, sent.get(copies[stuck], unknown)), set()).add(receiver)
    return found


def _first_stuck(schedule: Schedule, crossed: Sequence[bool], hop: int) -> Iterator[int]:
    """Yield the first hops that did not arrive, on the way of a hop that did not."""
    left, seen = [hop], {hop}
    while left:
        each = left.pop()
        before = [int(schedule.carried[each])] if schedule.carried[each] != BEGIN else []
        missing = [one for one in (*before, *schedule.folded(each).tolist()) if not crossed[one]]
        if not missing:
            yield each
        for one in missing:
            if one not in seen:
                seen.add(one)
                left.append(one)
