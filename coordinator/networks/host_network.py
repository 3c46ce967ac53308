"""The coordinator's side of the hosts: admit them, bring links up in waves, run steps by counting, take all down.

One poller carries all control connections, as in a host. A phase waits for a condition over what hosts said; it ends when
the condition holds, when a host fails or is gone, or at its deadline, whichever is first.
"""

import contextlib
import os
import secrets
import socket
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

import trio

from coordinator.networks.base import Progress, StepResult
from coordinator.networks.launchers.base import Launch
from coordinator.networks.process_faults import ProcessFaultPlan
from coordinator.planning.plan import Plan
from emunode import __version__
from emunode.engine.rank_set import AlteredCopy
from emunode.errors import EmulatorError, FrameError, RuleError, RunError
from emunode.faults.connections import Connections, LinkId
from emunode.faults.injector import Faults
from emunode.faults.kinds import Fault, to_record
from emunode.host.placement import Placement
from emunode.host.process import ANY_HOST
from emunode.logging import log
from emunode.model import Step
from emunode.net import validation, wire
from emunode.net.framed_streams import HELLO_SECONDS, FramedStreams, listening_socket
from emunode.net.protocol import HostConfig, spec_to_record

STALL_SECONDS = 30.0
"""How long a phase may go without any news from any host."""
LISTEN_BACKLOG = 4096
IN_RESERVE = -1
"""The index of a host that is not needed."""


class HostState:
    """What the coordinator knows of one host."""

    __slots__ = (
        "address",
        "alive",
        "due",
        "fd",
        "links",
        "listener",
        "name",
        "paused_since",
        "paused_until",
        "pid",
        "received",
        "reported",
        "sent",
        "wanted",
    )

    def __init__(self, fd: int, pid: int, name: str, address: str) -> None:
        self.fd = fd
        self.pid = pid
        self.name = name
        """Of the machine or container it runs in."""
        self.address = address
        """Where other hosts dial it, unless the launcher knows better."""
        self.alive = True
        self.listener: tuple[str, int, bytes] | None = None
        self.wanted: Sequence[int] = ()
        """Hosts that it will dial."""
        self.links = (-1, 0, 0, 0)
        """(wave, dialled, accepted, still to dial)"""
        self.reported: Step = 0
        self.sent: Mapping[int, int] = {}
        self.received: Mapping[int, int] = {}
        self.due: Step = 0
        self.paused_until: Step = 0
        """The last step for which its process is stopped, or 0."""
        self.paused_since: Step = 0
        """The step in which it was stopped."""


