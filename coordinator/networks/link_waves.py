"""Links: configure the hosts, let them dial in waves, close links and dial them again."""

from collections import Counter
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from pathlib import Path

import trio

from coordinator.networks.admission import ConnectedHost
from coordinator.networks.base import Progress
from coordinator.networks.control_channel import LISTEN_BACKLOG, STALL_SECONDS, ControlChannel
from coordinator.networks.launchers.base import Launch
from coordinator.networks.messages import DataReceived, LinkProgress, Listening
from coordinator.planning.plan import Plan
from coordinator.scenario.plugins import loaded_plugins
from emunode.errors import RunError
from emunode.faults.connections import LinkId
from emunode.net.protocol import HostConfig
from emunode.topologies.table import TableTopology

DATA_PART = 2**24
"""Bytes of the user's numbers in one frame."""
NO_LINKS = LinkProgress(-1, 0, 0, 0)


class LinkWaves:
    """The links of all hosts of a run with the number `run`.

    Hosts dial in waves, such that no listener's queue overflows: a connection that does not fit is retried by the kernel
    only after a second, and then after ever longer times.
    """

    def __init__(self, plan: Plan, run: int, channel: ControlChannel, launch: Launch) -> None:
        self.links_opened = 0
        self.connect_seconds = 0.0
        self._plan = plan
        self._run = run
        self._channel = channel
        self._launch = launch
        self._placement = plan.placement
        # The smaller of the requested length and the limit of the kernel, which would cut a longer queue silently.
        topology = plan.topology
        # Only a network without a closed definition is sent: hosts make all others from their names.
        self._network = (b"", "")
        if isinstance(topology, TableTopology):
            self._network = (b"" if launch.preloads_network else topology.to_bytes(), topology.sha256)
        self._plugins = loaded_plugins(plan.scenario.plugin)
        self._queue = min(LISTEN_BACKLOG, _somaxconn())
        """Connections that the queue of a listener holds."""
        self._listening: dict[int, Listening] = {}
        self._progress: dict[int, LinkProgress] = {}
        self._data: dict[int, int] = {}
        self._wave = 0
        self._deferred: set[LinkId] = set()
        """Closed links that are opened again once the process of one of their ends resumes."""

    # --- hosts -----------------------------------------------------------------------------------------------------

    async def configure(self, hosts: Sequence[ConnectedHost], setup_seconds: float | None = None) -> None:
        """Give hosts their configuration, and wait until they listen.

        They report a failure if their links are not up after `setup_seconds` (STALL_SECONDS by default).
        """
        plan = self._plan
        await self._send_data(hosts, plan.spec.own_data)
        for host in hosts:
            # A report from before a restart is no longer true.
            self._listening.pop(host.index, None)
            self._progress.pop(host.index, None)
            listen, dial = self._launch.addresses(host.index)
            seconds = STALL_SECONDS if setup_seconds is None else setup_seconds
            config = HostConfig(
                self._run,
                host.index,
                plan.hosts,
                plan.spec.with_data(b""),
                listen,
                dial,
                self._queue,
                seconds,
                *self._network,
                self._plugins,
                self._placement.table,
            )
            self._channel.send(host, "assign", *config.to_record())
        await self._channel.wait_until(lambda: all(host.index in self._listening for host in hosts), "hosts to listen")

    async def _send_data(self, hosts: Sequence[ConnectedHost], data: bytes) -> None:
        """Send the numbers that the user gives, part by part: a host gets the next part when all have the one before."""
        self._data = dict.fromkeys((host.index for host in hosts), 0)
        for start in range(0, len(data), DATA_PART):
            part = data[start : start + DATA_PART]
            self._channel.send_to_all(hosts, "data", len(data), part)
            end = start + len(part)
            await self._channel.wait_until(partial(self._have_data, end), "hosts to take the data")

    def _have_data(self, count: int) -> bool:
        return min(self._data.values()) >= count

    def on_data(self, host: ConnectedHost, message: DataReceived) -> None:
        """Note how much of the numbers of the user a host has."""
        self._data[host.index] = message.taken

    def on_listening(self, host: ConnectedHost, message: Listening) -> None:
        """Note the port and nonce of a listening host, and the hosts that it will dial."""
        self._listening[host.index] = message

    def on_progress(self, host: ConnectedHost, message: LinkProgress) -> None:
        """Note how far a host is with its links."""
        self._progress[host.index] = message

    def listener(self, index: int) -> tuple[str, int, bytes]:
        """Return the address, port and nonce that other hosts dial a host with."""
        message = self._listening[index]
        # The launcher knows better where containers are; else the address that the host joined from.
        address = self._launch.addresses(index)[0] or self._channel.hosts[index].address
        return address, message.port, message.nonce

    def _of(self, host: ConnectedHost) -> LinkProgress:
        return self._progress.get(host.index, NO_LINKS)

    # --- bringing links up -----------------------------------------------------------------------------------------

    async def connect(self, progress: Progress) -> None:
        """Bring all links up; RunError if some stay down."""
        hosts, links = self._channel.in_order, self._plan.topology.link_count
        # How many other hosts dial each listener: the most frequented one limits the quota of all.
        diallers = Counter(peer for host in hosts for peer in self._listening[host.index].to_dial if peer != host.index)
        # Half of a listener's queue is for the links within its host, half is shared by all other hosts that dial it.
        own = max(1, self._queue // 2)
        quota = max(1, self._queue // 2 // max(diallers.values(), default=1))
        began, self._wave = trio.current_time(), 0
        while True:
            for host in hosts:
                # Listeners are sent once; later waves dial the same hosts.
                to_dial = self._listening[host.index].to_dial if self._wave == 0 else ()
                self._channel.send(host, "connect", self._wave, own, quota, [self.listener(peer) for peer in to_dial])
            await self._channel.wait_until(
                self._wave_is_over(hosts),
                "links to come up",
                progress=lambda: progress("links up", self._accepted(hosts), links),
            )
            if not any(self._of(host).left for host in hosts):
                break
            self._wave += 1
        self.links_opened = self._accepted(hosts)
        self.connect_seconds = trio.current_time() - began
        if self.links_opened != links:
            raise RunError(f"{self.links_opened} of {links} links came up")

    def _accepted(self, hosts: Sequence[ConnectedHost]) -> int:
        return sum(self._of(host).accepted for host in hosts)

    def _wave_is_over(self, hosts: Sequence[ConnectedHost]) -> Callable[[], bool]:
        """Return whether all hosts reported the current wave and every link that was dialled has been accepted."""
        wave = self._wave

        def is_over() -> bool:
            found = [self._of(host) for host in hosts]
            # A dialled link counts when the other end has accepted it, so both sums have to agree.
            return all(each.wave == wave for each in found) and sum(each.accepted for each in found) == sum(
                each.dialled for each in found
            )

        return is_over

    # --- closing and opening again ---------------------------------------------------------------------------------

    async def open_again(self, links: AbstractSet[LinkId], closed: AbstractSet[LinkId]) -> None:
        """Dial links that are no longer closed; links of stopped processes are deferred until the processes resume."""
        wanted = (links | self._deferred) - closed
        # A stopped process accepts nothing: its links wait until it resumes.
        self._deferred = {
            link for link in wanted if any(self._channel.hosts[end].paused_until for end in self._ends(link))
        }
        wanted -= self._deferred
        # All links of a chunk may lead to one listener.
        chunk = max(1, self._queue // 2)
        for start in range(0, len(wanted), chunk):
            await self.dial(sorted(wanted)[start : start + chunk])

    async def dial(self, links: Sequence[LinkId]) -> None:
        """Dial these links in one wave, and wait until all hosts that are active have caught up with it."""
        hosts = self._channel.active
        self._wave += 1
        # Accepted links of before stay counted, so the target is a sum.
        expected = self._accepted(hosts) + len(links)
        dialling: dict[int, list[LinkId]] = {}
        listeners: dict[int, dict[int, object]] = {}
        for link in links:
            index, peer = self._ends(link)
            dialling.setdefault(index, []).append(link)
            listeners.setdefault(index, {})[peer] = self.listener(peer)
        # Every active host, also those with nothing to dial: an answer proves that the host has carried out all earlier
        # orders.
        for host in hosts:
            self._channel.send(host, "dial", self._wave, dialling.get(host.index, []), listeners.get(host.index, {}))
        wave = self._wave
        await self._channel.wait_until(
            lambda: all(self._of(host).wave == wave for host in hosts) and self._accepted(hosts) == expected,
            "links to come up again",
        )

    def close_deferred(self, hosts: Sequence[ConnectedHost]) -> set[LinkId]:
        """Let hosts close their ends of links that closed while a process was stopped; returns all such deferred links."""
        for host in hosts:
            links = [link for link in sorted(self._deferred) if host.index in self._ends(link)]
            if links:
                self._channel.send(host, "close_links", links)
        return set(self._deferred)

    def reset(self, plan: Plan) -> None:
        """Defer no links any more, and configure hosts that restart for another plan of the same network."""
        self._plan = plan
        self._deferred.clear()

    def _ends(self, link: LinkId) -> tuple[int, int]:
        """Return the host of the end that names a link, and the host of the other end."""
        rank, port = link
        return self._placement.host(rank), self._placement.host(self._plan.topology.neighbour(rank, port))


def _somaxconn() -> int:
    """Return the kernel's limit of a listener's queue."""
    try:
        # Read at run time, because a network namespace may have a limit of its own.
        return int(Path("/proc/sys/net/core/somaxconn").read_text())
    except OSError:
        # The value of kernels before 5.4.
        return 128
