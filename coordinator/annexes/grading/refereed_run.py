"""A refereed run of a submission: the referee carries the packets and checks every one of them.

In step t the ranks read the arrivals of step t - 1 and send. The judge holds each send against the ports of the
network, the port model, the link capacity and causality: a rank sends its own messages, or segments that it received in
an earlier step. The messages are the judge's: a submission that invents a payload is found. A crashed node neither
sends nor receives; packets on a link that is down are lost.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from coordinator.annexes.grading.answers import GivenSegment, GivenSend, Late, Opened, StepTaken, SubmissionAnswer
from coordinator.annexes.grading.submission import NONSENSE, SubmissionEndedError, SubmissionProcess
from emunode.algorithms.conformance import keeps_port_model
from emunode.algorithms.payload import Payloads
from emunode.model import ALL_RANKS, FOLDING, Collective, CollectiveSpec, Port, Rank, Step
from emunode.play import play
from emunode.topologies.base import Topology

MOST_PROBLEMS: Final = 20
NAMED: Final = 6
"""How many nodes a message names."""
JUDGED: Final = (
    Collective.BROADCAST, Collective.SCATTER, Collective.GATHER, Collective.REDUCE, Collective.ALLGATHER,
    Collective.ALLTOALL, Collective.REDUCE_SCATTER, Collective.UNICAST,
)  # fmt: skip
"""The collectives whose deliveries this module can judge."""

Fold = tuple[Rank, Rank, int]
"""The place of a partial result, its target, and the number of the segment."""
Inbox = list[list[Any]]
"""[rank, packets] with packets [port, segments], as the submission receives them."""


@dataclass(frozen=True, slots=True)
class GradedFaults:
    """Nodes and links that are broken from the first step to the end."""

    crashed: frozenset[Rank] = frozenset()
    down: frozenset[tuple[Rank, Port]] = frozenset()
    name: str = ""


@dataclass(slots=True)
class SentSegment:
    """One segment on one link."""

    step: Step
    sender: Rank
    port: Port
    segment: GivenSegment


@dataclass(slots=True)
class RefereedRun:
    """A run and the mistakes in it."""

    topology: Topology
    spec: CollectiveSpec
    opened: Opened | None = None
    """The submission's description of itself at the beginning; nothing in it is trusted."""
    not_run: str | None = None
    """Why the run has no result: it was refused, its process ended, or it was not tried."""
    refused_calls: list[str] = field(default_factory=list)
    """The calls that the kernel or the audit hook refused."""
    stopped_by_call: bool = False
    """Whether the run ended with an exception in an answer during which a call was refused."""
    sent: list[SentSegment] = field(default_factory=list)
    turns: list[tuple[Inbox, list[GivenSend]]] = field(default_factory=list)
    """The arrivals of the ranks in step 1, 2, .., and the rows [rank, port, segment] of their answers."""
    endless: bool = False
    problems: list[str] = field(default_factory=list)
    """Broken rules of the model, and exceptions."""
    undelivered: list[str] = field(default_factory=list)
    metrics: dict[str, object] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """The last step with a send."""
        return max((each.step for each in self.sent), default=0)


