"""Every order of the events at hosts, in lock-step.

The step engine of hosts runs here without sockets. A host has four kinds of events in a step: the order for the step,
the turns of its ranks, the packets of the step, and reports of late arrivals. They may come in any order that the
protocol of hosts allows:

* a packet of another host may arrive before the order for its step, between order and turns, and after the report;
* a packet between two ranks of the host arrives after the turn of its sender;
* a host without work gets no order, and a host whose order is for faults alone may report arrivals before it.

Orders at different hosts are not combined. A host learns of others by packets and orders alone. So it is enough that
each host sends the same packets and rows in every order of its own events, given the packets that the others send. Then,
by induction over the steps, there is one history. Within a host, each step runs all orders of its events from each
reachable state, and equal states are merged. States are equal if everything that nodes, engine and faults hold is equal.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import permutations
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np

from coordinator.annexes.orders.fingerprints import fingerprint
from coordinator.annexes.orders.result import (
    Deviation,
    DeviationError,
    EventOrder,
    EveryOrder,
    LocalEvent,
    size,
)
from coordinator.annexes.orders.shared_state import PluginVariables, held_by
from coordinator.history.journal import RECORD, Journal
from coordinator.networks.admission import ConnectedHost
from coordinator.networks.control_channel import ControlChannel
from coordinator.networks.messages import Received, StepReport
from coordinator.networks.process_faults import concern_all
from coordinator.networks.step_barrier import StepBarrier
from coordinator.planning.plan import Plan
from emunode.algorithms.base import Algorithm
from emunode.algorithms.registry import make_algorithm
from emunode.engine.memory import MemoryEngine
from emunode.errors import EmulatorError, ScenarioError
from emunode.faults.connections import Connections
from emunode.faults.injector import Faults
from emunode.faults.kinds import Fault
from emunode.host.link_table import LinkTable
from emunode.host.orders import OpenStep
from emunode.host.placement import Placement
from emunode.host.step_engine import StepEngine
from emunode.model import Port, Rank, Step
from emunode.play import play
from emunode.topologies.base import ABSENT, Topology

SlotFrame = tuple[int, bytes]
"""A packet that arrives at a host, with its slot.

The slot is the index of the rank at the host, times degree, plus port.
"""


class _DirectLinks(LinkTable):
    """The link ends of one host, without sockets.

    The descriptor of an end is its slot, and frames stay in `sent`.
    """

    def __init__(self, topology: Topology, placement: Placement, host: int) -> None:
        self._topology = topology
        self.ranks = placement.ranks(host)
        self.degree = topology.degree
        self.peers = array("q", (peer for rank in self.ranks for peer in topology.neighbours(rank)))
        self.reverse = array("i", (port for rank in self.ranks for port in topology.reverse_ports(rank)))
        self.peer_hosts = array("i", (ABSENT if peer == ABSENT else placement.host(peer) for peer in self.peers))
        self.slots = array("i", range(len(self.peers)))
        self.descriptors = array("i", [-1 if peer == ABSENT else slot for slot, peer in enumerate(self.peers)])
        self.queue = []
        self.sent: list[SlotFrame] = []

    def flush(self) -> None:
        """Take over the packets that were decided so far."""
        self.sent += self.queue
        self.queue.clear()

    def close_links(self, links: Any) -> None:
        """Close the ends at these ranks."""
        self._set(links, lambda _: -1)

    def open_links(self, links: Any) -> None:
        """Open the ends at these ranks again, as the coordinator does before a step."""
        self._set(links, lambda slot: slot)

    def _set(self, links: Any, descriptor: Callable[[int], int]) -> None:
        for place in links:
            for end, port in (place, self._topology.end(*place)):
                if end in self.ranks:
                    slot = self.slot(end, port)
                    self.descriptors[slot] = descriptor(slot)


class _Engine(StepEngine):
    """A step engine that only notes the ranks with work.

    A rank takes its turn when `take_turn` is called.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.awake: list[Rank] = []

    def wake(self, rank: Rank) -> None:
        """Note that the rank has work."""
        self.awake.append(rank)


