"""The case of an agreement under judgement, under either clock: its times, suspicions and failures.

A time is a step in lock-step, where news of step s are known in step s + 1, and nanoseconds under the timed clock. News and
decisions count in steps, or in rounds; round r ends at r times the length of a round.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import polars as pl

from coordinator.annexes.agreement.decisions import LinkNews, Reported
from coordinator.features.base import ResolvedRun
from coordinator.features.journals.detection import suspicions
from coordinator.history.timetable import Timetable, with_starts
from emunode.engine.known_paths import faults_in_time
from emunode.faults.effects import ALWAYS, Interval, Stops
from emunode.faults.injector import Faults
from emunode.model import Agreement, FaultKnowledge, Port, Rank, Step
from emunode.timed.cost_model import NANO


class Case(Protocol):
    """A run under one of the clocks."""

    run: ResolvedRun
    recoveries: Iterable[tuple[int, Rank]]
    """The times when ranks recover."""

    def time_of(self, decision: Reported) -> int:
        """Return the time of a decision."""

    def is_of(self, seen: Step, time: int) -> bool:
        """Report whether news of the step or round `seen` can leave at a time."""

    def dated(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of packets with the times when they were sent, `sent`, and known at the other end, `known`."""

    def suspected(self) -> Mapping[Rank, Mapping[LinkNews, int]]:
        """Return for each rank its own suspicions, and when they began."""

    def components(self) -> list[list[Rank]]:
        """Return the nodes that are healthy at the end, in groups joined by links that work in both directions."""

    def fails(self, rank: Rank, due: int) -> bool:
        """Report whether a rank fails after the end of the run, up to a time."""

    def slowest(self, decisions: Sequence[Reported]) -> dict[str, int | float]:
        """Return the metric of the time from the last suspicion of a decision to the decision."""


class StepCase:
    """A run in lock-step."""

    def __init__(self, run: ResolvedRun, journal: pl.LazyFrame) -> None:
        self.run = run
        self.recoveries: Iterable[tuple[int, Rank]] = run.judged.timeline.recoveries
        # By this step nodes have noticed every event of the run, whether or not the journal has any row about it.
        end = int(journal.select(pl.col("step").max()).collect(engine="streaming").item() or 0)
        self._last = run.settled_by(end)

    def time_of(self, decision: Reported) -> int:
        return decision.step

    def is_of(self, seen: Step, time: int) -> bool:
        return seen == time

    def dated(self, rows: pl.DataFrame) -> pl.DataFrame:
        return rows.with_columns(sent=pl.col("step"), known=pl.col("step") + 1)

    def suspected(self) -> Mapping[Rank, Mapping[LinkNews, int]]:
        run, last = self.run, self._last
        found: dict[tuple[Rank, Port], list[Step]] = {}
        # Suspicions in lock-step follow from faults and seed, without the journal.
        stops = run.judged.timeline.of(Stops)
        changes = suspicions(run, last + 1)[0] if run.spec.knowledge is FaultKnowledge.DETECT else []
        for step, rank, port, suspected, _ in changes:
            # A rank that hangs acts on a suspicion as soon as it runs again.
            awake = _awake(stops.get(rank, ()), step)
            place = (rank, port)
            # A rank that crashes before it can act on a suspicion has told no other rank.
            crashes = any(effect.forgets and step <= start <= awake for (start, _), effect in stops.get(rank, ()))
            if suspected and awake <= last and not crashes:
                found[place] = [*found.get(place, ()), awake]
            elif not suspected:
                # A rank that hung meanwhile has not noticed the suspicion: only suspicions that began while it was
                # awake are news.
                found[place] = [seen for seen in found.get(place, ()) if seen < awake]
        by_rank: dict[Rank, dict[LinkNews, int]] = {}
        for (rank, port), steps in found.items():
            peer = run.topology.neighbour(rank, port)
            by_rank.setdefault(rank, {}).update({LinkNews.of(seen, rank, peer): seen for seen in steps})
        return by_rank

    def components(self) -> list[list[Rank]]:
        run, last = self.run, self._last
        faults = Faults(run.topology, run.spec.seed)
        for step in sorted({fault.step for fault in run.faults if fault.step <= last}):
            faults.apply(run.faults_at(step))
        topology = run.topology
        healthy = [rank for rank in topology.ranks() if not faults.silent(rank, last)]

        def works(rank: Rank, port: Port) -> bool:
            return not faults.is_down(last, rank, port) and not faults.is_down(last, *topology.end(rank, port))

        # A link that works in one direction only joins no nodes: one end suspects it, and both give it up.
        joined = ((rank, peer) for rank in healthy for port, peer in topology.adjacent(rank) if works(rank, port))
        return joined_groups(healthy, joined)

    def fails(self, rank: Rank, due: int) -> bool:
        return any(
            # Faults may be planned for steps after the end of the run, when the node would have decided.
            isinstance(effect, Stops) and self._last < interval.start <= due
            for interval, effect, _ in self.run.judged.timeline.spells.get(rank, ())
        )

    def slowest(self, decisions: Sequence[Reported]) -> dict[str, int | float]:
        return {"slowest_agreement_steps": max((each.step - each.cut for each in decisions), default=0)}


