"""Sweeps as objects: a table of one metric over networks and sizes, its figure and its page."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Unpack

import polars as pl

from coordinator.api.networks import BaseNetwork
from coordinator.api.option_types import Options
from coordinator.api.options import Faults, as_list, scenario_values
from coordinator.api.pictures import Page, Picture, frame
from coordinator.api.progress import ProgressOption, progress_display
from coordinator.api.threads import call
from coordinator.campaigns.sweep import Sweep as Found
from coordinator.campaigns.sweep import sweep as run_sweep
from coordinator.results.claims import Verdict
from emunode.errors import ScenarioError
from emunode.topologies.table import TableTopology


def sweep(
    networks: str | BaseNetwork | Sequence[str | BaseNetwork],
    collective: str,
    algorithms: str | Sequence[str],
    *,
    metric: str = "steps",
    faults: Faults = (),
    out: Path | str | None = None,
    progress: ProgressOption = None,
    **options: Unpack[Options],
) -> "Sweep":
    """Run every algorithm on every network, once each, and put one metric beside its best lower bound.

    `networks` are names, in which a range stands for all its numbers (`"star:3..6"`), or networks; `file:PATH` names a file.
    With `out`, finished runs are kept in that folder, together with table, figure and page, and an interrupted sweep is
    resumed from there. Networks on which an algorithm is not defined are left out.

    Raises ScenarioError before anything runs, RunError for a run that this machine cannot do, and KeyboardInterrupt if
    interrupted.
    """
    given = [networks] if isinstance(networks, str | BaseNetwork) else list(networks)
    plugins = {"plugin": [name for each in given if isinstance(each, BaseNetwork) for name in each.plugins]}
    values = scenario_values({name: items for name, items in plugins.items() if items}, faults, options)
    folder = None if out is None else Path(out)
    with progress_display(progress, "sweep") as show:
        names = [_name(each) for each in given]
        work = partial(run_sweep, names, collective, as_list(algorithms), metric, out=folder, progress=show)
        found = call(partial(work, **values))
    if not found.finished:
        raise KeyboardInterrupt
    return Sweep(found)


def _name(network: str | BaseNetwork) -> str:
    if isinstance(network, str):
        return network
    if isinstance(network.topology, TableTopology):
        raise ScenarioError("topology", network.name, "a sweep takes a network from a file by its name, file:PATH")
    return network.name


class Sweep:
    """A finished sweep. A notebook shows its page: the metric over the sizes, with its lower bounds, and the table."""

    def __init__(self, found: Found) -> None:
        self._found = found

    @property
    def results(self) -> pl.DataFrame:
        """One row per network and algorithm: measured value, predicted value, best lower bound, ratio to it, verdict, ..."""
        return self._found.frame

    @property
    def left_out(self) -> list[str]:
        """The networks on which an algorithm is not defined, with the reasons."""
        return self._found.left_out

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of a run: `violated` before `undecided`."""
        return self._found.verdict

    @property
    def exit_status(self) -> int:
        """The exit status of `coordinator sweep`: 0 every claim holds, 1 a claim is violated, 3 a run is undecided."""
        return self._found.exit_status

    def plot(self) -> Picture:
        """The metric over the sizes, with its lower bounds."""
        return Picture(self._found.svg(), self._found.title)

    def report(self, path: Path | str | None = None) -> Page:
        """The page of the sweep, which a notebook shows; with `path`, it is also written to that file."""
        page = Page(self._found.page(), self._found.title)
        if path is not None:
            page.save(path)
        return page

    def __repr__(self) -> str:
        return f"<sweep {self._found.title}: {len(self._found.rows):,} runs>"

    def _repr_html_(self) -> str:
        page = self.report()
        return frame(page.html, page.title, page.height)