class StepInput(NamedTuple):
    """The orders and packets that a host receives in a step, in any order."""

    step: Step
    faults: Sequence[Fault]
    opened: Sequence[tuple[Rank, Port]]
    """Links that open again before the step."""
    packets: Sequence[SlotFrame]
    ordered: bool = True
    """Whether the host gets an order for the step."""


class OrderOutcome(NamedTuple):
    """The visible result of a step at a host.

    It has to be the same in every order.
    """

    sent: tuple[SlotFrame, ...]
    """Packets, by slot."""
    rows: bytes
    """Journal rows, sorted."""
    altered: tuple[object, ...]
    due: Step
    received: tuple[tuple[int, int], ...]
    """Packets by host, in the last report."""
    error: str
    """The error that ended the host, or empty."""


NOTHING: Final = OrderOutcome((), b"", (), 0, (), "")
"""The result of a step at a host without an order, before packets arrive."""


class _Host:
    """One host from the start of a run.

    For every order it is run again from there.
    """

    def __init__(self, algorithm: Algorithm, placement: Placement, host: int) -> None:
        self._algorithm = algorithm
        self._told: list[tuple[Any, ...]] = []
        self._error = ""
        self.links = _DirectLinks(algorithm.topology, placement, host)
        self.engine = _Engine(algorithm, self.links, lambda *message: self._told.append(message), self._fail, _no_frame)

    def _fail(self, error: Exception) -> None:
        self._error = self._error or f"{type(error).__name__}: {error}"

    def run(self, given: StepInput, events: Sequence[LocalEvent]) -> OrderOutcome:
        """Carry out the events of a step, and return its visible result."""
        self._told.clear()
        self.links.sent.clear()
        packets = dict(given.packets)
        self.links.open_links(given.opened)
        self.engine.awake.clear()
        try:
            for name, number in events:
                if name == "order":
                    self.engine.open_step(OpenStep("step", given.step, given.faults))
                elif name == "turn":
                    self.engine.take_turn(self.links.ranks[number])
                elif name == "packet":
                    self.engine.on_frame(number, packets[number])
                else:
                    self.engine.report_late_arrivals()
        except EmulatorError as error:
            self._fail(error)
        return self._outcome()

    def _outcome(self) -> OrderOutcome:
        rows, altered, due = bytearray(), list[object](), 0
        received: Mapping[int, int] = {}
        for name, *fields in self._told:
            if name == "rows":
                rows += fields[0]
            elif name == "altered_copies":
                altered += fields[0]
            elif name == "report":
                # `received` is a live count in the host; the wire would have copied it.
                _, _, received, due, last = fields
                rows += last
            else:
                received = fields[1]
        records = np.frombuffer(bytes(rows), dtype=RECORD)
        return OrderOutcome(
            tuple(sorted(self.links.sent)),
            np.sort(records, order=RECORD.names).tobytes(),
            tuple(sorted(map(tuple, altered))),  # type: ignore[arg-type]
            due,
            tuple(sorted(received.items())),
            self._error,
        )

    def fingerprint(self, variables: PluginVariables) -> object:
        """Return everything that decides what the host does from now on, as a value to compare."""
        engine = self.engine
        shared = held_by(self._algorithm), variables.content()
        held = (
            shared,
            engine._runner,
            engine._arrivals,
            engine._had_faults,
            engine._connections,
            self.links.descriptors,
        )
        return fingerprint((held, engine._step, engine._due, engine._counted, self._error))

    def expects_order(self, step: Step) -> bool:
        """Return whether the host reports no arrivals before the order for a step."""
        return not self.engine._reported or self.engine._expects_order(step)


def _no_frame(_descriptor: int, _frame: bytes) -> None:
    raise AssertionError("every stream of a driven host is a link")


