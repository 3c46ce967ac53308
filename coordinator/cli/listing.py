"""`coordinator list`: topologies, algorithms, faults and placements."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from inspect import getdoc
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter
from rich.markup import escape

from coordinator.api.lists import (
    accepted,
    algorithm_row,
    chosen_algorithms,
    fault_rows,
    is_tried,
    network_of_filter,
    placement_rows,
    topology_rows,
)
from coordinator.cli import render
from coordinator.cli.output import PluginCommand, as_command
from emunode.algorithms.base import ANY_FAMILY, Algorithm, Need
from emunode.algorithms.registry import RegisteredAlgorithm
from emunode.annexes import PROGRAM
from emunode.errors import PLUGIN_HINT, ScenarioError, did_you_mean
from emunode.model import Collective, CollectiveSpec
from emunode.terminal import plural, print_json, say, unwrapped
from emunode.topologies.base import FAMILIES, Topology
from emunode.topologies.registry import parse_topology

FILTERS = Group("Filters", sort_key=1)
TITLES = {
    "fault": "faults",
    "block": "blocks that fail together, in sets of faults",
    "strategy": "strategies of sets of faults",
}
"""The tables of `list faults`, by the use of their rows."""


@as_command
class TopologiesCommand(PluginCommand):
    """List the families of networks, with the form of their names.

    `coordinator graph NET` shows one network.

    Examples:
      coordinator list topologies
      coordinator list topologies --json
    """

    def __call__(self) -> None:
        rows = topology_rows()
        if self.json:
            print_json(rows)
            return
        render.show_rows("", [{key: row[key] for key in ("form", "condition", "example")} for row in rows])
        render.console().print(
            "\nalso: file:PATH, a network from a file; `coordinator graph NET` shows one network", wrap=True
        )


@dataclass
class AlgorithmsCommand(PluginCommand):
    """List the algorithms, or describe one in full.

    With NAME: its documentation, port models, duplexes, citation, and its claims on a small network. In a local rule a
    node derives its sends from its own label; a precomputed schedule is a table of the whole network that every node
    computes from the network and the job before the first step. Citations are in `list algorithms NAME` and in --json.

    Examples:
      coordinator list algorithms --topology mesh:3x4 --collective allgather
      coordinator list algorithms edt
    """

    name: Annotated[str | None, Parameter(help="algorithm to describe in full")] = None
    _: KW_ONLY
    topology: Annotated[
        str | None,
        Parameter(
            group=FILTERS, help="only what can run on this network, such as star:5, or is for this family, such as star"
        ),
    ] = None
    collective: Annotated[Collective | None, Parameter(group=FILTERS, help="only for this collective")] = None
    schedule: Annotated[
        Literal["local", "precomputed"] | None,
        Parameter(group=FILTERS, help="only local rules, or only precomputed schedules"),
    ] = None

    def __call__(self) -> None:
        network = network_of_filter(self.topology)
        # To describe one algorithm, even if it cannot run on this network: `_details` then gives the reason.
        considered = self.topology if network is None or self.name is None else network.family
        entries = [
            (family, entry)
            for family, entry in chosen_algorithms(considered, self.collective)
            if self.schedule is None or (Need.TABLE in entry.needs) == (self.schedule == "precomputed")
        ]
        if self.name is not None:
            chosen = [(family, entry) for family, entry in entries if entry.name == self.name.lower()]
            if not chosen:
                raise ScenarioError(
                    "algorithm", self.name, _suggestion(self.name, [entry.name for _, entry in entries])
                )
            details = [_details(family, entry, network) for family, entry in chosen]
            if self.json:
                print_json(details)
                return
            for each in details:
                show_algorithm(each)
        elif self.json:
            print_json([algorithm_row(family, entry) for family, entry in entries])
        else:
            for family in dict.fromkeys(family for family, _ in entries):
                rows = [_table_row(entry) for other, entry in entries if other == family]
                render.show_rows(f"algorithms on {_networks_of(family) if network is None else network.name}", rows)
            untried = dict.fromkeys(each.name for _, each in entries if network and not is_tried(network, each))
            if untried:
                render.console().print(f"not tried here, because the network is large: {', '.join(untried)}", wrap=True)


def _table_row(entry: RegisteredAlgorithm) -> dict[str, object]:
    """Describe an algorithm in 80 columns: the title of its table names the topology, and citations are too long."""
    return {
        "collective": str(entry.collective),
        "algorithm": entry.name,
        "port_models": ", ".join(entry.port_models),
        "schedule": "precomputed" if Need.TABLE in entry.needs else "local rule",
    }


@as_command
class FaultsCommand(PluginCommand):
    """List the kinds of fault and their syntax, and the sets of faults.

    A set of faults names a strategy, and the numbers of nodes, links, faults of a kind, or blocks that fail together.

    Examples:
      coordinator list faults
      coordinator list faults --json
    """

    def __call__(self) -> None:
        rows = fault_rows()
        if self.json:
            print_json(rows)
            return
        for use, title in TITLES.items():
            render.show_rows(
                title, [{key: row[key] for key in row if key != "use"} for row in rows if row["use"] == use]
            )


@as_command
class PlacementsCommand(PluginCommand):
    """List the placements: the nodes that share a host.

    `coordinator plan` counts the links that cross hosts.

    Examples:
      coordinator list placements
      coordinator list placements --json
    """

    def __call__(self) -> None:
        render.print_rows("", placement_rows(), self.json)


def _networks_of(family: str) -> str:
    return "any network" if family == ANY_FAMILY else family


def _suggestion(name: str, known: list[str]) -> str:
    if name.lower() == PROGRAM:
        return "it stands for a program of your own; see `coordinator run --help` about --program"
    meant = did_you_mean(name.lower(), known) or f"known are: {', '.join(dict.fromkeys(known))}; "
    return meant + PLUGIN_HINT


def _details(family: str, entry: RegisteredAlgorithm, network: Topology | None) -> dict[str, Any]:
    """Collect all that is known of an algorithm, with its claims on a network, or on the example of its family.

    Raises ScenarioError if it cannot run on the network.
    """
    example = _example(family, entry) if network is None else accepted(network, entry)
    return {
        **algorithm_row(family, entry),
        "documentation": unwrapped(getdoc(entry) or ""),
        "example": None if example is None else _setting(example.spec),
        "claims": [
            {"name": claim.name, "relation": claim.relation, "predicted": claim.predicted, "source": claim.source}
            for claim in (() if example is None else example.claims())
        ],
    }


def _example(family: str, entry: RegisteredAlgorithm) -> Algorithm | None:
    """Make the algorithm on the example network of its family, under the first setting that it accepts."""
    families = [FAMILIES[family]] if family in FAMILIES else FAMILIES.values()
    # An algorithm for any network may need links that the first families lack.
    for known in families:
        with suppress(ScenarioError):
            return accepted(parse_topology(known.example), entry)
    return None


def _setting(spec: CollectiveSpec) -> str:
    messages = plural(spec.messages, "message")
    return f"{spec.topology}, {spec.port_model}, {spec.duplex}-duplex, {messages} of {spec.message_bytes} bytes"


def show_algorithm(details: Mapping[str, Any]) -> None:
    """Print the documentation of one algorithm and its claims."""
    out = render.console()
    out.print(
        f"[bold]{details['algorithm']}[/]: {details['collective']} on {_networks_of(details['topology'])}\n", wrap=True
    )
    out.print(f"{escape(details['documentation'])}\n", wrap=True)
    for key in ("port_models", "duplexes", "schedule", "citation"):
        value = details[key] if isinstance(details[key], str) else ", ".join(details[key])
        say(f"{key.replace('_', ' ')}: {value}")
    say(f"claims on {details['example']}:\n")
    render.show_claims(details["claims"])


algorithms_command = as_command(AlgorithmsCommand)
