"""A host: one process that runs ranks, from the proof of its identity to the end of the run.

The session owns the control connection and the poller that carries it, the listener and all links. It decodes orders and
hands them to the parts that carry them out: the link table, the step engine, or the timed clock. If an order cannot be
carried out, the answer is `failed`, and the coordinator decides about the run.

    (both sides prove the token) -> assign (`HostConfig`) -> listening -> connect, wave by wave -> step 1, 2, .. -> shutdown
"""

import os
import shlex
import socket
from collections.abc import Callable
from typing import NamedTuple

import trio

from emunode.algorithms.base import Algorithm, renew
from emunode.algorithms.registry import make_algorithm
from emunode.engine.rank_set import results_of
from emunode.errors import EmulatorError, FrameError, RunError
from emunode.host.control_tree import ControlTree
from emunode.host.link_table import LinkTable
from emunode.host.orders import (
    AreYouThere,
    CloseLinks,
    Connect,
    DataPart,
    Dial,
    JoinTree,
    Look,
    OpenStep,
    Order,
    Refused,
    Reset,
    RunOver,
    SendResults,
    Shutdown,
    read_order,
)
from emunode.host.placement import placement_of
from emunode.host.step_engine import StepEngine
from emunode.logging import RefusedConnections, log
from emunode.model import CollectiveSpec
from emunode.net import wire
from emunode.net.framed_streams import HELLO_SECONDS, FramedStreams, listening_socket
from emunode.net.protocol import HostConfig
from emunode.plugins import load_received
from emunode.programs import ALLOWED, command_text
from emunode.timed.engine import HostCallbacks, LinkEnds, TimedRun
from emunode.topologies.base import Topology
from emunode.topologies.registry import parse_topology
from emunode.topologies.table import TableTopology

HEARTBEAT_SECONDS = 0.5
"""Interval of heartbeats under the timed clock."""


class HostParts(NamedTuple):
    """The parts of a configured host: its links, and the engine that runs its ranks."""

    config: HostConfig
    links: LinkTable
    engine: StepEngine
    tree: ControlTree


Configured = Callable[[HostConfig, Topology], None]