def local_orders(
    slots: Sequence[int],
    turns: int = 0,
    own: Mapping[int, int] | None = None,
    *,
    ordered: bool = True,
    unexpected: bool = False,
) -> Iterator[tuple[LocalEvent, ...]]:
    """Yield every order of the events of one host in one step, the plainest first.

    `slots` are the link ends where packets arrive. `own` has the slots of packets between ranks of the host, each with
    the index of its sender among the `turns` that are taken. The host reports after the last turn, or after the order if
    there is no turn. A later arrival may be reported before the next arrival, and the last arrival is always reported. A
    host that is not `ordered` only reports arrivals. Before an order that is `unexpected`, arrivals may be reported too.
    """
    for taken in permutations(range(turns)):
        frame: list[LocalEvent] = [("order", 0), *(("turn", index) for index in taken)] if ordered else []
        for arriving in permutations(slots):
            yield from _placed(frame, [("packet", slot) for slot in arriving], own or {}, unexpected)


def _placed(
    left: Sequence[LocalEvent],
    packets: Sequence[LocalEvent],
    own: Mapping[int, int],
    unexpected: bool,
    *,
    unreported: bool = False,
) -> Iterator[tuple[LocalEvent, ...]]:
    """Yield every way to merge the events of ranks and the arrivals of packets.

    A packet follows the turn of its sender. A report of late arrivals may follow a packet if no event of `left` remains.
    It may also follow if the next event is an order and orders are `unexpected`.
    """
    reports = not left or (unexpected and left[0][0] == "order")
    if left:
        yield from ((left[0], *rest) for rest in _placed(left[1:], packets, own, unexpected))
    if reports and unreported:
        yield from ((("report", 0), *rest) for rest in _placed(left, packets, own, unexpected))
    elif not packets and not left:
        yield ()
    if packets:
        slot = packets[0][1]
        if slot not in own or ("turn", own[slot]) not in left:
            rest_of = _placed(left, packets[1:], own, unexpected, unreported=reports)
            yield from ((packets[0], *rest) for rest in rest_of)


