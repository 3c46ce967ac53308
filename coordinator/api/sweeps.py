"""Sweeps as objects: a table of one metric over networks and sizes, its figure and its page."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Unpack

from coordinator.api.networks import BaseNetwork
from coordinator.api.option_types import Options
from coordinator.api.options import FaultTexts, as_list, scenario_values
from coordinator.api.progress import ProgressOption, progress_display
from coordinator.api.threads import call
from coordinator.campaigns.sweep import Sweep
from coordinator.campaigns.sweep import sweep as run_sweep
from emunode.errors import ScenarioError
from emunode.topologies.table import TableTopology


def sweep(
    networks: str | BaseNetwork | Sequence[str | BaseNetwork],
    collective: str,
    algorithms: str | Sequence[str],
    *,
    metric: str = "steps",
    vary: Mapping[str, Sequence[object]] | None = None,
    faults: FaultTexts = (),
    out: Path | str | None = None,
    progress: ProgressOption = None,
    **options: Unpack[Options],
) -> Sweep:
    """Run every algorithm on every network, once each, and put one metric beside its best lower bound.

    `networks` are names, where a range stands for all its numbers (`"star:3..6"`), or networks; `file:PATH` names a
    file. `vary` has several values for other fields of a scenario, such as `{"segments": range(1, 5)}`: a run is made
    of every combination. Where runs add real numbers, the columns `result`, `changed_percent` and `difference` show the
    settings that change the bits.

    With `out`, finished runs are kept in that folder, together with table, figure and page, and an interrupted sweep is
    resumed from there. Networks where an algorithm is not defined are left out.

    Raises ScenarioError before anything runs, RunError for a run that this machine cannot do, and KeyboardInterrupt if
    interrupted.

    >>> import coordinator as tb
    >>> found = tb.sweep("star:3..4", "broadcast", ["greedy-tree", "edt"])
    >>> found.results.select("topology", "algorithm", "measured", "bound").rows()[2:]
    [('star:4', 'greedy-tree', 4.0, 4.0), ('star:4', 'edt', 7.0, 4.0)]
    """
    given = [networks] if isinstance(networks, str | BaseNetwork) else list(networks)
    plugins = {"plugin": [name for each in given if isinstance(each, BaseNetwork) for name in each.plugins]}
    values = scenario_values({name: items for name, items in plugins.items() if items}, faults, options)
    folder = None if out is None else Path(out)
    if not isinstance(vary, Mapping | None):
        raise ScenarioError("vary", vary, 'expected the values of each field, such as {"segments": [1, 2]}')
    varied = {name: as_list(items) for name, items in (vary or {}).items()}
    with progress_display(progress, "sweep") as show:
        names = [_name(each) for each in given]
        work = partial(
            run_sweep, names, collective, as_list(algorithms), metric, vary=varied, out=folder, progress=show
        )
        found = call(partial(work, **values))
    if not found.finished:
        raise KeyboardInterrupt
    return found


def _name(network: str | BaseNetwork) -> str:
    if isinstance(network, str):
        return network
    if isinstance(network.topology, TableTopology):
        raise ScenarioError("topology", network.name, "a sweep takes a network from a file by its name, file:PATH")
    return network.name