class Session:
    """One host, on the authenticated, non-blocking control connection `control`.

    A wait blocks the whole thread for up to `linger_seconds` before other tasks may run. Peers dial `advertise`, if that
    is given. Plug-ins of the coordinator are executed only with `allow_plugins`. `configured` is called once the host
    knows its ranks.
    """

    def __init__(
        self,
        control: int,
        secret: bytes,
        nursery: trio.Nursery,
        linger_seconds: float = 0.0,
        advertise: str = "",
        allow_plugins: bool = False,
        configured: Configured | None = None,
    ) -> None:
        self.problem = "lost the connection to the coordinator"
        """The reason why the run did not end normally for this host.

        Empty once the coordinator confirmed that it did.
        """
        self._failure = ""
        self._data: list[bytes] = []
        self._advertise = advertise
        self._allow_plugins = allow_plugins
        self._configured = configured
        self._control = control
        self._secret = secret
        self._nursery = nursery
        self._linger_seconds = linger_seconds
        self._streams = FramedStreams(self._on_other_frame, self._on_end)
        self._streams.add(control, authenticated=True)
        self._finished = trio.Event()
        self._refused = RefusedConnections()
        self._parts: HostParts | None = None
        self._timed: TimedRun | None = None

    async def run(self) -> None:
        """Process frames until the coordinator ends the run or disconnects."""
        self._nursery.start_soon(self._pump)
        self._nursery.start_soon(self._expire_unauthenticated)
        await self._finished.wait()
        self._nursery.cancel_scope.cancel()

    def close(self) -> None:
        """Close every descriptor that this session opened or took over."""
        if self._parts is not None:
            self._parts.links.close()
            self._parts.tree.close()
            self._parts.engine.algorithm.close()
        # Only descriptors that this process still owns: the control connection may have ended.
        for fd in (*self._streams.unauthenticated, self._control):
            if fd >= 0:
                os.close(fd)
        if self._timed is not None:
            self._timed.close()
        self._streams.close_poller()

    async def _pump(self) -> None:
        while True:
            await self._streams.wait(self._linger_seconds)
            # Ranks that were woken run between polls, as tasks of the nursery.
            while self._running() or self._streams.poll():
                if self._timed is not None:
                    self._timed.turn()
                    # Let the tasks of the ranks run, and the timers of trio.
                    await trio.lowlevel.checkpoint()
                elif self._running():
                    await trio.lowlevel.checkpoint()
            if self._timed is not None:
                self._timed.turn()
            elif self._parts is not None:
                # Arrivals after the report of this step change the counts that the coordinator waits for.
                self._parts.engine.report_late_arrivals()
                self._parts.tree.report_late_arrivals()
                self._parts.links.report_progress()

    def _running(self) -> bool:
        """Return whether rank tasks were woken and have not run yet."""
        return self._parts is not None and self._parts.engine.working > 0

    # Its own task, because the poller sleeps while nothing arrives.
    async def _expire_unauthenticated(self) -> None:
        while True:
            # Five looks per deadline, so a stream without a hello ends at most a fifth of it late.
            await trio.sleep(HELLO_SECONDS / 5)
            self._streams.expire_unauthenticated()

    # --- frames ----------------------------------------------------------------------------------------------------

    def _on_other_frame(self, fd: int, frame: bytes) -> None:
        """Handle a frame of a stream that is not a link: an order, or the hello of a dialler."""
        parts = self._parts if fd == self._control else self._require_parts()
        if parts is not None and fd != self._control and not parts.tree.is_parent(fd):
            if parts.tree.owns(fd):
                parts.tree.on_frame(fd, frame)
            elif wire.is_tree_hello(frame):
                parts.tree.admit(fd, frame)
            else:
                parts.links.admit(fd, frame)
            return
        # Before the configuration there is no topology, and orders that name ranks are refused.
        topology = parts.engine.algorithm.topology if parts else None
        try:
            order = read_order(frame, topology)
            if isinstance(order, OpenStep) and order.through_tree:
                tree = self._require_parts().tree
                tree.pass_on(order.step, frame)
                self._require_parts().engine.open_step(order, tree.tell)
            elif fd != self._control:
                raise FrameError(f"an order through the tree that is no step: {type(order).__name__}")
            else:
                self._carry_out(order)
        except EmulatorError as error:
            self._fail(error)

    def _on_end(self, fd: int, why: str) -> None:
        if fd == self._control:
            self._control = -1
            # Without the coordinator there is no run: the host ends, with `problem` as it was.
            self._finished.set()
            return
        if self._parts is not None and self._parts.tree.forget(fd):
            return
        slot = self._parts.links.forget(fd) if self._parts else -1
        if self._parts is None or slot < 0:
            self._refused.log(why)
            return
        self._parts.engine.link_ended(slot, why)
        # Under the timed clock links stay connected unless a process is killed for a crash.
        if self._timed is not None and not self._timed.finished and not self._timed.explains_end(slot):
            self._fail(RunError(f"link {self._parts.links.name(slot)} ended: {why}"))

    def _tell(self, *message: object) -> None:
        """Send a message to the coordinator."""
        self._streams.send(self._control, wire.encode_control(*message))

    def _fail(self, error: Exception) -> None:
        log("host failed", error=repr(error))
        # The first failure is the cause; later ones are its consequences.
        self._failure = self._failure or str(error)
        self._tell("failed", type(error).__name__, str(error))

    # --- orders ----------------------------------------------------------------------------------------------------

    def _carry_out(self, order: Order) -> None:
        match order:
            case HostConfig() | DataPart():
                self._set_up(order)
            case Connect():
                self._require_parts().links.connect(order)
            case Dial():
                self._require_parts().links.dial_again(order)
            case CloseLinks():
                self._require_parts().links.close_links(order.links)
            case Reset():
                engine = self._require_parts().engine
                own_data = engine.algorithm.spec.own_data
                engine.reset(order.spec.with_data(own_data) if order.spec.lacks_data else order.spec)
            case OpenStep():
                self._require_parts().engine.open_step(order)
            case JoinTree():
                self._require_parts().tree.join(order)
            case AreYouThere() | Look() | SendResults():
                self._answer(order)
            case Shutdown():
                self.problem = self._failure
                self._finished.set()
            case RunOver(reason):  # a host that joined stays connected until the coordinator exits
                self.problem = reason or self._failure
            case Refused(reason):
                self.problem = f"refused by the coordinator: {reason}"
                self._finished.set()
            case _:
                self._timed_run().carry_out(order)

    def _set_up(self, order: HostConfig | DataPart) -> None:
        """Configure this host, or keep a part of the user's numbers.

        These parts come before the configuration.
        """
        if isinstance(order, HostConfig):
            self._configure(order)
            return
        self._data.append(order.part)
        taken = sum(map(len, self._data))
        if self._parts is not None or taken > order.total:
            raise FrameError(f"{taken} bytes of data, expected {order.total} before the configuration")
        self._tell("data_received", taken)

    def _answer(self, order: AreYouThere | Look | SendResults) -> None:
        """Answer a question of the coordinator.

        It asks whether this host is there, what has arrived at its ranks, or for their results.
        """
        if not isinstance(order, SendResults):
            if isinstance(order, Look):
                self._require_parts().engine.look(order.step)
            self._tell("here")
            return
        # One message for each segment: a frame then holds a result as the packets of the run did.
        for part in results_of(self._require_parts().engine.algorithm):
            self._tell("result", *part)
        self._tell("results_sent")

    def _require_parts(self) -> HostParts:
        if self._parts is None:
            raise FrameError("an order or a hello before the host was configured")
        return self._parts

    def _configure(self, config: HostConfig) -> None:
        """Create the link ends and the ranks.

        Once every rank's task is parked, report where this host listens.
        """
        if self._parts is not None:
            raise FrameError("a second configuration")
        if config.spec.lacks_data:
            config = config._replace(spec=config.spec.with_data(b"".join(self._data)))
            self._data.clear()
            if config.spec.lacks_data:
                raise FrameError("a configuration without the data of its numbers")
        # Before the network and the algorithm are looked up: both may come from a plug-in.
        self._load_plugins(config)
        topology = _network(config)
        if config.hosts > topology.order:
            raise FrameError(f"host {config.host} of {config.hosts} for {topology.order} ranks")
        placement = placement_of(config, topology.order)
        if self._configured is not None:
            self._configured(config, topology)
        algorithm = _algorithm(topology, config)
        # After all checks of the job: a host that refuses it has opened no listener.
        links = LinkTable(config, topology, placement, self._streams, self._secret, self._tell, self._listen(config))
        # So that the slot array covers every descriptor that the frame handler may be asked about.
        links.register(self._control)
        links.control = self._control
        engine = StepEngine(algorithm, links, self._tell, self._fail, self._on_other_frame)
        tree = ControlTree(config, self._secret, self._streams, links, self._tell)
        self._parts = HostParts(config, links, engine, tree)
        # Nearly all frames are packets of links from now on: the engine sees them first, and hands over the others.
        self._streams.set_frame_handler(engine.on_frame)
        for rank in links.ranks:
            # Started here, parked before the first step: a step then only reschedules tasks.
            self._nursery.start_soon(engine.run_rank, rank, self._on_all_parked)

    def _load_plugins(self, config: HostConfig) -> None:
        if config.plugins and not self._allow_plugins:
            names = ", ".join(plugin.name for plugin in config.plugins)
            raise RunError(f"this host does not accept plug-ins ({names}); start it with emunode --allow-plugins")
        for plugin in config.plugins:
            load_received(plugin)
        if config.spec.program:
            if not self._allow_plugins:
                raise RunError("this host does not execute programs; start it with emunode --allow-plugins")
            # This one command line, and no other that an order may name later.
            ALLOWED.add(command_text(shlex.split(config.spec.program)))

    def _listen(self, config: HostConfig) -> socket.socket:
        """Return a socket that peers can dial.

        It is at the advertised address, else at the configured address, else on the route to the coordinator.
        """
        address = self._advertise or config.listen_address or _own_address(self._control)
        try:
            return listening_socket(address, backlog=config.backlog)
        except OSError as error:
            if not self._advertise:
                # An address that was not given by the user has to be one of this machine.
                raise RunError(f"cannot listen at {address}: {error.strerror or error}") from None
        # An advertised address need not belong to this machine: a gateway may translate it.
        return listening_socket("0.0.0.0", backlog=config.backlog)

    def _on_all_parked(self) -> None:
        # Only now: once the address is known, links and orders for the ranks may come at once.
        self._nursery.start_soon(self._watch_setup)
        self._require_parts().links.announce()

    async def _watch_setup(self) -> None:
        """Report a failure if some links are not up within the deadline."""
        config, links, *_ = self._require_parts()
        with trio.move_on_after(config.setup_seconds):
            await links.up.wait()
            return
        missing = links.missing
        # Three names are enough to find the mistake; a host may miss thousands of links.
        names = ", ".join(map(links.name, missing[:3]))
        self._fail(RunError(f"{len(missing)} links did not come up within the deadline, such as {names}"))

    def _timed_run(self) -> TimedRun:
        """Return the timed clock.

        The first of its orders creates it. From then on it drives the ranks.
        """
        if self._timed is None:
            _, links, engine, _ = self._require_parts()
            ends = LinkEnds(links.ranks, links.peers, links.reverse, links.descriptors, links.slots)
            callbacks = HostCallbacks(engine.node, self._tell, self._fail, self._on_other_frame)
            self._timed = TimedRun(engine.algorithm, self._streams, ends, callbacks)
            # Between two events of the timed clock a host has nothing to say: heartbeats show that it lives.
            self._nursery.start_soon(self._send_heartbeats, self._timed)
        return self._timed

    async def _send_heartbeats(self, timed: TimedRun) -> None:
        while not timed.finished:
            await trio.sleep(HEARTBEAT_SECONDS)
            timed.report()


