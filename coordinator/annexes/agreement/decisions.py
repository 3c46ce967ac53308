"""Decisions on failures, as nodes report them in a journal."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import polars as pl

from coordinator.features.base import ResolvedRun
from emunode.annexes.agreement.survivors import NetworkPart, largest_part
from emunode.model import ALL_RANKS, CONTROL_TREE, Rank, Step
from emunode.protocols.base import ControlKind

SUSPICION: Final = CONTROL_TREE + ControlKind.SUSPICION
REOPENING: Final = CONTROL_TREE + ControlKind.REOPENING
END: Final = CONTROL_TREE + ControlKind.END


class LinkNews(NamedTuple):
    """A link, by its lower and its higher rank, suspected since a step; or a rank that reopens a decision, and -1."""

    seen: Step
    one: Rank
    other: Rank

    @classmethod
    def of(cls, seen: Step, one: Rank, other: Rank) -> "LinkNews":
        """Build a piece of news, with the ends of a link in order."""
        # Both ends may report the same link: in order, their news are equal.
        return cls(seen, one, other) if other == ALL_RANKS else cls(seen, min(one, other), max(one, other))

    @property
    def link(self) -> tuple[Rank, Rank]:
        """The ends of the link."""
        return self.one, self.other


@dataclass(frozen=True)
class Reported:
    """The reported decision of a node."""

    rank: Rank
    step: Step
    news: frozenset[LinkNews]
    ends: tuple[int, ...]
    """How the collective ends for the node, by its own report: one `RunEnd` if it is to run again or to end."""
    time: int = 0
    """The time of the decision: its step, or nanoseconds under the timed clock."""

    @property
    def cut(self) -> Step:
        """The last step of the suspicions in the decision."""
        return max(news.seen for news in self.news)

    @property
    def links(self) -> frozenset[tuple[Rank, Rank]]:
        """The links that are given up."""
        return frozenset(news.link for news in self.news if news.other != ALL_RANKS)

    @property
    def number(self) -> int:
        """The number of the repetition that follows, from 0."""
        # Each further step of suspicions brings one more decision, and with it one more repetition.
        return len({news.seen for news in self.news}) - 1


def reports_in(rows: pl.DataFrame) -> Iterator[Reported]:
    """Yield the decisions that nodes report, by step and rank."""
    grouped: dict[tuple[Step, Rank], tuple[set[LinkNews], list[int]]] = {}
    for step, rank, origin, target, tree, number in (
        rows.select("step", "sender", "origin", "target", "tree", "segment").sort("step", "sender").iter_rows()
    ):
        # A report has a row for each suspicion and one for the end, all in the step of the decision.
        news, ends = grouped.setdefault((step, rank), (set(), []))
        if tree == END:
            ends.append(number)
        elif tree in (SUSPICION, REOPENING):
            news.add(LinkNews.of(number, origin, target))
    for (step, rank), (news, ends) in grouped.items():
        # A report without suspicions decides nothing.
        if news:
            yield Reported(rank, step, frozenset(news), tuple(ends))


def part_after(run: ResolvedRun, decision: Reported) -> NetworkPart:
    """Return the part of the network that continues after a decision."""
    topology = run.topology
    # A suspicion names two nodes, and all links between them are given up, each by its lower end.
    ends = frozenset(
        min((one, port), topology.end(one, port))
        for one, other in decision.links
        for port, peer in topology.adjacent(one)
        if peer == other
    )
    return largest_part(topology, run.spec, ends, decision.number)