class HostOrders:
    """The hosts of one run, step by step."""

    def __init__(
        self, plan: Plan, result: EveryOrder, variables: PluginVariables, only: EventOrder | None = None
    ) -> None:
        self.plan = plan
        self.result = result
        self.only = only
        placement = self.placement = result.placement
        hosts = range(placement.hosts)
        self.variables = variables
        self.found: list[tuple[tuple[int, int], Deviation]] = []
        """The deviations of the newest step, with the lengths of their orders."""
        self.given: list[list[StepInput]] = [[] for _ in hosts]
        """By host, the inputs of the steps so far; packets come last in a step."""
        self.histories: list[list[list[tuple[LocalEvent, ...]]]] = [[[]] for _ in hosts]
        """By host, one history of events for each different state; most hosts have one."""
        self.faults = Faults(plan.topology, plan.spec.seed)
        self.connections = Connections(plan.topology, self.faults)
        self.had_faults = False
        self.unexpected = [False for _ in hosts]
        """By host, whether its order for the newest step is for faults alone."""
        self.hosts = [ConnectedHost(-1, host, 0, "", "") for host in hosts]
        self.barrier = StepBarrier(_Channel(self.hosts))
        self.journal = Journal()

    def run(self) -> None:
        """Run step after step until the run is over.

        DeviationError if an order deviates, BoundReachedError beyond the bound on executions.
        """
        plan = self.plan
        for step in range(1, plan.scenario.step_limit + 2):
            busy = self._step(step, plan.faults_at(step))
            self.result.steps = step
            if plan.is_over(step, busy):
                break
        self.journal.close()
        self.result.journal_hash = self.journal.hash
        self.variables.reset()
        memory, engine = Journal(), MemoryEngine(make_algorithm(plan.topology, plan.spec))
        memory.add([bytes(rows) for rows in play(engine, plan.faults, limit=self.result.steps, over=plan.is_over)])
        memory.close()
        if memory.hash != self.journal.hash:
            step, rank = min(_differing(memory, self.journal), default=(self.result.steps, -1))
            label = plan.topology.label(rank) if rank >= 0 else ""
            what = f"hosts of {len(self.placement.ranks(0))} and the memory engine send other packets"
            raise DeviationError(Deviation(step, label, (), what))

    def _step(self, step: Step, faults: Sequence[Fault]) -> bool:
        self.faults.apply(faults)
        opened = sorted(self.connections.update(step, faults)[1])
        hosts = range(self.placement.hosts)
        self.had_faults |= bool(faults)
        everyone = self.had_faults and concern_all(self.plan.spec, self.faults, step, faults)
        ordered = {host.index for host in self.barrier.begin(step, faults, everyone=everyone)}
        # Decided before any packet of the step arrives: what a rank sends depends on the steps before alone.
        outcomes = [
            self._read(host, StepInput(step, faults, opened, ())) if host in ordered else NOTHING for host in hosts
        ]
        self._raise_shortest()
        arriving: list[list[SlotFrame]] = [[] for _ in hosts]
        for host, outcome in enumerate(outcomes):
            for slot, frame in outcome.sent:
                receiver, its_port = self.plan.topology.end(*self._end(host, slot))
                there = self.placement.host(receiver)
                arriving[there].append((self._slot(there, receiver, its_port), frame))
        for host, outcome in enumerate(outcomes):
            packets = tuple(sorted(arriving[host]))
            self.given[host].append(StepInput(step, faults, opened, packets, host in ordered))
            self._order(host, outcome)
        self._raise_shortest()
        self.journal.add([outcome.rows for outcome in outcomes])
        found = _Barrier(self, step, outcomes, arriving)
        found.run()
        found.tell_all(self.barrier)
        return self.barrier.busy

    def _raise_shortest(self) -> None:
        """Raise a DeviationError with the shortest deviation of all hosts, if there is any."""
        if self.found:
            raise DeviationError(min(self.found, key=itemgetter(0))[1])

    def _end(self, host: int, slot: int) -> tuple[Rank, Port]:
        index, port = divmod(slot, self.plan.topology.degree)
        return self.placement.ranks(host)[index], port

    def _slot(self, host: int, rank: Rank, port: Port) -> int:
        return self.placement.ranks(host).index(rank) * self.plan.topology.degree + port

    def peer_host(self, host: int, slot: int) -> int:
        """Return the host at the other end of a link."""
        return self.placement.host(self.plan.topology.neighbour(*self._end(host, slot)))

    def _replayed(self, host: int, history: Sequence[tuple[LocalEvent, ...]]) -> _Host:
        # As in a new process: whatever an earlier replay has noted would decide for this one.
        self.variables.reset()
        found = _Host(make_algorithm(self.plan.topology, self.plan.spec), self.placement, host)
        for given, events in zip(self.given[host], history, strict=False):
            found.run(given, events)
        return found

    def _turns(self, host: _Host) -> list[LocalEvent]:
        return [("turn", host.links.ranks.index(rank)) for rank in host.engine.awake]

    def _read(self, host: int, given: StepInput) -> OrderOutcome:
        """Let a host read the arrivals of the step before, from every state; keep one history for each new state."""
        states: dict[object, list[tuple[LocalEvent, ...]]] = {}
        first: OrderOutcome | None = None
        for history in self.histories[host]:
            self.result.count()
            replayed = self._replayed(host, history)
            outcome = replayed.run(given, [("order", 0)])
            if turns := self._turns(replayed):
                outcome = replayed.run(given, turns)
            first = first or outcome
            self.found += self._deviations(first, outcome, host, given.step, history)
            states.setdefault(replayed.fingerprint(self.variables), history)
        assert first is not None
        self.histories[host] = list(states.values())
        return first

    def _order(self, host: int, expected: OrderOutcome) -> None:
        """Run every order of the events of the newest step, from every state; keep one history for each new state."""
        given = self.given[host][-1]
        slots = [slot for slot, _ in given.packets]
        hosts = Counter(self.peer_host(host, slot) for slot in slots)
        expected = expected._replace(received=tuple(sorted(hosts.items())))
        states: dict[object, list[tuple[LocalEvent, ...]]] = {}
        for history in self.histories[host]:
            replayed = self._replayed(host, history)
            # Equal in all states: it depends on what the host sends and on who sends to it.
            unexpected = self.unexpected[host] = given.ordered and not replayed.expects_order(given.step)
            if given.ordered:
                replayed.run(given, [("order", 0)])
            turns = [index for _, index in self._turns(replayed)] if given.ordered else []
            own = self._own(host, slots, turns)
            orders = local_orders(slots, len(turns), own, ordered=given.ordered, unexpected=unexpected)
            named_orders = (
                tuple((name, turns[number]) if name == "turn" else (name, number) for name, number in events)
                for events in orders
            )
            for named in self._chosen(named_orders, host, given.step):
                self.result.count()
                self.result.orders[given.step, host] += 1
                tried = self._replayed(host, history)
                outcome = tried.run(given, named)
                longer = [*history, named]
                self.found += self._deviations(expected, outcome, host, given.step, longer)
                state = tried.fingerprint(self.variables)
                states[state] = min(states.get(state, longer), longer, key=size)
        # The plain order first: others are compared with it.
        self.histories[host] = list(states.values())

    def _chosen(
        self, orders: Iterator[tuple[LocalEvent, ...]], host: int, step: Step
    ) -> Iterator[tuple[LocalEvent, ...]]:
        """Yield the orders to run: all of them, or the plain one and the one that is asked for."""
        if self.only is None:
            yield from orders
            return
        plain = next(orders)
        yield plain
        if self.only.place == host and step <= len(self.only.events):
            wanted = tuple(self.only.events[step - 1])
            if wanted != plain and wanted not in orders:
                raise ScenarioError("order", f"step {step}", "the host cannot have its events in this order")
            yield from [wanted] if wanted != plain else []

    def _own(self, host: int, slots: Sequence[int], turns: Sequence[int]) -> dict[int, int]:
        """Return the slots where packets of the host's own ranks arrive, with the turn of the sender."""
        ranks, found = self.placement.ranks(host), {}
        for slot in slots:
            sender = self.plan.topology.neighbour(*self._end(host, slot))
            if sender in ranks:
                found[slot] = turns.index(ranks.index(sender))
        return found

    def _deviations(
        self,
        expected: OrderOutcome,
        outcome: OrderOutcome,
        host: int,
        step: Step,
        history: Sequence[tuple[LocalEvent, ...]],
    ) -> Iterator[tuple[tuple[int, int], Deviation]]:
        """Yield the deviation of an outcome that is not the expected one, or an error, with the length of its order."""
        names = [name for name in OrderOutcome._fields if getattr(outcome, name) != getattr(expected, name)]
        if not (names or outcome.error):
            return
        events = history[-1] if history else ()
        words = [self._word(host, *event) for event in events]
        what = outcome.error or f"other {' and '.join(map(_WORDS.__getitem__, names))}"
        label = self.plan.topology.label(self.placement.ranks(host)[0])
        yield size(history), Deviation(step, label, events, what, words, order=EventOrder(host, history))

    def _word(self, host: int, name: str, number: int) -> str:
        """Return an event in words, with the rank where the host has several."""
        if name not in ("packet", "turn"):
            return name
        rank, port = self._end(host, number if name == "packet" else number * self.plan.topology.degree)
        of_rank = f" of {self.plan.topology.label(rank)}" if len(self.placement.ranks(host)) > 1 else ""
        return (f"packet on port {port}" if name == "packet" else "turn") + of_rank


