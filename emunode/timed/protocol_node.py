"""A node with a protocol between its rule and its ports, under the timed clock. No clock, no socket.

All times are nanoseconds on the node's own clock. Packets are handed to the rule on arrival, so a tree forwards in the order
of arrivals, whatever the steps; the rule is given the step that contains the time. Sends that the rule schedules for a
later step are handed to the protocol when that step begins in the virtual time of lock-step.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from emunode.algorithms.base import Algorithm, Rule
from emunode.engine.node import Node, failure
from emunode.engine.protocol_node import ProtocolNode
from emunode.engine.step_times import StepTimes
from emunode.errors import RuleError, RunError
from emunode.model import Hop, Packet, Port, Rank, Segment, Step
from emunode.protocols.base import ControlKind, PortSegment, Protocol, control_kind, is_control


class TimedProtocolNode(ProtocolNode):
    """One rank of a network. It begins at the time `starts` and misses sends that its rule schedules for earlier times."""

    __slots__ = ("_steps",)

    def __init__(
        self, rank: Rank, algorithm: Algorithm, rule: Rule, protocol: Protocol, steps: StepTimes, starts: int
    ) -> None:
        self._steps = steps
        super().__init__(rank, algorithm, rule, protocol, starts)
        self.skip_to(starts)

    @property
    def alarm(self) -> int | None:
        """The next time when the node acts without receiving anything first, or None."""
        times = [] if self.due is None else [self._steps.begins(self.due)]
        if self.protocol.alarm is not None:
            # A time already, where `due` is a step of the rule's schedule.
            times.append(self.protocol.alarm)
        return min(times, default=None)

    def receive(self, now: int, arrivals: Sequence[tuple[Port, Packet]]) -> list[list[Hop]]:
        """Read packets that arrive at one time, by ascending port; return the hops of each."""
        judged: list[list[Hop]] = []
        passed = []
        step = self._steps.step_at(now)
        with self._naming_failures(step):
            for port, packet in arrivals:
                judged.append([])
                self._read_apart([(port, packet)], judged[-1])
                # A sign of life is the business of the detector, already noted there.
                others = tuple(each for each in packet if control_kind(each) is not ControlKind.KEEP_ALIVE)
                data = self.protocol.receive(now, port, others) if others else ()
                # A control segment that no layer has taken, such as an altered one, is no data for the rule.
                data = tuple(each for each in data if not is_control(each))
                if data:
                    passed.append((port, data))
            self._decide(step, passed)
            self._note_due(step)
        return judged

    def suspects(self, now: int, port: Port, suspected: bool) -> None:
        """Tell the protocol that a detector suspects a port, or does so no longer."""
        self.protocol.suspects(now, port, suspected)

    def ready(self, now: int) -> Sequence[PortSegment]:
        """Return the segments that may leave, the most urgent first."""
        return self.protocol.ready(now)

    def sent(self, now: int, port: Port, segment: Segment) -> None:
        """Note that the transmission of a ready segment begins."""
        self.protocol.sent(now, port, segment)

    def wake(self, now: int) -> None:
        """Act on the time-outs that are due."""
        if self.protocol.alarm is not None and self.protocol.alarm <= now:
            with self._naming_failures(self._steps.step_at(now)):
                self.protocol.wake(now)

    def submit_due(self, now: int) -> None:
        """Hand over to the protocol the sends of the rule in steps that have begun."""
        step = self._steps.step_at(now)
        with self._naming_failures(step):
            # Step by step, since a rule's own schedule is drawn one step at a time.
            while self.due is not None and self.due <= step:
                self._submit(self.due, now)
                self._note_due(step)

    def skip_to(self, now: int) -> None:
        """Discard sends that the rule has scheduled for steps that began before `now`."""
        step = self._steps.step_at(now)
        # A step that has begun before `now` is missed; a step that begins at it is not.
        Node.resume(self, step if self._steps.begins(step) == now else step + 1)
        # At time 0 the node begins, and has missed nothing.
        if now:
            self.protocol.resume(now)
        self._note_due(step)

    def _note_due(self, least: Step, *, ready: bool = False) -> None:
        """Set the next step with sends of the rule; the protocol has an alarm of its own."""
        del least, ready
        own = [self._next[0]] if self._next is not None else []
        self.due = min([*own, *self._agenda], default=None)

    @contextmanager
    def _naming_failures(self, step: Step) -> Iterator[None]:
        try:
            yield
        except (RuleError, RunError, MemoryError):
            raise
        except Exception as error:
            raise failure(self._algorithm, self.rank, step, error) from error
