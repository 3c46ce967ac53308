"""Faults of processes: the host processes to kill, stop, restart or resume, and doing so before a step opens.

When all ranks of a host crash, or hang until the same step, the fault applies to its process. Otherwise it applies to the
ranks within the process, which continues for the others.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from coordinator.networks.admission import ConnectedHost
from coordinator.networks.control_channel import ControlChannel
from coordinator.networks.launchers.base import Launch
from coordinator.networks.link_waves import LinkWaves
from coordinator.networks.process_actions import ProcessActions
from coordinator.networks.step_barrier import StepBarrier
from coordinator.planning.plan import Plan
from emunode.faults.connections import Connections
from emunode.faults.effects import Stops
from emunode.faults.injector import Faults
from emunode.faults.kinds import Fault, LinkFault, NodeFault, stated
from emunode.model import CollectiveSpec, FaultKnowledge, Rank, Step


class ProcessFaultPlan:
    """Finds the processes of one plan that faults kill, stop or restart."""

    def __init__(self, plan: Plan) -> None:
        self._placement = plan.placement
        self._faults_may_come = plan.faults_may_come
        self._recoveries: dict[Rank, set[Step]] = {}
        self._counting: set[Rank] = set()
        """Ranks with a fault that counts the packets that they send."""
        self.learn(plan.faults)

    def learn(self, faults: Iterable[Fault]) -> None:
        """Take note of faults, also of faults that were not planned."""
        for fault in faults:
            if isinstance(fault, NodeFault) and fault.revives:
                self._recoveries.setdefault(fault.rank, set()).add(fault.step)
            elif isinstance(fault, LinkFault) and fault.counts_packets:
                self._counting.add(fault.sender)

    def killed(self, faults: Sequence[Fault], alive: Collection[int]) -> list[int]:
        """Return the live hosts all of whose ranks crash by these faults of one step."""
        return list(self._affected({fault.rank: fault.step for fault in _stopping(faults, forgets=True)}, alive))

    def stopped(self, step: Step, faults: Sequence[Fault], alive: Collection[int]) -> dict[int, Step]:
        """Return the live hosts all of whose ranks hang by these faults of `step`, with the last step of each hang."""
        # A rank that recovers from its hang later does not end it with the others.
        hangs = [each for each in _stopping(faults, forgets=False) if not self._recovery(each.rank, step)]
        return self._affected({fault.rank: fault.end for fault in hangs}, alive)

    def revived(self, faults: Sequence[Fault]) -> set[int]:
        """Return the hosts of ranks that recover by these faults."""
        ranks = (fault.rank for fault in faults if isinstance(fault, NodeFault) and fault.revives)
        return {self._placement.host(rank) for rank in ranks}

    def _affected(self, until: Mapping[Rank, Step], alive: Collection[int]) -> dict[int, Step]:
        """Return the hosts all of whose ranks have the same step in `until` and recover together, with that step."""
        found: dict[int, Step] = {}
        # Only hosts that are still there and have an affected rank.
        for index in sorted({self._placement.host(rank) for rank in until} & {*alive}):
            ranks = self._placement.ranks(index)
            # Every rank of the host, also those without a fault: they have step 0, so that `ends` differ.
            ends = {(until.get(rank, 0), self._recovery(rank, until.get(rank, 0))) for rank in ranks}
            step, recovery = min(ends)
            # One entry: all ranks share their fate. A restarted process would count packets for `drop` from 1 again.
            restarts = recovery or self._faults_may_come
            if len(ends) == 1 and step and not (restarts and not self._counting.isdisjoint(ranks)):
                found[index] = step
        return found

    def _recovery(self, rank: Rank, after: Step) -> Step:
        """Return the step when a rank next recovers, or 0."""
        return min((step for step in self._recoveries.get(rank, ()) if step > after), default=0)


def concern_all(spec: CollectiveSpec, in_force: Faults, step: Step, faults: Sequence[Fault]) -> bool:
    """Return whether faults change anything in a step for ranks without packets or sends, once a fault was `in_force`."""
    # A detector of failures counts steps of silence, so it advances in every step.
    return bool(faults) or step in in_force.ends or spec.knowledge is FaultKnowledge.DETECT


def _stopping(faults: Iterable[Fault], *, forgets: bool) -> list[NodeFault]:
    """Return the faults whose only effect is that a rank stops, and that it loses its state if `forgets`."""
    return [fault for fault in faults if isinstance(fault, NodeFault) and stated(fault) == [Stops(forgets)]]


class ProcessFaults:
    """Carries out the faults of one plan on the hosts of `channel`, step by step."""

    def __init__(
        self, plan: Plan, channel: ControlChannel, launch: Launch, barrier: StepBarrier, links: LinkWaves
    ) -> None:
        self._channel = channel
        self._launch = launch
        self._actions = ProcessActions(launch, expected=bool(plan.faults))
        self._barrier = barrier
        self._links = links
        self._plan = ProcessFaultPlan(plan)
        self._spec = plan.spec
        self._faults = Faults(plan.topology, plan.spec.seed)
        self._history: list[Fault] = []
        """All faults of earlier steps, for processes that missed some."""
        self.connections = Connections(plan.topology, self._faults)

    def concern_all(self, step: Step, faults: Sequence[Fault]) -> bool:
        """Return whether ranks without packets or sends are concerned in a step, after `before_step`."""
        return bool(faults or self._history) and concern_all(self._spec, self._faults, step, faults)

    async def before_step(self, step: Step, faults: Sequence[Fault]) -> None:
        """Bring processes and connections into the state that they have in `step`."""
        # Until the first fault there is nothing to do, and most runs have none.
        if not faults and not self._history:
            return
        self._plan.learn(faults)
        # Processes resume and restart before the new faults apply, since a fault of this step may affect them again.
        await self._resume(step, self._plan.revived(faults))
        await self._restart(step, faults)
        self._faults.apply(faults)
        # Links close at the hosts, since hosts know the faults; opening them again takes a wave of dials.
        _, opening = self.connections.update(step, faults)
        # Containers and local processes can be killed; hosts that joined cannot.
        if self._launch.can_kill:
            await self._kill_and_stop(step, faults)
        self._history += faults
        await self._links.open_again(opening, self.connections.closed)

    async def _kill_and_stop(self, step: Step, faults: Sequence[Fault]) -> None:
        """Kill and stop processes, after their ranks have read the arrivals of the step before."""
        hosts = self._channel.hosts
        alive = [index for index, host in hosts.items() if host.alive]
        killed = [hosts[index] for index in self._plan.killed(faults, alive)]
        stopped = self._plan.stopped(step, faults, alive)
        if killed or stopped:
            self._barrier.leave_tree()
        # A host that is stopped already cannot read.
        draining = [host for host in (*killed, *(hosts[index] for index in stopped)) if not host.paused_until]
        if draining:
            await self._barrier.drain(step, faults, draining)
        for host in killed:
            # Before the kill, so that its disconnection is not taken for a failure.
            host.end_expected = True
        sent = []
        for host in killed:
            self._barrier.expect_nothing_of(host)
            sent.append(await self._actions.kill(host))
        await self._channel.wait_until(lambda: not any(host.alive for host in killed), "killed hosts to disconnect")
        for index, last in stopped.items():
            host = hosts[index]
            if not host.paused_until:
                # Overlapping hangs stop the process once; the longest decides when it resumes.
                host.paused_since = step
                sent.append(await self._actions.stop(host))
            host.paused_until = max(last, host.paused_until)
        await self._actions.seen(sent, {"step": step})

    async def _restart(self, step: Step, faults: Sequence[Fault]) -> None:
        """Restart killed processes all of whose ranks recover now, and send them the faults so far."""
        hosts = self._channel.hosts
        returning = [index for index in sorted(self._plan.revived(faults)) if hosts[index].end_expected]
        if not returning:
            return
        for index in returning:
            hosts[index].restarting = True
        sent = [await self._actions.restart(hosts[index]) for index in returning]
        # A host that joins again replaces the killed host, and is not `restarting`.
        await self._channel.wait_until(
            lambda: not any(hosts[index].restarting for index in returning),
            "hosts to restart",
            stall_seconds=self._launch.join_seconds,
        )
        again = [hosts[index] for index in returning]
        started = [each._replace(pid=host.pid) for each, host in zip(sent, again, strict=True)]
        await self._actions.seen(started, {"step": step})
        # A new process: it has no links, no ranks and no faults yet.
        await self._links.configure(again)
        await self._barrier.catch_up(step - 1, self._history, again)

    async def _resume(self, step: Step, revived: Collection[int]) -> None:
        """Resume stopped processes whose ranks hang no longer, and send them the faults that they missed.

        A process with a rank that recovers resumes too, even if the others still hang. A recovery that was planned does not
        need that: its process was not stopped.
        """
        for host in self._channel.in_order:
            if host.alive and host.paused_until and (host.paused_until < step or host.index in revived):
                await self._continue(host, {"step": step})
                self._links.close_deferred([host])
                # Faults from before the stop are known to the process.
                missed = [fault for fault in self._history if fault.step > host.paused_since]
                await self._barrier.catch_up(step - 1, missed, [host])

    async def resume_all(self) -> None:
        """Resume all stopped processes, whatever they missed."""
        for host in self._channel.in_order:
            if host.paused_until:
                await self._continue(host, {})

    async def _continue(self, host: ConnectedHost, when: Mapping[str, float]) -> None:
        host.paused_until = 0
        await self._actions.seen([await self._actions.resume(host)], when)
