"""A network of host processes, as the coordinator drives it: bring it up, run steps, reset it, take it down.

The parts: `ControlChannel` (connections and waiting), `Admission` (who may join), `LinkWaves` (links), `StepBarrier` (steps)
and `ProcessFaults` (killing, stopping and restarting processes). This class connects them.
"""

import secrets
import time
from collections.abc import Sequence
from typing import Final

import trio

from coordinator.networks.admission import Admission, ConnectedHost
from coordinator.networks.base import Progress, StepResult, UnreadArrivals
from coordinator.networks.control_channel import ControlChannel
from coordinator.networks.control_tree import TREE_HOSTS, TreeBuilder
from coordinator.networks.launchers.base import Launch
from coordinator.networks.link_waves import LinkWaves
from coordinator.networks.messages import (
    DataReceived,
    HostFailed,
    LinkProgress,
    Listening,
    Message,
    ReceivedResult,
    ResultsSent,
    TreeJoined,
)
from coordinator.networks.process_faults import ProcessFaults
from coordinator.networks.step_barrier import StepBarrier
from coordinator.planning.plan import Plan
from emunode.engine.rank_set import KeptResult
from emunode.errors import DeadlineError, EmulatorError, FaultError, FrameError, RuleError, RunError
from emunode.faults.kinds import Fault
from emunode.model import Step
from emunode.net.records import encode_record

TIME_LIMIT_IS_NEAR: Final = "the time limit of its job is near, so it was ended with what it had measured"


