"""What faults of ranks mean for the processes in which the ranks live: decided here, carried out by `HostNetwork`.

A process is struck when all of its ranks are, alike and until the same step. Any other rank is struck inside its process,
which lives on for the rest.
"""

from collections.abc import Collection, Mapping, Sequence

from coordinator.planning.plan import Plan
from emunode.faults.kinds import Crash, Drop, Fault, Hang, Recover
from emunode.host.placement import Placement
from emunode.model import Rank, Step


class ProcessFaultPlan:
    """Of the hosts of one plan: which are to be killed, stopped or started again."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._placement = Placement(plan.topology.order, plan.hosts)
        self._recoveries: dict[Rank, list[Step]] = {}
        for fault in plan.faults:
            if isinstance(fault, Recover):
                self._recoveries.setdefault(fault.rank, []).append(fault.step)

    def killed(self, faults: Sequence[Fault], alive: Collection[int]) -> list[int]:
        """Hosts of those alive all of whose ranks crash by these faults of one step."""
        return list(self._struck({fault.rank: fault.step for fault in faults if isinstance(fault, Crash)}, alive))

    def stopped(self, step: Step, faults: Sequence[Fault], alive: Collection[int]) -> dict[int, Step]:
        """Hosts of those alive all of whose ranks hang by these faults of `step`, each with the last step of that."""
        hangs = [fault for fault in faults if isinstance(fault, Hang) and not self._recovery(fault.rank, step)]
        return self._struck({fault.rank: fault.last for fault in hangs}, alive)

    def revived(self, faults: Sequence[Fault]) -> set[int]:
        """Hosts of ranks that recover by these faults."""
        return {self._placement.host(fault.rank) for fault in faults if isinstance(fault, Recover)}

    def _struck(self, when: Mapping[Rank, Step], alive: Collection[int]) -> dict[int, Step]:
        """Hosts all of whose ranks are struck, until the same step or for good, and recover together; and that step."""
        found: dict[int, Step] = {}
        for index in sorted({self._placement.host(rank) for rank in when} & {*alive}):
            ranks = self._placement.ranks(index)
            fates = {(when.get(rank, 0), self._recovery(rank, when.get(rank, 0))) for rank in ranks}
            step, recovery = min(fates)
            if len(fates) == 1 and step and not (recovery and self._are_counted(ranks)):
                found[index] = step
        return found

    def _recovery(self, rank: Rank, after: Step) -> Step:
        """The step in which a rank next recovers, or 0."""
        return min((step for step in self._recoveries.get(rank, ()) if step > after), default=0)

    def _are_counted(self, ranks: range) -> bool:
        """Whether a fault counts packets that these ranks send, which a process that begins anew could not go on with."""
        return any(isinstance(fault, Drop) and fault.sender in ranks for fault in self._plan.faults)
