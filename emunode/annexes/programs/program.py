"""Nodes in any language: the rule of each rank is a program that speaks JSON lines on standard input and output.

The engine writes a line, and the program answers with one line. The first line, `init`, describes the rank; every `step`
line brings the arrivals of one step. An answer is `{"sends": [..]}`. Payloads stay with the engine: a program names segments
by origin, target, tree and number, and sends what it owns or has received. Programs that add see numbers:
`program_reductions`. docs/how-to/programs.md describes the protocol.
"""

import json
import shlex
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, ClassVar, Final
from weakref import WeakSet

from emunode.algorithms.base import Algorithm, LocalView, Rule, Timing
from emunode.algorithms.claims import Claim, lower_bound
from emunode.annexes import PROGRAM
from emunode.annexes.programs.process import Program
from emunode.errors import RuleError, ScenarioError
from emunode.model import (
    Collective,
    Duplex,
    Packet,
    Port,
    PortModel,
    PortPacket,
    Rank,
    ScheduledSend,
    Step,
)
from emunode.topologies.base import CayleyTopology

MOST_PROGRAMS: Final = 256
"""Most nodes of a run with a program for each."""
MOST_SENDS: Final = 65_536
"""Most sends in one answer."""
MOST_TREES: Final = 1024
MOST_STEP: Final = 2**30

Identity = tuple[Rank, Rank, int, int]
"""(origin, target, tree, number) of a segment."""


class ProgramAlgorithm(Algorithm):
    """A collective whose rule is a program, one process for each rank, started when the rank first has something to do.

    The claims are the definition of the collective: every message arrives, not faster than the distances allow.
    """

    family = "any"
    name = PROGRAM
    port_models = tuple(PortModel)
    duplexes = tuple(Duplex)
    citation = "a program"
    timing = Timing.ADAPTIVE
    # A program gets the step of its receipts, and may take it for a clock.
    reads_steps = True

    def validate(self) -> None:
        super().validate()
        spec = self.spec
        if not spec.program:
            raise ScenarioError("program", None, f"algorithm {PROGRAM!r} needs a command, such as --program ./node")
        if self.topology.order > MOST_PROGRAMS:
            raise ScenarioError(
                "topology",
                self.topology.name,
                f"it has {self.topology.order:,} nodes, and at most {MOST_PROGRAMS} programs are started, one for each",
            )
        self.cut()
        self.running: WeakSet[Program] = WeakSet()
        """The programs of this process; a rank that is gone takes its program with it."""

    def close(self) -> None:
        for program in list(self.running):
            program.end()

    def rule(self, view: LocalView) -> Rule:
        return ProgramRule(self, view)

    @property
    def segment_count(self) -> int:
        """Segments from one origin to one target."""
        return self.spec.messages * self.segments_per_message

    def targets(self, origin: Rank) -> Sequence[Rank]:
        """Return the targets of the messages that `origin` owns."""
        if origin not in self._owners:
            return ()
        if self.collective in (Collective.SCATTER, Collective.ALLTOALL):
            return [rank for rank in self.topology.data_ranks if rank != origin]
        return [self.spec.common_target] if self.spec.common_target != origin else ()

    @cached_property
    def _owners(self) -> frozenset[Rank]:
        return frozenset(self.sources).intersection(self.topology.data_ranks)

    def claims(self) -> list[Claim]:
        nodes = len(self.topology.data_ranks)
        rootless = self.collective in (Collective.ALLGATHER, Collective.ALLTOALL)
        pairs = (nodes - 1) * (nodes if rootless else 1)
        root = max(self.topology.data_ranks, key=self.topology.eccentricity) if rootless else self.spec.source
        farthest = max(self.topology.distance(rank, root) for rank in self.topology.data_ranks)
        return [
            Claim("deliveries", pairs * self.spec.messages, "==", f"definition of {self.collective}"),
            lower_bound("steps", farthest, "distance"),
        ]


class ProgramBroadcast(ProgramAlgorithm):
    """A broadcast by programs."""

    collective = Collective.BROADCAST


class ProgramScatter(ProgramAlgorithm):
    """A scatter by programs."""

    collective = Collective.SCATTER


class ProgramGather(ProgramAlgorithm):
    """A gather by programs."""

    collective = Collective.GATHER


class ProgramAllgather(ProgramAlgorithm):
    """An allgather by programs."""

    collective = Collective.ALLGATHER


class ProgramAlltoall(ProgramAlgorithm):
    """A total exchange by programs."""

    collective = Collective.ALLTOALL