async def serve(
    control: int,
    secret: bytes,
    linger_seconds: float = 0.0,
    advertise: str = "",
    allow_plugins: bool = False,
    configured: Configured | None = None,
) -> str:
    """Run a host on an authenticated, non-blocking control connection until the run is over.

    Returns the reason why the run did not end normally for this host; empty if it did.
    """
    session: Session | None = None
    try:
        async with trio.open_nursery() as nursery:
            session = Session(control, secret, nursery, linger_seconds, advertise, allow_plugins, configured)
            await session.run()
    finally:  # after the nursery: a task that was just started runs up to its first checkpoint even if it is cancelled
        if session is not None:
            session.close()
    return session.problem


def _own_address(fd: int) -> str:
    """Return the local address of a connection."""
    # A duplicate, because the socket object closes its descriptor.
    with socket.socket(fileno=os.dup(fd)) as stream:
        address: str = stream.getsockname()[0]
        return address


PREPARED: dict[tuple[str, CollectiveSpec], Algorithm] = {}
"""Algorithms with tables that the parent of forked hosts has computed, by the digest of the network and the job."""


def prepare_algorithm(spec: CollectiveSpec, network_sha256: str = "") -> None:
    """Compute the tables of an algorithm for the hosts of this process.

    Raises ScenarioError if the algorithm refuses the job.
    """
    topology = PRELOADED[network_sha256] if network_sha256 else parse_topology(spec.topology)
    algorithm = make_algorithm(topology, spec)
    algorithm.compute_tables()
    PREPARED[network_sha256, spec] = algorithm


