"""Schedule files as objects: their judgement, and runs of them."""

from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Unpack

from coordinator.api.networks import Network, network
from coordinator.api.option_types import Options
from coordinator.api.options import FaultTexts, scenario_of
from coordinator.api.progress import ProgressOption
from coordinator.api.runs import Run, run_plan
from coordinator.planning.plan import make_plan
from coordinator.scenario.schedules import network_of_links
from coordinator.schedules.base import FileJudgement
from coordinator.schedules.registry import read_schedule


class CollectiveSchedule:
    """A schedule file on a network."""

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
    gather or scatter, which no format names. Raises ScenarioError (field `schedule`, `topology` or `plugin`).
    """
    found = net if isinstance(net, Network) or net is None else network(net, plugin=plugin)
    return CollectiveSchedule(Path(fspath(file)).absolute(), found, root)