class HostNetwork:
    """A network whose ranks live in host processes that connect to where `launch` says, which starts them or waits."""

    def __init__(self, plan: Plan, launch: Launch) -> None:
        self._deferred: set[LinkId] = set()
        """Links that are to be opened when the process of one of their ends goes on."""
        self._begin_life(plan)
        self._launch = launch
        self._token = launch.token()
        self._run = secrets.randbits(64)
        self._hosts: dict[int, HostState] = {}
        self._by_fd: dict[int, int] = {}
        self._challenges: dict[int, bytes] = {}
        self._streams = FramedStreams(self._on_frame, self._on_end)
        self._listener: socket.socket | None = None
        self._refused: Counter[str] = Counter()
        self._killed: set[int] = set()
        """Hosts whose processes were killed, or told to leave."""
        self._restarting: set[int] = set()
        """Hosts that were killed and are being started again."""
        self._returned: set[int] = set()
        self._backlog = min(LISTEN_BACKLOG, _somaxconn())
        self._wave = 0
        self._rows: list[bytes] = []
        self._ballots: list[AlteredCopy] = []
        self._error: EmulatorError | None = None
        self._heard = 0.0
        self._unreported = self._in_flight = 0
        self._progress: Callable[[], None] = lambda: None
        self._placement = Placement(plan.topology.order, plan.hosts)
        self.links_opened = 0
        self.connect_seconds = 0.0

    @property
    def pids(self) -> list[int]:
        """Process ids of the hosts, by host."""
        return [state.pid for _, state in sorted(self._hosts.items())]

    # --- phases ----------------------------------------------------------------------------------------------------

    async def open(self, progress: Progress) -> None:
        plan = self._plan
        listener = self._listen(*await self._launch.prepare())
        pidfd = self._launch.start(listener.getsockname()[1], self._token, plan.hosts)
        self._streams.watch(pidfd, lambda: self._on_launch(pidfd))
        self._progress = lambda: progress("hosts joined", len(self._hosts), plan.hosts)
        await self._until(lambda: len(self._hosts) == plan.hosts, "hosts to join", self._launch.join_seconds)
        setup_seconds = 30 + plan.topology.link_count / 2000
        await self._assign(sorted(self._hosts), setup_seconds)
        await self._connect(self._backlog, progress)

    async def _assign(self, hosts: Sequence[int], setup_seconds: float) -> None:
        """Tell hosts what they are, and wait until they listen."""
        plan = self._plan
        for index in hosts:
            listen, dial = self._launch.addresses(index)
            assignment = HostConfig(self._run, index, plan.hosts, plan.spec, listen, dial, self._backlog, setup_seconds)
            self._send(self._hosts[index], "assign", *assignment.to_record())
        await self._until(lambda: all(self._hosts[index].listener for index in hosts), "hosts to listen")

    def _listen(self, address: str, port: int) -> socket.socket:
        try:
            listener = listening_socket(address, port, backlog=LISTEN_BACKLOG)
        except OSError as error:
            raise RunError(f"hosts cannot be waited for at {address}:{port}: {error.strerror or error}") from None
        self._listener = listener
        self._streams.listen(listener, self._on_accept)
        return listener

    async def _connect(self, room: int, progress: Progress) -> None:
        """Dial in waves such that no listener's queue, with `room` connections, overflows.

        Half of the room is for the links within a host, half is shared by all that dial it.
        """
        hosts = [state for _, state in sorted(self._hosts.items())]
        diallers = Counter(peer for index, state in self._hosts.items() for peer in state.wanted if peer != index)
        quota = max(1, room // 2 // max(diallers.values(), default=1))
        links = self._plan.topology.link_count

        def up() -> int:
            return sum(state.links[2] for state in hosts)

        def settled(wave: int) -> bool:
            return all(state.links[0] == wave for state in hosts) and up() == sum(state.links[1] for state in hosts)

        self._progress = lambda: progress("links up", up(), links)
        began, wave = trio.current_time(), 0
        while True:
            for state in hosts:
                table = [self._hosts[peer].listener for peer in state.wanted] if wave == 0 else []
                self._send(state, "connect", wave, max(1, room // 2), quota, table)
            await self._until(lambda wave=wave: settled(wave), "links to come up")  # type: ignore[misc]
            if not any(state.links[3] for state in hosts):
                break
            wave += 1
        self._wave = wave
        self.links_opened = up()
        self.connect_seconds = trio.current_time() - began
        self._progress = lambda: None
        if self.links_opened != links:
            raise RunError(f"{self.links_opened} of {links} links came up")

    async def step(self, step: Step, faults: Sequence[Fault]) -> StepResult:
        if faults or self._history:
            await self._prepare(step, faults)
        awake = [state for state in self._hosts.values() if state.alive and not state.paused_until]
        self._order("step", step, faults, awake)

        await self._until(
            lambda: not self._unreported and not self._in_flight,
            f"step {step} to end",
            explain=lambda: self._missing(step),
        )
        rows, self._rows = self._rows, []
        altered_copies, self._ballots = self._ballots, []
        busy = any(state.due or state.sent for state in self._hosts.values() if state.alive)
        return StepResult(rows, busy, altered_copies)

    async def _prepare(self, step: Step, faults: Sequence[Fault]) -> None:
        """Let happen to processes and connections what happens to them before `step` is opened."""
        await self._resume_hosts(step)
        await self._restart_hosts(step, faults)
        self._faults.apply(faults)
        _, opening = self._connections.update(step, faults)
        await self._apply_process_faults(step, faults)
        self._history += faults
        await self._open_links(opening)

    async def _apply_process_faults(self, step: Step, faults: Sequence[Fault]) -> None:
        """Kill processes all of whose ranks crash now, stop those all of whose ranks hang, once they told what they read."""
        if not self._launch.can_kill:
            return
        alive = [index for index, state in self._hosts.items() if state.alive]
        doomed, hanging = self._fates.killed(faults, alive), self._fates.stopped(step, faults, alive)
        settling = [self._hosts[index] for index in (*doomed, *hanging) if not self._hosts[index].paused_until]
        if settling:
            self._order("drain", step, faults, settling)
            await self._until(lambda: all(state.reported == step for state in settling), "failing hosts to settle")
        self._killed.update(doomed)
        for index in doomed:
            self._hosts[index].due = 0
            await self._launch.kill(index, self._hosts[index].pid)
        await self._until(lambda: not any(self._hosts[index].alive for index in doomed), "crashed hosts to be gone")
        for index, last in hanging.items():
            state = self._hosts[index]
            if not state.paused_until:
                state.paused_since = step
                await self._launch.pause(index, state.pid)
            state.paused_until = max(last, state.paused_until)

    async def _restart_hosts(self, step: Step, faults: Sequence[Fault]) -> None:
        """Start processes again that were killed and all of whose ranks recover now, and tell them what has happened."""
        returning = sorted(self._fates.revived(faults) & self._killed)
        if not returning:
            return
        self._restarting.update(returning)
        for index in returning:
            await self._launch.restart(index)
        await self._until(lambda: not self._restarting, "hosts to come back", self._launch.join_seconds)
        await self._assign(returning, STALL_SECONDS)
        self._order("catch_up", step - 1, self._history, [self._hosts[index] for index in returning])
        await self._until(lambda: not self._unreported, "hosts that came back to go on")

    async def _resume_hosts(self, step: Step) -> None:
        """Let processes go on whose ranks have hung long enough, and tell them what they missed."""
        for index, state in sorted(self._hosts.items()):
            if not state.alive or not state.paused_until or state.paused_until >= step:
                continue
            state.paused_until = 0
            await self._launch.resume(index, state.pid)
            self._send(state, "close_links", [link for link in sorted(self._deferred) if index in self._ends(link)])
            missed = [fault for fault in self._history if fault.step > state.paused_since]
            self._order("catch_up", step - 1, missed, [state])
            await self._until(lambda: not self._unreported, "a host that hung to go on")

    def _ends(self, link: LinkId) -> set[int]:
        """The hosts of both ends of a link."""
        rank, port = link
        return {self._placement.host(rank), self._placement.host(self._plan.topology.neighbour(rank, port))}

    async def _open_links(self, links: AbstractSet[LinkId]) -> None:
        """Dial closed links again, all but those of processes that are stopped: these when they go on."""
        wanted = (links | self._deferred) - self._connections.closed
        self._deferred = {link for link in wanted if any(self._hosts[index].paused_until for index in self._ends(link))}
        wanted -= self._deferred
        chunk = max(1, self._backlog // 2)
        for start in range(0, len(wanted), chunk):
            await self._dial(sorted(wanted)[start : start + chunk])

    async def _dial(self, links: Sequence[LinkId]) -> None:
        """One wave of links; over when each is up at both ends."""
        living = [
            (index, state) for index, state in sorted(self._hosts.items()) if state.alive and not state.paused_until
        ]
        self._wave += 1
        accepted = sum(state.links[2] for _, state in living) + len(links)
        dialling: dict[int, list[LinkId]] = {}
        tables: dict[int, dict[int, object]] = {}
        for link in links:
            index, peer = self._placement.host(link[0]), self._placement.host(self._plan.topology.neighbour(*link))
            dialling.setdefault(index, []).append(link)
            tables.setdefault(index, {})[peer] = self._hosts[peer].listener
        for index, state in living:
            self._send(state, "dial", self._wave, dialling.get(index, []), tables.get(index, {}))
        await self._until(
            lambda: (
                all(state.links[0] == self._wave for _, state in living)
                and sum(state.links[2] for _, state in living) == accepted
            ),
            "links to come up again",
        )

    def _order(self, name: str, step: Step, faults: Sequence[Fault], states: Sequence[HostState]) -> None:
        frame = wire.encode_control(name, step, [to_record(fault) for fault in faults])
        for state in states:
            state.sent = state.received = {}
            state.due = 0
        self._unreported, self._in_flight = len(states), 0
        for state in states:
            self._streams.send(state.fd, frame)

    async def reset(self, plan: Plan) -> None:
        if not all(state.alive for state in self._hosts.values()):
            raise RunError("processes of this network were killed, so it cannot be as new; open another")
        for index, state in self._hosts.items():
            if state.paused_until:
                state.paused_until = 0
                await self._launch.resume(index, state.pid)
        closed, broken = self._connections.closed, bool(self._deferred)
        for state in self._hosts.values():
            if broken:
                self._send(state, "close_links", sorted(self._deferred))
            self._send(state, "reset", *spec_to_record(plan.spec))
            state.reported = state.due = 0
            state.sent = state.received = {}
        if broken:
            await self._dial([])
        closed = closed | self._deferred
        self._begin_life(plan)
        self._rows.clear()
        self._ballots.clear()
        await self._open_links(closed)
        if not closed:
            await self._dial([])

    def _begin_life(self, plan: Plan) -> None:
        """Take note of a network to which nothing has happened yet."""
        self._plan = plan
        self._faults = Faults(plan.topology, plan.spec.seed)
        self._connections = Connections(plan.topology, self._faults)
        self._deferred.clear()
        self._fates = ProcessFaultPlan(plan)
        self._history: list[Fault] = []

    async def close(self) -> None:
        frame = wire.encode_control("shutdown")
        self._killed.update(self._hosts)
        for index, state in self._hosts.items():
            if state.alive and state.paused_until:
                await self._launch.kill(index, state.pid)
            elif state.alive and not self._launch.hosts_outlive_run:
                self._streams.send(state.fd, frame)
        for fd in list(self._challenges):
            self._streams.close(fd)
        await self._launch.stop()
        for state in self._hosts.values():
            if state.alive and not self._launch.hosts_outlive_run:
                self._streams.close(state.fd)
        self._streams.close_poller()
        if self._listener is not None:
            self._listener.close()

    def dismiss(self, why: str) -> None:
        """Tell hosts that outlive the run that it is over: why it did not end normally, or nothing if it did."""
        if not self._launch.hosts_outlive_run:
            return
        frame = wire.encode_control("over", why)
        for fd in self._by_fd:
            with contextlib.suppress(OSError):  # that host is gone
                os.write(fd, frame)

    # --- waiting ---------------------------------------------------------------------------------------------------

    async def _until(
        self,
        done: Callable[[], bool],
        what: str,
        stall_seconds: float | None = None,
        explain: Callable[[], str] = lambda: "",
    ) -> None:
        """Carry frames until `done`; RunError when a host failed, or no host was heard for `stall_seconds`."""
        self._heard = trio.current_time()
        stall_seconds = stall_seconds or STALL_SECONDS
        while not done():
            if self._error:
                raise self._error
            patience = self._heard + stall_seconds - trio.current_time()
            if patience < 0:
                raise RunError(f"waited {stall_seconds:g} s for {what} without news; {self._silent()}{explain()}")
            with trio.move_on_after(min(patience, HELLO_SECONDS)):
                await trio.lowlevel.wait_readable(self._streams.fileno())
            self._streams.poll_until_idle()
            self._streams.expire_unauthenticated()
            self._progress()
        if self._error:
            raise self._error

    def _silent(self) -> str:
        absent = [index for index in range(self._plan.hosts) if index not in self._hosts]
        if not absent:
            return ""
        names = [f"{state.name} ({state.address})" for _, state in sorted(self._hosts.items())]
        refused = [f"refused {count} times: {why}" for why, count in sorted(self._refused.items())]
        return "; ".join((self._launch.missing(names, absent), *refused[:3]))

    def _account(self, state: HostState, received: Mapping[int, int]) -> None:
        """Take a host's newest count of what it received in this step."""
        self._in_flight -= sum(received.values()) - sum(state.received.values())
        state.received = received

    def _missing(self, step: Step) -> str:
        """Which hosts are not done with `step`, and which of its packets did not arrive, by pair of hosts."""
        silent = [str(index) for index, state in sorted(self._hosts.items()) if state.alive and state.reported != step]
        lines = (
            [f"hosts that said nothing: {', '.join(silent[:5])}{', ..' if len(silent) > 5 else ''}"] if silent else []
        )
        for index, state in sorted(self._hosts.items()):
            for peer, sent in sorted(state.sent.items()):
                other = self._hosts.get(peer)
                got = other.received.get(index, 0) if other else 0
                if got != sent and other and other.alive:
                    lines.append(f"host {index} sent {sent} packets to host {peer}, which received {got}")
        return "; ".join(lines[:3])

    def _on_launch(self, pidfd: int) -> None:
        """Whatever started the hosts is done, which is as it should be only if all of them were to be killed."""
        self._streams.unwatch(pidfd)
        if len(self._killed | self._returned) < self._plan.hosts:
            self._launch.check()

    # --- what hosts say --------------------------------------------------------------------------------------------

    def _send(self, state: HostState, *message: object) -> None:
        self._streams.send(state.fd, wire.encode_control(*message))

    def _on_accept(self, fd: int) -> None:
        challenge = os.urandom(wire.NONCE_BYTES)
        self._challenges[fd] = challenge
        self._streams.send(fd, wire.frame(challenge))

    def _on_frame(self, fd: int, frame: bytes) -> None:
        index = self._by_fd.get(fd)
        if index is None:
            self._admit(fd, frame)
            return
        if index == IN_RESERVE:
            raise FrameError("a host in reserve that speaks")
        self._heard = trio.current_time()
        name, *fields = wire.decode_control(frame)
        try:
            self._handle_message(index, name, fields)  # type: ignore[arg-type]
        except ValueError:
            raise FrameError(f"a message {name!r} of {len(fields)} fields") from None

    def _handle_message(self, index: int, name: str, fields: Sequence[object]) -> None:
        """Believe a host; FrameError for what no host says, ValueError for too few or too many fields."""
        state, hosts = self._hosts[index], self._plan.hosts
        match name:
            case "listening":
                port, nonce, wanted = fields
                state.wanted = validation.integers(wanted, most=hosts - 1)
                address = self._launch.addresses(index)[0] or state.address
                state.listener = (address, validation.integer(port, 1, 65535), validation.nonce(nonce))
            case "links":
                state.links = tuple(validation.integers(fields, 4))  # type: ignore[assignment]
            case "rows":
                (rows,) = fields
                self._rows.append(validation.rows(rows))
            case "altered_copies":
                (altered_copies,) = fields
                self._ballots += validation.altered_copies(altered_copies)  # type: ignore[arg-type]
            case "report":
                step, sent, received, due, rows = fields
                state.reported, state.due = validation.integer(step), validation.integer(due)
                state.sent = validation.counts(sent, hosts)
                self._unreported -= 1
                self._in_flight += sum(state.sent.values())
                self._account(state, validation.counts(received, hosts))
                if rows:
                    self._rows.append(validation.rows(rows))
            case "received":
                step, received = fields
                if step == state.reported:
                    self._account(state, validation.counts(received, hosts))
            case "failed":
                kind, text = map(validation.text, fields)
                error = RuleError(text) if kind == RuleError.__name__ else RunError(f"host {index}: {text}")
                self._error = self._error or error
            case _:
                self._on_news(index, state, name, fields)

    def _on_news(self, index: int, state: HostState, name: str, fields: Sequence[object]) -> None:
        """A message that concerns no step; raises FrameError for one that is none."""
        del index, state, fields
        raise FrameError(f"a message that is none: {name!r}")

    def _admit(self, fd: int, frame: bytes) -> None:
        """Let a host in that proves it knows the token, has our version, and finds a place."""
        nonce, hello = wire.read_host_hello(frame, self._token, self._challenges[fd])
        match hello:
            case "hello", version, int(index), int(pid), str(name), *given if version == __version__:
                address = validation.address(*given[:1]) if given else _peer_address(fd)
            case _, version, *_ if version != __version__:
                raise FrameError(f"a host of version {version}, and this is {__version__}")
            case _:
                raise FrameError("a hello that is none")
        if index == ANY_HOST:
            index = next((free for free in range(self._plan.hosts) if free not in self._hosts), IN_RESERVE)
        reserve = index == IN_RESERVE and self._launch.hosts_outlive_run
        back = index in self._restarting
        if (not reserve and not 0 <= index < self._plan.hosts) or (index in self._hosts and not back):
            raise FrameError(f"a host {index} for which there is no place")
        if pid < 1:
            raise FrameError(f"a host of process {pid}")
        proof = wire.frame(wire.prove(self._token, b"coordinator", nonce))
        if self._launch.hosts_outlive_run and not reserve and not back:
            self._require_reachable(fd, address, proof)
        del self._challenges[fd]
        self._heard = trio.current_time()
        self._streams.mark_authenticated(fd)
        if reserve:
            log("host in reserve", name=name)
        else:
            self._hosts[index] = HostState(fd, pid, name, address)
            self._launch.joined(index)
        if back:
            self._restarting.discard(index)
            self._killed.discard(index)
            self._returned.add(index)
        self._by_fd[fd] = index
        self._streams.send(fd, proof)

    def _require_reachable(self, fd: int, address: str, proof: bytes) -> None:
        """Refuse hosts that joined by a loopback address once others are on other machines, which could not dial them."""
        others = [index for index, state in self._hosts.items() if _is_loopback(state.address) != _is_loopback(address)]
        if others and _is_loopback(address):
            why = _unreachable(address, self._hosts[others[0]].address)
            self._streams.send(fd, proof + wire.encode_control("refused", why))
            raise FrameError(why)
        for index in others:
            state = self._hosts.pop(index)
            why = _unreachable(state.address, address)
            log("host refused", name=state.name, why=why)
            self._refused[why] += 1
            self._send(state, "refused", why)
            del self._by_fd[state.fd]
            self._streams.close(state.fd)

    def _on_end(self, fd: int, why: str) -> None:
        index = self._by_fd.pop(fd, None)
        if index is None:
            if self._challenges.pop(fd, None):
                self._refused[why] += 1
            log("stranger refused", why=why)
            return
        if index == IN_RESERVE:
            return
        self._hosts[index].alive = False
        if index not in self._killed:
            self._error = self._error or RunError(
                f"host {index} (process {self._hosts[index].pid} on {self._hosts[index].name}) is gone: {why}"
            )


def _peer_address(fd: int) -> str:
    with socket.socket(fileno=os.dup(fd)) as stream:
        address: str = stream.getpeername()[0]
        return address


def _is_loopback(address: str) -> bool:
    return address.startswith("127.")


def _unreachable(local: str, remote: str) -> str:
    return (
        f"it joined at {local}, where the host at {remote} cannot dial it; join by an address that other machines reach, "
        "or use emunode --advertise ADDRESS"
    )


def _somaxconn() -> int:
    try:
        return int(Path("/proc/sys/net/core/somaxconn").read_text())
    except OSError:
        return 128
