"""The interface of protocols: layers, control segments, and nodes that send by way of a protocol."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emunode.algorithms.registry import make_algorithm
from emunode.engine.memory import MemoryEngine
from emunode.model import CONTROL_TREE, Collective, CollectiveSpec, HopOutcome, Packet, Port, PortModel, Segment
from emunode.net.wire import ROW
from emunode.play import play
from emunode.protocols import registry
from emunode.protocols.base import (
    CONTROL_BYTES,
    ControlKind,
    PortSegment,
    Protocol,
    Stack,
    control_kind,
    control_segment,
    is_control,
)
from emunode.topologies.registry import parse_topology

BROADCASTS = (
    ("hypercube:3", "sbt", PortModel.ALL_PORT),
    ("hypercube:4", "nesbt", PortModel.ALL_PORT),
    ("hypercube:3", "sbt", PortModel.ONE_PORT),
    ("star:4", "edt", PortModel.ALL_PORT),
    ("ej:1+2", "improved", PortModel.ALL_PORT),
)


class Slow(Protocol):
    """Holds every segment for one unit of time, and sends a keep-alive with it."""

    def __init__(self) -> None:
        super().__init__()
        self._held: list[tuple[int, Port, Segment]] = []
        self.heard = 0

    @property
    def alarm(self) -> int | None:
        return min((when for when, _, _ in self._held), default=None)

    def submit(self, now: int, port: Port, segment: Segment) -> None:
        self._held.append((now + 1, port, segment))

    def ready(self, now: int) -> Sequence[PortSegment]:
        for item in [item for item in self._held if item[0] <= now]:
            self._held.remove(item)
            self._passing += [item[1:], (item[1], control_segment(ControlKind.KEEP_ALIVE, 0, 0, now))]
        return self._passing

    def receive(self, now: int, port: Port, packet: Packet) -> Packet:
        self.heard += sum(control_kind(segment) is ControlKind.KEEP_ALIVE for segment in packet)
        return tuple(segment for segment in packet if not is_control(segment))


def played(network: str, name: str, port_model: PortModel, messages: int = 2) -> list[tuple[int, ...]]:
    """Return sorted journal rows of a broadcast."""
    topology = parse_topology(network)
    spec = CollectiveSpec(network, Collective.BROADCAST, name, 0, port_model, messages=messages)
    engine = MemoryEngine(make_algorithm(topology, spec))
    rows = b"".join(play(engine, limit=200))
    assert not engine.busy
    return sorted(ROW.iter_unpack(rows))


@pytest.mark.parametrize(("network", "name", "port_model"), BROADCASTS)
def test_a_transparent_protocol_changes_no_row(
    network: str, name: str, port_model: PortModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = played(network, name, port_model)
    monkeypatch.setattr(registry, "LAYERS", [lambda *_: Protocol(), lambda *_: None, lambda *_: Protocol()])
    assert played(network, name, port_model) == plain


@pytest.mark.parametrize(("network", "name", "port_model"), BROADCASTS)
def test_each_layer_acts_on_every_hop(
    network: str, name: str, port_model: PortModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = played(network, name, port_model, messages=1)
    monkeypatch.setattr(registry, "LAYERS", [lambda *_: Protocol(), lambda *_: Slow()])
    slow = played(network, name, port_model, messages=1)
    control = [row for row in slow if row[7] >= CONTROL_TREE]
    data = [row for row in slow if row[7] < CONTROL_TREE]
    assert len(control) == len(data) == len(plain)
    assert {row[9] for row in control} == {HopOutcome.CONTROL}
    assert sorted(row[1:] for row in data) == sorted(row[1:] for row in plain)
    if port_model is PortModel.ALL_PORT:
        last, before = max(row[0] for row in data), max(row[0] for row in plain)
        assert last > before
    else:
        sends = sorted({row[:2] + row[8:9] for row in slow})
        assert all(one[:2] != other[:2] for one, other in pairwise(sends)), "one port in a step"


def test_a_layer_hands_down_before_the_node_sends() -> None:
    segment: Segment = (0, -1, 0, 0, b"x")
    stack = Stack([Protocol(), Slow(), Protocol()])
    stack.submit(1, 2, segment)
    assert not stack.ready(1)
    assert stack.alarm == 2
    assert [item[0] for item in stack.ready(2)] == [2, 2]
    for item in tuple(stack.ready(2)):
        stack.sent(2, *item)
    assert not stack.ready(3)
    assert stack.alarm is None


@given(
    st.sampled_from(ControlKind),
    st.integers(0, 2**31 - 1),
    st.integers(-1, 2**31 - 1),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**16 - 1),
    st.integers(0, CONTROL_BYTES - 1),
    st.integers(1, 255),
)
def test_an_altered_control_segment_has_no_kind(
    kind: ControlKind, origin: int, target: int, number: int, value: int, place: int, change: int
) -> None:
    segment = control_segment(kind, origin, target, number, value)
    assert control_kind(segment) is kind
    altered = bytearray(segment[4])
    altered[place] ^= change
    assert control_kind((*segment[:4], bytes(altered))) is None
    assert control_kind((*segment[:4], segment[4][:-1])) is None
    assert control_kind((origin, target, 0, number, segment[4])) is None
