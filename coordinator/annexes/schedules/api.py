"""Schedule files as objects: their judgement, and runs of them."""

from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Unpack

from coordinator.annexes.schedules.base import FileJudgement, RefusedScheduleError, ScheduleFile
from coordinator.annexes.schedules.outages import StalledRun, StepOutages
from coordinator.annexes.schedules.registry import read_schedule
from coordinator.annexes.schedules.scenario_values import network_of_links
from coordinator.api.networks import Network, network
from coordinator.api.option_types import Options
from coordinator.api.options import FaultTexts, as_list, scenario_of
from coordinator.api.progress import ProgressOption
from coordinator.api.runs import Run, run_plan
from coordinator.planning.plan import make_plan
from coordinator.scenario.fault_syntax import parse_faults
from coordinator.theory.dependence.outages import outages_of
from coordinator.theory.lower_bounds import RequiredTraffic, lower_bounds
from emunode.algorithms.claims import Claim
from emunode.errors import ScenarioError
from emunode.faults.timeline import FaultTimeline
from emunode.model import Collective, Rank, Step
from emunode.topologies.base import Topology


class CollectiveSchedule:
    """A schedule file on a network.

    >>> import coordinator as tb
    >>> import tempfile
    >>> from pathlib import Path
    >>> file = Path(tempfile.mkdtemp(), "broadcast.xml")
    >>> written = tb.network("star:4").broadcast("greedy-tree").export(msccl=file)
    >>> tb.schedule(file, "star:4").run().verdict is tb.Verdict.HOLDS
    True
    """

    def __init__(self, path: Path, net: Network | None, root: int) -> None:
        self.path = path
        self._file = read_schedule(path, root=root)
        self.network = net or Network(network_of_links(self._file, path.stem))
        """The network; by default the links that the file uses."""
        self._file.require_network(self.network.topology)
        self.root = root

    def __repr__(self) -> str:
        return f"<schedule {self.path.name}: {self._file.collective or self._file.format} on {self.network.name}>"

    def judge(self, capacity: int | None = None) -> FileJudgement:
        """Return the judgement on the file, for links that carry `capacity` chunks in one step; None: any number."""
        return self._file.judge(capacity)

    def bounds(self, capacity: int | None = None) -> Sequence[Claim]:
        """Return the lower bounds of the network on the steps and hops of any schedule that does the same.

        `Claim.bound` binds all of them. `predicted` may be larger, for as many chunks of a message and as many chunks in a
        packet as `condition` names. Empty for messages without contents.
        """
        return bounds_of(self._file, self.network.topology, capacity)

    def stalled(self, faults: FaultTexts, capacity: int | None = None) -> StalledRun:
        """Return the losses to faults in a runtime whose thread blocks wait for lost messages, such as RCCL.

        Raises ScenarioError for faults that are not outages, and for a file without thread blocks.
        """
        return stalled_by(self._file, self.network.topology, as_list(faults), capacity)

    def run(
        self,
        *,
        faults: FaultTexts = (),
        out: Path | str | None = None,
        progress: ProgressOption = None,
        **options: Unpack[Options],
    ) -> Run:
        """Run the schedule; arguments as of the methods of a network.

        Raises ScenarioError for a file that cannot run or whose judgement is `violated`, and the errors of those methods.
        """
        values = {**self.network.values, "schedule": str(self.path), **self._rooted()}
        plan = make_plan(scenario_of(values, faults, options))
        return run_plan(plan, None if out is None else Path(out), progress)

    def _rooted(self) -> dict[str, object]:
        return {"source": self.network.topology.label(self.root)} if self.root else {}


def schedule(
    file: str | PathLike[str], net: Network | str | None = None, *, root: int = 0, plugin: str | Sequence[str] = ()
) -> CollectiveSchedule:
    """Return the schedule in a file (MSCCL, TE-CCL, ForestColl, Chakra, GOAL), to be judged and run.

    `net` is a network or its name, by default the links that the file uses; `root` is the root of a broadcast, reduce,
    gather or scatter: no format names it. Raises ScenarioError (field `schedule`, `topology` or `plugin`).

    >>> import coordinator as tb
    >>> import tempfile
    >>> from pathlib import Path
    >>> file = Path(tempfile.mkdtemp(), "broadcast.xml")
    >>> written = tb.network("star:4").broadcast("greedy-tree").export(msccl=file)
    >>> found = tb.schedule(file)
    >>> found.run().journal.height
    23
    """
    found = net if isinstance(net, Network) or net is None else network(net, plugin=plugin)
    return CollectiveSchedule(Path(fspath(file)).absolute(), found, root)


def stalled_by(
    file: ScheduleFile, topology: Topology, faults: Sequence[str], capacity: int | None = None
) -> StalledRun:
    """Return the losses of a file to faults in a runtime whose thread blocks wait.

    Raises ScenarioError for faults that are not outages, and for a file without thread blocks.
    """
    records = parse_faults(faults, topology)
    faulty = {fault.place for fault in records if isinstance(fault.place, int)}
    outages = outages_of(FaultTimeline(records), faulty, topology, 0)
    if outages is None:
        raise ScenarioError(
            "fault", " ".join(faults), "thread blocks are followed under crash, hang, down and silence only"
        )
    ports = [{peer: port for port, peer in topology.adjacent(rank)} for rank in topology.ranks()]
    ends = [interval.end for intervals in outages.places.values() for interval in intervals if not interval.is_endless]

    def stops(step: Step, rank: Rank) -> bool:
        return any(interval.start <= step < interval.end for interval in outages.places.get(rank, ()))

    def blocks(step: Step, sender: Rank, receiver: Rank) -> bool:
        return outages.blocks(step, sender, ports[sender][receiver], receiver) is not None

    found = file.stalled(StepOutages(stops, blocks, ends), outages.faulty, capacity)
    if found is None:
        raise ScenarioError("fault", " ".join(faults), f"{file.format} has no thread blocks: run the file with --fault")
    return found


def bounds_of(file: ScheduleFile, topology: Topology, capacity: int | None = None) -> Sequence[Claim]:
    """Return the lower bounds of a network on the steps and hops of any schedule that does what a file does.

    Empty for a file that does not say what its messages contain, or whose form is not run.
    """
    try:
        timetable = file.timetable(capacity)
    except RefusedScheduleError:
        return ()
    whole = timetable.folders or timetable.collective is not Collective.ALLREDUCE
    traffic = RequiredTraffic(
        timetable.collective,
        file.ranks_on(topology)[file.labels[timetable.source]],
        timetable.messages,
        timetable.messages,
        capacity=capacity,
        blocks=1 if whole else timetable.ranks,
        cut=timetable.messages,
    )
    return [claim for claim in lower_bounds(topology, traffic) if claim.name in ("steps", "segments")]
