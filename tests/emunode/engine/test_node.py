"""The sans-IO node: what it sends and when, what it says of arrivals, and the promises that it holds a rule to."""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emunode.algorithms.base import Algorithm, LocalView, Rule
from emunode.algorithms.claims import Claim
from emunode.algorithms.payload import Payloads
from emunode.algorithms.registry import make_algorithm
from emunode.engine.node import Node
from emunode.engine.rank_set import make_rule
from emunode.errors import RuleError
from emunode.model import (
    ALL_RANKS,
    Collective,
    CollectiveSpec,
    Duplex,
    Hop,
    HopOutcome,
    Port,
    PortModel,
    PortPacket,
    ScheduledSend,
    Segment,
    Step,
)
from emunode.topologies.registry import parse_topology
from tests.helpers.support import golden_rows

JOB = CollectiveSpec("star:5", Collective.BROADCAST, "toy", 0, message_bytes=8, messages=8)
PAYLOADS = Payloads(JOB.seed, JOB.message_bytes, segments_per_message=1)
ME = 7
"""Any rank but the source."""


class Script(Rule):
    """A rule that does what a test tells it, and remembers what it was told."""

    def __init__(
        self,
        own: Iterable[ScheduledSend] = (),
        answer: Callable[[Step, Sequence[PortPacket]], list[ScheduledSend]] | None = None,
    ) -> None:
        self.own = own
        self.answer = answer or (lambda _step, _packets: [])
        self.heard: list[tuple[Step, list[PortPacket]]] = []

    def start(self) -> Iterable[ScheduledSend]:
        return self.own

    def receive(self, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        self.heard.append((step, list(packets)))
        return self.answer(step, packets)


class Toy(Algorithm):
    """An algorithm that allows everything and claims nothing."""

    name = "toy"
    collective = Collective.BROADCAST
    port_models = tuple(PortModel)
    citation = "none"

    def rule(self, view: LocalView) -> Rule:
        return Script()

    def claims(self) -> list[Claim]:
        return []


def toy(spec: CollectiveSpec = JOB, capacity: int | None = None) -> Toy:
    """Return a toy on the star graph S_5, whose nodes have four ports."""
    algorithm = Toy(parse_topology(spec.topology), spec)
    algorithm.link_capacity = capacity
    return algorithm


def node(rule: Rule, algorithm: Algorithm | None = None, rank: int = ME) -> Node:
    """Return a node that lives by `rule`."""
    return Node(rank, algorithm or toy(), rule)


def piece(index: int = 0, origin: int = 0, target: int = ALL_RANKS, tree: int = 0) -> Segment:
    """Return the payload that `origin` really sent."""
    return origin, target, tree, index, PAYLOADS.segment(origin, target, index)


def at(step: Step, *ports: Port) -> list[ScheduledSend]:
    """Return one segment on each port."""
    return [(step, port, piece()) for port in ports]


# --- what leaves, and when -------------------------------------------------------------------------------------------


def test_a_step_leaves_in_one_packet_per_port_in_order() -> None:
    own: list[ScheduledSend] = [(1, 2, piece(0)), (1, 0, piece(1)), (1, 2, piece(2)), (2, 1, piece(3))]
    sender = node(Script(own))
    assert sender.due == 1
    assert sender.step(1, []) == ([(0, (piece(1),)), (2, (piece(0), piece(2)))], [])
    assert sender.due == 2
    assert sender.step(2, []) == ([(1, (piece(3),))], [])
    assert sender.due is None


def test_a_decision_waits_for_its_step() -> None:
    decider = node(Script(answer=lambda step, _: at(step + 3, 1)))
    assert decider.due is None
    outbox, _ = decider.step(2, [(0, (piece(),))])
    assert outbox == []
    assert decider.due == 4
    assert decider.step(4, []) == ([(1, (piece(),))], [])
    assert decider.due is None


def test_the_soonest_of_schedule_and_decisions_is_due() -> None:
    rule = Script([(9, 0, piece())], lambda step, _: at(step + 4, 1) + at(step + 2, 2))
    both = node(rule)
    assert both.due == 9
    both.step(2, [(0, (piece(),))])
    assert both.due == 3
    assert both.step(3, [])[0] == [(2, (piece(),))]
    assert both.due == 5
    assert both.step(5, [])[0] == [(1, (piece(),))]
    assert both.due == 9


def test_own_schedule_precedes_decided_sends_in_a_packet() -> None:
    mixed = node(Script([(2, 0, piece(1))], lambda step, _: [(step + 1, 0, piece(2))]))
    outbox, _ = mixed.step(2, [(3, (piece(),))])
    assert outbox == [(0, (piece(1), piece(2)))]


def test_a_schedule_is_drawn_one_step_ahead_and_no_further() -> None:
    drawn: list[Step] = []

    def endless() -> Iterator[ScheduledSend]:
        step = 0
        while True:
            step += 1
            drawn.append(step)
            yield step, 0, piece()

    sender = node(Script(endless()))
    assert drawn == [1]
    for step in range(1, 100):
        sender.step(step, [])
        assert drawn[-1] == step + 1


def test_a_deferred_segment_is_made_in_its_step() -> None:
    known: list[int] = []

    def learn(_step: Step, packets: Sequence[PortPacket]) -> list[ScheduledSend]:
        known.extend(segment[3] for _, segments in packets for segment in segments)
        return []

    late = node(Script([(4, 1, lambda: piece(len(known)))], learn))
    late.step(2, [(0, (piece(5),))])
    late.step(3, [(0, (piece(6),)), (1, (piece(7),))])
    assert late.step(4, [])[0] == [(1, (piece(3),))]


# --- the order of arrivals does not matter ---------------------------------------------------------------------------

INBOXES = st.lists(st.sets(st.integers(0, 3)), min_size=1, max_size=5)


@given(INBOXES, st.randoms(use_true_random=False))
def test_no_order_of_arrivals_changes_a_history(inboxes: list[set[Port]], chance: random.Random) -> None:
    def history(shuffle: Callable[[list[PortPacket]], None]) -> list[object]:
        algorithm = make_algorithm(parse_topology("star:5"), JOB._replace(algorithm="flood"))
        flooding = node(algorithm.rule(LocalView(algorithm.topology, ME)), algorithm)
        said: list[object] = []
        for step, ports in enumerate(inboxes):
            inbox: list[PortPacket] = [(port, (piece(step), piece(port))) for port in sorted(ports)]
            shuffle(inbox)
            said.append(flooding.step(step + 2, inbox))
        return said

    assert history(chance.shuffle) == history(lambda _: None)


def test_a_rule_reads_arrivals_by_ascending_port() -> None:
    rule = Script()
    node(rule).step(6, [(port, (piece(port),)) for port in (2, 0, 3, 1)])
    assert rule.heard == [(5, [(port, (piece(port),)) for port in range(4)])]


def test_rule_is_not_called_without_arrivals() -> None:
    rule = Script(at(1, 0))
    node(rule).step(1, [])
    assert rule.heard == []


# --- what became of arrivals -----------------------------------------------------------------------------------------


def outcomes(*packets: PortPacket, rank: int = ME) -> list[HopOutcome]:
    """Return the judgement of a node on these arrivals, all in one step."""
    _, hops = node(Script(), rank=rank).step(2, list(packets))
    return [outcome for _, outcome, _ in hops]


def test_the_first_copy_is_first_and_the_next_is_a_duplicate() -> None:
    assert outcomes((0, (piece(), piece())), (1, (piece(tree=1),))) == [
        HopOutcome.FIRST,
        HopOutcome.DUPLICATE,
        HopOutcome.DUPLICATE,
    ]
    assert outcomes((0, (piece(0), piece(1))), (1, (piece(0, origin=3),))) == [HopOutcome.FIRST] * 3


def test_first_and_duplicate_across_steps() -> None:
    receiver = node(Script())
    assert receiver.step(2, [(3, (piece(),))])[1] == [Hop(3, HopOutcome.FIRST, piece())]
    assert receiver.step(5, [(1, (piece(),))])[1] == [Hop(1, HopOutcome.DUPLICATE, piece())]


def test_origin_receives_its_own_segment_as_a_duplicate() -> None:
    assert outcomes((0, (piece(origin=ME),))) == [HopOutcome.DUPLICATE]


def test_segments_for_other_ranks_are_relays() -> None:
    assert outcomes((0, (piece(target=9), piece(target=ME), piece(target=9)))) == [
        HopOutcome.RELAY,
        HopOutcome.FIRST,
        HopOutcome.RELAY,
    ]


@pytest.mark.parametrize("target", [ALL_RANKS, ME, 9])
def test_changed_bytes_are_corrupt_for_every_target(target: int) -> None:
    *address, payload = piece(target=target)
    wrong = [bytes([payload[0] ^ 1]) + payload[1:], payload[:-1], payload + b"\0", b""]
    segments: list[Segment] = [(*address, changed) for changed in wrong]  # type: ignore[misc]
    assert outcomes((0, tuple(segments))) == [HopOutcome.CORRUPT] * 4


def test_a_corrupt_copy_does_not_stand_in_for_a_good_one() -> None:
    *address, payload = piece()
    wrong: Segment = (*address, payload[::-1])  # type: ignore[assignment]
    assert outcomes((0, (wrong,)), (1, (piece(),)), (2, (wrong,)), (3, (piece(),))) == [
        HopOutcome.CORRUPT,
        HopOutcome.FIRST,
        HopOutcome.CORRUPT,
        HopOutcome.DUPLICATE,
    ]


# --- promises --------------------------------------------------------------------------------------------------------


def complaint(broken: Node, step: Step, inbox: Sequence[PortPacket] = ()) -> str:
    """Return the error of a node whose rule breaks a promise in `step`."""
    with pytest.raises(RuleError) as caught:
        broken.step(step, list(inbox))
    return str(caught.value)


@pytest.mark.parametrize("model", [model for model in PortModel if model is not PortModel.ALL_PORT])
def test_sends_on_two_ports_violate_one_port_models(model: PortModel) -> None:
    algorithm = toy(JOB._replace(port_model=model))
    said = complaint(node(Script(at(3, 2, 0)), algorithm), 3)
    assert said == f"toy at rank {ME}, step 3: sends on ports [0, 2], which {model} does not allow"


def test_all_port_model_allows_every_port() -> None:
    inbox: list[PortPacket] = [(port, (piece(),)) for port in range(4)]
    sender = node(Script(at(1, 0, 1, 2, 3)))
    assert len(sender.step(1, [])[0]) == 4
    assert len(sender.step(2, inbox)[1]) == 4


@pytest.mark.parametrize("row", golden_rows("engine", "receipts"), ids=lambda row: "-".join(row.values()))
def test_receipts_are_checked_against_sends_of_the_same_step(row: dict[str, str]) -> None:
    """Sent in step 4 on these ports, and received in the same step on those."""
    model, duplex = PortModel(row["port_model"]), Duplex(row["duplex"])
    sent, received = ([int(port) for port in row[column].split()] for column in ("sent", "received"))
    busy = node(Script(at(4, *sent)), toy(JOB._replace(port_model=model, duplex=duplex)))
    busy.step(4, [])
    inbox: list[PortPacket] = [(port, (piece(),)) for port in received]
    if row["legal"] == "yes":
        busy.step(5, inbox)
    else:
        said = complaint(busy, 5, inbox)
        assert said.startswith(f"toy at rank {ME}, step 4: sent on ports {sent} and received on ports {received}")
        assert said.endswith(f"which {model} over {duplex}-duplex links does not allow")


def test_sends_of_another_step_are_not_counted() -> None:
    algorithm = toy(JOB._replace(port_model=PortModel.SEND_OR_RECEIVE))
    busy = node(Script(at(4, 1)), algorithm)
    busy.step(4, [])
    busy.step(6, [(2, (piece(),))])


def test_clearing_the_inbox_does_not_hide_receipts() -> None:
    def swallow(_step: Step, packets: Sequence[PortPacket]) -> list[ScheduledSend]:
        assert isinstance(packets, list)
        packets.clear()
        return []

    hiding = node(Script(answer=swallow), toy(JOB._replace(port_model=PortModel.ONE_PORT)))
    said = complaint(hiding, 5, [(1, (piece(),)), (2, (piece(),))])
    assert "received on ports [1, 2]" in said


def test_packet_above_link_capacity_is_refused() -> None:
    own: list[ScheduledSend] = [
        (1, 3, piece(0)),
        (1, 3, piece(1)),
        (1, 0, piece(2)),
        (2, 1, piece(0)),
        (2, 1, piece(1)),
        (2, 1, piece(2)),
    ]
    narrow = node(Script(own), toy(capacity=2))
    assert [port for port, _ in narrow.step(1, [])[0]] == [0, 3]
    assert complaint(narrow, 2) == f"toy at rank {ME}, step 2: sends 3 segments on port 1, and a packet holds 2"


@pytest.mark.parametrize("ports", [[4], [-1], [0, 4], [-2, 1, 9]])
def test_nonexistent_ports_are_refused(ports: list[Port]) -> None:
    assert (
        complaint(node(Script(at(1, *ports))), 1)
        == f"toy at rank {ME}, step 1: some of the ports {sorted(ports)} do not exist"
    )


@pytest.mark.parametrize("delay", [0, -1, -5])
def test_reply_before_the_current_step_is_refused(delay: int) -> None:
    hasty = node(Script(answer=lambda step, _: at(step + delay, 0)))
    said = complaint(hasty, 9, [(0, (piece(),))])
    assert said == f"rank {ME} wants to send in step {8 + delay} what it read in step 9"


def test_late_sends_leave_at_once_where_faults_make_them_late() -> None:
    late = node(Script(answer=lambda _step, _packets: at(1, 2)))
    late.enable_queueing()
    outbox, _ = late.step(3, [(0, (piece(),))])
    assert [port for port, _ in outbox] == [2]


def test_late_sends_wait_in_order_where_a_link_is_full() -> None:
    sends: list[ScheduledSend] = [(when, 2, piece(index)) for when, index in ((1, 0), (1, 1), (2, 3), (1, 2))]
    late = node(Script(answer=lambda _step, _packets: sends), toy(capacity=1))
    late.enable_queueing()
    left = [late.step(step, [(0, (piece(),))] if step == 1 else [])[0] for step in range(1, 6)]
    assert left == [[(2, (piece(index),))] for index in range(4)] + [[]]


def test_late_sends_over_one_port_wait_for_the_port_in_use() -> None:
    one_port = toy(JOB._replace(port_model=PortModel.ONE_PORT))
    late = node(Script(answer=lambda _step, _packets: at(1, 2, 0, 2)), one_port)
    late.enable_queueing()
    assert late.step(1, [(0, (piece(),))])[0] == [(2, (piece(), piece()))]
    assert late.step(2, [])[0] == [(0, (piece(),))]


def test_a_node_that_resumes_skips_the_sends_of_missed_steps() -> None:
    stopped = node(Script([*at(1, 0), *at(2, 1), *at(4, 2)]))
    stopped.resume(3)
    assert stopped.due == 4
    stopped.resume(5)
    assert stopped.due is None


@pytest.mark.parametrize("step", [0, -3])
def test_steps_count_from_one(step: Step) -> None:
    with pytest.raises(RuleError, match=f"rank {ME} wants to start in step {step}"):
        node(Script(at(step, 0)))


def exhausted(*sends: ScheduledSend) -> Iterator[ScheduledSend]:
    """Yield some sends, then fail as where the memory of the machine is used up."""
    yield from sends
    raise MemoryError


def test_a_full_memory_is_not_the_mistake_of_the_rule() -> None:
    with pytest.raises(MemoryError):
        node(Script(exhausted()))
    late = node(Script(exhausted(*at(1, 0))))
    with pytest.raises(MemoryError):
        late.resume(5)
    greedy = SimpleNamespace(rule=lambda _: next(exhausted()))
    with pytest.raises(MemoryError):
        make_rule(greedy, LocalView(toy().topology, ME), 1)  # type: ignore[arg-type]


def test_schedule_out_of_order_is_refused() -> None:
    jumping = node(Script([*at(3, 0), *at(5, 1), *at(4, 2)]))
    jumping.step(3, [])
    said = complaint(jumping, 5)
    assert said == f"rank {ME} schedules sends out of order: one for step 4 after step 5 began"