def _differing(one: Journal, other: Journal) -> Iterator[tuple[Step, Rank]]:
    """Yield step and sender of every row in which two journals differ.

    A row is compared up to its outcome.
    """
    rows, others = (set(journal.frame.drop("outcome").collect().iter_rows()) for journal in (one, other))
    yield from ((row[0], row[1]) for row in rows ^ others)


_WORDS: Final = {
    "sent": "packets", "rows": "journal rows", "altered": "altered copies", "due": "next step",
    "received": "counts", "error": "error",
}  # fmt: skip


class _Reports(NamedTuple):
    """The messages of one host in a step: its report, and a count after each arrival."""

    report: StepReport | None
    """None for a host without an order."""
    received: Sequence[Received]
    early: bool
    """Whether counts may come before the report."""


_Place = tuple[bool, int]
"""How far the messages of a host have come: whether its report has, and how many counts."""


class _Barrier:
    """Every possible order of the reports of one step at the coordinator.

    Messages of one host keep their order. Two states are equal if they have the same open counts and the same messages
    to come.
    """

    def __init__(
        self,
        explorer: HostOrders,
        step: Step,
        outcomes: Sequence[OrderOutcome],
        arriving: Sequence[Sequence[SlotFrame]],
    ) -> None:
        self._result = explorer.result
        self._step = step
        self._hosts = explorer.hosts
        self._messages: list[_Reports] = []
        for host, outcome in enumerate(outcomes):
            given = explorer.given[host][-1]
            sent = Counter(explorer.peer_host(host, slot) for slot, _ in outcome.sent)
            report = StepReport(step, sent, {}, outcome.due, b"") if given.ordered else None
            received: Counter[int] = Counter()
            counts = []
            # Each arrival reported alone: all other orders skip some of these counts.
            for slot, _ in arriving[host]:
                received[explorer.peer_host(host, slot)] += 1
                counts.append(Received(step, dict(received)))
            self._messages.append(_Reports(report, counts, explorer.unexpected[host]))

    def run(self) -> None:
        """Raise DeviationError if the step may end before all packets have arrived, or does not end."""
        start = tuple((messages.report is None, 0) for messages in self._messages)
        last = tuple((True, len(messages.received)) for messages in self._messages)
        seen, left = set[object](), [start]
        for place in left:  # grows
            self._result.count()
            barrier = self._barrier_at(place)
            complete = place == last
            ended = not barrier._unreported and not barrier._in_flight  # the condition of `step`
            if ended != complete:
                what = "the step ends before all packets have arrived" if ended else "the step does not end"
                raise DeviationError(Deviation(self._step, "", (), what))
            for index, following in self._next(place):
                moved = (*place[:index], following, *place[index + 1 :])
                if (key := self._key(moved)) not in seen:
                    seen.add(key)
                    left.append(moved)

    def _next(self, place: Sequence[_Place]) -> Iterator[tuple[int, _Place]]:
        """Yield each host that may send a further message, with its place after that message."""
        for index, (reported, count) in enumerate(place):
            messages = self._messages[index]
            if not reported:
                yield index, (True, count)
            if count < len(messages.received) and (reported or messages.early):
                yield index, (reported, count + 1)

    def _key(self, place: Sequence[_Place]) -> object:
        """Return the state without the names of hosts that are alike.

        Hosts are alike if they have sent, and are to receive, equally many packets.
        """
        sums = (-1 if each.report is None else sum(each.report.sent.values()) for each in self._messages)
        ends = ((len(each.received), each.early) for each in self._messages)
        return tuple(sorted(zip(place, ends, sums, strict=True)))

    def _barrier_at(self, place: Sequence[_Place]) -> StepBarrier:
        """Return the barrier after the first messages of every host.

        Hosts are taken in any order, since the barrier only adds their counts.
        """
        barrier = StepBarrier(_Channel(self._hosts))
        ordered = [host for host, each in zip(self._hosts, self._messages, strict=True) if each.report is not None]
        barrier.order("step", self._step, (), ordered)
        self._tell(barrier, place)
        return barrier

    def tell_all(self, barrier: StepBarrier) -> None:
        """Give a barrier all messages of the step."""
        self._tell(barrier, [(True, len(messages.received)) for messages in self._messages])

    def _tell(self, barrier: StepBarrier, place: Sequence[_Place]) -> None:
        for host, messages, (reported, count) in zip(self._hosts, self._messages, place, strict=True):
            counts = messages.received[:count]
            if messages.report is not None and reported and not messages.early:
                barrier.on_report(host, messages.report)
            for message in counts:
                barrier.on_received(host, message)
            if messages.report is not None and reported and messages.early:
                # The report repeats the counts before it.
                received = counts[-1].received if counts else {}
                barrier.on_report(host, messages.report._replace(received=received))


class _Channel(ControlChannel):
    """A channel that sends nothing."""

    def __init__(self, hosts: Sequence[ConnectedHost]) -> None:
        """Open nothing."""
        self.hosts = {host.index: host for host in hosts}

    def send_to_all(self, hosts: Any, *message: object) -> None:
        """Send nothing."""
