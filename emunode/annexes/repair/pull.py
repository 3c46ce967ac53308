"""Repair by asking: a rank whose expected packet does not come asks one neighbour after the other for it.

A rank knows from its own address when each segment of each tree is to arrive. If a segment is `after` steps overdue, the
rank asks the first of its ports for it. It asks another port every two steps, the time of a request and its answer,
until the segment comes or each port was asked once. If the scenario names the moment when all faults have ended, the
rank begins again with the first port, until a whole round has begun since that moment.

A neighbour that has the segment answers in the next step. Any other neighbour remembers the request, and answers when it
gets the segment. Then the rank serves its children as usual, and drops further copies.

Under the timed clock a segment is to arrive at the end of its step in the virtual time of lock-step. It is overdue
`after` durations of the longest step later. Requests are as far apart as a request and its answer take.

Only local knowledge is used: the ports that a rank believes to work (`LocalView.live_ports`), and its receipts.
"""

from abc import abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from emunode.algorithms.base import Algorithm, LocalView
from emunode.algorithms.tree_collective import TreeCollective
from emunode.annexes.repair.rules import RepairRule, rule_of
from emunode.model import ALL_RANKS, Packet, Port, Rank, Repair, Segment, Step
from emunode.protocols.base import (
    ControlKind,
    Durations,
    PortSegment,
    Protocol,
    control_kind,
    control_segment,
    control_value,
    is_control,
)

TreeSegment = tuple[int, int]
"""(tree, segment)."""


class PullRule(RepairRule):
    """A rule for ranks that ask for missing segments.

    It names the ports that a rank asks, and their order.
    """

    @abstractmethod
    def ports(self, algorithm: TreeCollective, relative: Rank, tree: int) -> Sequence[Port]:
        """Return the ports that a rank asks for a segment of `tree`, in order.

        `relative` is the rank's address seen from the source.
        """

    def layer(self, algorithm: Algorithm, view: LocalView, timing: Durations) -> Protocol:
        """Return the layer of one rank."""
        assert isinstance(algorithm, TreeCollective), "repair refuses other algorithms"
        return PullLayer(self, algorithm, view, timing)


def repair_layer(algorithm: Algorithm, view: LocalView, timing: Durations) -> Protocol | None:
    """Return the layer of one rank; None under a rule whose nodes ask for nothing."""
    rule = rule_of(algorithm.spec)
    return rule.layer(algorithm, view, timing) if isinstance(rule, PullRule) else None


LAST_ROUND: Final = 1 << 15
"""Marks the requests of a further round, which begins once nothing is broken.

The mark is added to the number of a tree. Without it, a reliable link would take these requests for copies of earlier
ones, whose answers may have been given up.
"""


def tree_segment_of(request: Segment) -> TreeSegment:
    """Return what a request asks for."""
    return control_value(request) & ~LAST_ROUND, request[3]


def overdue(timing: Durations, repair: Repair, crossing: Step) -> int:
    """Return the time of the first request for a segment.

    Without faults the segment crosses its last link in step `crossing`.
    """
    # A segment that crosses in a step is read in the next one.
    return timing.begins(crossing + 1) + repair.after * timing.step


def period(timing: Durations) -> int:
    """Return the time from one request to the next.

    In that time the request crosses, and the answer crosses.
    """
    return timing.control + timing.step


def healed(timing: Durations, repair: Repair) -> int:
    """Return the time from which on nothing is broken; 0 if it is not known."""
    return timing.begins(repair.heal_step) if repair.heal_step else repair.heal_time


class Search:
    """A missing segment: the ports still to be asked, and the next request.

    The time of that request is None if none is due.
    """

    __slots__ = ("due", "mark", "ports", "skipped", "start")

    def __init__(self, ports: Sequence[Port], start: int) -> None:
        self.due: int | None = start
        self.mark = 0
        self.begin_round(ports, start)

    def begin_round(self, ports: Sequence[Port], start: int) -> None:
        """Ask each port once, from `start` on."""
        self.start = start
        self.ports = deque(ports)
        self.skipped: list[Port] = []
        """Ports that did not work when it was their turn."""


