"""`coordinator list`: topologies, algorithms and faults."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches
from inspect import getdoc
from itertools import product
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter
from rich.markup import escape

from coordinator.cli import render
from coordinator.cli.output import JsonFlag, as_command, print_json
from coordinator.cli.plugin_flags import PluginFlag
from coordinator.reports.numbers import plural
from coordinator.scenario.blocks.registry import BLOCK_KINDS
from coordinator.scenario.fault_sets import STRATEGIES
from coordinator.scenario.fault_syntax import forms
from coordinator.scenario.plugins import load_plugins
from emunode.algorithms.base import ANY_FAMILY, Algorithm
from emunode.algorithms.program import PROGRAM
from emunode.algorithms.registry import Entry, registered
from emunode.errors import ScenarioError
from emunode.model import ALL_RANKS, Collective, CollectiveSpec
from emunode.topologies.base import FAMILIES
from emunode.topologies.registry import descriptions, parse_topology

FILTERS = Group("Filters", sort_key=1)
EXAMPLE_BYTES = 720
"""Size of a message in the example of an algorithm, which divides into as many parts as any of them needs."""


def list_topologies(*, plugin: PluginFlag = None, json: JsonFlag = False) -> None:
    """List the families of networks, with the form of their names.

    `coordinator graph NET` shows one network.

    Examples:
      coordinator list topologies
      coordinator list topologies --json
    """
    load_plugins(plugin or ())
    rows: list[dict[str, object]] = [
        {
            "family": known.family,
            "form": known.form,
            "condition": known.condition,
            "example": known.example,
            "describe": known.describe,
            **{key: value for key, value in parse_topology(known.example).facts().items() if key != "topology"},
        }
        for known in descriptions()
        if known.defined_by_name
    ]
    if json:
        print_json(rows)
        return
    render.show_rows("", [{key: row[key] for key in ("form", "condition", "example")} for row in rows])
    render.console().print(
        "\nalso: file:PATH, a network from a file; `coordinator graph NET` shows one network", highlight=False
    )


def list_algorithms(
    name: Annotated[str | None, Parameter(help="algorithm to describe in full")] = None,
    *,
    topology: Annotated[
        str | None, Parameter(group=FILTERS, help="only for this family, such as star, or star:5")
    ] = None,
    collective: Annotated[Collective | None, Parameter(group=FILTERS, help="only for this collective")] = None,
    schedule: Annotated[
        Literal["local", "precomputed"] | None,
        Parameter(group=FILTERS, help="only local rules, or only precomputed schedules"),
    ] = None,
    plugin: PluginFlag = None,
    json: JsonFlag = False,
) -> None:
    """List the algorithms, or describe one in full.

    With NAME: its documentation, port models, duplexes, citation, and its claims on a small network. In a local rule a
    node derives its sends from its own label; a precomputed schedule is a table of the whole network, which every node
    computes from the network and the job before the first step.

    Examples:
      coordinator list algorithms --topology star --collective broadcast --schedule local
      coordinator list algorithms edt
    """
    load_plugins(plugin or ())
    entries = [
        (family, entry)
        for family, entry in _entries(topology, collective)
        if schedule is None or entry.precomputed == (schedule == "precomputed")
    ]
    if name is not None:
        chosen = [(family, entry) for family, entry in entries if entry.name == name.lower()]
        if not chosen:
            raise ScenarioError("algorithm", name, _suggestion(name, [entry.name for _, entry in entries]))
        details = [_details(family, entry) for family, entry in chosen]
        if json:
            print_json(details)
        for each in () if json else details:
            show_algorithm(each)
    elif json:
        print_json([_row(family, entry) for family, entry in entries])
    else:
        for family in dict.fromkeys(family for family, _ in entries):
            rows = [_row(family, entry) for other, entry in entries if other == family]
            # The title names the topology: a column for it would leave too little room in 80 columns.
            shown = [{key: value for key, value in row.items() if key != "topology"} for row in rows]
            render.show_rows(f"algorithms on {_networks_of(family)}", shown)


def list_faults(*, plugin: PluginFlag = None, json: JsonFlag = False) -> None:
    """List the kinds of fault and their syntax, and the sets of faults.

    A set of faults names a strategy, and the numbers of nodes, links, faults of a kind, or blocks that fail together.

    Examples:
      coordinator list faults
      coordinator list faults --json
    """
    load_plugins(plugin or ())
    rows = {
        "fault": ("faults", forms()),
        "block": ("blocks that fail together, in sets of faults", _block_forms()),
        "strategy": ("strategies of sets of faults", _strategy_forms()),
    }
    if json:
        print_json([{**row, "use": use} for use, (_, shown) in rows.items() for row in shown])
        return
    for title, shown in rows.values():
        render.show_rows(title, shown)


def _block_forms() -> list[dict[str, object]]:
    return [
        {"kind": name, "written": f"random:{kind.form}", "meaning": (kind.__doc__ or "").strip().splitlines()[0]}
        for name, kind in BLOCK_KINDS.items()
    ]


def _strategy_forms() -> list[dict[str, object]]:
    return [{"kind": name, "written": example, "meaning": meaning} for name, (example, meaning) in STRATEGIES.items()]


def _entries(topology: str | None, collective: Collective | None) -> Iterator[tuple[str, Entry]]:
    """Every algorithm with its family, filtered; without a family, those for every network once, as of family `any`."""
    wanted = topology and topology.partition(":")[0].lower()
    if wanted and wanted not in FAMILIES:
        raise ScenarioError("topology", topology, f"expected one of {', '.join(FAMILIES)}")
    found = [(family if wanted else entry.family, entry) for family, entry in registered() if wanted in (None, family)]
    for family, entry in sorted(dict.fromkeys(found), key=lambda each: each[0] == ANY_FAMILY):
        if collective in (None, entry.collective):
            yield family, entry


def _networks_of(family: str) -> str:
    return "any network" if family == ANY_FAMILY else family


def _suggestion(name: str, known: list[str]) -> str:
    if name.lower() == PROGRAM:
        return "it stands for a program of your own; see `coordinator run --help` about --program"
    near = get_close_matches(name.lower(), known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known are: {', '.join(dict.fromkeys(known))}"


def _row(family: str, entry: Entry) -> dict[str, object]:
    return {
        "topology": family,
        "collective": str(entry.collective),
        "algorithm": entry.name,
        "port_models": ", ".join(entry.port_models),
        "schedule": "precomputed schedule" if entry.precomputed else "local rule",
        "citation": entry.citation,
    }


def _details(family: str, entry: Entry) -> dict[str, Any]:
    """All that is known of an algorithm, with its claims on the example network of the family."""
    example = _example(family, entry)
    return {
        **_row(family, entry),
        "duplexes": ", ".join(entry.duplexes),
        "documentation": getdoc(entry) or "",
        "example": None if example is None else _setting(example.spec),
        "claims": [
            {"name": claim.name, "relation": claim.relation, "predicted": claim.predicted, "source": claim.source}
            for claim in (() if example is None else example.claims())
        ],
    }


def _example(family: str, entry: Entry) -> Algorithm | None:
    """The algorithm on the example network of its family, under the first setting that it accepts."""
    families = [FAMILIES[family]] if family in FAMILIES else FAMILIES.values()
    # An algorithm for any network may need links that the first families lack.
    for topology in (parse_topology(known.example) for known in families):
        target = topology.farthest_from(0) if entry.collective is Collective.UNICAST else ALL_RANKS
        # Some algorithms send one message over each port and accept no other number.
        for port_model, duplex, messages in product(entry.port_models, entry.duplexes, (1, topology.degree)):
            spec = CollectiveSpec(
                topology.name,
                entry.collective,
                entry.name,
                0,
                port_model,
                duplex,
                EXAMPLE_BYTES,
                messages,
                target=target,
            )
            with suppress(ScenarioError):
                return entry(topology, spec)
    return None


def _setting(spec: CollectiveSpec) -> str:
    messages = plural(spec.messages, "message")
    return f"{spec.topology}, {spec.port_model}, {spec.duplex}-duplex, {messages} of {spec.message_bytes} bytes"


def show_algorithm(details: Mapping[str, Any]) -> None:
    """Print the documentation of one algorithm and its claims."""
    out = render.console()
    out.print(f"[bold]{details['algorithm']}[/]: {details['collective']} on {_networks_of(details['topology'])}\n")
    out.print(f"{escape(details['documentation'])}\n")
    for key in ("port_models", "duplexes", "schedule", "citation"):
        out.print(f"{key.replace('_', ' ')}: {escape(details[key])}", soft_wrap=True)
    out.print(f"claims on {details['example']}:\n", soft_wrap=True)
    render.show_claims(details["claims"])


topologies_command = as_command(list_topologies, "topologies")
algorithms_command = as_command(list_algorithms, "algorithms")
faults_command = as_command(list_faults, "faults")
