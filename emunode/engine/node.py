"""The sans-IO node: an inbox in, an outbox and hops out. No clock, no socket, no thread; time is an argument.

Model. Step t of a node reads the arrivals of step t-1 and decides what leaves in step t. The engine receives at most one
packet per port. Arrivals of a step are read by ascending port, whatever order they came in, so the timing of an engine
cannot influence a history.

In every step the node enforces the guarantees of the algorithm: one packet per port, the link capacity, the port model.
A rule that breaks a guarantee is stopped by a RuleError that names the rank, the step and the ports. To classify an
arrival (`HopOutcome`) is measurement, not routing: the rule never sees the outcome.

An engine calls `step` whenever a node has an inbox or `due` equals the step. A packet is read in the step after its
arrival, so one more step follows the last packet.
"""

import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Final

from emunode.algorithms.base import Algorithm, Rule
from emunode.errors import RuleError, RunError
from emunode.model import (
    ALL_RANKS,
    Duplex,
    Hop,
    HopOutcome,
    Packet,
    Port,
    PortModel,
    PortPacket,
    Rank,
    ScheduledSend,
    Segment,
    Step,
)

FIRST, DUPLICATE, RELAY, CORRUPT = HopOutcome.FIRST, HopOutcome.DUPLICATE, HopOutcome.RELAY, HopOutcome.CORRUPT

Leaving = list[tuple[Port, Segment | Callable[[], Segment]]]
port_of = itemgetter(0)
"""The port of a packet, to sort by."""
UNCHECKED: Final = {PortModel.ALL_PORT: sys.maxsize, PortModel.ONE_PORT: 1}
"""Receipts per step over full-duplex links that a port model allows whatever is sent. Other models allow 0."""