def _algorithm(topology: Topology, config: HostConfig) -> Algorithm:
    """Return the algorithm of a run, with tables that the parent has computed, if there are any."""
    prepared = PREPARED.get((config.network_sha256, config.spec.with_data(b"")))
    if prepared is None:
        return make_algorithm(topology, config.spec)
    if config.spec.own_data:
        # The prepared tables do not depend on the numbers of the ranks, so only the job is replaced.
        renew(prepared, config.spec)
    return prepared


PRELOADED: dict[str, TableTopology] = {}
"""By digest, networks that the parent of forked hosts has read, so that no host of it has to."""


def preload_network(data: bytes) -> None:
    """Keep a network for the hosts of this process.

    `data` is as `TableTopology.to_bytes` writes it. Raises FrameError if it is malformed.
    """
    # Read once before the forks, so that all hosts share the memory.
    topology = TableTopology.from_bytes(data)
    PRELOADED[topology.sha256] = topology


def _network(config: HostConfig) -> Topology:
    """Return the network of a run.

    It is preloaded, sent along, or defined by its name. Raises FrameError for another digest.
    """
    if not config.network_sha256:
        return parse_topology(config.spec.topology)
    if config.network_sha256 in PRELOADED:
        return PRELOADED[config.network_sha256]
    topology = TableTopology.from_bytes(config.network)
    if topology.sha256 != config.network_sha256:
        raise FrameError(
            f"network digest mismatch: the coordinator has {config.network_sha256}, this host received {topology.sha256}"
        )
    return topology
