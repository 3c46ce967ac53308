"""Agreement on suspected links: every rank that can be reached decides the same set, without a coordinator.

A rank that suspects a port tells all its neighbours the link and the first step of the suspicion. Every rank forwards
news once. News reaches every rank that can be reached within `Agreement.steps` steps, D. So at the beginning of step s +
D each rank knows all suspicions up to step s, and decides on them. On a suspicion of step s + 1 it decides in step s + 1
+ D, and so on. Decisions may differ in later suspicions, but never because news were still under way.

With fewer faulty nodes than the connectivity, D is at most the fault diameter D_f (Krishnamoorthy and Krishnamurthy
1987). Nodes crash between two steps, so the neighbours of a node learn its news in the next step, unless they crash as
well.

Under the timed clock rounds take the place of steps. Round r ends at r times the length of a round, which is long enough
for news to cross any link. A crash may cut packets, and every faulty node may cost a round. So D is D_f plus the
greatest number of faulty nodes.

With more faults news may take longer. A rank that hears of a suspicion too late for a decision that it has taken says
so. This *reopening* is news like a suspicion. From its step on all decisions wait `slowest` steps, for a path through
all ranks.

A rank cannot know the news that it missed while it did not run, so it asks its neighbours when it runs again. A
neighbour that was suspected and is heard again receives everything, since it may have to learn that it is excluded. It
receives the same at most `REMINDERS` times: otherwise links that lose packets to the end would keep a run from ending.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from emunode.model import ALL_RANKS, Agreement, Packet, Port, Rank, Segment, Step
from emunode.protocols.base import (
    ControlKind,
    PortSegment,
    Protocol,
    control_kind,
    control_segment,
    control_value,
    is_control,
)
from emunode.topologies.base import Topology

REOPENS: Final[Port] = -1
"""Stands in place of a port: no link is suspected, and the rank reopens an earlier decision."""
REMINDERS: Final = 8
"""How often everything is sent to a neighbour that is heard again, as long as there is nothing new."""


class News(NamedTuple):
    """A piece of news to agree on.

    A link is named by the lesser of its two ends, (rank, port).
    """

    seen: Step
    """The step or round when it was first noticed."""
    rank: Rank
    port: Port


class Decision(NamedTuple):
    """The decision of a rank in `step`, or at the end of this round."""

    cut: Step
    """The last step whose news the decision covers."""
    step: Step
    news: frozenset[News]

    @property
    def links(self) -> frozenset[tuple[Rank, Port]]:
        """The links that are given up, each by its lesser end."""
        return frozenset((rank, port) for _, rank, port in self.news if port != REOPENS)


class AgreementLayer(Protocol):
    """The part of one rank in the agreement."""

    def __init__(self, settings: Agreement, topology: Topology, rank: Rank) -> None:
        super().__init__()
        self._settings = settings
        self._topology = topology
        self._rank = rank
        self._ports = topology.ports(rank)
        self.known: set[News] = set()
        # Both ends may report one link, in different steps: each report is news, the link is one.
        self._links: set[tuple[Rank, Port]] = set()
        """The links in `known`."""
        self._avoided: set[Port] = set()
        """Ports of this rank that it has suspected: only its own suspicion leaves by these."""
        self._reminded: dict[Port, tuple[int, int]] = {}
        """By port, how much was known when the neighbour was last told everything, and how often it was told that."""
        self._leaving: list[PortSegment] = []
        self.decisions: list[Decision] = []
        """The decisions so far, in the order of their cuts."""

    @property
    def slowest(self) -> Step:
        """The steps that news take at most, whatever the faults: the longest path that visits no rank twice."""
        return self._topology.order - 1

    @property
    def shrinks(self) -> bool:
        """Whether the collective is to run again on the rest of the network."""
        return self._settings.shrink

    @property
    def abandoned(self) -> bool:
        """Whether the rule of the rank neither sends nor receives any more."""
        # From the first news on, not from the decision: a decision follows in any case, and then the collective runs
        # again, so further sends of the rule would be wasted.
        return self._settings.shrink and bool(self.known)

    @property
    def settled(self) -> bool:
        """Whether all known news are covered by a decision."""
        return bool(self.decisions) and not self._pending()

    @property
    def alarm(self) -> int | None:
        # The decision on a cut is taken at the end of its round, when the news of that round have crossed.
        due = min(map(self._due, self._pending()), default=None)
        return None if due is None else due * self._settings.round

    def _round(self, now: int) -> Step:
        """Return the step, or the round that ends at `now` or later."""
        return -(-now // self._settings.round)

    def receive(self, now: int, port: Port, packet: Packet) -> Packet:
        passed, now = [], self._round(now)
        for segment in packet:
            match control_kind(segment):
                case ControlKind.SUSPICION:
                    origin, _, _, seen, _ = segment
                    self._learn(now, News(seen, origin, control_value(segment)), port)
                case ControlKind.REOPENING:
                    self._learn(now, News(segment[3], segment[0], REOPENS), port)
                case ControlKind.QUESTION:
                    # The neighbour ran again, and missed an unknown part of the news: all of them, since they are few.
                    self._tell_everything(port)
                # A control segment that a fault has altered matches no case, and is dropped: it could name any link.
                case _ if not is_control(segment):
                    passed.append(segment)
        # Decided at the end: news in this very packet may have come ahead of the data.
        return () if self.abandoned else tuple(passed)

    def suspects(self, now: int, port: Port, suspected: bool) -> None:
        if not suspected:
            self._avoided.discard(port)
            # The link may be part of a decision. Its neighbour is alive, so it has to learn that it is excluded.
            if self._link(port) in self._links:
                self._remind(port)
            return
        self._avoided.add(port)
        # News from the other end, or from a former suspicion, are on their way already.
        if self._link(port) not in self._links:
            seen = self._round(now)
            news = News(seen, *self._link(port))
            self._learn(seen, news)
            # The only news for a neighbour that seems dead: a live neighbour has to learn that it is given up.
            self._send(port, news)

    def resume(self, now: int) -> None:
        # By every port, suspected ones too: any of them may work now, and one answer is enough.
        for port in self._ports:
            self._leave(port, control_segment(ControlKind.QUESTION, self._rank, ALL_RANKS, self._round(now)))

    def wake(self, now: int) -> None:
        """Decide on the last cut that is due."""
        now = self._round(now)
        # A rank that hung may find several cuts due. The last one has the news of all of them.
        cut = max((cut for cut in self._pending() if self._due(cut) <= now), default=None)
        if cut is not None:
            news = sorted(news for news in self.known if news.seen <= cut)
            self.decisions.append(Decision(cut, now, frozenset(news)))
            # Sorted, because the journal has the reports in this order and a set has none that two hosts share.
            self.reports += map(self.segment_of, news)

    def submit(self, now: int, port: Port, segment: Segment) -> None:
        if not self.abandoned:
            super().submit(now, port, segment)

    def ready(self, now: int) -> Sequence[PortSegment]:
        if self.abandoned:
            # Handed over before the first news: sends of the run that is given up.
            self._passing.clear()
        # News first: decisions rely on news that cross a link in every step, whatever data waits for it.
        return [*self._leaving, *super().ready(now)]

    def sent(self, now: int, port: Port, segment: Segment) -> None:
        if (port, segment) in self._leaving:
            self._leaving.remove((port, segment))
        else:
            super().sent(now, port, segment)

    def segment_of(self, news: News) -> Segment:
        """Return the control segment that tells a neighbour a piece of news."""
        if news.port == REOPENS:
            return control_segment(ControlKind.REOPENING, news.rank, ALL_RANKS, news.seen)
        peer = self._topology.neighbour(news.rank, news.port)
        return control_segment(ControlKind.SUSPICION, news.rank, peer, news.seen, news.port)

    def _learn(self, now: Step, news: News, source: Port | None = None) -> None:
        """Note a piece of news if it is new, and pass it on."""
        if news in self.known:
            return
        # Noted before it is passed on: a rank passes on each piece of news once, so flooding ends on every network.
        self.known.add(news)
        if news.port != REOPENS:
            self._links.add((news.rank, news.port))
        for port in self._ports:
            # The neighbour behind `source` has sent it, and the one behind an avoided port would not be reached.
            if port != source and port not in self._avoided:
                self._send(port, news)
        cut = self.decisions[-1].cut if self.decisions else 0
        # One reopening that is not decided yet is enough: it covers all that came before it.
        reopened = any(each.port == REOPENS and each.seen > cut for each in self.known)
        if news.seen <= cut and not reopened:
            # The recursion ends here: `now` lies after every cut that has been decided.
            self._learn(now, News(now, self._rank, REOPENS))

    def _pending(self) -> set[Step]:
        """Return the cuts that are not decided yet: steps with news."""
        # Older news that came late are covered by the reopening that they caused.
        last = self.decisions[-1].cut if self.decisions else 0
        return {news.seen for news in self.known if news.seen > last}

    def _due(self, cut: Step) -> Step:
        """Return the step or round when all news up to `cut` have arrived."""
        # A reopening proves that news took longer than D steps, so D is replaced by the bound that no faults can
        # exceed.
        reopened = any(news.port == REOPENS and news.seen <= cut for news in self.known)
        return cut + (max(self._settings.steps, self.slowest) if reopened else self._settings.steps)

    def _remind(self, port: Port) -> None:
        """Tell everything to a neighbour that was suspected and is heard again."""
        known, times = self._reminded.get(port, (0, 0))
        # Counted anew when there is more to tell: only the same news are bounded.
        times = times + 1 if known == len(self.known) else 1
        self._reminded[port] = len(self.known), times
        # Two ends of a link that loses packets until the end may suspect and hear each other without end.
        if times <= REMINDERS:
            self._tell_everything(port)

    def _tell_everything(self, port: Port) -> None:
        # Sorted: the order of departures must not depend on the order of a set.
        for news in sorted(self.known):
            self._send(port, news)

    def _send(self, port: Port, news: News) -> None:
        self._leave(port, self.segment_of(news))

    def _leave(self, port: Port, segment: Segment) -> None:
        # A reminder repeats news that may still wait here for their turn.
        if (port, segment) not in self._leaving:
            self._leaving.append((port, segment))

    def _link(self, port: Port) -> tuple[Rank, Port]:
        # The lesser end names the link, so both ends use one name without exchanging a message.
        return min((self._rank, port), self._topology.end(self._rank, port))