class Node:
    """One rank of a network with its rule.

    `due` is the next step when the node sends without receiving anything first, or None. `queueing` is for runs with
    faults that make packets late. Then sends that the port model or the link capacity forbids wait for the next step, in
    order. Late sends leave at once, and receipts are not checked against the port model.
    """

    __slots__ = (
        "_agenda",
        "_algorithm",
        "_content",
        "_everyone",
        "_next",
        "_own",
        "_ports",
        "_rule",
        "_sent",
        "_unchecked",
        "due",
        "queueing",
        "rank",
        "seen",
    )

    def __init__(self, rank: Rank, algorithm: Algorithm, rule: Rule) -> None:
        self.rank = rank
        self.queueing = False
        self._algorithm = algorithm
        self._ports = _as_set(algorithm.topology.ports(rank))
        self._everyone = everyone_at(algorithm, rank)
        self._rule = rule
        self._content = algorithm.content
        try:
            # One send is drawn in advance, because `due` has to be known before the step of its departure.
            self._own: Iterator[ScheduledSend] = iter(rule.start())
            self._next: ScheduledSend | None = next(self._own, None)
        except (RuleError, RunError, MemoryError):  # of a program that plays this rank, or of the machine
            raise
        except Exception as error:
            raise failure(algorithm, rank, 1, error) from error
        self._agenda: dict[Step, Leaving] = {}
        # An integer with a bit for each segment: a set of (origin, segment) would take about a hundred bytes for each
        # segment, at every node.
        self.seen: dict[Rank, int] = {}
        """By origin, the segments that have arrived."""
        # Of the last step only: receipts of step t are checked when step t + 1 begins, before anything of it is sent.
        self._sent: tuple[Step, list[Port]] = (0, [])
        spec = algorithm.spec
        # Half-duplex links always need the comparison of receipts with sends.
        self._unchecked = UNCHECKED.get(spec.port_model, 0) if spec.duplex is Duplex.FULL else 0
        self.due: Step | None = self._next[0] if self._next else None
        if self.due is not None and self.due < 1:
            raise RuleError(
                f"{algorithm.name} at rank {rank} wants to start in step {self.due}; steps are counted from 1"
            )

    def step(self, step: Step, inbox: list[PortPacket]) -> tuple[list[PortPacket], list[Hop]]:
        """Read the packets of the step before, and decide what leaves in `step`.

        Returns the packets that leave, by ascending port, and the hops. Raises RuleError if the rule violates its port
        model, its link capacity or causality.
        """
        hops: list[Hop] = []
        try:
            agenda = self._agenda
            if inbox:
                if len(inbox) > 1:
                    # Sockets deliver in any order. A link carries one packet per step, so ports are distinct here, and
                    # sorting by them alone gives every engine the same order.
                    inbox.sort(key=port_of)
                # All-port and one-port need no comparison with the sends, unless links are half-duplex.
                if len(inbox) > self._unchecked:
                    self._check_receipts(step - 1, inbox)
                self._read(inbox, hops)
                # The rule is given the step when the packets crossed, since schedules in papers count by it; its answer
                # can leave in `step` at the earliest.
                for when, port, segment in self._rule.receive(step - 1, inbox):
                    if when in agenda:
                        # Hot path: two dict look-ups in place of `setdefault`, which would build an empty list every
                        # time.
                        agenda[when].append((port, segment))
                    elif when >= step:
                        agenda[when] = [(port, segment)]
                    elif self.queueing:
                        # Only with late packets: the intended step of the send has passed, so it leaves now.
                        agenda.setdefault(step, []).append((port, segment))
                    else:
                        raise RuleError(f"rank {self.rank} wants to send in step {when} what it read in step {step}")
            own = self._next
            # Most ranks have nothing of their own to send after the first step.
            leaving = agenda.pop(step, ()) if own is None else self._leaving(step)
            if leaving and self.queueing:
                # Only now, with own sends and answers together: either may have to wait.
                leaving = self._possible(step, leaving)
            outbox = self._outbox(step, leaving) if leaving else []
            due = None if own is None or (own := self._next) is None else own[0]
            # `min` over few entries: an agenda rarely spans more than the next steps.
            if agenda:
                soonest = min(agenda)
                due = soonest if due is None or soonest < due else due
            self.due = due
        # A RuleError already names rank and step; a RunError and a MemoryError are not the rule's mistake.
        except (RuleError, RunError, MemoryError):
            raise
        except Exception as error:
            raise failure(self._algorithm, self.rank, step, error) from error
        return outbox, hops

    def resume(self, step: Step) -> None:
        """Skip to `step`.

        Sends that were scheduled for the missed steps are discarded.
        """
        with self._naming_failures(step):
            while self._next is not None and self._next[0] < step:
                self._next = next(self._own, None)
        # Only the sends of missed steps go, as at a process that was stopped: receipts, and decisions for later steps,
        # are still there. A list first: the dict must not change while it is read.
        for when in [when for when in self._agenda if when < step]:
            del self._agenda[when]
        own = [self._next[0]] if self._next is not None else []
        self.due = min([*own, *self._agenda], default=None)

    def enable_queueing(self) -> None:
        """Queue sends that cannot leave, from now on.

        Faults may have made them late.
        """
        self.queueing = True
        # Late packets arrive beside punctual ones, so receipts per step prove nothing about the rule.
        self._unchecked = sys.maxsize

    def _possible(self, step: Step, leaving: Leaving) -> Leaving:
        """Return the sends that may leave in one step, in order.

        The others go first on the agenda of the next step.
        """
        capacity = self._algorithm.link_capacity
        one_port = self._algorithm.spec.port_model is not PortModel.ALL_PORT
        loads: dict[Port, int] = {}
        now: Leaving = []
        later: Leaving = []
        for item in leaving:
            port = item[0]
            # A capacity of None is no limit: it equals no load below.
            load = loads.get(port, 0)
            # The link is full; or, over one port, another port is already in use in this step.
            if load == capacity or (one_port and loads and not load):
                later.append(item)
            else:
                loads[port] = load + 1
                now.append(item)
        if later:
            # In front of what was decided for the next step: decisions keep their order.
            self._agenda[step + 1] = later + self._agenda.get(step + 1, [])
        return now

    def _leaving(self, step: Step) -> Leaving:
        """Return all sends of `step`.

        These are the sends of the rule's own schedule, and the sends decided on arrivals.
        """
        leaving: Leaving = []
        own = self._next
        while own is not None and own[0] == step:
            leaving.append((own[1], own[2]))
            own = next(self._own, None)
        # A rule's own schedule must ascend, or this send would never leave.
        if own is not None and own[0] < step:
            raise RuleError(
                f"rank {self.rank} schedules sends out of order: one for step {own[0]} after step {step} began"
            )
        self._next = own
        # Own sends first: the order of the rule decides about segments within a packet.
        leaving += self._agenda.pop(step, ())
        return leaving

    def _outbox(self, step: Step, leaving: Leaving | tuple[()]) -> list[PortPacket]:
        """Merge segments into one packet per port.

        Raises RuleError if the algorithm may not send these.
        """
        # Hot path, once per active rank and step. In most collectives most ranks send one segment per step. Only a
        # wrong port can make that illegal, so it skips all that follows.
        if len(leaving) == 1:
            port, segment = leaving[0]
            if port in self._ports:
                self._sent = (step, [port])
                return [(port, (segment if segment.__class__ is tuple else make_segment(segment),))]
        packets: dict[Port, Packet] = {}
        several: dict[Port, list[Segment]] = {}
        for port, segment in leaving:
            # Plain form: `packets.setdefault(port, []).append(make_segment(segment))`. A segment is a tuple, or a
            # function that makes it when it leaves, so that a schedule of many large segments does not hold all
            # payloads at once. For most packets, with one segment, a tuple of one is built at once; a list would be
            # copied.
            ready = segment if segment.__class__ is tuple else make_segment(segment)
            if port not in packets:
                packets[port] = (ready,)
            elif port in several:
                several[port].append(ready)
            else:
                several[port] = [*packets[port], ready]
        for port, segments in several.items():
            packets[port] = tuple(segments)
        algorithm = self._algorithm
        if not self._ports.issuperset(packets):
            raise RuleError(
                f"{algorithm.name} at rank {self.rank}, step {step}: some of the ports {sorted(packets)} do not exist"
            )
        if len(packets) > 1 and algorithm.spec.port_model is not PortModel.ALL_PORT:
            raise RuleError(
                f"{algorithm.name} at rank {self.rank}, step {step}: sends on ports {sorted(packets)}, which "
                f"{algorithm.spec.port_model} does not allow"
            )
        capacity = algorithm.link_capacity
        # Without several segments on any port, no packet can be too large.
        if several and capacity is not None:
            for port, segments in sorted(several.items()):
                if len(segments) > capacity:
                    raise RuleError(
                        f"{algorithm.name} at rank {self.rank}, step {step}: sends {len(segments)} segments on port "
                        f"{port}, and a packet holds {capacity}"
                    )
        # No two ports are equal, so packets are never compared.
        outbox = sorted(packets.items())
        # A node whose receipts are never checked need not keep a list of its ports alive.
        self._sent = (step, [port for port, _ in outbox]) if self._unchecked < len(self._ports) else (0, [])
        return outbox

    def _check_receipts(self, step: Step, inbox: list[PortPacket]) -> None:
        """Raise RuleError if the port model does not allow these receipts beside the sends of `step`."""
        spec = self._algorithm.spec
        # `_sent` may be of an earlier step: ranks that sent nothing since do not overwrite it.
        sent = self._sent[1] if self._sent[0] == step else []
        received = [port for port, _ in inbox]
        match spec.port_model:
            case PortModel.ALL_PORT:
                legal = True
            # The sends of the step have passed `_outbox`, and one-port lets a node receive on another port than it
            # sends.
            case PortModel.ONE_PORT:
                legal = len(received) <= 1
            case PortModel.EXCHANGE:
                legal = len({*received, *sent}) <= 1
            case PortModel.SEND_OR_RECEIVE:
                legal = len(received) + len(sent) <= 1
        # In addition to the port model: a half-duplex link that was sent on cannot have delivered in the same step.
        if spec.duplex is Duplex.HALF and not set(sent).isdisjoint(received):
            legal = False
        if not legal:
            raise RuleError(
                f"{self._algorithm.name} at rank {self.rank}, step {step}: sent on ports {sent} and received on "
                f"ports {received}, which {spec.port_model} over {spec.duplex}-duplex links does not allow"
            )

    def _read(self, inbox: Sequence[PortPacket], hops: list[Hop]) -> None:
        """Classify every arrival, by ascending port."""
        classify(inbox, self.rank, self._content, self._everyone, self.seen, hops)

    def _naming_failures(self, step: Step) -> "NamedFailures":
        """Make a RuleError with rank and step of an exception in the algorithm's code."""
        return NamedFailures(self._algorithm, self.rank, step)


