"""Every order of events at small sizes: one journal, or the shortest deviation.

The step engine of hosts runs here without sockets, one process for each rank. At a process the order for a step, the turn
of its rank, the packets of that step and reports of late arrivals may come in any order that the protocol of hosts allows:
a packet may arrive before the order for its step, between order and turn, and after the report.

Orders at different processes are not combined. A process learns of others by packets and orders alone. So if each process
sends the same packets and rows in every order of its own events, given the packets that the others send, then by induction
over the steps there is one history. Within a process two things are combined only where it matters: all orders of the
events of a step are run from one state, and the packets that arrived are read in the next step from every state that
these orders leave. States are equal if everything that nodes, engine and faults hold is equal.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from types import FunctionType, GeneratorType, MethodType
from typing import Any, Final, NamedTuple

import numpy as np

from coordinator.history.journal import RECORD, Journal
from coordinator.networks.admission import ConnectedHost
from coordinator.networks.control_channel import ControlChannel
from coordinator.networks.messages import Received, StepReport
from coordinator.networks.step_barrier import StepBarrier
from coordinator.planning.plan import Plan
from coordinator.results.claims import Judged, Verdict
from emunode.algorithms.base import Algorithm
from emunode.algorithms.payload import Payloads
from emunode.algorithms.registry import make_algorithm
from emunode.engine.memory import MemoryEngine
from emunode.errors import EmulatorError, ScenarioError
from emunode.faults.connections import Connections
from emunode.faults.injector import Faults
from emunode.faults.kinds import Fault
from emunode.host.link_table import LinkTable
from emunode.host.orders import OpenStep
from emunode.host.step_engine import StepEngine
from emunode.model import Port, Rank, Step
from emunode.play import play
from emunode.topologies.base import ABSENT, Topology

MOST_NODES: Final = 8
EXECUTIONS: Final = 100_000
"""Default bound on the executions."""
PortFrame = tuple[Port, bytes]
"""A packet that arrives at a process, by its port."""
LocalEvent = tuple[str, Port]
"""`order`, `turn`, `packet` (with its port) or `report`: of arrivals after the report of the turn."""


class _DirectLinks(LinkTable):
    """The link ends of one rank, without sockets: the descriptor of an end is its slot, and frames stay in `sent`."""

    def __init__(self, topology: Topology, rank: Rank) -> None:
        self._topology = topology
        self.ranks = range(rank, rank + 1)
        self.degree = topology.degree
        self.peers = array("q", topology.neighbours(rank))
        self.reverse = array("i", topology.reverse_ports(rank))
        # One process for each rank: the rank behind a port is its host.
        self.peer_hosts = array("i", self.peers)
        self.slots = array("i", range(len(self.peers)))
        self.descriptors = array("i", [-1 if peer == ABSENT else slot for slot, peer in enumerate(self.peers)])
        self.queue = []
        self.sent: list[PortFrame] = []

    def flush(self) -> None:
        """Take over the packets that were decided so far."""
        self.sent += self.queue
        self.queue.clear()

    def close_links(self, links: Any) -> None:
        """Close the ends at this rank."""
        for place in links:
            for end, port in (place, self._topology.end(*place)):
                if end in self.ranks:
                    self.descriptors[port] = -1

    def open_links(self, links: Any) -> None:
        """Open the ends at this rank again, as the coordinator does before a step."""
        for place in links:
            for end, port in (place, self._topology.end(*place)):
                if end in self.ranks:
                    self.descriptors[port] = port


class _Engine(StepEngine):
    """A step engine that only notes that its rank has work; the rank takes its turn when `take_turn` is called."""

    def wake(self, rank: Rank) -> None:
        """Note that the rank has work."""
        self.awake = True

    awake: bool = False


class StepInput(NamedTuple):
    """The orders and packets that a process receives in a step, in any order."""

    step: Step
    faults: Sequence[Fault]
    opened: Sequence[tuple[Rank, Port]]
    """Links that open again before the step."""
    packets: Sequence[PortFrame]


class Outcome(NamedTuple):
    """The visible result of a step at a process: it has to be the same in every order."""

    sent: tuple[PortFrame, ...]
    """Packets, by port."""
    rows: bytes
    """Journal rows, sorted."""
    altered: tuple[object, ...]
    due: Step
    received: tuple[tuple[int, int], ...]
    """Packets by host, in the last report."""
    error: str
    """The error that ended the process, or empty."""


class _Process:
    """One process from the start of a run; it is run again from there for every order."""

    def __init__(self, algorithm: Algorithm, rank: Rank) -> None:
        self.rank = rank
        self._told: list[tuple[Any, ...]] = []
        self._error = ""
        self.links = _DirectLinks(algorithm.topology, rank)
        self.engine = _Engine(algorithm, self.links, lambda *message: self._told.append(message), self._fail, _no_frame)

    def _fail(self, error: Exception) -> None:
        self._error = self._error or f"{type(error).__name__}: {error}"

    def run(self, given: StepInput, events: Sequence[LocalEvent]) -> Outcome:
        """Carry out the events of a step, and return its visible result."""
        self._told.clear()
        self.links.sent.clear()
        packets = dict(given.packets)
        self.links.open_links(given.opened)
        self.engine.awake = False
        try:
            for name, port in events:
                if name == "order":
                    self.engine.open_step(OpenStep("step", given.step, given.faults))
                elif name == "turn":
                    self.engine.take_turn(self.rank)
                elif name == "packet":
                    self.engine.on_frame(port, packets[port])
                else:
                    self.engine.report_late_arrivals()
        except EmulatorError as error:
            self._fail(error)
        return self._outcome()

    def _outcome(self) -> Outcome:
        rows, altered, due = bytearray(), list[object](), 0
        received: Mapping[int, int] = {}
        for name, *fields in self._told:
            if name == "rows":
                rows += fields[0]
            elif name == "altered_copies":
                altered += fields[0]
            elif name == "report":
                # `received` is a live count in the process; the wire would have copied it.
                _, _, received, due, last = fields
                rows += last
            else:
                received = fields[1]
        records = np.frombuffer(bytes(rows), dtype=RECORD)
        return Outcome(
            tuple(sorted(self.links.sent)),
            np.sort(records, order=RECORD.names).tobytes(),
            tuple(sorted(map(tuple, altered))),  # type: ignore[arg-type]
            due,
            tuple(sorted(received.items())),
            self._error,
        )

    def fingerprint(self) -> object:
        """Return everything that decides what the process does from now on, as a value to compare."""
        engine = self.engine
        held = (engine._runner, engine._arrivals, engine._had_faults, engine._connections, self.links.descriptors)
        return fingerprint((held, self._error))


def _no_frame(_descriptor: int, _frame: bytes) -> None:
    raise AssertionError("every stream of a driven process is a link")


SHARED: Final = (Algorithm, Payloads, Topology)
"""Types that hold tables of the network and of the messages, which no event changes."""


def fingerprint(value: object) -> object:
    """Return a value that is equal for objects with equal content: attributes, items, closures, and paused generators."""
    return _content(value, {})


def _content(value: Any, known: dict[int, tuple[int, object]]) -> object:  # noqa: PLR0911  # one for each kind
    if value is None or isinstance(value, int | float | str | bytes):
        return value
    if isinstance(value, (type, SHARED)):
        return f"{getattr(value, '__name__', type(value).__name__)}"
    if id(value) in known:
        # An object that was met before, on a way round or beside: its number stands for it.
        return "met", known[id(value)][0]
    kind = type(value).__name__
    if not isinstance(value, tuple):
        # With the object itself: the identity of one that is freed may be given to another.
        known[id(value)] = len(known), value
    if isinstance(value, dict):
        # In the order of the dictionary, since code may go through it in that order.
        return kind, tuple((_content(key, known), _content(item, known)) for key, item in value.items())
    if isinstance(value, set | frozenset):
        return kind, tuple(sorted((_content(item, known) for item in value), key=repr))
    if isinstance(value, bytearray | range):
        return kind, repr(value)
    if isinstance(value, GeneratorType | MethodType | FunctionType):
        return kind, value.__qualname__, _content(_held_by_code(value), known)
    if isinstance(value, list | tuple) or hasattr(value, "typecode"):
        return kind, tuple(_content(item, known) for item in value)
    names = [*getattr(value, "__dict__", ()), *(name for each in type(value).__mro__ for name in _slots(each))]
    if not names and hasattr(value, "__reduce__"):
        # Iterators of the standard library: their state is what copies of them would be made from.
        return kind, _content(value.__reduce__()[1:], known)
    found = ((name, getattr(value, name)) for name in names if hasattr(value, name))
    return kind, tuple((name, _content(item, known)) for name, item in found)


def _held_by_code(value: Any) -> object:
    """Return the values that a paused generator, a method or a function holds."""
    if isinstance(value, FunctionType):
        return [cell.cell_contents for cell in value.__closure__ or ()]
    if isinstance(value, MethodType):
        return value.__self__
    frame = value.gi_frame
    return None if frame is None else (frame.f_lasti, frame.f_locals)


def _slots(kind: type) -> Sequence[str]:
    slots = kind.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else [name for name in slots if name not in ("__weakref__", "__dict__")]


def local_orders(ports: Sequence[Port], *, works: bool) -> Iterator[tuple[LocalEvent, ...]]:
    """Yield every order of the events of one process in one step, the plainest first.

    `ports` are the ports by which packets arrive; the rank takes a turn if it `works`. The report follows the turn, or the
    order without one. Each arrival after it may be reported before the next one, and the last one is.
    """
    frame: list[LocalEvent] = [("order", 0), *([("turn", 0)] if works else [])]
    for arriving in permutations(ports):
        yield from _placed(frame, [("packet", port) for port in arriving])


def _placed(
    left: Sequence[LocalEvent], packets: Sequence[LocalEvent], *, unreported: bool = False
) -> Iterator[tuple[LocalEvent, ...]]:
    """Merge two sequences in all ways; once `left` is over, late arrivals are reported after some of the packets."""
    if left:
        yield from ((left[0], *rest) for rest in _placed(left[1:], packets))
    if packets:
        if not left and unreported:
            yield from ((("report", 0), *rest) for rest in _placed(left, packets))
        yield from ((packets[0], *rest) for rest in _placed(left, packets[1:], unreported=not left))
    elif not left:
        yield ((("report", 0),) if unreported else ())


@dataclass(frozen=True)
class Deviation:
    """The first step in which the order of events changes the result of a process."""

    step: Step
    label: str
    """Of the rank whose process it is; empty for the coordinator."""
    events: Sequence[LocalEvent]
    """The order that deviates."""
    what: str

    def words(self) -> str:
        """Return the deviation in one line."""
        names = [f"packet on port {port}" if name == "packet" else name for name, port in self.events]
        order = f" in the order {', '.join(names)}" if names else ""
        return f"step {self.step}, {self.label or 'coordinator'}: {self.what}{order}"


@dataclass
class EveryOrder(Judged):
    """The result of running every order."""

    plan: Plan
    most: int
    executions: int = 0
    steps: int = 0
    orders: Counter[tuple[Step, Rank]] = field(default_factory=Counter)
    """Orders that were run, by step and rank."""
    deviation: Deviation | None = None
    journal_hash: str = ""
    exceeded: bool = False

    @property
    def verdict(self) -> Verdict:
        """`undecided` if the bound was reached first."""
        if self.deviation is not None:
            return Verdict.VIOLATED
        return Verdict.UNDECIDED if self.exceeded else Verdict.HOLDS

    def count(self) -> None:
        """Count an execution; StopIteration beyond the bound."""
        if self.executions >= self.most:
            self.exceeded = True
            raise _BoundError
        self.executions += 1

    def record(self) -> dict[str, object]:
        """Return the result as JSON values."""
        found = self.deviation
        return {
            "verdict": str(self.verdict),
            "executions": self.executions,
            "steps": self.steps,
            "journal_hash": self.journal_hash,
            "deviation": found.words() if found else None,
        }


class _BoundError(Exception):
    """The bound on executions was reached."""


class _DeviationError(Exception):
    """An order deviates."""

    def __init__(self, deviation: Deviation) -> None:
        super().__init__(deviation)
        self.deviation = deviation


def every_order(plan: Plan, executions: int = EXECUTIONS) -> EveryOrder:
    """Run every order of events of a plan in lock-step, with at most this many executions.

    ScenarioError for more than MOST_NODES nodes, for the timed clock, and for a program that plays the nodes.
    """
    order = plan.topology.order
    if order > MOST_NODES:
        raise ScenarioError("topology", plan.topology.name, f"every order is run of at most {MOST_NODES} nodes")
    if plan.scenario.clock != "steps":
        raise ScenarioError("clock", plan.scenario.clock, "every order is run in lock-step only")
    if plan.scenario.program is not None:
        raise ScenarioError("program", plan.scenario.program, "every order is run of rules only")
    if executions < 1:
        raise ScenarioError("executions", executions, "at least 1")
    result = EveryOrder(plan, executions)
    try:
        _Explorer(plan, result).run()
    except _BoundError:
        pass
    except _DeviationError as error:
        result.deviation = error.deviation
    return result


class _Explorer:
    """The processes of one run, step by step."""

    def __init__(self, plan: Plan, result: EveryOrder) -> None:
        self.plan = plan
        self.result = result
        ranks = plan.topology.ranks()
        self.algorithms = [make_algorithm(plan.topology, plan.spec) for _ in ranks]
        self.given: list[list[StepInput]] = [[] for _ in ranks]
        """By rank, the inputs of the steps so far, in which packets come last."""
        self.histories: list[list[list[tuple[LocalEvent, ...]]]] = [[[]] for _ in ranks]
        """By rank, one history of events for each different state; most processes have one."""
        self.faults = Faults(plan.topology, plan.spec.seed)
        self.connections = Connections(plan.topology, self.faults)
        self.journal = Journal()

    def run(self) -> None:
        """Run step after step until the run is over; raises what ends it before."""
        plan = self.plan
        for step in range(1, plan.scenario.step_limit + 2):
            busy = self._step(step, plan.faults_at(step))
            self.result.steps = step
            if plan.is_over(step, busy):
                break
        self.journal.close()
        self.result.journal_hash = self.journal.hash
        memory, engine = Journal(), MemoryEngine(make_algorithm(plan.topology, plan.spec))
        memory.add([bytes(rows) for rows in play(engine, plan.faults, limit=self.result.steps, over=plan.is_over)])
        memory.close()
        if memory.hash != self.journal.hash:
            raise _DeviationError(Deviation(self.result.steps, "", (), "the journal differs from the memory engine"))

    def _step(self, step: Step, faults: Sequence[Fault]) -> bool:
        self.faults.apply(faults)
        opened = sorted(self.connections.update(step, faults)[1])
        ranks = self.plan.topology.ranks()
        # Decided before any packet of the step arrives: what a rank sends depends on the steps before alone.
        outcomes = [self._read(rank, StepInput(step, faults, opened, ())) for rank in ranks]
        arriving: list[list[PortFrame]] = [[] for _ in ranks]
        for rank, outcome in enumerate(outcomes):
            for port, frame in outcome.sent:
                receiver, its_port = self.plan.topology.end(rank, port)
                arriving[receiver].append((its_port, frame))
        for rank, outcome in enumerate(outcomes):
            self.given[rank].append(StepInput(step, faults, opened, tuple(sorted(arriving[rank]))))
            self._order(rank, outcome)
        self.journal.add([outcome.rows for outcome in outcomes])
        return _Barrier(self, step, outcomes, arriving).run()

    def _replayed(self, rank: Rank, history: Sequence[tuple[LocalEvent, ...]]) -> _Process:
        process = _Process(self.algorithms[rank], rank)
        for given, events in zip(self.given[rank], history, strict=False):
            process.run(given, events)
        return process

    def _read(self, rank: Rank, given: StepInput) -> Outcome:
        """Let a process read the arrivals of the step before, from every state; keep one history for each new state."""
        states: dict[object, list[tuple[LocalEvent, ...]]] = {}
        first: Outcome | None = None
        for history in self.histories[rank]:
            self.result.count()
            process = self._replayed(rank, history)
            outcome = process.run(given, [("order", 0)])
            if process.engine.awake:
                outcome = process.run(given, [("turn", 0)])
            first = self._same(first, outcome, rank, given.step, history[-1] if history else ())
            states.setdefault(process.fingerprint(), history)
        assert first is not None
        self.histories[rank] = list(states.values())
        return first

    def _order(self, rank: Rank, expected: Outcome) -> None:
        """Run every order of the events of the newest step, from every state; keep one history for each new state."""
        given = self.given[rank][-1]
        ports = [port for port, _ in given.packets]
        hosts = Counter(self.plan.topology.neighbour(rank, port) for port in ports)
        expected = expected._replace(received=tuple(sorted(hosts.items())))
        found: dict[object, list[tuple[LocalEvent, ...]]] = {}
        for history in self.histories[rank]:
            process = self._replayed(rank, history)
            process.run(given, [("order", 0)])
            for events in local_orders(ports, works=process.engine.awake):
                self.result.count()
                self.result.orders[given.step, rank] += 1
                tried = self._replayed(rank, history)
                outcome = tried.run(given, events)
                self._same(expected, outcome, rank, given.step, events)
                found.setdefault(tried.fingerprint(), [*history, events])
        self.histories[rank] = list(found.values())

    def _same(
        self, expected: Outcome | None, outcome: Outcome, rank: Rank, step: Step, events: Sequence[LocalEvent]
    ) -> Outcome:
        """Return the outcome; raises the deviation if it is not the expected one, or an error."""
        label = self.plan.topology.label(rank)
        if outcome.error:
            raise _DeviationError(Deviation(step, label, events, outcome.error))
        if expected is not None and outcome != expected:
            names = [name for name in Outcome._fields if getattr(outcome, name) != getattr(expected, name)]
            raise _DeviationError(
                Deviation(step, label, events, f"other {' and '.join(map(_WORDS.__getitem__, names))}")
            )
        return outcome


_WORDS: Final = {
    "sent": "packets", "rows": "journal rows", "altered": "altered copies", "due": "next step",
    "received": "counts", "error": "error",
}  # fmt: skip


class _Barrier:
    """Every order in which the reports of one step may reach the coordinator.

    Messages of one host keep their order. States with the same open counts and the same messages to come are equal.
    """

    def __init__(
        self, explorer: _Explorer, step: Step, outcomes: Sequence[Outcome], arriving: Sequence[Sequence[PortFrame]]
    ) -> None:
        self._result = explorer.result
        self._step = step
        neighbour = explorer.plan.topology.neighbour
        self._hosts = [ConnectedHost(-1, rank, 0, "", "") for rank in range(len(outcomes))]
        self._messages: list[list[StepReport | Received]] = []
        for rank, outcome in enumerate(outcomes):
            sent = Counter(neighbour(rank, port) for port, _ in outcome.sent)
            # With every arrival after the report, each reported alone: all other orders skip some of these counts.
            received: Counter[int] = Counter()
            messages: list[StepReport | Received] = [StepReport(step, sent, {}, outcome.due, b"")]
            for port, _ in arriving[rank]:
                received[neighbour(rank, port)] += 1
                messages.append(Received(step, dict(received)))
            self._messages.append(messages)

    def run(self) -> bool:
        """Return whether the run goes on; raises the deviation if the step may end before all packets have arrived."""
        lengths = [len(messages) for messages in self._messages]
        seen, left = set[object](), [(0,) * len(lengths)]
        busy = False
        for place in left:  # grows
            self._result.count()
            barrier = self._barrier_at(place)
            complete = list(place) == lengths
            ended = not barrier._unreported and not barrier._in_flight  # the condition of `step`
            if ended != complete:
                what = "the step ends before all packets have arrived" if ended else "the step does not end"
                raise _DeviationError(Deviation(self._step, "", (), what))
            if complete:
                busy = any(counts.due or counts.sent for counts in barrier._counts.values())
            for index in range(len(lengths)):
                if place[index] < lengths[index]:
                    following = (*place[:index], place[index] + 1, *place[index + 1 :])
                    if (key := self._key(following)) not in seen:
                        seen.add(key)
                        left.append(following)
        return busy

    def _key(self, place: Sequence[int]) -> object:
        """Return the state up to the names of hosts that have sent and are to receive equally many packets."""
        sums = (sum(messages[0].sent.values()) for messages in self._messages)  # type: ignore[union-attr]
        return tuple(sorted(zip(place, map(len, self._messages), sums, strict=True)))

    def _barrier_at(self, place: Sequence[int]) -> StepBarrier:
        """Return the barrier after the first messages of every host; the order of hosts is arbitrary, as sums are."""
        barrier = StepBarrier(_Channel())
        barrier.order("step", self._step, (), self._hosts)
        for host, number in zip(self._hosts, place, strict=True):
            for message in self._messages[host.index][:number]:
                take: Callable[..., None] = (
                    barrier.on_report if isinstance(message, StepReport) else barrier.on_received
                )
                take(host, message)
        return barrier


class _Channel(ControlChannel):
    """A channel that sends nothing."""

    def __init__(self) -> None:
        """Open nothing."""

    def send_to_all(self, hosts: Any, *message: object) -> None:
        """Send nothing."""