class TimedCase:
    """A run under the timed clock."""

    def __init__(self, run: ResolvedRun, settings: Agreement, timetable: Timetable) -> None:
        assert timetable.events is not None
        assert timetable.inputs is not None
        self.run = run
        self._timetable = timetable
        self._events = timetable.events
        self._round = settings.round
        self._faults = faults_in_time(run.algorithm, timetable.inputs.faults)
        self.recoveries: Iterable[tuple[int, Rank]] = timetable.inputs.timeline.recoveries
        # When the signs of life have ended, or at the end of a run that was cut off.
        last = int(timetable.packets["start"].max() or 0)  # type: ignore[arg-type]
        self._end = min(self._events.horizon, 1 + max([last, *self._events.reports.values()]))
        self._first_seen: dict[LinkNews, int] = {}

    def time_of(self, decision: Reported) -> int:
        # A report that the computed history lacks has no time, so it is unfounded.
        return self._events.reports.get((decision.rank, decision.step), -1)

    def is_of(self, seen: Step, time: int) -> bool:
        # News leave when their port is free, so a time after the round is legal. Rounded up: round r ends at r times
        # its length.
        return -(-time // self._round) >= seen

    def dated(self, rows: pl.DataFrame) -> pl.DataFrame:
        dated = with_starts(rows.lazy(), self._timetable).collect()
        # A packet that the timetable lacks counts as sent at 0 and never received: its news are judged as invented.
        return dated.with_columns(sent=pl.col("start").fill_null(0), known=pl.col("end").fill_null(ALWAYS))

    def suspected(self) -> Mapping[Rank, Mapping[LinkNews, int]]:
        found: dict[Rank, dict[LinkNews, int]] = {}
        for change in self._events.suspicions:
            if change.suspected:
                peer = self.run.topology.neighbour(change.rank, change.port)
                # A suspicion belongs to the round of its beginning; its news leave at the end of that round.
                news = LinkNews.of(-(-change.time // self._round), change.rank, peer)
                found.setdefault(change.rank, {}).setdefault(news, change.time)
                self._first_seen[news] = min(change.time, self._first_seen.get(news, change.time))
        return found

    def components(self) -> list[list[Rank]]:
        topology, faults, end = self.run.topology, self._faults, self._end
        healthy = [rank for rank in topology.ranks() if not faults.silent(rank, end)]
        joined = (
            (rank, peer)
            for rank in healthy
            for port, peer in topology.adjacent(rank)
            if not faults.is_dead_end(rank, port, end) and not faults.is_dead_end(*topology.end(rank, port), end)
        )
        return joined_groups(healthy, joined)

    def fails(self, rank: Rank, due: int) -> bool:
        starts = [start for start, _ in self._faults.hangs(rank)]
        # A life that ends is a crash.
        starts += [end for _, end in self._faults.incarnations(rank)]
        return any(self._end < start <= due for start in starts)

    def slowest(self, decisions: Sequence[Reported]) -> dict[str, int | float]:
        times = [
            # A link may be suspected at both ends: the earlier suspicion counts, and of several links the last one.
            each.time - max(self._first_seen.get(news, each.cut * self._round) for news in each.news)
            for each in decisions
        ]
        return {"slowest_agreement_seconds": max(times, default=0) / NANO}


def _awake(stops: Iterable[tuple[Interval, Stops]], step: Step) -> Step:
    """Return the first step from `step` on when a rank that stops like this does not hang."""
    for interval, effect in stops:
        if not effect.forgets and step in interval:
            step = interval.end
    return step


def joined_groups(ranks: Sequence[Rank], links: Iterable[tuple[Rank, Rank]]) -> list[list[Rank]]:
    """Return the ranks in groups that these links join; links to other ranks do not count."""
    leader = {rank: rank for rank in ranks}

    def find(rank: Rank) -> Rank:
        while leader[rank] != rank:
            # Union-find with path halving: chains stay short, so that networks with many links take linear time.
            leader[rank] = rank = leader[leader[rank]]
        return rank

    for one, other in links:
        if other in leader and one in leader:
            leader[find(one)] = find(other)
    groups: dict[Rank, list[Rank]] = {}
    for rank in ranks:
        groups.setdefault(find(rank), []).append(rank)
    return list(groups.values())
