"""The link ends of the ranks of one host: dialling, admitting and closing them, and the descriptor of each.

A link end has a number, its *slot*: index of the rank within the host x degree + port. Absent ports have slots too. Two
arrays of C integers translate between slots and descriptors; nothing else is kept for a link that is up and idle.
"""

import os
import socket
from array import array
from collections.abc import Callable, Iterable
from itertools import cycle, islice

import trio

from emunode.errors import FrameError, RunError
from emunode.faults.effects import LinkEnd
from emunode.host.orders import Connect, Dial, Listener
from emunode.host.placement import HostRanks, Placement
from emunode.model import Port, Rank
from emunode.net import wire
from emunode.net.framed_streams import BATCH, RESET, FramedStreams, prepare
from emunode.net.protocol import HostConfig
from emunode.topologies.base import ABSENT, Topology

FIRST_PORT, LAST_PORT = 1024, 65535
"""Source ports of dialled links, where the host binds them itself."""


class LinkTable:
    """All link ends of one host. It accepts links at `listener`. The lower rank of a link dials.

    `tell` sends a message to the coordinator.
    """

    def __init__(
        self,
        config: HostConfig,
        topology: Topology,
        placement: Placement,
        streams: FramedStreams,
        secret: bytes,
        tell: Callable[..., None],
        listener: socket.socket,
    ) -> None:
        self._config = config
        self._topology = topology
        self._streams = streams
        self._secret = secret
        self._tell = tell
        # Drawn anew by every process, so a hello that was recorded before a restart of this host proves nothing to it.
        self.nonce = os.urandom(wire.NONCE_BYTES)
        self.ranks: HostRanks = placement.ranks(config.host)
        self.degree = topology.degree
        # Arrays of C integers: a list of int objects takes several times as much for every link end.
        self.peers = array("q", (peer for rank in self.ranks for peer in topology.neighbours(rank)))
        """The rank at the other end, by slot; ABSENT where the rank has no such port."""
        self.reverse = array("i", (port for rank in self.ranks for port in topology.reverse_ports(rank)))
        """The port at the other end, by slot."""
        self.peer_hosts = array("i", (placement.host(peer) if peer != ABSENT else ABSENT for peer in self.peers))
        """The host of that rank, by slot."""
        self._first_ends = array("i", map(self._first_end, range(len(self.peers))))
        """The lower slot of the link, by slot; the slot itself if the other end is on another host."""
        self.ends = len(self.peers) - self.peers.count(ABSENT)
        """How many link ends there are."""
        self.descriptors = array("i", [-1]) * len(self.peers)
        """The descriptor of each link end, by slot; -1 where the link is down."""
        self.slots = array("i")
        """The slot of each descriptor; -1 for a descriptor that is not a link."""
        self.queue: list[tuple[int, bytes]] = []
        """(descriptor, frame) of packets that were decided and have not been written yet."""
        self.up = trio.Event()
        """Set once all links came up for the first time."""
        self._to_dial: dict[int, list[int]] = {}
        for slot, peer in enumerate(self.peers):
            # The lower rank dials, so both ends agree on who does without a message.
            if peer > self.ranks[slot // self.degree]:
                self._to_dial.setdefault(self.peer_hosts[slot], []).append(slot)
        self._listeners: dict[int, Listener] = {}
        # The first ports need privileges. The cycle goes on where it stopped: a port that was just used is the least
        # likely to be free.
        self._source_ports = cycle(range(FIRST_PORT, LAST_PORT + 1))
        self._wave = -1
        self._dialled = self._accepted = self._reported = 0
        # Inherited by accepted streams: closing them leaves no TIME_WAIT: thousands of these would fill the port range.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self._listener = listener
        self.control = -1
        """The descriptor of the connection to the coordinator."""
        streams.listen(listener, self.register)

    def close(self) -> None:
        """Close every link and the listener."""
        for fd in self.descriptors:
            if fd >= 0:
                os.close(fd)
        self._listener.close()

    def announce(self) -> None:
        """Report where this host listens, and the hosts that it will dial."""
        self._tell("listening", self._listener.getsockname()[1], self.nonce, sorted(self._to_dial))

    # --- names -----------------------------------------------------------------------------------------------------

    def slot(self, rank: Rank, port: Port) -> int:
        """Return the number of a link end of this host."""
        return self.ranks.index(rank) * self.degree + port

    def end(self, slot: int) -> LinkEnd:
        """Return the rank and port of a slot."""
        index, port = divmod(slot, self.degree)
        return self.ranks[index], port

    def name(self, slot: int) -> str:
        """Return a link end, in words for messages."""
        rank, port = self.end(slot)
        return f"{self._topology.label(rank)} port {port} to {self._topology.label(self.peers[slot])}"

    def _first_end(self, slot: int) -> int:
        peer = self.peers[slot]
        # The same number for both ends of a link within this host: `flush` sorts by it, to have them in a row.
        return min(slot, self.slot(peer, self.reverse[slot])) if peer in self.ranks else slot

    def register(self, fd: int, slot: int = -1) -> None:
        """Note the link end of a descriptor; -1 for a stream without a hello so far."""
        if fd >= len(self.slots):
            # Doubles the array: descriptors are small numbers, handed out from the lowest.
            self.slots.extend([-1] * (fd + 1))
        self.slots[fd] = slot

    # --- opening ---------------------------------------------------------------------------------------------------

    @property
    def missing(self) -> list[int]:
        """Slots whose links are not up."""
        return [slot for slot, fd in enumerate(self.descriptors) if fd < 0 and self.peers[slot] != ABSENT]

    def connect(self, order: Connect) -> None:
        """Dial the next wave of links, within the limits of the order, and report."""
        # Only the first wave brings the listeners; later waves dial the same hosts.
        if order.wave == 0:
            if len(order.listeners) != len(self._to_dial):
                raise FrameError(f"{len(order.listeners)} listeners for {len(self._to_dial)} hosts to dial")
            # Both sides sort: the coordinator need not repeat the host indices.
            self._listeners = dict(zip(sorted(self._to_dial), order.listeners, strict=True))
        for host, slots in self._to_dial.items():
            # The coordinator's limits keep the backlog of each listener from overflowing.
            most = order.own if host == self._config.host else order.quota
            self._to_dial[host] = slots[most:]
            for slot in slots[:most]:
                self._dial(slot)
        self._report(order.wave)

    def dial_again(self, order: Dial) -> None:
        """Dial links of ranks of this host that were closed."""
        self._listeners.update(order.listeners)
        for rank, port in order.links:
            if rank not in self.ranks:
                raise FrameError(f"an order to dial from rank {rank}, which this host does not run")
            self._dial(self.slot(rank, port))
        self._report(order.wave)

    def forget_waves(self) -> None:
        """Dial no further waves: a host that was started again is given the links it is to open one by one."""
        self.up.set()
        self._to_dial.clear()

    def _dial(self, slot: int) -> None:
        peer_host = self.peer_hosts[slot]
        if peer_host not in self._listeners:
            raise FrameError(f"an order to dial host {peer_host}, whose address is unknown")
        fd = self.dial_listener(self._listeners[peer_host])
        nonce = self._listeners[peer_host][2]
        rank, own_port = self.end(slot)
        hello = wire.link_hello(
            self._secret, self._config.run, nonce, rank, own_port, self.peers[slot], self.reverse[slot]
        )
        self.register(fd, slot)
        self.descriptors[slot] = fd
        # The dialler is authenticated from the start: its hello proves itself to the listener, not the other way
        # round.
        self._streams.add(fd, authenticated=True)
        # The stream may still be connecting, and take no bytes yet: `BlockedWrites` keeps the hello until it does, and
        # later packets stay behind it.
        self._streams.send(fd, hello)
        # Counted before the peer has accepted: the coordinator waits until as many links are accepted as were dialled.
        self._dialled += 1

    def dial_listener(self, listener: Listener) -> int:
        """Begin to connect to a listener; return the descriptor. RunError if the listener cannot be dialled."""
        address, port, _ = listener
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as stream:
            prepare(stream)
            if self._config.dial_address:
                self._bind(stream)
            try:
                stream.connect_ex((address, port))
            except OSError as error:  # a name that does not resolve; what fails later ends the stream
                raise RunError(f"cannot dial {address}:{port}: {error}") from None
            fd = stream.detach()
        self.register(fd)
        return fd

    def _bind(self, stream: socket.socket) -> None:
        # Left to the kernel, the search for a free port makes links come up at a third of the rate.
        for port in islice(self._source_ports, LAST_PORT + 1 - FIRST_PORT):
            try:
                stream.bind((self._config.dial_address, port))
            except OSError:
                continue
            return
        raise RunError(f"no free local port at {self._config.dial_address}")

    def admit(self, fd: int, frame: bytes) -> None:
        """Accept the hello of a dialler; FrameError unless it is authentic, for a link here, and the first for it."""
        sender, port, receiver, its_port = wire.read_link_hello(frame, self._secret, self._config.run, self.nonce)
        if receiver not in self.ranks or its_port >= self.degree:
            # A proven hello may still be for another host: it has to fit the end that it names.
            raise FrameError(f"hello for rank {receiver} port {its_port}, which this host does not run")
        slot = self.slot(receiver, its_port)
        if self.peers[slot] != sender or self.reverse[slot] != port:
            raise FrameError(f"hello of rank {sender} port {port}, which is not the peer of {self.name(slot)}")
        # A second stream for one link would make packets overtake each other.
        if self.descriptors[slot] >= 0:
            raise FrameError(f"second hello for {self.name(slot)}")
        self._streams.mark_authenticated(fd)
        self.slots[fd] = slot
        self.descriptors[slot] = fd
        self._accepted += 1

    def report_progress(self) -> None:
        """Report how many links are up, if that has changed since the last report."""
        # Asked after every poll, so it says something only if there is news.
        if self._wave >= 0 and self._accepted != self._reported:
            self._report(self._wave)

    def _report(self, wave: int) -> None:
        left = sum(map(len, self._to_dial.values()))
        self._wave, self._reported = wave, self._accepted
        # Each link end of this host was either dialled or accepted.
        if self._dialled + self._accepted == self.ends:
            self.up.set()
        self._tell("links", wave, self._dialled, self._accepted, left)

    # --- closing and writing ---------------------------------------------------------------------------------------

    def close_links(self, links: Iterable[LinkEnd]) -> None:
        """Close the ends on this host of links that are named by either end."""
        for rank, port in links:
            # Both ends may be on this host; an end elsewhere is another host's to close.
            for end, its_port in ((rank, port), self._topology.end(rank, port)):
                if end in self.ranks:
                    self._close(self.slot(end, its_port))

    def _close(self, slot: int) -> None:
        fd = self.descriptors[slot]
        if fd >= 0:
            self.forget(fd)
            # By a reset, so that the other end notices at once and neither end keeps the port pair in TIME_WAIT.
            self._streams.close(fd, reset=True)

    def forget(self, fd: int) -> int:
        """Note that a stream has ended; returns its slot, or -1."""
        slot = self.slots[fd] if fd < len(self.slots) else -1
        if slot >= 0:
            self.slots[fd] = -1
            self.descriptors[slot] = -1
            # Drop its unwritten packets: the kernel may soon give the number to a new stream.
            self.queue[:] = [pair for pair in self.queue if pair[0] != fd]
        return slot

    def flush(self) -> None:
        """Write all packets that were decided so far, and read arrivals. Not to be called by a handler of frames."""
        # Both directions of a link in a row, since they touch the same sockets: see `FramedStreams.exchange`. Measured with
        # 3600 link ends in one process: a third less time in the kernel.
        if len(self.queue) > BATCH:
            slots, first_ends = self.slots, self._first_ends
            self.queue.sort(key=lambda pair: first_ends[slots[pair[0]]])
        self._streams.exchange(self.queue)