class NamedFailures:
    """A context that makes a RuleError with rank and step of an exception in the algorithm's code."""

    __slots__ = ("_algorithm", "_rank", "_step")

    def __init__(self, algorithm: Algorithm, rank: Rank, step: Step) -> None:
        self._algorithm, self._rank, self._step = algorithm, rank, step

    def __enter__(self) -> None:
        # A class, since a node with a protocol enters three of these in a step, and a generator takes three times as long.
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        # As in `Node.step`, where a context of its own would cost too much.
        if isinstance(error, Exception) and not isinstance(error, RuleError | RunError | MemoryError):
            raise failure(self._algorithm, self._rank, self._step, error) from error


def failure(algorithm: Algorithm, rank: Rank, step: Step, error: Exception) -> RuleError:
    """Return the RuleError for an exception in an algorithm's code, with the place in the run and in the source."""
    files = {getattr(sys.modules.get(each.__module__), "__file__", None) for each in type(algorithm).__mro__}
    frames = traceback.extract_tb(error.__traceback__)
    # Prefer the frame in the algorithm's own file: the last frame may be inside a library that it called.
    ours = [frame for frame in frames if frame.filename in files] or frames
    where = f"line {ours[-1].lineno} of {ours[-1].filename}"
    return RuleError(f"{algorithm.name} at rank {rank}, step {step}, {where}: {type(error).__name__}: {error}")


