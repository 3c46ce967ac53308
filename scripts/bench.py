"""What the sockets cost, each figure as a share of a bare loop that does the same system calls in the same run.

Machines are shared and noisy, so a figure is never a time alone: the product and the bare loop take turns, and what is
held against a floor is the median of their ratios.

* I/O core: one process, one step after the other, every link end sends one packet and receives one. Bare: `os.write` on each
  descriptor, an edge-triggered epoll, `os.readv` until short. Ours: `Streams` under trio with a parked task a node, as in a
  host. Also one trio SocketStream and one task a port, which is how one would write it first.
* Whole stack: a flood of many messages through one real host process (rules, payload checks, journal, counting): packets per
  CPU second of that process, as a share of the same bare loop with packets of the same size.
* Idle step: time of a step in which nothing happens, over several hosts.
* Links: rate at which a run's links come up, against a bare loop of connect and accept.
"""

import argparse
import contextlib
import json
import os
import random
import select
import socket
import sys
import time
from array import array
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryFile

import psutil
import trio
import trio.testing

from coordinator.control import HostNetwork
from coordinator.launch.local import LocalLaunch
from coordinator.plan import Plan, descriptor_limit, make_plan
from coordinator.scenario import make_scenario
from emunode import wire
from emunode.host import Rest
from emunode.links import EVENTS, Streams
from emunode.memory import MemoryNetwork
from emunode.topology.base import Topology
from emunode.topology.registry import parse_topology


@dataclass(frozen=True)
class Row:
    """One figure: `value` in `unit`, and where there is one the `share` of a floor and what it is held against."""

    subject: str
    figure: str
    value: float
    unit: str
    share: float | None = None
    wanted: float | None = None

    @property
    def met(self) -> bool:
        """Whether the figure is what was wanted: a share at least, a time at most."""
        if self.wanted is None:
            return True
        return self.share >= self.wanted if self.share is not None else self.value <= self.wanted


# --- I/O core --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def connected(topology: Topology) -> Iterator[list[int]]:
    """Descriptors of all link ends, by rank x degree + port, connected in this process."""
    ends = [-1] * (topology.order * topology.degree)
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        for rank, port, other, its in topology.links():
            one = socket.create_connection(listener.getsockname())
            two, _ = listener.accept()
            for stream, slot in ((one, rank * topology.degree + port), (two, other * topology.degree + its)):
                stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                stream.setblocking(False)
                ends[slot] = stream.detach()
    try:
        yield ends
    finally:
        for fd in ends:
            os.close(fd)


def bare_loop(ends: list[int], size: int, rounds: int) -> float:
    """Packets per CPU second of a bare epoll loop."""
    epoll, packet = select.epoll(), bytes(size)
    for fd in ends:
        epoll.register(fd, select.EPOLLIN | select.EPOLLET)
    buffer = memoryview(bytearray(256 * 1024))
    began = time.process_time()
    for _ in range(rounds):
        for fd in ends:
            if os.write(fd, packet) != size:
                raise SystemExit("a socket buffer is too small for this benchmark")
        missing = len(ends) * size
        while missing:
            for fd, _event in epoll.poll(-1, EVENTS):
                while True:
                    try:
                        got = os.readv(fd, [buffer])
                    except BlockingIOError:
                        break
                    missing -= got
                    if got < len(buffer):
                        break
    spent = time.process_time() - began
    epoll.close()
    return len(ends) * rounds / spent


def io_core(ends: list[int], size: int, rounds: int, degree: int) -> float:
    """Packets per CPU second of `Streams` under trio with one parked task a node."""
    frame = wire.frame(bytes(size - wire.LENGTH.size))
    slots = array("i", [-1]) * (max(ends) + 1)
    for slot, fd in enumerate(ends):
        slots[fd] = slot
    arrived: list[int] = []
    bodies: list[bytes] = []

    def on_frame(fd: int, body: bytes) -> None:
        arrived.append(slots[fd])
        bodies.append(body)

    def on_end(_fd: int, why: str) -> None:
        raise SystemExit(why)

    streams = Streams(on_frame, on_end)
    for fd in ends:
        streams.add(fd, trusted=True)

    async def main() -> float:
        tasks: list[trio.lowlevel.Task] = []
        working, rest = 0, Rest()

        async def node(own: list[int]) -> None:
            nonlocal working
            tasks.append(trio.lowlevel.current_task())
            while True:
                await rest
                streams.send_all([(fd, frame) for fd in own])
                working -= 1

        async with trio.open_nursery() as nursery:
            for first in range(0, len(ends), degree):
                nursery.start_soon(node, ends[first : first + degree])
            await trio.testing.wait_all_tasks_blocked()
            began = time.process_time()
            for _ in range(rounds):
                arrived.clear()
                bodies.clear()
                working = len(tasks)
                for task in tasks:
                    trio.lowlevel.reschedule(task)
                while streams.poll() or working:
                    if working:
                        await trio.lowlevel.checkpoint()
                while len(arrived) < len(ends):
                    await trio.lowlevel.wait_readable(streams.fileno())
                    trio.lowlevel.notify_closing(streams.fileno())
                    while streams.poll():
                        pass
            spent = time.process_time() - began
            nursery.cancel_scope.cancel()
        return spent

    spent = trio.run(main)
    streams.close_poller()
    return len(ends) * rounds / spent