class ProgramRule(Rule):
    """The rule of one rank: the checked answers of its program."""

    __slots__ = ("_algorithm", "_copies", "_program", "_view")
    answers: ClassVar[frozenset[str]] = frozenset({"sends"})
    """The entries that every answer has."""
    may_answer: ClassVar[frozenset[str]] = answers
    """The entries that an answer may have."""
    form: ClassVar[str] = '{"sends": [..]}'
    further_keys: ClassVar[frozenset[str]] = frozenset()
    """Entries that a send may have beside step, port and segment."""

    def __init__(self, algorithm: ProgramAlgorithm, view: LocalView) -> None:
        self._algorithm = algorithm
        self._view = view
        spec = algorithm.spec
        self._program = program = Program(
            shlex.split(spec.program),
            spec.program_deadline,
            f"rank {view.rank} ({algorithm.topology.label(view.rank)})",
            lambda: algorithm.interrupted,
        )
        algorithm.running.add(program)
        self._copies: dict[Identity, bytes] = {}
        """The first copy of every segment that arrived, on each tree."""

    def start(self) -> Iterable[ScheduledSend]:
        algorithm = self._algorithm
        # A rank without messages of its own starts its program when something arrives.
        return self._ask(self._description(), 0) if algorithm.targets(self._view.rank) else ()

    def receive(self, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        arrivals = []
        for port, segments in packets:
            for origin, target, tree, number, payload in segments:
                self._copies.setdefault((origin, target, tree, number), payload)
            arrivals.append(self._arrival(port, segments))
        early: list[ScheduledSend] = []
        if not self._program.lines:
            early = self._ask(self._description(), step)
        message = {"type": "step", "step": step, "live_ports": list(self._view.live_ports), "arrivals": arrivals}
        return early + self._ask(message, step)

    def _arrival(self, port: Port, segments: Packet) -> dict[str, object]:
        """Return the description of a packet that came in by a port."""
        return {"port": port, "segments": [segment[:4] for segment in segments]}

    def _description(self) -> dict[str, object]:
        """Return the first line: everything that a rule may know."""
        algorithm, view = self._algorithm, self._view
        topology, spec, rank = algorithm.topology, algorithm.spec, view.rank
        translated = isinstance(topology, CayleyTopology)
        relative = view.relative(spec.source) if translated else None
        return {
            "type": "init",
            "rank": rank,
            "label": topology.label(rank),
            "relative": relative,
            "relative_label": None if relative is None else topology.label(relative),
            "topology": topology.name,
            "order": topology.order,
            "degree": topology.degree,
            "links": [
                {"port": port, "rank": peer, "label": topology.label(peer), "their_port": their_port}
                for port, peer, their_port in topology.ends(rank)
            ],
            "live_ports": list(view.live_ports),
            "collective": str(spec.collective),
            "source": spec.source,
            "port_model": str(spec.port_model),
            "duplex": str(spec.duplex),
            "message_bytes": spec.message_bytes,
            "messages": spec.messages,
            "segments": algorithm.segments_per_message,
            "own": {"targets": list(algorithm.targets(rank)), "numbers": algorithm.segment_count},
        }

    def _ask(self, message: dict[str, object], step: Step) -> list[ScheduledSend]:
        """Send one line and check the answer; sends are for `step` + 1 or later."""
        line = self._program.ask(json.dumps(message, separators=(",", ":")).encode() + b"\n", max(step, 1))
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise self._wrong(step, f"it is not JSON: {error}", line) from None
        if not isinstance(answer, dict) or not self.answers <= answer.keys() <= self.may_answer:
            raise self._wrong(step, f"expected {self.form}", line)
        if not all(isinstance(entries, list) for entries in answer.values()):
            raise self._wrong(step, f"expected {self.form}", line)
        self._note(step, answer, line)
        if len(answer["sends"]) > MOST_SENDS:
            raise self._wrong(step, f"at most {MOST_SENDS:,} sends", line)
        sends = [self._send(step, send, line) for send in answer["sends"]]
        # A schedule has to be in order of steps; sends of one step keep theirs.
        return sorted(sends, key=lambda send: send[0])

    def _note(self, step: Step, answer: dict[str, Any], line: bytes) -> None:
        """Process what an answer holds beside sends."""

    def _send(self, step: Step, send: Any, line: bytes) -> ScheduledSend:
        if not isinstance(send, dict) or send.keys() - self.further_keys != {"step", "port", "segment"}:
            raise self._wrong(step, f"expected step, port and segment, got {send!r:.100}", line)
        when, port, identity = send["step"], send["port"], send["segment"]
        if type(when) is not int or not step < when <= MOST_STEP:
            raise self._wrong(step, f"step is {when!r:.40}, expected {step + 1} or later", line)
        ports: Sequence[Port] = self._algorithm.topology.ports(self._view.rank)
        if type(port) is not int or port not in ports:
            raise self._wrong(step, f"port is {port!r:.40}, expected one of {', '.join(map(str, ports))}", line)
        if not isinstance(identity, list) or len(identity) != 4 or not all(type(part) is int for part in identity):
            raise self._wrong(step, f"segment is {identity!r:.80}, expected [origin, target, tree, number]", line)
        origin, target, tree, number = identity
        payload = self._sent_payload(step, (origin, target, tree, number), send, line)
        if payload is None or not 0 <= tree < MOST_TREES:
            raise self._wrong(step, f"it sends segment {identity}, which it neither owns nor has received", line)
        return when, port, (origin, target, tree, number, payload)

    def _sent_payload(self, step: Step, identity: Identity, send: dict[str, Any], line: bytes) -> bytes | None:
        """Return the bytes of a segment that an answer sends; None if the rank neither owns nor has received it."""
        del step, send, line
        return self._payload(identity)

    def _payload(self, identity: Identity) -> bytes | None:
        """Return the bytes of a segment that this rank owns or has received, of the same tree if possible; None for any
        other.
        """
        origin, target, _, number = identity
        if origin == self._view.rank:
            owned = 0 <= number < self._algorithm.segment_count and target in self._algorithm.targets(origin)
            return self._algorithm.payloads.segment(origin, target, number) if owned else None
        same = self._copies.get(identity)
        if same is not None:
            return same
        others = (copy for key, copy in self._copies.items() if key[:2] == (origin, target) and key[3] == number)
        return next(others, None)

    def _wrong(self, step: Step, reason: str, line: bytes) -> RuleError:
        shown = line.decode(errors="replace").rstrip()
        shown = shown if len(shown) <= 200 else f"{shown[:197]}..."
        return RuleError(
            f"the program of {self._program.name}, line {self._program.lines} of its output: {reason}\n  {shown}"
        )
