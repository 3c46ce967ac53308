"""Faults: one question, asked of records alone; the effect on a packet depends only on its place and the seed."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emunode.errors import FrameError
from emunode.faults.byzantine import (
    Byzantine,
    ByzantineFault,
    Collude,
    Equivocate,
    Selective,
    Silent,
    SilentPorts,
    SilentSegments,
)
from emunode.faults.connections import Connections
from emunode.faults.injector import Faults
from emunode.faults.kinds import (
    KINDS,
    REALS,
    Corrupt,
    Crash,
    Delay,
    Down,
    Drop,
    Duplicate,
    Fault,
    Hang,
    Heal,
    LinkFault,
    Loss,
    Recover,
    Up,
    field_names,
    from_record,
    in_order,
    kind_of,
    to_record,
)
from emunode.faults.transit import forge_segment
from emunode.model import ALL_RANKS, Segment
from emunode.topologies.hypercube import Hypercube
from emunode.topologies.registry import parse_topology

CUBE = Hypercube(3)
SEGMENT: Segment = (7, ALL_RANKS, 0, 3, b"payload")


def faults_of(*faults: Fault, seed: int = 1, knows: bool = False, origin_is_author: bool = True) -> Faults:
    """Return these faults, all told at once."""
    found = Faults(CUBE, seed, knows=knows, origin_is_author=origin_is_author)
    found.apply(in_order(faults))
    return found


def arrivals(faults: Faults, steps: Iterable[int], rank: int = 5, port: int = 1) -> list[tuple[int, int, bool]]:
    """Return the packets that cross when one segment leaves in each of these steps: (step, segments, arrives)."""
    return [
        (step, len(segments), arrives)
        for step in steps
        for _, segments, arrives in faults.crossings(step, rank, [(port, (SEGMENT,))])
    ]


# --- records ---------------------------------------------------------------------------------------------------------


def test_every_fault_kind_survives_encoding_and_decoding() -> None:
    values = {
        "step": 1,
        "last": 7,
        "rank": 2,
        "sender": 2,
        "port": 0,
        **{name: least for name, (least, _) in REALS.items()},
    }
    examples = [
        kind(**{name: values.get(name, 1) for name in field_names(kind)})  # type: ignore[arg-type]
        for kind in KINDS.values()
    ]
    for fault in examples:
        assert from_record(list(to_record(fault)), CUBE) == fault
        assert KINDS[kind_of(fault)] is type(fault)


def test_a_fault_at_a_port_that_the_sender_lacks_is_malformed() -> None:
    path = parse_topology("mesh:5")
    assert path.degree == 2
    assert from_record(["down", 1, 1, 1, 9], path) == Down(1, 1, 1, 9)
    for rank in (0, 4):
        present = path.ports(rank)[0]
        assert from_record(["down", 1, rank, present, 9], path) == Down(1, rank, present, 9)
        with pytest.raises(FrameError, match=f"rank {rank} has no port {1 - present}"):
            from_record(["down", 1, rank, 1 - present, 9], path)


def test_faults_take_effect_by_step_then_by_kind() -> None:
    assert in_order([Recover(3, 1), Loss(1, 0, 0, 1.0), Crash(3, 2), Crash(3, 1)]) == (
        Loss(1, 0, 0, 1.0),
        Crash(3, 1),
        Crash(3, 2),
        Recover(3, 1),
    )


# --- links -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Loss, Corrupt, Duplicate])
def test_rate_of_0_has_no_effect(kind: type[Loss]) -> None:
    faults = faults_of(kind(1, 5, 1, 0.0))
    assert (faults.needs_filter, faults.timing_affected, faults.payload_altered) == (False, False, False)
    assert not kind(1, 5, 1, 0.0).breaks
    both, alone = faults_of(kind(1, 5, 1, 0.0), Loss(1, 5, 1, 0.5)), faults_of(Loss(1, 5, 1, 0.5))
    assert arrivals(both, range(1, 50)) == arrivals(alone, range(1, 50))


def test_random_faults_depend_only_on_seed_and_place() -> None:
    steps = range(1, 64)
    pattern = arrivals(faults_of(Loss(1, 5, 1, 0.5)), steps)
    assert arrivals(faults_of(Loss(1, 5, 1, 0.5)), steps) == pattern
    assert sorted(arrivals(faults_of(Loss(1, 5, 1, 0.5)), reversed(steps))) == pattern
    assert arrivals(faults_of(Loss(1, 5, 1, 0.5), seed=2), steps) != pattern
    assert arrivals(faults_of(Loss(1, 5, 1, 0.5), Loss(1, 5, 0, 0.5)), steps) == pattern
    assert arrivals(faults_of(Loss(1, 5, 0, 0.5)), steps, port=0) != pattern


def test_two_faults_of_a_kind_on_a_link_are_independent() -> None:
    lost = sum(not arrives for *_, arrives in arrivals(faults_of(*2 * [Loss(1, 5, 1, 0.5)]), range(1, 2001)))
    assert 1400 < lost < 1600


@pytest.mark.parametrize(
    "fault",
    [
        Loss(2, 5, 1, 0.5),
        Corrupt(2, 5, 1, 0.5),
        Duplicate(2, 5, 1, 0.5),
        Delay(2, 5, 1, 1),
        Drop(2, 5, 1, 3),
        Down(2, 5, 1),
    ],
    ids=kind_of,
)
def test_heal_ends_every_fault_of_a_direction_that_began_before(fault: LinkFault) -> None:
    healed, ended = faults_of(fault), faults_of(replace(fault, last=4))  # type: ignore[call-arg]

    def same(steps: range, port: int = 1) -> bool:
        one, other = ([faults.crossings(step, 5, [(port, (SEGMENT,))]) for step in steps] for faults in (healed, ended))
        return one == other

    assert same(range(1, 5))
    healed.apply([Heal(5, 5, 1)])
    assert same(range(5, 30))
    # A later fault of the same kind draws its own numbers, as the second of its kind.
    for faults in (healed, ended):
        faults.apply([Loss(30, 5, 1, 0.5)])
    assert same(range(30, 60))


def test_delayed_segments_join_the_packet_of_their_step() -> None:
    faults = faults_of(Delay(1, 5, 1, 2, last=1))
    assert arrivals(faults, [1]) == []
    assert faults.next_crossing(5) == 3
    assert arrivals(faults, [2, 3, 4]) == [(2, 1, True), (3, 2, True), (4, 1, True)]
    assert faults.next_crossing(5) is None


def test_delayed_segments_are_lost_with_link_or_sender() -> None:
    faults = faults_of(Delay(1, 5, 1, 2, last=1))
    assert arrivals(faults, [1]) == []
    faults.apply([Down(3, 5, 1)])
    assert faults.crossings(3, 5, []) == [(1, (SEGMENT,), False)]
    faults = faults_of(Delay(1, 5, 1, 2, last=1))
    assert arrivals(faults, [1]) == []
    faults.apply([Crash(2, 5), Recover(3, 5)])
    assert faults.crossings(3, 5, []) == []


@pytest.mark.parametrize("knows", [False, True])
def test_known_faults_suppress_sends_that_cannot_arrive(knows: bool) -> None:
    faults = faults_of(Down(1, 5, 1), Crash(1, 4), Hang(1, 1, 3), knows=knows)
    outbox = [(port, (SEGMENT,)) for port in range(3)]
    assert [arrives for *_, arrives in faults.crossings(2, 5, outbox)] == ([] if knows else [False] * 3)
    assert faults.live_ports(2, 5) == ()
    assert faults.live_ports(4, 5) == (2,)


# --- nodes -----------------------------------------------------------------------------------------------------------


def test_byzantine_node_alters_relayed_segments_but_not_its_own() -> None:
    own: Segment = (5, ALL_RANKS, 0, 0, b"own")
    faults = faults_of(Byzantine(2, 5, 3))
    ((_, (passed_on, said), _),) = faults.crossings(2, 5, [(0, (SEGMENT, own))])
    assert (passed_on[:4], said) == (SEGMENT[:4], own)
    assert passed_on[4] != SEGMENT[4]
    assert faults.crossings(4, 5, [(0, (SEGMENT,))]) == [(0, (SEGMENT,), True)]
    ((_, (folded,), _),) = faults_of(Byzantine(2, 5, 3), origin_is_author=False).crossings(2, 5, [(0, (own,))])
    assert folded != own


@given(st.binary(max_size=40), st.integers(0, 2**63 - 1))
def test_byzantine_nodes_forge_the_same_wrong_payload(payload: bytes, seed: int) -> None:
    segment: Segment = (7, ALL_RANKS, 0, 3, payload)
    told = forge_segment(seed, segment)
    assert told == forge_segment(seed, (7, ALL_RANKS, 0, 3, payload))
    assert (told != segment) == bool(payload)
    assert len(told[4]) == len(payload)
    if len(payload) > 8:
        assert forge_segment(seed, (7, ALL_RANKS, 1, 3, payload))[4] == told[4]


def test_byzantine_nodes_on_one_path_send_the_same_forgery() -> None:
    (first,) = sent_by(Byzantine(1, 5))
    ((_, (second,), _),) = with_content(Byzantine(1, 6)).crossings(1, 6, [(0, (first,))])
    assert first != SEGMENT
    assert second == first


class OneSegment:
    """A schedule without votes, whose every segment is `SEGMENT`."""

    def content(self, *_: int) -> bytes:
        """Return the right payload."""
        return SEGMENT[4]

    def paths(self, *_: int) -> None:
        """No paths."""


def with_content(*faults: ByzantineFault) -> Faults:
    """Return the same as `faults_of`, where the right payload is known."""
    found = Faults(CUBE, 1, known=OneSegment())
    found.apply(faults)
    return found


def sent_by(*faults: ByzantineFault, port: int = 0, segment: Segment = SEGMENT) -> list[Segment]:
    """Return the segments that rank 5 really sends in step 3 if it should send this one by a port."""
    crossings = with_content(*faults).crossings(3, 5, [(port, (segment,))])
    assert sum(len(segments) for _, segments, _ in crossings) == 1
    return [segment for _, segments, arrives in crossings for segment in segments if arrives]


def test_equivocation_differs_by_port_tree_and_node() -> None:
    other_tree: Segment = (*SEGMENT[:2], 1, *SEGMENT[3:])
    told = [sent_by(Equivocate(1, 5), port=port, segment=each) for port in range(3) for each in (SEGMENT, other_tree)]
    ((_, (elsewhere,), _),) = with_content(Equivocate(1, 6)).crossings(3, 6, [(0, (SEGMENT,))])
    payloads = [segment[4] for (segment,) in told] + [elsewhere[4]]
    assert len({*payloads, SEGMENT[4]}) == 8


def test_silent_nodes_withhold_by_port_or_by_segment() -> None:
    assert sent_by(Silent(1, 5)) == []
    assert sent_by(Silent(1, 5, 2)) == [SEGMENT], "the silence is over"
    segments: list[Segment] = [(7, ALL_RANKS, tree, index, b"payload") for tree in range(2) for index in range(40)]
    by_port = [
        [bool(sent_by(SilentPorts(1, 5, 0.5), port=port, segment=each)) for each in segments] for port in range(3)
    ]
    assert all(len(set(each)) == 1 for each in by_port)
    by_segment = [
        [bool(sent_by(SilentSegments(1, 5, 0.5), port=port, segment=each)) for each in segments] for port in range(3)
    ]
    assert by_segment[0] == by_segment[1] == by_segment[2]
    assert by_segment[0][:40] == by_segment[0][40:], "a segment is withheld on all trees"
    assert 8 < sum(by_segment[0][:40]) < 32


def test_selective_nodes_forge_what_they_do_not_withhold() -> None:
    segments: list[Segment] = [(7, ALL_RANKS, 0, index, b"payload") for index in range(40)]
    for rate, least, most in ((0.0, 40, 40), (0.5, 8, 32), (1.0, 0, 0)):
        sent = [segment for each in segments for segment in sent_by(Selective(1, 5, rate), segment=each)]
        assert least <= len(sent) <= most
        assert sent == [
            segment for each in sent for segment in sent_by(Byzantine(1, 5), segment=(*each[:4], b"payload"))
        ]


def test_the_strongest_of_several_faults_of_a_node_decides() -> None:
    faults = (Equivocate(1, 5), Silent(1, 5), Byzantine(1, 5))
    assert sent_by(*faults) == []
    assert sent_by(faults[0], faults[2]) == sent_by(faults[0]) != sent_by(faults[2])


def test_without_votes_colluding_nodes_always_forge() -> None:
    assert sent_by(Collude(1, 5)) == sent_by(Byzantine(1, 5))


# --- connections -----------------------------------------------------------------------------------------------------


def test_a_link_is_closed_while_both_directions_are_down() -> None:
    faults = Faults(CUBE, 0)
    connections = Connections(CUBE, faults)
    due: dict[int, list[Fault]] = {
        1: [Down(1, 5, 1)],
        2: [Down(2, 7, 1, last=3)],
        5: [Crash(5, 0)],
        6: [Up(6, 5, 1)],
        7: [Recover(7, 0)],
    }
    seen = {}
    for step in range(1, 9):
        faults.apply(due.get(step, []))
        seen[step] = connections.update(step, due.get(step, []))
    link, around = {(5, 1)}, {(0, port) for port in range(3)}
    assert seen == {
        1: (set(), set()),
        2: (link, set()),
        3: (set(), set()),
        4: (set(), link),
        5: (around, set()),
        6: (set(), set()),
        7: (set(), around),
        8: (set(), set()),
    }