def stream_a_port(ends: list[int], size: int, rounds: int) -> float:
    """Packets per CPU second with one trio SocketStream and one task a port."""
    packet = bytes(size)

    async def main() -> float:
        owned = [trio.SocketStream(trio.socket.from_stdlib_socket(socket.socket(fileno=os.dup(fd)))) for fd in ends]
        got, due, all_in = 0, 0, trio.Event()

        async def reader(stream: trio.SocketStream) -> None:
            nonlocal got
            while True:
                data = await stream.receive_some(256 * 1024)
                got += len(data)
                if got == due:
                    all_in.set()

        async with trio.open_nursery() as nursery:
            for stream in owned:
                nursery.start_soon(reader, stream)
            began = time.process_time()
            for _ in range(rounds):
                due, all_in = due + size * len(owned), trio.Event()
                for stream in owned:
                    await stream.send_all(packet)
                await all_in.wait()
            spent = time.process_time() - began
            nursery.cancel_scope.cancel()
        for stream in owned:
            await stream.aclose()
        return spent

    return len(ends) * rounds / trio.run(main)


def core_rows(name: str, size: int, wanted: float, turns: int) -> Iterator[Row]:
    """The I/O core on one network beside its floor."""
    topology = parse_topology(name)
    with connected(topology) as ends:
        rounds = max(3, 60_000 * 70 // (len(ends) * max(70, size // 4)))
        ours, floors, streams = [], [], []
        for turn in range(turns):
            before = bare_loop(ends, size, rounds)
            speed = io_core(ends, size, rounds, topology.degree)
            floors.append((before + bare_loop(ends, size, rounds)) / 2)
            ours.append(speed)
            if turn < 2 and descriptor_limit() > 2 * len(ends) + 100:  # it works on duplicates
                streams.append(stream_a_port(ends, size, max(2, rounds // 4)) / floors[-1])
    share = median(mine / floor for mine, floor in zip(ours, floors, strict=True))
    subject = f"{name}, {size}-byte packets"
    yield Row(subject, "bare epoll loop", median(floors), "packets/CPU s")
    yield Row(subject, "I/O core", median(ours), "packets/CPU s", share, wanted)
    if streams:
        share = median(streams)
        yield Row(subject, "SocketStream and task a port", share * median(floors), "packets/CPU s", share)


# --- real hosts ------------------------------------------------------------------------------------------------------


def plan_of(**values: object) -> Plan:
    """A plan of a broadcast by flooding, with what `values` say."""
    return make_plan(make_scenario({"collective": "broadcast", "algorithm": "flood", **values}))


@contextlib.asynccontextmanager
async def network_up(plan: Plan) -> AsyncIterator[HostNetwork]:
    """A network of hosts that is taken down again whatever happens."""
    with TemporaryFile() as log:
        network = HostNetwork(plan, LocalLaunch(log))
        try:
            await network.open(lambda *_: None)
            yield network
        finally:
            with trio.CancelScope(shield=True):
                await network.close()


async def whole_stack(plan: Plan, steps: int) -> float:
    """Packets per CPU second of the host processes over the first `steps` steps of a run, set-up not counted."""
    async with network_up(plan) as network:
        hosts = [psutil.Process(pid) for pid in network.pids]
        before = sum(sum(host.cpu_times()[:2]) for host in hosts)
        packets = 0
        for step in range(1, steps + 1):
            result = await network.step(step, ())
            packets += sum(len(rows) for rows in result.rows) // wire.ROW.size
        spent = sum(sum(host.cpu_times()[:2]) for host in hosts) - before
    return packets / spent


def memory_engine(plan: Plan, steps: int) -> float:
    """Packets per CPU second of the same steps in memory: rules, nodes and journal without I/O."""
    network = MemoryNetwork(plan.algorithm)
    began, rows = time.process_time(), 0
    for step in range(1, steps + 1):
        rows += len(network.step(step))
    return rows // wire.ROW.size / (time.process_time() - began)


def stack_rows(name: str, algorithm: str, segment_bytes: int, wanted: float, turns: int) -> Iterator[Row]:
    """The whole stack on one network and one host beside the bare loop with packets of the same size.

    The algorithms are allgathers that keep every link busy both ways, one segment in one packet, as the bare loop does.
    """
    topology = parse_topology(name)
    values = {"topology": name, "collective": "allgather", "algorithm": algorithm, "ranks_per_host": topology.order}
    plan = plan_of(**values, message_bytes=segment_bytes, redundancy=topology.degree)
    size = len(wire.encode_packet(1, ((0, -1, 0, 0, bytes(segment_bytes)),)))
    steps = max(6, 120_000 // (topology.order * topology.degree))
    speeds, floors, in_memory = [], [], []
    for _ in range(turns):
        with connected(topology) as ends:
            floors.append(bare_loop(ends, size, steps))
        speeds.append(trio.run(whole_stack, plan, steps))
        in_memory.append(memory_engine(plan, steps))
    share = median(mine / floor for mine, floor in zip(speeds, floors, strict=True))
    no_io = median(mine / memory for mine, memory in zip(speeds, in_memory, strict=True))
    yield Row(
        f"{name}, {size}-byte packets", f"whole stack ({algorithm})", median(speeds), "packets/CPU s", share, wanted
    )
    yield Row(f"{name}, {size}-byte packets", "  of it rules, nodes, journal", 100 * no_io, "% of CPU time")


async def idle_steps(plan: Plan, steps: int = 400) -> float:
    """Milliseconds of a step in which nothing happens."""
    async with network_up(plan) as network:
        first = 1
        while (await network.step(first, ())).busy:
            first += 1
        times = []
        for step in range(first + 1, first + 1 + steps):
            began = time.perf_counter()
            await network.step(step, ())
            times.append(time.perf_counter() - began)
    return median(times) * 1000


def idle_rows() -> Iterator[Row]:
    """Idle steps over 2, 4 and 48 hosts."""
    for hosts, wanted in ((2, 0.4), (4, 0.8), (48, 8.0)):
        plan = plan_of(topology="star:6", ranks_per_host=720 // hosts)
        yield Row(f"{hosts} hosts", "idle step", trio.run(idle_steps, plan), "ms", None, wanted)


def bare_links(count: int = 8000) -> float:
    """Links per second of a bare loop of connect and accept in one process, source ports bound as ours are."""
    ends = []
    near, far = (f"127.{random.randrange(100, 250)}.{random.randrange(256)}.{end}" for end in (1, 2))
    with socket.create_server((near, 0), backlog=64) as listener:
        address = listener.getsockname()
        began = time.perf_counter()
        for port in range(1024, 1024 + count):
            stream = socket.socket()
            with contextlib.suppress(OSError):  # somebody may listen there at every address
                stream.bind((far, port))
            stream.connect(address)
            ends += [stream, listener.accept()[0]]
        spent = time.perf_counter() - began
    for stream in ends:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        stream.close()
    return count / spent


async def link_rate(plan: Plan) -> float:
    """Links per second of a run, from the first dial to the last link that is up."""
    async with network_up(plan) as network:
        return network.links_opened / network.connect_seconds


def link_rows(turns: int) -> Iterator[Row]:
    """Set-up of S_7 beside the bare loop."""
    shares, rates = [], []
    for _ in range(turns):
        rates.append(trio.run(link_rate, plan_of(topology="star:7")))
        shares.append(rates[-1] / bare_links(min(8000, descriptor_limit() // 2 - 100)))
    yield Row("star:7", "links up", median(rates), "links/s", median(shares), 0.6)


SECTIONS: dict[str, Callable[[int], Iterator[Row]]] = {
    "core": lambda turns: (
        row
        for name, size, wanted in (
            ("star:5", 70, 0.80),
            ("star:6", 70, 0.85),
            ("star:6", 16384, 0.85),
            ("hypercube:10", 70, 0.85),
        )
        for row in core_rows(name, size, wanted, turns)
    ),
    "stack": lambda turns: (
        row
        for name, algorithm, size in (
            ("star:6", "edt-dfs", 56),
            ("star:6", "edt-dfs", 16384),
            ("star:5", "edt-dfs", 56),
        )
        for row in stack_rows(name, algorithm, size, 0.45, turns)
    ),
    "idle": lambda _: idle_rows(),
    "links": link_rows,
}


def main() -> int:
    """Run the sections asked for; exit status 1 when a figure falls short of what is wanted."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"any of: {', '.join(SECTIONS)} (default: all)")
    parser.add_argument("--turns", type=int, default=5, help="times that ours and the floor take turns (default 5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    options = parser.parse_args()
    unknown = [name for name in options.sections if name not in SECTIONS]
    if unknown:
        parser.error(f"there is no section {unknown[0]!r}; there are: {', '.join(SECTIONS)}")
    rows: list[Row] = []
    print(f"{'what':34} {'figure':30} {'value':>12} {'unit':14} {'share':>6} {'wanted':>7}")
    for name in options.sections or SECTIONS:
        for row in SECTIONS[name](options.turns):
            rows.append(row)
            share = "" if row.share is None else f"{row.share:.2f}"
            wanted = "" if row.wanted is None else f"{'>=' if row.share is not None else '<='}{row.wanted:g}"
            value = f"{row.value:,.0f}" if row.value >= 100 else f"{row.value:.3f}"
            print(
                f"{row.subject:34} {row.figure:30} {value:>12} {row.unit:14} {share:>6} {wanted:>7}",
                "" if row.met else "short",
            )
            sys.stdout.flush()
    if options.json:
        options.json.write_text(json.dumps([asdict(row) | {"met": row.met} for row in rows], indent=2) + "\n")
    return 0 if all(row.met for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