class Referee:
    """Referees one run. `referee` returns it; SubmissionEndedError passes through."""

    def __init__(self, topology: Topology, spec: CollectiveSpec, faults: GradedFaults) -> None:
        self.run = RefereedRun(topology, spec)
        self._topology = topology
        self._spec = spec
        self._faults = faults
        self._ranks = list(topology.ranks())
        self._held: dict[Rank, set[tuple[Rank, Rank, int]]] = defaultdict(set)
        """The segments that a rank has received: origin, target, index."""
        self._folded: dict[Fold, int] = defaultdict(int)
        """Where contributions are folded: the exclusive or of the segments that a rank received."""
        self._counted: dict[Fold, Counter[Rank]] = defaultdict(Counter)
        """Whose contributions a rank received, and how often: an exclusive or does not see three times."""
        self._leaving_counts: dict[Fold, Counter[Rank]] = {}
        """Whose contributions are in the partial results that leave in this step."""
        self._process: SubmissionProcess
        self._inbox: Inbox = []
        """The packets that arrive at the beginning of the next step."""
        self._planned: Step | None = None
        """The next step with a send without an arrival, as the submission says."""

    def referee(self, process: SubmissionProcess, key: Sequence[str]) -> RefereedRun:
        """Run the algorithm `key` of a submission to its end."""
        run = self.run
        self._process = process
        answer = self._ask(1, "open", algorithm=list(key), spec=self._spec._asdict(), ranks=self._ranks, watch=False)
        if answer.refused:
            run.not_run = f"refused: {answer.problem}"
            return run
        if self._failed(answer, 1):
            return run
        run.opened = opened = answer.result
        parts, capacity = opened.segments_per_message, opened.link_capacity
        if not 1 <= parts <= self._spec.message_bytes:
            run.problems.append(f"segments_per_message is {parts!r}, expected 1..{self._spec.message_bytes}")
            return run
        if capacity is not None and capacity < 1:
            run.problems.append(f"link_capacity is {capacity!r}, expected None, or a number of segments from 1 on")
            return run
        self._payloads = Payloads(self._spec.seed, self._spec.message_bytes, parts)
        self._segments = parts * self._spec.messages
        self._capacity, self._ack_bytes = capacity, opened.ack_bytes
        self._planned = opened.due
        self._note_late(opened.late, 1)
        self._loop()
        run.refused_calls += process.refused_calls()
        self._judge_deliveries()
        self._measure()
        return run

    def _loop(self) -> None:
        """Run all steps, and note where a run does not end."""
        limit = step_limit(self._topology.order, self._spec.collective)
        if self.busy and not self._idles_beyond(limit):
            for _ in play(self, limit=limit, over=lambda _, busy: not busy or self._idles_beyond(limit)):
                pass
        if not self.busy:
            return
        self.run.endless = True
        last = named(self._topology, sorted({each.sender for each in self.run.sent if each.step == limit}))
        self.run.problems.append(
            f"it does not end: a send is planned for step {self._planned:,}; a run has at most {limit:,} steps"
            if self._idles_beyond(limit) or not last
            else f"it does not end: in step {limit:,} there are still sends, by {last}"
        )

    def _idles_beyond(self, limit: Step) -> bool:
        """Return whether nothing happens before a send that is planned for a step beyond the limit."""
        return not self._inbox and self._planned is not None and self._planned > limit

    @property
    def busy(self) -> bool:
        """Whether packets are unread or sends planned, in a run that may still be right."""
        return (bool(self._inbox) or self._planned is not None) and len(self.run.problems) < MOST_PROBLEMS

    def step(self, step: Step) -> None:
        """Let the submission run a step."""
        answer = self._ask(step, "step", step=step, inbox=self._inbox)
        if self._failed(answer, step):
            self._inbox, self._planned = [], None
            return
        taken: StepTaken = answer.result
        self.run.turns.append((self._inbox, taken.sends))
        self._note_late(taken.late, step)
        self._inbox = self._carry(step, list(self._leaving(step, taken.sends)))
        self._planned = taken.due

    def _ask(self, at: Step, do: str, **arguments: Any) -> SubmissionAnswer[Any]:
        """Request an answer of step `at`; the error of a submission that does not answer names the step."""
        try:
            return self._process.ask(do, **arguments)
        except SubmissionEndedError as error:
            raise SubmissionEndedError(f"in step {at}: {error}") from None

    def _note_late(self, late: Late, step: Step) -> None:
        for rank, when in late:
            if rank not in self._topology.ranks():
                raise SubmissionEndedError(NONSENSE)
            self.run.problems.append(
                f"{self._name(rank)} sends in step {when}; the first step is 1"
                if step == 1
                else f"{self._name(rank)} sent in step {when} what arrived in step {step - 1}: the first possible step is "
                f"{step}"
            )

    def _failed(self, answer: SubmissionAnswer[Any], step: Step) -> bool:
        if answer.problem is None:
            return False
        calls = self._process.refused_calls()
        self.run.refused_calls += calls
        # A call that is not allowed costs the points of `limits`; the port model is not judged by it.
        if calls:
            self.run.stopped_by_call = True
        else:
            self.run.problems.append(f"in step {step}: {answer.problem}")
        return True

    def _name(self, rank: Rank) -> str:
        return self._topology.label(rank)

    # --- one step ----------------------------------------------------------------------------------------------------

    def _leaving(self, step: Step, sends: list[GivenSend]) -> Iterator[SentSegment]:
        """Yield the sends of a step by nodes that work; sends that break the model are problems and do not leave."""
        topology = self._topology
        for rank, port, segment in sends:
            if not 0 <= rank < topology.order or rank in self._faults.crashed:
                continue
            if port not in topology.ports(rank):
                self.run.problems.append(
                    f"{self._name(rank)} sends over port {port} in step {step}; {topology.title} has ports "
                    f"{port_names(topology.ports(rank))}"
                    + ("" if topology.degree == len(topology.ports(rank)) else " there")
                )
                continue
            if problem := self._segment_problem(rank, step, segment):
                self.run.problems.append(problem)
            yield SentSegment(step, rank, port, segment)

    def _segment_problem(self, rank: Rank, step: Step, segment: GivenSegment) -> str | None:
        """Return why `rank` may not send this segment now."""
        origin, target, _, number, payload = segment
        where = f"{self._name(rank)} in step {step}"
        valid = 0 <= origin < self._topology.order and (target == ALL_RANKS or 0 <= target < self._topology.order)
        if not valid or not 0 <= number < self._segments:
            return f"{where} sends segment {number} from {origin} to {target}, which this run does not have"
        if self._spec.collective in FOLDING:
            right = self._is_partial_result(rank, segment)
            return (
                None
                if right
                else f"{where} sends something else than its own contribution combined with what it received"
            )
        name = self._name(origin)
        reason = None
        if target == rank and len(payload) == self._ack_bytes:
            if not self._held[rank] & {(origin, ALL_RANKS, number), (origin, rank, number)}:
                reason = f"acknowledges segment {number} of {name}, which it has not received before"
        elif origin != rank and (origin, target, number) not in self._held[rank]:
            reason = f"sends segment {number} of {name}, which it has not received before"
        elif origin == rank and rank not in self._origins():
            reason = f"sends a message of its own, but it is not a source of this {self._spec.collective}"
        elif payload != self._payloads.segment(origin, target, number):
            reason = f"sends segment {number} of {name} with other bytes than its origin"
        return reason and f"{where} {reason}"

    def _is_partial_result(self, rank: Rank, segment: GivenSegment) -> bool:
        """Return whether a segment is the contribution of `rank`, combined with all that it has received for the same
        target.
        """
        origin, target, _, number, payload = segment
        if origin != rank or target == rank or target not in self._folders():
            return False
        fold = rank, target, number
        own = self._payloads.segment(rank, target, number)
        self._leaving_counts[fold] = self._counted[fold] + Counter([rank])
        return len(payload) == len(own) and int.from_bytes(payload) == int.from_bytes(own) ^ self._folded[fold]

    def _folders(self) -> Sequence[Rank]:
        """Return the ranks that a result is folded for."""
        return (self._spec.source,) if self._spec.collective is Collective.REDUCE else self._topology.data_ranks

    def _carry(self, step: Step, leaving: list[SentSegment]) -> Inbox:
        """Check the packets of a step against the model, and deliver the packets that are not lost."""
        self.run.sent += leaving
        packets: dict[tuple[Rank, Port], list[SentSegment]] = defaultdict(list)
        for each in leaving:
            packets[each.sender, each.port].append(each)
        self._check_model(step, packets)
        boxes: dict[Rank, list[list[Any]]] = defaultdict(list)
        for (rank, port), segments in packets.items():
            receiver, its_port = self._topology.end(rank, port)
            if receiver in self._faults.crashed or (rank, port) in self._faults.down:
                continue
            for each in segments:
                self._receive(receiver, each.segment)
            boxes[receiver].append([its_port, [[*each.segment[:4], each.segment[4].hex()] for each in segments]])
        return [[rank, sorted(boxes[rank])] for rank in sorted(boxes)]

    def _receive(self, rank: Rank, segment: GivenSegment) -> None:
        origin, target, _, number, payload = segment
        if self._spec.collective in FOLDING:
            fold = rank, target, number
            self._folded[fold] ^= int.from_bytes(payload)
            self._counted[fold].update(self._leaving_counts.get((origin, target, number), ()))
        elif (0 <= number < self._segments) and payload == self._payloads.segment(origin, target, number):
            self._held[rank].add((origin, target, number))

    def _check_model(self, step: Step, packets: dict[tuple[Rank, Port], list[SentSegment]]) -> None:
        out: dict[Rank, set[Port]] = defaultdict(set)
        into: dict[Rank, set[Port]] = defaultdict(set)
        for (rank, port), segments in packets.items():
            if self._capacity is not None and len(segments) > self._capacity:
                self.run.problems.append(
                    f"{self._name(rank)} sends {len(segments)} segments on port {port} in step {step}; a packet holds "
                    f"{self._capacity}"
                )
            out[rank].add(port)
            receiver, its_port = self._topology.end(rank, port)
            into[receiver].add(its_port)
        for rank in sorted(out.keys() | into.keys()):
            if not keeps_port_model(self._spec, out[rank], into[rank]):
                self.run.problems.append(
                    f"{self._name(rank)} sends on ports {sorted(out[rank])} and receives on ports {sorted(into[rank])} in "
                    f"step {step}; that is not {self._spec.port_model} over {self._spec.duplex}-duplex links"
                )

    # --- the end -----------------------------------------------------------------------------------------------------

    def _origins(self) -> Sequence[Rank]:
        if self._spec.collective in (Collective.BROADCAST, Collective.SCATTER, Collective.UNICAST):
            return (self._spec.source,)
        return self._topology.data_ranks

    def _due(self) -> Iterator[tuple[Rank, Rank, Rank]]:
        """Yield (receiver, origin, target) of every message whose two ends work."""
        working = [rank for rank in self._topology.data_ranks if rank not in self._faults.crashed]
        source = self._spec.source
        for receiver in working:
            match self._spec.collective:
                case Collective.BROADCAST:
                    pairs = [(source, ALL_RANKS)]
                case Collective.SCATTER:
                    pairs = [(source, receiver)]
                case Collective.UNICAST:
                    pairs = [(source, receiver)] if receiver == self._spec.target else []
                case Collective.GATHER:
                    pairs = [(origin, source) for origin in working] if receiver == source else []
                case Collective.ALLGATHER:
                    pairs = [(origin, ALL_RANKS) for origin in working]
                case _:
                    pairs = [(origin, receiver) for origin in working]
            yield from ((receiver, origin, target) for origin, target in pairs if origin != receiver)

    def _judge_deliveries(self) -> None:
        if self._spec.collective in FOLDING:
            self._judge_results()
            return
        missing: dict[Rank, list[Rank]] = defaultdict(list)
        whole = 0
        for receiver, origin, target in self._due():
            got = sum((origin, target, number) in self._held[receiver] for number in range(self._segments))
            whole += got == self._segments
            if got < self._segments:
                missing[origin].append(receiver)
        self.run.metrics["deliveries"] = self.run.metrics["intact_deliveries"] = whole * self._spec.messages
        for origin, ranks in missing.items():
            of = "" if len(self._origins()) == 1 else f" by the message of {self._name(origin)}"
            self.run.undelivered.append(f"not reached{of}: {named(self._topology, ranks)}")

    def _judge_results(self) -> None:
        """Check that a result has the contribution of every other rank that works, once."""
        working = {rank for rank in self._topology.data_ranks if rank not in self._faults.crashed}
        for rank in self._folders():
            if rank not in working:
                continue
            for number in range(self._segments):
                counts = self._counted[rank, rank, number]
                missing = sorted(working - {rank} - set(counts))
                again = sorted(each for each, times in counts.items() if times > 1)
                for verb, ranks, end in (("lacks", missing, ""), ("has", again, " more than once")):
                    if ranks:
                        self.run.undelivered.append(
                            f"segment {number} of the result at {self._name(rank)} {verb} the contribution of "
                            f"{named(self._topology, ranks)}{end}"
                        )

    def _measure(self) -> None:
        run = self.run
        per_packet = Counter((each.step, each.sender, each.port) for each in run.sent)
        per_link = Counter((each.sender, each.port) for each in run.sent)
        run.metrics |= {
            "steps": run.steps,
            "packets": len(per_packet),
            "segments": len(run.sent),
            "bytes": sum(len(each.segment[4]) for each in run.sent),
            "links_used": len(per_link),
            "max_link_segments": max(per_link.values(), default=0),
            "max_link_segments_per_step": max(per_packet.values(), default=0),
        }


def step_limit(order: int, collective: Collective) -> int:
    """Return the step when a run is stopped: many times the steps that the slowest sensible algorithm needs."""
    personal = collective in (Collective.ALLGATHER, Collective.ALLTOALL)
    return 200 + 20 * order + (order**2 if personal else 0)


def named(topology: Topology, ranks: Sequence[Rank]) -> str:
    """Return the labels of some ranks; of many ranks, the first labels and the number of the others."""
    shown = ", ".join(map(topology.label, ranks[:NAMED]))
    return shown if len(ranks) <= NAMED else f"{shown} and {len(ranks) - NAMED} more"


def port_names(ports: Sequence[Port]) -> str:
    """Name port numbers, as a range where they have no gaps."""
    contiguous = list(ports) == list(range(len(ports)))
    return f"0..{len(ports) - 1}" if contiguous else ", ".join(map(str, ports))
