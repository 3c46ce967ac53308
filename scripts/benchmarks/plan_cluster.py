"""Plan a cluster on paper: what a network costs in links, memory, control and step time over many machines.

All figures follow from unit costs that `scripts/bench` has measured on one machine, in docs/maintainers/scale.json, and
from the network. Times of control come from a model of the tree (`benchmarks.control_model`).
"""

import argparse
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.control_model import COORDINATOR, UnitCosts, step_time
from benchmarks.results import read_document, rows_of
from coordinator.annexes.clusters.cluster import MOST_NODES
from coordinator.networks.control_tree import FAN_OUT, tree_parents
from emunode.errors import ScenarioError
from emunode.topologies.base import Topology
from emunode.topologies.registry import parse_topology

FIGURES: Final = Path(__file__).parents[2] / "docs" / "maintainers" / "scale.json"
SAMPLE: Final = 20_000
"""Nodes whose links are looked at, of a larger network."""
MOST_HOSTS: Final = 100_000
GIB: Final = 2**30


class Measured(NamedTuple):
    """Unit costs of one machine."""

    end_bytes: float
    """Memory of a link end, in the kernel and in the host."""
    process_bytes: float
    packets: float
    """Packets that a processor sends and receives in a second, with everything around them."""
    links: float
    """Links that come up in a second."""
    costs: UnitCosts


def measured(path: Path, latency: float) -> Measured:
    """Return the unit costs in a file of figures."""
    document = read_document(path)
    control = {row.figure: row.value for row in rows_of(document, "control") if row.subject == "256 hosts"}
    memory = [row.value for row in rows_of(document, "memory") if row.figure == "hosts at their peak"]
    stack = [row.value for row in rows_of(document, "stack") if row.figure == "whole stack"]
    links = [row.value for row in rows_of(document, "links") if row.figure == "links of a run"]
    # An order and a report for each child: half of its cost is sending, half taking.
    child = max(control["host, for each child"], control["coordinator, for each host it orders"]) / 2
    costs = UnitCosts(send=child, take=child, work=control["host, for an order"], latency=latency)
    return Measured(max(memory), control["memory of a host process"] * 2**20, stack[0], links[0], costs)


def share_across(topology: Topology, parts: int) -> float:
    """Return the share of link ends that lead to another of `parts` equal blocks of nodes, by a sample of nodes."""
    order = topology.order
    ranks = range(order) if order <= SAMPLE else random.Random(1).sample(range(order), SAMPLE)
    ends = across = 0
    for rank in ranks:
        own = rank * parts // order
        blocks = [peer * parts // order for _, peer in topology.adjacent(rank)]
        ends += len(blocks)
        across += len(blocks) - blocks.count(own)
    return across / ends


def table(topology: Topology, machines: int, cores: int, found: Measured) -> list[tuple[str, str]]:
    """Return the rows of the plan."""
    hosts = min(machines * cores, topology.order)
    ends = 2 * topology.link_count
    parents = tree_parents(hosts, FAN_OUT)
    levels: list[int] = []
    for parent in parents:
        levels.append(1 if parent == COORDINATOR else levels[parent] + 1)
    tree = step_time(parents, found.costs) / 1000
    alone = step_time([COORDINATOR] * hosts, found.costs) / 1000
    across = share_across(topology, machines)
    return [
        ("nodes", f"{topology.order:,}"),
        ("links", f"{topology.link_count:,}"),
        ("hosts, one for each core", f"{hosts:,} with up to {-(-topology.order // hosts):,} nodes"),
        ("connections of a machine", f"{ends / machines:,.0f}"),
        ("link ends that lead to another machine", f"{across:.1%}"),
        ("descriptors of a host", f"{ends / hosts:,.0f}"),
        ("memory of links on a machine", f"{ends / machines * found.end_bytes / GIB:,.1f} GiB"),
        ("memory of processes on a machine", f"{hosts / machines * found.process_bytes / GIB:,.1f} GiB"),
        ("time until links are up", f"{topology.link_count / found.links / machines:,.1f} s"),
        ("levels of the tree of control", f"{max(levels)}"),
        ("step of all hosts through the tree", f"{tree:,.1f} ms"),
        ("step of all hosts, each ordered", f"{alone:,.1f} ms"),
        ("further time if each node sends a packet", f"{topology.order / hosts / found.packets * 1000:,.1f} ms"),
        ("further time if each link end sends a packet", f"{ends / hosts / found.packets * 1000:,.1f} ms"),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the plan; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="scripts/plan-cluster", description="Plan a network over many machines on paper."
    )
    parser.add_argument("--topology", required=True, help="the network, such as hypercube:20")
    parser.add_argument("--machines", type=_number(1, MOST_NODES), required=True, metavar="N")
    parser.add_argument(
        "--cores", type=_number(1, 1024), default=32, metavar="N", help="cores of a machine (default 32)"
    )
    parser.add_argument(
        "--latency", type=_number(0, 10**6), default=50, metavar="US", help="microseconds between machines (default 50)"
    )
    parser.add_argument(
        "--figures", type=Path, default=FIGURES, metavar="FILE", help="unit costs, as scripts/bench --json writes them"
    )
    options = parser.parse_args(arguments)
    if options.machines * options.cores > MOST_HOSTS:
        parser.error(f"{options.machines} machines of {options.cores} cores are more than {MOST_HOSTS:,} hosts")
    try:
        topology = parse_topology(options.topology)
    except ScenarioError as error:
        parser.error(f"--topology: {error}")
    try:
        found = measured(options.figures, options.latency)
    except (OSError, ValueError, KeyError, IndexError) as error:
        parser.error(f"--figures: {str(options.figures)!r} has no unit costs: {error}")
    rows = table(topology, options.machines, options.cores, found)
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:{width}}  {value}")
    return 0


def _number(least: int, most: int) -> "type[int]":
    def parse(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"invalid value {text!r}: expected a number from {least} to {most}")
        return int(text)

    return parse  # type: ignore[return-value]


if __name__ == "__main__":
    sys.exit(main())
