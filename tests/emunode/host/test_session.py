"""A host that receives a malformed order reports a failure, and can still be shut down."""

import socket

import pytest
import trio

from emunode.host import session
from emunode.host.session import serve
from emunode.model import Collective, CollectiveSpec, NumberSource, NumberType, RealNumbers
from emunode.net import wire
from emunode.net.protocol import HostConfig
from emunode.topologies.registry import parse_topology

DEADLINE_SECONDS = 240.0
JOB = CollectiveSpec("star:3", Collective.BROADCAST, "flood", 0)
GOOD = ("assign", *HostConfig(7, 0, 2, JOB, "127.0.0.1", "127.0.0.1", 9, 60.0).to_record())

OWN_NUMBERS = JOB._replace(
    collective=Collective.ALLREDUCE,
    algorithm="bfs-tree",
    numbers=RealNumbers(NumberType.FLOAT32, source=NumberSource.DATA),
)
WITHOUT_DATA = ("assign", *HostConfig(7, 0, 2, OWN_NUMBERS, "127.0.0.1", "127.0.0.1", 9, 60.0).to_record())


def changed(place: int, value: object) -> tuple[object, ...]:
    """Return the good assignment but for one field."""
    return (*GOOD[:place], value, *GOOD[place + 1 :])


async def answers(*orders: tuple[object, ...]) -> list[wire.Control]:
    """Return the replies of a host to orders, one for each, before it is shut down."""
    near, far = socket.socketpair()
    near.setblocking(False)
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(far))
    found: list[wire.Control] = []

    async def next_answer() -> None:
        head = await exactly(4)
        found.append(wire.decode_control(head + await exactly(int.from_bytes(head, "little"))))

    async def exactly(size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += (more := bytes(await stream.receive_some(size - len(data))))
            assert more, "the host closed the connection"
        return data

    with trio.fail_after(DEADLINE_SECONDS):
        async with stream, trio.open_nursery() as nursery:
            nursery.start_soon(serve, near.detach(), b"secret")
            for order in orders:
                await stream.send_all(wire.encode_control(*order))
                await next_answer()
            await stream.send_all(wire.encode_control("shutdown"))
    return found


@pytest.mark.parametrize(
    "orders",
    [
        pytest.param([changed(1, "x")], id="run"),
        pytest.param([changed(2, 2)], id="host beyond the last"),
        pytest.param([changed(3, 2**40)], id="more hosts than ranks"),
        pytest.param([changed(3, None)], id="no number of hosts"),
        pytest.param([GOOD, ("step", "x", [])], id="step that is no number"),
        pytest.param([("data", 0, b"x")], id="data of no bytes"),
        pytest.param([("data", 1, b"xy")], id="more data than expected"),
        pytest.param([GOOD, ("data", 1, b"x")], id="data after the configuration"),
        pytest.param([WITHOUT_DATA], id="numbers without their data"),
        pytest.param([GOOD, ("step", -1, [])], id="step before the first"),
        pytest.param([GOOD, ("step", 2**31, [])], id="step beyond the last"),
        pytest.param([GOOD, ("step", 1, [("gremlin", 1)])], id="fault"),
        pytest.param([GOOD, ("connect", 0, 9, 9, 2 * [("nowhere.invalid", 1, bytes(32))])], id="address"),
    ],
)
async def test_malformed_order_is_answered_with_a_failure(orders: list[tuple[object, ...]]) -> None:
    *before, last = await answers(*orders)
    assert last[0] == "failed"
    assert all(answer[0] == "listening" for answer in before)


async def test_valid_assignment_is_accepted() -> None:
    ((name, *_),) = await answers(GOOD)
    assert name == "listening"


@pytest.mark.parametrize("end", [wire.encode_control("shutdown"), b""], ids=["shutdown", "end"])
def test_host_can_be_shut_down_before_its_ranks_start(end: bytes) -> None:
    near, far = socket.socketpair()
    near.setblocking(False)
    far.sendall(wire.encode_control(*GOOD) + end)
    far.shutdown(socket.SHUT_WR)

    async def live() -> None:
        with trio.fail_after(DEADLINE_SECONDS):
            await serve(near.detach(), b"secret")

    with far:
        trio.run(live)


def test_hosts_take_the_tables_that_their_parent_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    job = CollectiveSpec("star:4", Collective.ALLGATHER, "bfb", 0)
    config = HostConfig(7, 0, 2, job, "127.0.0.1", "127.0.0.1", 9, 60.0)
    monkeypatch.setattr(session, "PREPARED", {})
    session.prepare_algorithm(job)
    taken = session._algorithm(parse_topology("star:4"), HostConfig.from_record(config.to_record()))
    assert taken is session.PREPARED["", job]
    assert "_tables" in vars(taken)
    other = session._algorithm(parse_topology("star:4"), config._replace(spec=job._replace(seed=1)))
    assert other is not taken
    assert "_tables" not in vars(other)
