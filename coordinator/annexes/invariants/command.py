"""`coordinator graph`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from shlex import quote
from time import monotonic
from typing import Annotated, Unpack

from cyclopts import Parameter

from coordinator.annexes.invariants.base import LONG_WORK, QUICK_WORK, InvariantResult, InvariantValue
from coordinator.annexes.invariants.evaluate import evaluate
from coordinator.annexes.invariants.graph_properties import GraphProperties, Known, NotComputed
from coordinator.annexes.invariants.registry import INVARIANTS
from coordinator.annexes.invariants.survival import RATES
from coordinator.cli import render
from coordinator.cli.output import OUTPUT, PluginCommand, as_command
from coordinator.reports.network_picture import draw_network
from coordinator.reports.pictures import Picture
from coordinator.scenario.declared_network import Reading
from coordinator.scenario.network_files import is_network_file
from coordinator.scenario.networks import PREFIX, load_topology
from emunode.errors import ScenarioError
from emunode.terminal import print_json, say
from emunode.topologies.base import Topology

DAY = 86_400.0
SYMMETRY = {
    "cayley": "Cayley graph: for every node, a translation that keeps all ports",
    "vertex-transitive": "vertex-transitive, but not with the same ports",
    "unknown": "unknown: all nodes have the same distances",
}


@as_command
@dataclass
class GraphCommand(PluginCommand):
    """Print the properties of a network as a graph, and draw it.

    Properties: size, degrees, distances, girth, connectivity, symmetry and digest.
    Figures: connectivity under conditions, fault and wide diameter, diagnosability, reliability; each with its closed form,
    if the literature has one for the family. Figures that take too much work are computed if --figure names them.

    Examples:
      coordinator graph star:4 --picture star.svg --figure extra_connectivity --figure component_connectivity:6
      coordinator graph cluster.graphml --relabel --time-limit 60 --json
    """

    network: Annotated[
        str, Parameter(help="network, such as star:5, or a file: .graphml .gml .json .g6 .s6 .edges .topo")
    ]
    _: KW_ONLY
    relabel: Annotated[bool, Parameter(help="call the nodes of a file by their ranks")] = False
    merge_links: Annotated[bool, Parameter(help="make one link of parallel links of a file; rates add")] = False
    time_limit: Annotated[
        float, Parameter(help="seconds for each property that no formula gives; the others are always printed")
    ] = 10.0
    picture: Annotated[
        Path | None, Parameter(group=OUTPUT, help="draw the network into this file, .svg, .png or .pdf")
    ] = None
    figure: Annotated[
        list[str] | None,
        Parameter(
            help="print only this figure of fault tolerance, such as extra_connectivity:4, or all of them (repeatable)",
        ),
    ] = None
    work: Annotated[
        float | None,
        Parameter(
            help=f"limit for each figure, in units of about a microsecond: {QUICK_WORK:,} by default,"
            f" {LONG_WORK:,} with --figure"
        ),
    ] = None

    def __call__(self) -> int:
        if not 0 < self.time_limit <= DAY:
            raise ScenarioError("time_limit", self.time_limit, "more than 0, at most 86400 seconds")
        topology = _network(self.network, relabel=self.relabel, merge_links=self.merge_links)
        if self.picture is not None:
            about = (
                topology.title,
                f"Made by: coordinator graph {quote(self.network)} --picture {quote(str(self.picture))}",
            )
            Picture(draw_network(topology), topology.title, about=about).save(self.picture, field="picture")
        invariants = evaluate(topology, self.figure or (), self.work)
        values = (
            {}
            if self.figure and not self.json
            else GraphProperties(topology, _clock(self.time_limit), self.time_limit).record()
        )
        if self.json:
            print_json({**record(topology, values, self.picture), "figures": [each.record() for each in invariants]})
            return 0
        if not self.figure:
            show_properties(topology, values)
            for remark in topology.remarks:
                say(remark)
        # Connectivity is a property, and an invariant with a closed form: in print once is enough.
        show_invariants([each for each in invariants if each.figure not in values], counts=bool(self.figure))
        if self.picture is not None:
            say(f"wrote picture: {self.picture}")
        return 0


def _network(network: str, **reading: Unpack[Reading]) -> Topology:
    if is_network_file(network) and not network.startswith(PREFIX):
        network = PREFIX + network
    asked = next((name for name, value in reading.items() if value), None)
    if asked and not network.startswith(PREFIX):
        raise ScenarioError(asked, network, "only a network from a file has names of its own and parallel links")
    return load_topology(network, **reading)


def _clock(seconds: float) -> Callable[[], Callable[[], bool]]:
    """Return a function that starts a clock; the clock reports whether `seconds` are over."""

    def start() -> Callable[[], bool]:
        end = monotonic() + seconds
        return lambda: monotonic() > end

    return start


def record(topology: Topology, values: Mapping[str, Known], picture: Path | None = None) -> dict[str, object]:
    """Return the properties as plain values; properties that are not computed are null and explained under
    `not_computed`.
    """
    return {
        "topology": topology.name,
        "title": topology.title,
        **{name: None if isinstance(value, NotComputed) else value for name, value in values.items()},
        "not_computed": {name: value.reason for name, value in values.items() if isinstance(value, NotComputed)},
        "picture": str(picture) if picture else None,
    }


def show_properties(topology: Topology, values: Mapping[str, Known]) -> None:
    """Print the properties as a table, and below it the digest, and why some are missing."""
    rows: list[dict[str, object]] = [{"property": "topology", "value": topology.name}]
    low, high = values["degree_min"], values["degree_max"]
    for name, value in values.items():
        if name == "degree_min":
            rows.append({"property": "degree", "value": _shown("degree", low if low == high else f"{low}..{high}")})
        elif name not in ("degree_max", "network_sha256") and not (name == "switches" and value == 0):
            rows.append({"property": name.replace("_", " "), "value": _shown(name, value)})
    render.show_rows("", rows)
    if isinstance(values["network_sha256"], str):  # a line of its own: in a table it would be broken
        say(f"network sha256: {values['network_sha256']}")
    for name, value in values.items():
        if isinstance(value, NotComputed):
            say(f"{name.replace('_', ' ')}: not computed, {value.reason}")


def show_invariants(invariants: Sequence[InvariantResult], *, counts: bool) -> None:
    """Print invariants as a table, below it the sources of closed forms and why values are missing; `counts`: all of
    them.
    """
    named = dict.fromkeys(each.source for each in invariants if each.source)
    sources = {source: number for number, source in enumerate(named, 1)}
    rows = [
        (each.title, _value_text(each), _closed_form_text(each), str(sources.get(each.source or "", "")))
        for each in invariants
    ]
    render.show_table(("figure", "value", "closed form", "source"), rows)
    for source, number in sources.items():
        say(f"{number:>3}  {source}")
    if any(each.survival for each in invariants):
        rates = ", ".join(map(str, RATES))
        say(f"reliabilities: probability to survive, if each link or node fails with probability {rates}")
    for each in invariants:
        if each.survival and counts:
            say(f"{each.title}, {INVARIANTS[each.figure].meaning}:")
            say(" ".join(map(str, each.value)))  # type: ignore[arg-type]
    missing: dict[str, list[str]] = {}
    for each in invariants:
        if each.not_computed is not None:
            missing.setdefault(each.not_computed, []).append(each.title)
    for reason, titles in missing.items():
        say(f"not computed, {reason}: {'; '.join(titles)}")


def _value_text(invariant: InvariantResult) -> str:
    if invariant.not_computed is not None:
        return "not computed"
    if invariant.survival is not None:
        return " ".join(f"{chance:.6f}" for chance in invariant.survival.values())
    return str(_shown(invariant.figure, invariant.value))


def _closed_form_text(invariant: InvariantResult) -> str:
    text = "" if invariant.closed_form is None else str(invariant.closed_form)
    return f"{text}, differs" if invariant.agrees is False else text


def _shown(name: str, value: Known | InvariantValue) -> object:
    match value:
        case NotComputed():
            return "not computed"
        case bool():
            return "yes" if value else "no"
        case tuple():
            return " ".join(map(str, value))
        case None:
            return "none"
        case str() if name == "symmetry":
            return SYMMETRY.get(value, value)
    return value