def everyone_at(algorithm: Algorithm, rank: Rank) -> Rank | None:
    """Return the target of segments for all ranks at a rank; None at a switch."""
    # A switch owns no data: segments for all ranks are not for it, and no target equals None.
    return None if algorithm.topology.is_switch(rank) else ALL_RANKS


def classify(
    inbox: Sequence[PortPacket],
    rank: Rank,
    content: Callable[[Rank, Rank, int], bytes | None],
    everyone: Rank | None,
    seen: dict[Rank, int],
    hops: list[Hop],
) -> None:
    """Append the hops of arrivals at a rank that has `seen` segments, and note what it sees."""
    # Hot path, once per segment. `seen` holds a bit per segment index for each origin.
    for port, segments in inbox:
        for segment in segments:
            origin, target, _, index, payload = segment
            right = content(origin, target, index)
            # None means that the right content is not known yet, so the arrival is not judged.
            if payload != right and right is not None:
                outcome = CORRUPT
            elif target != rank and target != everyone:  # noqa: PLR1714  # half the cost of a membership test
                outcome = RELAY
            else:
                # A rank may receive a partial result and a finished one of the same origin and number. They differ
                # in having a target; `~` maps the origins of segments with one to negative keys: no rank has these.
                place = origin if target < 0 else ~origin
                had = seen.get(place, 0)
                # A rank that receives its own message back has had it all along.
                if had >> index & 1 or origin == rank:
                    outcome = DUPLICATE
                else:
                    seen[place] = had | 1 << index
                    outcome = FIRST
            hops.append((port, outcome, segment))  # type: ignore[arg-type]  # a plain tuple, made three times as fast


def make_segment(segment: Segment | Callable[[], Segment]) -> Segment:
    """Return the segment of a send; a rule may leave the segment to be made when it leaves."""
    return segment() if callable(segment) else segment


@lru_cache(maxsize=4096)
def _as_set(ports: Sequence[Port]) -> frozenset[Port]:
    """Return the ports as a set, one object for all ranks with the same ports."""
    return frozenset(ports)