class Awaited:
    """The segments that are to arrive on one tree, in order.

    At `deadline` the next one is missed.
    """

    __slots__ = ("_deadlines", "deadline", "tree_segment")

    def __init__(self, deadlines: Iterator[tuple[int, TreeSegment]]) -> None:
        self._deadlines = deadlines
        self.deadline: int | None = None
        self.tree_segment: TreeSegment = (-1, -1)
        self.advance()

    def advance(self) -> None:
        """Continue with the next segment."""
        self.deadline, self.tree_segment = next(self._deadlines, (None, self.tree_segment))


class PullLayer(Protocol):
    """The layer of one rank: requests for missing segments, and answers to others."""

    # A rank that has received nothing lacks the most: it has to exist to ask.
    waits = True

    def __init__(self, rule: PullRule, algorithm: TreeCollective, view: LocalView, timing: Durations) -> None:
        super().__init__()
        self._rule = rule
        self._algorithm = algorithm
        self._view = view
        self._timing = timing
        self._source = algorithm.spec.source
        self._relative = view.relative(self._source)
        repair = algorithm.spec.repair
        assert repair is not None
        self._healed = healed(timing, repair)
        self._awaited: list[Awaited] = []
        # As received: a rank that has received an altered segment answers with that, as it forwards it to its children.
        self._held: dict[TreeSegment, Segment] = {}
        self._searches: dict[TreeSegment, Search] = {}
        self._askers: dict[TreeSegment, list[Port]] = {}
        """By segment that this rank does not have yet, the ports that lead to the neighbours that asked for it."""
        self._requests: list[PortSegment] = []

    @property
    def alarm(self) -> int | None:
        deadlines = [each.deadline for each in self._awaited if each.deadline is not None]
        return min([*deadlines, *(each.due for each in self._searches.values() if each.due is not None)], default=None)

    def start(self, now: int) -> None:
        algorithm = self._algorithm
        # A tree that was grown around faults does not reach all ranks.
        if self._relative in algorithm.reached:
            self._awaited = [Awaited(self._deadlines(tree)) for tree in range(algorithm.trees.count)]

    def _deadlines(self, tree: int) -> Iterator[tuple[int, TreeSegment]]:
        """Yield, by ascending time, when each segment of a tree is overdue and known to be so."""
        algorithm, spec = self._algorithm, self._algorithm.spec
        assert spec.repair is not None
        first = algorithm.crossing_step(self._relative, tree, 0)
        # By stop and wait a link takes a segment every other step.
        steps = max(algorithm.period, 2 if spec.reliable is not None and spec.reliable.window == 1 else 1)
        # Lazily: a message of a million segments has one deadline per tree at a time.
        for number, segment in algorithm.copies_on_tree(tree):
            yield overdue(self._timing, spec.repair, first + number * steps), (tree, segment)

    def receive(self, now: int, port: Port, packet: Packet) -> Packet:
        """Note requests and pass on new segments.

        New segments are also sent to the ports that asked for them.
        """
        passed = []
        for segment in packet:
            kind = control_kind(segment)
            # Altered control segments have no kind: a request that cannot be read is not answered, and the asker goes
            # on to its next port.
            if kind is ControlKind.REQUEST:
                self._asked(port, tree_segment_of(segment))
            if is_control(segment):
                continue
            tree_segment = segment[2], segment[3]
            # A copy, or a message that came back to its source: neither is news for the rule.
            if tree_segment in self._held or not self._relative:
                continue
            self._held[tree_segment] = segment
            self._end_search(tree_segment)
            passed.append(segment)
            for asker in self._askers.pop(tree_segment, ()):
                self._pass(asker, segment)
        # Deadlines of segments that came early have to go too, or `alarm` would wake the node for nothing.
        for each in self._awaited:
            while each.deadline is not None and each.tree_segment in self._held:
                each.advance()
        return tuple(passed)

    def suspects(self, now: int, port: Port, suspected: bool) -> None:
        """Ask a skipped port once it works again."""
        for tree_segment, search in self._searches.items():
            if not suspected and port in search.skipped:
                search.skipped.remove(port)
                search.ports.append(port)
                # A search is idle once every port was asked. One whose request waits to leave is not: `sent` sets its
                # next time.
                if search.due is None and not self._waiting(tree_segment):
                    search.due = now

    def wake(self, now: int) -> None:
        """Begin the searches that are due, and send the next request of each."""
        for each in self._awaited:
            while each.deadline is not None and each.deadline <= now:
                # A segment that came before an earlier one of its tree is not missing.
                if each.tree_segment not in self._held:
                    self._searches[each.tree_segment] = Search(self._ports(each.tree_segment[0]), now)
                each.advance()
        # Read once for all searches of this time: no search can change it.
        live = self._view.live_ports
        for (tree, number), search in self._searches.items():
            while search.due is not None and search.due <= now:
                if not search.ports:
                    self._end_round(search, tree, now)
                # One port after the other, and not all at once: the first answer usually ends the search.
                elif (port := search.ports.popleft()) in live:
                    value = tree | search.mark
                    request = control_segment(ControlKind.REQUEST, self._source, ALL_RANKS, number, value)
                    self._requests.append((port, request))
                    # The next one follows when this one has left: over one port it may have to wait.
                    search.due = None
                else:
                    search.skipped.append(port)

    def _ports(self, tree: int) -> Sequence[Port]:
        return self._rule.ports(self._algorithm, self._relative, tree)

    def _end_round(self, search: Search, tree: int, now: int) -> None:
        """Begin with the first port again if the round began under faults.

        A round ends when every port was asked or does not work.
        """
        if search.start >= self._healed:
            search.due = None
            return
        # Where no port works the next round comes no sooner than after one request.
        search.due = now if len(search.skipped) < len(ports := self._ports(tree)) else now + period(self._timing)
        search.mark = LAST_ROUND * (now >= self._healed)
        search.begin_round(ports, now)

    def submit(self, now: int, port: Port, segment: Segment) -> None:
        self._pass(port, segment)

    def ready(self, now: int) -> Sequence[PortSegment]:
        # Requests first: `period` allows for a request that crosses without waiting for data.
        return [*self._requests, *self._passing]

    def sent(self, now: int, port: Port, segment: Segment) -> None:
        if not is_control(segment):
            self._passing.remove((port, segment))
            return
        self._requests.remove((port, segment))
        self._searches[tree_segment_of(segment)].due = now + period(self._timing)

    def _waiting(self, tree_segment: TreeSegment) -> bool:
        """Return whether a request for a segment has not left yet."""
        return any(tree_segment_of(request) == tree_segment for _, request in self._requests)

    def _end_search(self, tree_segment: TreeSegment) -> None:
        """Stop asking for a segment that has arrived."""
        if self._searches.pop(tree_segment, None) is not None:
            # A request that has not left yet would only fetch another copy.
            self._requests = [each for each in self._requests if tree_segment_of(each[1]) != tree_segment]

    def _asked(self, port: Port, tree_segment: TreeSegment) -> None:
        """Answer a request: at once, or when the segment has arrived."""
        if not self._relative:
            # A source has its messages even if it has just recovered.
            me, (tree, number) = self._source, tree_segment
            # Made again from the seed, because a node that has recovered holds nothing.
            payload = self._algorithm.payloads.segment(me, ALL_RANKS, number)
            self._pass(port, (me, ALL_RANKS, tree, number, payload))
        elif tree_segment in self._held:
            self._pass(port, self._held[tree_segment])
        elif port not in (askers := self._askers.setdefault(tree_segment, [])):
            askers.append(port)

    def _pass(self, port: Port, segment: Segment) -> None:
        """Let a segment leave by a port, unless it is already waiting there.

        It may be: a child may have asked for it as well.
        """
        if (port, segment) not in self._passing:
            self._passing.append((port, segment))
