"""Agreement by flooding: how long news travel while nodes crash, by exact enumeration, and the layer by itself."""

from emunode.annexes.agreement.layer import REOPENS, AgreementLayer, News
from emunode.model import CONTROL_TREE, Agreement, Port
from emunode.protocols.base import ControlKind, control_segment
from emunode.topologies.registry import parse_topology


def layer(steps: int = 3, *, shrink: bool = False) -> AgreementLayer:
    """Rank 2 of a ring of six: port 0 leads to rank 3, port 1 to rank 1, or the other way round."""
    return AgreementLayer(Agreement(steps, shrink), parse_topology("ring:6"), 2)


def taken(protocol: AgreementLayer, now: int) -> list[tuple[Port, tuple[int, int, int, int]]]:
    """Return the segments that leave at `now`, as port and (kind, origin, target, number)."""
    leaving = []
    for port, segment in tuple(protocol.ready(now)):
        protocol.sent(now, port, segment)
        origin, target, tree, number, _ = segment
        leaving.append((port, (tree - CONTROL_TREE, origin, target, number)))
    return leaving


def test_a_suspicion_is_told_once_and_decided_after_d_steps() -> None:
    protocol = layer()
    link = min((2, 0), parse_topology("ring:6").end(2, 0))
    protocol.suspects(5, 0, suspected=True)
    told = taken(protocol, 5)
    assert sorted(port for port, _ in told) == [0, 1]
    assert {(kind, number) for _, (kind, _, _, number) in told} == {(ControlKind.SUSPICION, 5)}
    # The other end of the link has suspected it as well, and says the same.
    protocol.receive(6, 1, (protocol.segment_of(News(5, *link)),))
    assert taken(protocol, 6) == []
    assert protocol.alarm == 8
    protocol.wake(7)
    assert not protocol.decisions
    protocol.wake(8)
    assert [(each.cut, each.step, each.links) for each in protocol.decisions] == [(5, 8, frozenset({link}))]
    assert protocol.alarm is None


def test_later_news_are_left_to_the_next_decision() -> None:
    protocol = layer()
    protocol.suspects(5, 0, suspected=True)
    protocol.receive(7, 1, (protocol.segment_of(News(6, 0, 0)),))
    protocol.wake(8)
    assert [len(each.news) for each in protocol.decisions] == [1]
    assert not protocol.settled
    protocol.wake(9)
    assert [len(each.news) for each in protocol.decisions] == [1, 2]
    assert protocol.settled


def test_news_that_come_too_late_reopen_the_decision() -> None:
    protocol = layer(steps=1)
    protocol.suspects(5, 0, suspected=True)
    protocol.wake(6)
    protocol.receive(8, 1, (protocol.segment_of(News(4, 0, 0)),))
    assert News(8, 2, REOPENS) in protocol.known
    # From here on five steps, for a path through all six ranks.
    assert protocol.ready(8)
    taken(protocol, 8)
    assert protocol.alarm == 8 + 5
    protocol.wake(13)
    assert [(each.cut, len(each.news)) for each in protocol.decisions] == [(5, 1), (8, 3)]


def test_a_returning_neighbour_receives_everything() -> None:
    protocol = layer()
    protocol.suspects(5, 0, suspected=True)
    protocol.receive(6, 1, (protocol.segment_of(News(5, 0, 0)),))
    taken(protocol, 6)
    protocol.suspects(7, 0, suspected=False)
    assert [port for port, _ in taken(protocol, 7)] == [0, 0]
    protocol.receive(8, 1, (control_segment(ControlKind.QUESTION, 1, -1, 8),))
    assert [port for port, _ in taken(protocol, 8)] == [1, 1]
    protocol.resume(20)
    assert {kind for _, (kind, *_) in taken(protocol, 20)} == {ControlKind.QUESTION}


def test_only_a_collective_that_is_repeated_is_abandoned() -> None:
    data = (0, -1, 0, 0, b"data")
    for shrink in (False, True):
        protocol = layer(shrink=shrink)
        assert protocol.receive(2, 1, (data,)) == (data,)
        protocol.suspects(3, 0, suspected=True)
        assert protocol.receive(4, 1, (data,)) == (() if shrink else (data,))
        taken(protocol, 4)
        protocol.submit(4, 1, data)
        assert [segment for _, segment in protocol.ready(4)] == ([] if shrink else [data])


def test_an_altered_control_segment_is_ignored() -> None:
    protocol = layer()
    origin, target, tree, number, payload = protocol.segment_of(News(5, 0, 0))
    altered = (origin, target, tree, number, payload[:-1] + bytes([payload[-1] ^ 1]))
    assert protocol.receive(6, 1, (altered,)) == ()
    assert not protocol.known
