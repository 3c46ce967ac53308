"""A host: the trio shell around the nodes it runs. It moves packets and obeys orders; it decides nothing.

Every rank is a trio task, parked between steps and rescheduled once in a step in which it has something to read or to
send. One more task awaits the poller that carries all links, the listener and the control connection. The life of a host:

    prove itself -> ("assign") -> listen -> ("connect", wave) dial -> ("step", t) .. -> ("bye")

A step of a host is: put new faults into force, wake the ranks with work, report how many packets went to which host. A
packet may arrive before the order for its step, so it carries the step; arrivals are filed under it, and whenever the
count changes after the report, the report is renewed. The coordinator opens the next step when all counts agree.
"""

import os
import socket
import struct
import traceback
from array import array
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import cycle, islice
from types import coroutine
from typing import Any

import trio

from emunode.algorithms.base import Algorithm
from emunode.algorithms.registry import make_algorithm
from emunode.engine.rank_set import AlteredCopy, RankSet
from emunode.errors import EmulatorError, FrameError, RunError
from emunode.faults.injector import FOREVER, Connections, Fault, from_record
from emunode.host.placement import Placement
from emunode.logging import log
from emunode.model import HopOutcome, Packet, Port, PortPacket, Rank, Step
from emunode.net import wire
from emunode.net.framed_streams import HELLO_SECONDS, RESET, FramedStreams, listening_socket
from emunode.net.protocol import HostConfig, spec_from_record
from emunode.timed.engine import LinkEnds, Owner, TimedRun
from emunode.topologies.registry import parse_topology

FRAMES = 64
"""Packets that a host collects before it writes them: system calls in a row find their code and data in the cache."""
REPORT_SECONDS = 0.5
"""How often a host under the timed clock says that it is alive."""
FLUSH_BYTES = 4 * 2**20
"""Journal rows that a host collects before it sends them ahead of its report."""
NONSENSE = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, OSError, struct.error)
"""What an order with fields that are none of ours ends in, wherever they are used."""

Arrivals = tuple[list[int], list[Packet]]
"""What arrived in one step: the link ends, in order of arrival, and what came in at each."""