class HostNetwork:
    """A network whose ranks run in host processes; `launch` starts the processes or waits for them."""

    def __init__(self, plan: Plan, launch: Launch) -> None:
        self._plan = plan
        self._launch = launch
        self._token = launch.token()
        self._admission = Admission(self._token, plan.hosts, joined=launch.hosts_outlive_run)
        self._channel = ControlChannel(self._admission, plan.hosts, self._on_message, self._on_joined)
        # 64 random bits: a host cannot take the link of another run for one of its own.
        self._links = LinkWaves(plan, secrets.randbits(64), self._channel, launch)
        self.barrier = StepBarrier(self._channel)
        self._faults = ProcessFaults(plan, self._channel, launch, self.barrier, self._links)
        self._tree = TreeBuilder(self._channel, self._links)
        self._results: list[KeptResult] = []
        self._answered: set[int] = set()

    @property
    def links_opened(self) -> int:
        """The number of links that `open` brought up."""
        return self._links.links_opened

    @property
    def connect_seconds(self) -> float:
        """The time that `open` took for the links."""
        return self._links.connect_seconds

    @property
    def pids(self) -> list[int]:
        """Process ids of the hosts, by host."""
        return [host.pid for host in self._channel.in_order]

    # --- phases ----------------------------------------------------------------------------------------------------

    async def open(self, progress: Progress) -> None:
        plan, channel = self._plan, self._channel
        # The port is known only once the socket is bound; the launcher passes it to the hosts.
        port = channel.listen(*await self._launch.prepare())
        channel.watch(self._launch.start(port, self._token, plan.hosts), self._on_launcher_ready)
        await channel.wait_until(
            lambda: len(channel.hosts) == plan.hosts,
            "hosts to join",
            stall_seconds=self._launch.join_seconds,
            explain=self._absent,
            progress=lambda: progress("hosts joined", len(channel.hosts), plan.hosts),
        )
        # Measured: 2,000 links per second come up even on a busy machine.
        # With a floor for small networks, whose time goes into starting processes.
        await self._links.configure(channel.in_order, setup_seconds=30 + plan.topology.link_count / 2000)
        await self._links.connect(progress)
        if plan.hosts >= TREE_HOSTS and plan.scenario.clock != "timed":
            self.barrier.use_tree(await self._tree.build(plan.hosts))

    async def step(self, step: Step, faults: Sequence[Fault]) -> StepResult:
        self.require_time()
        # Processes are killed or stopped before the step when their ranks fail.
        await self._faults.before_step(step, faults)
        return await self.barrier.step(step, faults, everyone=self._faults.concern_all(step, faults))

    async def look(self, step: Step) -> UnreadArrivals:
        return await self.barrier.look(step)

    async def results(self) -> list[KeptResult]:
        asked = self._channel.active
        self._results, self._answered = [], set()
        self._channel.send_to_all(asked, "results")
        await self._channel.wait_until(
            lambda: len(self._answered) == len(asked),
            "results of all hosts",
            explain=lambda: f"{len(asked) - len(self._answered)} hosts have not sent theirs",
        )
        return sorted(self._results)

    def require_time(self) -> None:
        """Raise RunError if a scheduler will kill the hosts soon."""
        if time.monotonic() > self._launch.ends_at:
            raise RunError(TIME_LIMIT_IS_NEAR)

    async def failure(self) -> EmulatorError:
        with trio.move_on_after(max(0.0, self._launch.ends_at - time.monotonic())):
            return await self._channel.failure()
        return RunError(TIME_LIMIT_IS_NEAR)

    async def reset(self, plan: Plan) -> None:
        hosts, links = self._channel.in_order, self._links
        # Replacing the processes would amount to opening another network; the caller can do that.
        if not all(host.alive for host in hosts):
            raise RunError("cannot reset this network, since processes of it were killed; open another one")
        await self._faults.resume_all()
        closed = set(self._faults.connections.closed)
        deferred = links.close_deferred(hosts)
        # Orders of one connection are carried out in order: closing, then reset, then dialling.
        self._channel.send_to_all(hosts, "reset", *encode_record(plan.spec.with_data(b"")))
        if deferred:  # the ends at processes that were stopped have to be closed before they are dialled again
            await links.dial([])
        links.reset(plan)
        self._plan = plan
        self.barrier.reset()
        self._faults = ProcessFaults(plan, self._channel, self._launch, self.barrier, links)
        if closed or deferred:
            await links.open_again(closed | deferred, frozenset())
        else:  # an empty wave: once every host has answered it, every host has been reset
            await links.dial([])

    async def close(self) -> None:
        stay = self._launch.hosts_outlive_run
        for host in self._channel.in_order:
            host.end_expected = True
            if host.alive and host.paused_until:
                # A stopped process cannot read an order; only a kill ends it.
                await self._launch.kill(host.index, host.pid)
            elif host.alive and not stay:
                self._channel.send(host, "shutdown")
        self._channel.close_pending()
        await self._launch.stop()
        self._channel.close(keep_hosts=stay)

    def dismiss(self, reason: str) -> None:
        """Tell hosts that outlive the run that it is over, and why.

        `reason` is empty if it ended normally.
        """
        if self._launch.hosts_outlive_run:
            self._channel.send_last("over", reason)

    # --- events ----------------------------------------------------------------------------------------------------

    def _on_joined(self, host: ConnectedHost) -> None:
        self._launch.joined(host.index, host.name)

    def _on_launcher_ready(self) -> None:
        """Check the launcher: either it failed, or all its processes ended; that is right only if all were killed."""
        hosts = self._channel.in_order
        if len(hosts) < self._plan.hosts or not all(host.end_expected or host.restarted for host in hosts):
            self._launch.check()

    def _on_message(self, host: ConnectedHost, message: Message) -> None:
        match message:
            case DataReceived():
                self._links.on_data(host, message)
            case Listening():
                self._links.on_listening(host, message)
            case LinkProgress():
                self._links.on_progress(host, message)
            case TreeJoined(children):
                self._tree.on_joined(host.index, children)
            case ReceivedResult(part):
                self._results.append(part)
            case ResultsSent():
                self._answered.add(host.index)
            case HostFailed(kind, text):
                # Mistakes of an algorithm, a program or a kind of fault keep their kind; all else is a failure of this run.
                kept = {error.__name__: error for error in (RuleError, FaultError, DeadlineError)}
                self._channel.fail(kept[kind](text) if kind in kept else RunError(f"host {host.index}: {text}"))
            case _ if self.barrier.take(host, message):
                pass
            case _:
                raise FrameError(f"unexpected message {type(message).__name__} outside the timed clock")

    def _absent(self) -> str:
        """Return the hosts that have not joined, and why others were refused."""
        hosts = self._channel.in_order
        absent = [index for index in range(self._plan.hosts) if index not in self._channel.hosts]
        names = [f"{host.name} ({host.address})" for host in hosts]
        refused = [f"refused {count} times: {why}" for why, count in sorted(self._admission.refusals.items())]
        return "; ".join((self._launch.missing(names, absent), *refused[:3]))