class Host:
    """The ranks of one process, their links, and the control connection on descriptor `control`.

    Whenever it waits, nothing else in its thread can run for `linger_seconds`. Peers dial `advertise`, if given.
    """

    def __init__(
        self, control: int, secret: bytes, nursery: trio.Nursery, linger_seconds: float = 0.0, advertise: str = ""
    ) -> None:
        self.problem = "lost the connection to the coordinator"
        """Why the run did not end normally for this host; empty once the coordinator has said that it did."""
        self._failure = ""
        self._advertise = advertise
        self._control = control
        self._linger_seconds = linger_seconds
        self._secret = secret
        self._nursery = nursery
        self._nonce = os.urandom(wire.NONCE_BYTES)
        self._streams = FramedStreams(self._on_frame, self._on_end)
        self._streams.add(control, authenticated=True)
        self._slot_of = array("i")
        self._fd_of = array("i")
        self._listener: socket.socket | None = None
        self._know(control)
        self._finished = trio.Event()
        self._links_up = trio.Event()
        self._wave = -1
        self._dialled = self._accepted = self._links_told = 0
        self._step: Step = 0
        self._working = 0
        self._reported = False
        self._told = 0
        self._rows = bytearray()
        self._ballots: list[AlteredCopy] = []
        self._unexplained: list[tuple[int, str]] = []
        self._parked = parked_message()
        self._frames: list[tuple[int, bytes]] = []
        self._timed: TimedRun | None = None

    async def run(self) -> None:
        """Carry frames until the coordinator says bye or is gone."""
        self._nursery.start_soon(self._pump)
        self._nursery.start_soon(self._expire_unauthenticated)
        await self._finished.wait()
        self._nursery.cancel_scope.cancel()

    def close(self) -> None:
        """Let go of every descriptor."""
        for fd in (*self._fd_of, *self._streams.unauthenticated, self._control):
            if fd >= 0:
                os.close(fd)
        if self._listener is not None:
            self._listener.close()
        if self._timed is not None:
            self._timed.close()
        self._streams.close_poller()

    async def _pump(self) -> None:
        streams = self._streams
        while True:
            await streams.wait(self._linger_seconds)
            while self._working or streams.poll():
                if self._timed is not None:
                    self._timed.turn()
                    await trio.lowlevel.checkpoint()
                elif self._working:
                    await trio.lowlevel.checkpoint()
            if self._timed is not None:
                self._timed.turn()
            elif self._reported and len(self._arrivals[self._step & 1][0]) != self._told:
                self._tell_received()
            elif self._wave >= 0 and self._accepted != self._links_told:
                self._tell_links(self._wave)

    async def _expire_unauthenticated(self) -> None:
        while True:
            await trio.sleep(HELLO_SECONDS / 5)
            self._streams.expire_unauthenticated()

    # --- control ---------------------------------------------------------------------------------------------------

    def _tell(self, *message: object) -> None:
        self._streams.send(self._control, wire.encode_control(*message))

    def _on_order(self, frame: bytes) -> None:
        name, *fields = wire.decode_control(frame)
        try:
            match name:
                case "assign":
                    self._assign(HostConfig.from_record(fields))
                case "connect":
                    self._connect(*fields)  # type: ignore[arg-type]
                case "part":
                    self._part(fields[0])  # type: ignore[arg-type]
                case "dial":
                    self._dial_again(*fields)  # type: ignore[arg-type]
                case "reset":
                    self._reset(fields)
                case "step" | "settle" | "awake":
                    step, faults = fields
                    self._open_step(step, [from_record(fault) for fault in faults], name)  # type: ignore[arg-type,attr-defined]
                case "bye":
                    self.problem = self._failure
                    self._finished.set()
                case "over":  # a joined host stays connected until the coordinator exits
                    (why,) = fields
                    self.problem = str(why) or self._failure
                case "refused":
                    (why,) = fields
                    self.problem = f"refused by the coordinator: {why}"
                    self._finished.set()
                case _:
                    self._run_free().obey(name, fields)  # type: ignore[arg-type]
        except EmulatorError as error:
            self._fail(error)
        except NONSENSE as error:
            log("an order cannot be obeyed", order=name, traceback=traceback.format_exc())
            self._fail(FrameError(f"an order {name!r} that cannot be obeyed: {type(error).__name__}: {error}"))

    def _fail(self, error: Exception) -> None:
        log("host failed", error=repr(error))
        self._failure = self._failure or str(error)
        self._tell("failed", type(error).__name__, str(error))

    def _assign(self, assignment: HostConfig) -> None:
        self._assignment = assignment
        spec = assignment.spec
        topology = parse_topology(spec.topology)
        if not 0 <= assignment.host < assignment.hosts <= topology.order:
            raise FrameError(f"host {assignment.host!r} of {assignment.hosts!r} for {topology.order} ranks")
        self._topology = topology
        self._algorithm: Algorithm = make_algorithm(topology, spec)
        self._placement = Placement(topology.order, assignment.hosts)
        self._ranks = self._placement.ranks(assignment.host)
        self._order, self._degree = topology.order, topology.degree
        self._reverse = [topology.reverse_port(port) for port in range(topology.degree)]
        ends = len(self._ranks) * topology.degree
        self._fd_of = array("i", [-1]) * ends
        self._peers = array("q", (peer for rank in self._ranks for peer in topology.neighbours(rank)))
        self._peer_hosts = array("i", map(self._placement.host, self._peers))
        self._arrivals: tuple[Arrivals, Arrivals] = (([], []), ([], []))
        self._sent = [0] * assignment.hosts
        self._received: Counter[int] = Counter()
        self._tasks: dict[Rank, trio.lowlevel.Task] = {}
        self._ports = cycle(range(1024, 65536))
        self._table: dict[int, tuple[str, int, bytes]] = {}
        self._to_dial: dict[int, list[int]] = {}
        for slot, peer in enumerate(self._peers):
            if peer > self._ranks[slot // self._degree]:
                self._to_dial.setdefault(self._peer_hosts[slot], []).append(slot)
        self._begin_life()
        for rank in self._ranks:  # last: an algorithm that fails in the beginning leaves no task behind
            self._nursery.start_soon(self._live, rank)

    def _begin_life(self) -> None:
        """Let nothing have happened yet, to any rank or link."""
        self._lives = RankSet(self._algorithm, self._ranks)
        self._faults = self._lives.faults
        self._connections = Connections(self._topology, self._faults)
        self._troubled = False
        self._due: dict[Step, list[Rank]] = {}
        for rank in self._algorithm.sources:
            if rank in self._ranks:
                self._note_due(rank, self._lives.node(rank).due)

    def _reset(self, fields: Sequence[object]) -> None:
        """Forget everything but the links; the next step is 1, of this job."""
        spec, before = spec_from_record(fields), self._algorithm.spec
        if spec == before._replace(seed=spec.seed, knowledge=spec.knowledge):
            self._algorithm.renew(spec)
        else:
            self._algorithm = make_algorithm(self._topology, spec)
        self._step = 0
        self._reported = False
        for slots, packets in self._arrivals:
            slots.clear()
            packets.clear()
        self._rows.clear()
        self._ballots.clear()
        self._unexplained.clear()
        self._begin_life()

    def _listen(self) -> None:
        """Open the door, once every rank lives, and say where it is and whom this host will dial."""
        assignment = self._assignment
        listener = self._listening_socket(assignment)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self._listener = listener
        self._streams.listen(listener, self._know)
        self._nursery.start_soon(self._watch_setup)
        self._tell("listening", listener.getsockname()[1], self._nonce, sorted(self._to_dial))

    def _listening_socket(self, assignment: HostConfig) -> socket.socket:
        if not self._advertise:
            address = assignment.listen_address or _own_address(self._control)
            return listening_socket(address, backlog=assignment.backlog)
        try:
            return listening_socket(self._advertise, backlog=assignment.backlog)
        except OSError:  # not an address of this machine, so somebody translates it
            return listening_socket("0.0.0.0", backlog=assignment.backlog)

    # --- links -----------------------------------------------------------------------------------------------------

    def _know(self, fd: int, slot: int = -1) -> None:
        if fd >= len(self._slot_of):
            self._slot_of.extend([-1] * (fd + 1))
        self._slot_of[fd] = slot

    async def _watch_setup(self) -> None:
        with trio.move_on_after(self._assignment.setup_seconds):
            await self._links_up.wait()
            return
        missing = [slot for slot, fd in enumerate(self._fd_of) if fd < 0]
        names = ", ".join(self._link_name(slot) for slot in missing[:3])
        self._fail(RunError(f"{len(missing)} links did not come up within the deadline, such as {names}"))

    def _link_name(self, slot: int) -> str:
        index, port = divmod(slot, self._degree)
        label = self._topology.label
        return f"{label(self._ranks[index])} port {port} to {label(self._peers[slot])}"

    def _connect(self, wave: int, own: int, quota: int, table: Sequence[tuple[str, int, bytes]]) -> None:
        """Dial at most `own` links within this host and `quota` to each other one.

        The first wave brings (address, port, nonce) of the hosts it asked for.
        """
        if wave == 0:
            self._table = dict(zip(sorted(self._to_dial), table, strict=True))
        for host, slots in self._to_dial.items():
            most = own if host == self._assignment.host else quota
            self._to_dial[host] = slots[most:]
            for slot in slots[:most]:
                self._dial(slot, self._table[host])
        self._tell_links(wave)

    def _dial_again(
        self, wave: int, links: Iterable[tuple[Rank, Port]], table: Mapping[int, tuple[str, int, bytes]]
    ) -> None:
        """Dial links of ranks of this host that were closed; `table` says where the other hosts of these are now."""
        self._table.update(table)
        for rank, port in links:
            slot = self._slot(rank, port)
            self._dial(slot, self._table[self._peer_hosts[slot]])
        self._tell_links(wave)

    def _part(self, links: Iterable[tuple[Rank, Port]]) -> None:
        """Close links, those of their ends that are here."""
        for rank, port in links:
            for end, its_port in ((rank, port), (self._topology.neighbour(rank, port), self._reverse[port])):
                if end in self._ranks:
                    self._close_link(self._slot(end, its_port))

    def _dial(self, slot: int, listener: tuple[str, int, bytes]) -> None:
        address, port, nonce = listener
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as stream:
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._assignment.dial_address:
                self._bind(stream)
            stream.connect_ex((address, port))
            fd = stream.detach()
        index, own_port = divmod(slot, self._degree)
        hello = wire.link_hello(
            self._secret,
            self._assignment.run,
            nonce,
            self._ranks[index],
            own_port,
            self._peers[slot],
            self._reverse[own_port],
        )
        self._know(fd, slot)
        self._fd_of[slot] = fd
        self._streams.add(fd, authenticated=True)
        self._streams.send(fd, hello)
        self._dialled += 1

    def _bind(self, stream: socket.socket) -> None:
        """Bind to the next free port: left to the kernel, the search for one makes links three times as slow."""
        for port in islice(self._ports, 65536 - 1024):
            try:
                stream.bind((self._assignment.dial_address, port))
            except OSError:
                continue
            return
        raise RunError(f"no local port is free at {self._assignment.dial_address}")

    def _on_hello(self, fd: int, frame: bytes) -> None:
        """Admit the dialler of a link, once."""
        run = self._assignment.run
        sender, port, receiver, its_port = wire.read_link_hello(frame, self._secret, run, self._nonce)
        if receiver not in self._ranks or its_port >= self._degree:
            raise FrameError(f"a hello for rank {receiver} port {its_port}, which is not here")
        slot = self._slot(receiver, its_port)
        if self._peers[slot] != sender or self._reverse[its_port] != port:
            raise FrameError(f"a hello of rank {sender} port {port}, which is no neighbour of {self._link_name(slot)}")
        if self._fd_of[slot] >= 0:
            raise FrameError(f"a second hello for {self._link_name(slot)}")
        self._streams.mark_authenticated(fd)
        self._slot_of[fd] = slot
        self._fd_of[slot] = fd
        self._accepted += 1

    def _tell_links(self, wave: int) -> None:
        left = sum(map(len, self._to_dial.values()))
        self._wave, self._links_told = wave, self._accepted
        if self._dialled + self._accepted == len(self._fd_of):
            self._links_up.set()
        self._tell("links", wave, self._dialled, self._accepted, left)

    def _on_frame(self, fd: int, frame: bytes) -> None:
        slot = self._slot_of[fd]
        if slot >= 0:
            step, segments = wire.decode_packet(frame, self._order)
            if not 0 <= step - self._step <= 1:
                raise FrameError(f"a packet of step {step} in step {self._step}")
            slots, packets = self._arrivals[step & 1]
            slots.append(slot)
            packets.append(segments)
        elif fd == self._control:
            self._on_order(frame)
        else:
            self._on_hello(fd, frame)

    def _on_end(self, fd: int, why: str) -> None:
        if fd == self._control:
            self._control = -1
            self._finished.set()
            return
        slot = self._slot_of[fd]
        self._slot_of[fd] = -1
        if slot < 0:
            log("stranger refused", why=why)
            return
        self._fd_of[slot] = -1
        self._forget_frames(fd)
        self._unexplained.append((slot, why))
        if self._timed is not None and not self._timed.finished:
            self._fail(RunError(f"link {self._link_name(slot)} ended: {why}"))

    # --- steps -----------------------------------------------------------------------------------------------------

    def _open_step(self, step: Step, faults: Sequence[Fault], order: str) -> None:
        """Begin `step`. To `settle` is only to read what arrived before: the process is about to be killed or stopped.

        To be `awake` is to take note of what was missed while stopped, up to this step.
        """
        if not isinstance(step, int) or not 0 < step <= FOREVER:
            raise FrameError(f"an order for step {step!r}")
        self._step = step
        self._reported = False
        self._told = 0
        if order == "awake":  # which links it gets, it is told; those of hosts that are gone it does without
            self._links_up.set()
            self._to_dial.clear()
        self._sent = [0] * len(self._sent)
        self._received.clear()
        self._inbox = self._deliver(self._arrivals[(step - 1) & 1])
        waking = self._inbox.keys() | self._due.pop(step, ())
        self._troubled |= bool(faults)
        if self._troubled:
            waking = self._put_in_force(step, faults, waking, order)
        self._explain()
        self._working = len(waking)
        if order != "step" or not waking:
            self._report()
        for rank in sorted(waking):
            trio.lowlevel.reschedule(self._tasks[rank])

    def _deliver(self, arrivals: Arrivals) -> dict[Rank, list[PortPacket]]:
        """What arrived in a step, as an inbox for each rank."""
        first, degree = self._ranks[0], self._degree
        inboxes: dict[Rank, list[PortPacket]] = {}
        for slot, segments in zip(*arrivals, strict=True):
            index, port = divmod(slot, degree)
            inbox = inboxes.get(index + first)
            if inbox is None:
                inboxes[index + first] = [(port, segments)]
            else:
                inbox.append((port, segments))
        for column in arrivals:
            column.clear()
        return inboxes

    def _put_in_force(self, step: Step, faults: Sequence[Fault], waking: AbstractSet[Rank], order: str) -> set[Rank]:
        """Let faults happen to ranks and links; who wakes in this step."""
        waking, falling = self._lives.apply_faults(step, faults, waking)
        if order != "step":  # what would have been due while the process does not run is due no more
            missed = max(self._due, default=0) if order == "settle" else step
            self._due = {when: ranks for when, ranks in self._due.items() if when > missed}
        for rank, reads in falling:
            if reads:
                self._think(rank)
            self._note_due(rank, self._lives.deactivate(rank))
        closing, _ = self._connections.update(step, faults)
        self._part(sorted(closing))
        return waking

    def _slot(self, rank: Rank, port: Port) -> int:
        """The number of a link end of this host."""
        return (rank - self._ranks[0]) * self._degree + port

    def _close_link(self, slot: int) -> None:
        fd = self._fd_of[slot]
        if fd >= 0:
            self._slot_of[fd] = -1
            self._fd_of[slot] = -1
            self._forget_frames(fd)
            self._streams.close(fd, reset=True)

    def _explain(self) -> None:
        """A link that ended although nothing in force says so means that this run cannot be trusted."""
        for slot, why in self._unexplained:
            index, port = divmod(slot, self._degree)
            if self._connections.link(self._ranks[index], port) not in self._connections.concerned:
                raise RunError(f"link {self._link_name(slot)} ended: {why}")
        self._unexplained.clear()

    async def _live(self, rank: Rank) -> None:
        """The life of one rank: parked until a step gives it something to do."""
        self._tasks[rank] = trio.lowlevel.current_task()
        if len(self._tasks) == len(self._ranks):
            self._listen()
        await at_every_wake(self._parked, partial(self._take_turn, rank))

    def _take_turn(self, rank: Rank) -> None:
        """One step of one rank; after that of the last one, the report."""
        try:
            self._run_node(rank)
        except EmulatorError as error:
            self._fail(error)
        self._working -= 1
        if not self._working:
            self._report()

    def _note_due(self, rank: Rank, due: Step | None) -> None:
        if due is not None:
            self._due.setdefault(due, []).append(rank)

    def _run_node(self, rank: Rank) -> None:
        """One step of one rank: read, decide, write; journal what it saw."""
        outbox = self._think(rank)
        if self._faults.needs_filter:
            self._send_despite(rank, outbox)
        elif outbox:
            self._send(rank, outbox)
        if len(self._rows) > FLUSH_BYTES:
            self._tell("rows", bytes(self._rows))
            self._rows.clear()

    def _think(self, rank: Rank) -> list[PortPacket]:
        """Let a rank read what came and decide what leaves."""
        step = self._step
        node = self._lives.node(rank)
        outbox, hops = node.step(step, self._inbox.pop(rank, []))
        if hops:
            wire.encode_rows(self._rows, step - 1, rank, self._peers, self._slot(rank, 0), self._reverse, hops)
            if self._faults.payload_altered:
                self._ballots += self._lives.altered_copies(step - 1, rank, hops)
        self._note_due(rank, node.due)
        return outbox

    def _send_despite(self, rank: Rank, outbox: Sequence[PortPacket]) -> None:
        """Send through faults of any kind."""
        crossings = self._faults.crossings(self._step, rank, outbox)
        for port, segments, arrives in crossings:
            if not arrives:
                peer = self._peers[self._slot(rank, port)]
                wire.encode_losses(self._rows, self._step, rank, port, peer, segments, HopOutcome.LOST)
        self._send(rank, [(port, segments) for port, segments, arrives in crossings if arrives])
        self._note_due(rank, self._faults.next_crossing(rank))

    def _send(self, rank: Rank, outbox: Sequence[PortPacket]) -> None:
        """Put packets of a rank on its links; those that have no link are lost."""
        step, base = self._step, self._slot(rank, 0)
        fds, hosts, sent = self._fd_of, self._peer_hosts, self._sent
        previous: Packet | None = None
        frame = b""
        frames = self._frames
        for port, segments in outbox:
            slot = base + port
            fd = fds[slot]
            if fd < 0:
                wire.encode_losses(self._rows, step, rank, port, self._peers[slot], segments, HopOutcome.LOST)
                continue
            if segments != previous:
                previous, frame = segments, wire.encode_packet(step, segments)
            sent[hosts[slot]] += 1
            frames.append((fd, frame))
        if len(frames) > FRAMES:
            self._flush()

    def _forget_frames(self, fd: int) -> None:
        """What was not written yet goes nowhere: the number may have a new owner soon."""
        self._frames = [pair for pair in self._frames if pair[0] != fd]

    def _flush(self) -> None:
        frames, self._frames = self._frames, []
        self._streams.send_all(frames)

    def _report(self) -> None:
        """Say that every rank has done its part of this step, and what is known of it so far."""
        self._flush()
        if self._ballots:
            self._tell("ballots", self._ballots)
            self._ballots.clear()
        self._reported = True
        due = min(self._due) if self._due else 0
        self._tell("report", self._step, _sparse(self._sent), self._count_received(), due, bytes(self._rows))
        self._rows.clear()

    def _tell_received(self) -> None:
        self._tell("received", self._step, self._count_received())

    def _count_received(self) -> Mapping[int, int]:
        """Packets that arrived in this step so far, by the host that sent them."""
        slots, _ = self._arrivals[self._step & 1]
        self._received.update(map(self._peer_hosts.__getitem__, islice(slots, self._told, None)))
        self._told = len(slots)
        return self._received

    # --- the timed clock -------------------------------------------------------------------------------------------

    def _run_free(self) -> TimedRun:
        """From the first of its orders on, the timed clock drives the ranks."""
        if self._timed is None:
            ends = LinkEnds(self._ranks, self._peers, self._reverse, self._fd_of, self._slot_of)
            owner = Owner(self._lives.node, self._tell, self._fail, self._on_frame)
            self._timed = TimedRun(self._algorithm, self._streams, ends, owner)
            self._nursery.start_soon(self._keep_reporting, self._timed)
        return self._timed

    async def _keep_reporting(self, timed: TimedRun) -> None:
        while not timed.finished:
            await trio.sleep(REPORT_SECONDS)
            timed.report()


async def serve(control: int, secret: bytes, linger_seconds: float = 0.0, advertise: str = "") -> str:
    """Be a host on a proven, non-blocking control connection, until the run is over.

    Return why the run did not end normally for this host; empty if it did.
    """
    host: Host | None = None
    try:
        async with trio.open_nursery() as nursery:
            host = Host(control, secret, nursery, linger_seconds, advertise)
            await host.run()
    finally:  # and not before all tasks are over: one that was started lives up to its first wait, come what may
        if host is not None:
            host.close()
    return host.problem


def _own_address(fd: int) -> str:
    """The address that a connection has on this side."""
    with socket.socket(fileno=os.dup(fd)) as stream:
        address: str = stream.getsockname()[0]
        return address


def _sparse(counts: Sequence[int]) -> Mapping[int, int]:
    return {host: packets for host, packets in enumerate(counts) if packets}


def parked_message() -> Any:
    """What a task says to trio that parks until it is rescheduled: the same every time, so it is made once for all."""
    first = trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.SUCCEEDED)  # noqa: ASYNC105
    message = first.send(None)
    first.close()
    return message


@coroutine
def at_every_wake(message: Any, call: Callable[[], None]) -> Generator[Any, Any, None]:
    """Park the task, and call whenever it is rescheduled: what `trio.lowlevel.wait_task_rescheduled` does, for less."""
    while True:
        woken = yield message
        woken.unwrap()  # raises what cancels the task
        call()
