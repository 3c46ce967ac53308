"""Compute the fewest steps of every collective on all connected networks of up to five nodes, with a SAT solver.

    pip install python-sat; scripts/optima --nodes 4 --out optima.csv

A time-expanded model: item i is at node v after step t only if it was there before or crossed a link to v in step t, and it
crosses a link only from a node that has it. T steps suffice if and only if the formula for T steps is satisfiable; T grows
from 1. An allreduce moves sums instead: a node has the sum of a set of contributions if it received it, or has those of two
disjoint sets that make it up. Nothing of this project but the names of the port models is used, so the bounds that runs
claim can be held against the results (tests/golden/any/optima.csv, tests/coordinator/theory/test_optima.py). A schedule
backwards is one of the reverse collective, so reduce, gather and reduce-scatter take as many steps as broadcast, scatter and
allgather.

Cases that are not solved within the limit are listed with `steps` empty.
"""

import argparse
import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from itertools import combinations, product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, NamedTuple

import networkx as nx

PORT_MODELS: Final = ("all-port", "one-port", "exchange", "send-or-receive")
MOST_STEPS: Final = 40
Arc = tuple[int, int]


class Case(NamedTuple):
    """One optimum to compute: the columns of the file."""

    nodes: int
    links: str
    """The pairs of neighbours, such as `0-1 1-2`."""
    collective: str
    source: int
    target: int
    """The target of a unicast, the farthest node; -1 in other collectives."""
    port_model: str
    duplex: str
    capacity: int
    """Most items in a packet: 1, or 0 for any number."""
    messages: int


class Item(NamedTuple):
    """A message that does not change on its way."""

    origin: int
    targets: tuple[int, ...]


def arcs_of(case: Case) -> list[Arc]:
    """Return both directions of every link."""
    pairs = [tuple(map(int, link.split("-"))) for link in case.links.split()]
    return [arc for a, b in pairs for arc in ((a, b), (b, a))]


def items_of(case: Case) -> list[Item]:
    """Return the messages of a collective."""
    nodes = range(case.nodes)
    others = {node: tuple(each for each in nodes if each != node) for node in nodes}
    once: Mapping[str, list[Item]] = {
        "broadcast": [Item(case.source, others[case.source])],
        "scatter": [Item(case.source, (target,)) for target in others[case.source]],
        "allgather": [Item(node, others[node]) for node in nodes],
        "alltoall": [Item(node, (target,)) for node in nodes for target in others[node]],
        "unicast": [Item(case.source, (case.target,))],
    }
    return once[case.collective] * case.messages


class Model:
    """A formula that is satisfiable if and only if the case can be done in `steps` steps."""

    def __init__(self, case: Case, steps: int) -> None:
        self._case, self._steps = case, steps
        self._arcs = arcs_of(case)
        self._solver: Any = import_module("pysat.solvers").Glucose4()
        self._variables = 0
        self._used = {(arc, step): self._new() for arc in self._arcs for step in range(1, steps + 1)}
        self._require_ports()
        if case.collective == "allreduce":
            self._sums()
        else:
            self._items()

    def feasible(self, conflicts: int) -> bool | None:
        """Return whether the formula can be satisfied; None if `conflicts` conflicts did not decide that."""
        self._solver.conf_budget(conflicts)
        satisfiable: bool | None = self._solver.solve_limited()
        self._solver.delete()
        return satisfiable

    def _new(self) -> int:
        self._variables += 1
        return self._variables

    def _require(self, *literals: int) -> None:
        """Require one of the literals; a negative number is the negation of its variable."""
        self._solver.add_clause(literals)

    def _at_most_one(self, variables: Sequence[int]) -> None:
        for one, other in combinations(variables, 2):
            self._require(-one, -other)

    def _require_ports(self) -> None:
        """Require the port model, and links that carry one packet at a time where they are half-duplex."""
        case = self._case
        for step, node in product(range(1, self._steps + 1), range(case.nodes)):
            out = [self._used[arc, step] for arc in self._arcs if arc[0] == node]
            into = [self._used[arc, step] for arc in self._arcs if arc[1] == node]
            if case.port_model == "one-port":
                self._at_most_one(out)
                self._at_most_one(into)
            elif case.port_model == "send-or-receive":
                self._at_most_one([*out, *into])
        for step in range(1, self._steps + 1):
            if case.port_model == "exchange":
                pairs = {frozenset(arc): self._new() for arc in self._arcs}
                for arc in self._arcs:
                    self._require(-self._used[arc, step], pairs[frozenset(arc)])
                for node in range(case.nodes):
                    self._at_most_one([pair for ends, pair in pairs.items() if node in ends])
            if case.duplex == "half":
                for one, other in zip(self._arcs[::2], self._arcs[1::2], strict=True):
                    self._at_most_one([self._used[one, step], self._used[other, step]])

    def _require_crossings(self, crossings: Mapping[tuple[Any, Arc, int], int], things: Sequence[Any]) -> None:
        """Require that crossings use the arc, and that at most `capacity` of them, 1 if given, share a packet."""
        for arc, step in self._used:
            here = [crossings[thing, arc, step] for thing in things]
            for crossing in here:
                self._require(-crossing, self._used[arc, step])
            if self._case.capacity:
                self._at_most_one(here)

    def _items(self) -> None:
        """Describe messages that are passed on unchanged."""
        items, nodes, steps = items_of(self._case), range(self._case.nodes), range(1, self._steps + 1)
        numbers = range(len(items))
        there = {(i, v, t): self._new() for i in numbers for v in nodes for t in (0, *steps)}
        crossing = {(i, arc, t): self._new() for i in numbers for arc in self._arcs for t in steps}
        self._require_crossings(crossing, numbers)
        for i, item in enumerate(items):
            for v in nodes:
                self._require(there[i, v, 0] if v == item.origin else -there[i, v, 0])
                for t in steps:
                    arrivals = [crossing[i, arc, t] for arc in self._arcs if arc[1] == v]
                    self._require(-there[i, v, t], there[i, v, t - 1], *arrivals)
            for arc, t in self._used:
                self._require(-crossing[i, arc, t], there[i, arc[0], t - 1])
            for target in item.targets:
                self._require(there[i, target, self._steps])

    def _sums(self) -> None:
        """Describe sums of contributions: of sets of nodes, as numbers whose bits are the nodes."""
        nodes, steps = range(self._case.nodes), range(1, self._steps + 1)
        sets = range(1, 1 << self._case.nodes)
        has = {(s, v, t): self._new() for s in sets for v in nodes for t in (0, *steps)}
        crossing = {(s, arc, t): self._new() for s in sets for arc in self._arcs for t in steps}
        self._require_crossings(crossing, sets)
        for s, v in product(sets, nodes):
            self._require(has[s, v, 0] if s == 1 << v else -has[s, v, 0])
            for t in steps:
                ways = [has[s, v, t - 1], *(crossing[s, arc, t] for arc in self._arcs if arc[1] == v)]
                part = (s - 1) & s
                while part > s - part:
                    both = self._new()
                    self._require(-both, has[part, v, t])
                    self._require(-both, has[s - part, v, t])
                    ways.append(both)
                    part = (part - 1) & s
                self._require(-has[s, v, t], *ways)
        for s, (arc, t) in product(sets, self._used):
            self._require(-crossing[s, arc, t], has[s, arc[0], t - 1])
        for v in nodes:
            self._require(has[sets[-1], v, self._steps])


def optimum(case: Case, conflicts: int) -> int | None:
    """Return the fewest steps; None if the limit of conflicts was reached."""
    for steps in range(1, MOST_STEPS):
        feasible = Model(case, steps).feasible(conflicts)
        if feasible is None:
            return None
        if feasible:
            return steps
    return None


def cases(largest: int) -> Iterator[Case]:
    """Yield all cases of the connected networks of up to `largest` nodes."""
    for graph in nx.graph_atlas_g():
        if not 2 <= len(graph) <= largest or not nx.is_connected(graph):
            continue
        links = " ".join(f"{a}-{b}" for a, b in sorted(graph.edges))
        settings = [*product(PORT_MODELS, ("full",)), ("all-port", "half")]
        for (ports, duplex), capacity in product(settings, (1, 0)):
            for collective in ("allgather", "alltoall", "allreduce"):
                yield Case(len(graph), links, collective, 0, -1, ports, duplex, capacity, 1)
            for source in sorted({0, len(graph) - 1}):
                distances = nx.single_source_shortest_path_length(graph, source)
                farthest = min(distances, key=lambda node: (-distances[node], node))
                yield Case(len(graph), links, "unicast", source, farthest, ports, duplex, capacity, 1)
                yield Case(len(graph), links, "scatter", source, -1, ports, duplex, capacity, 1)
                for messages in (1, 2, 4) if capacity else (1,):
                    yield Case(len(graph), links, "broadcast", source, -1, ports, duplex, capacity, messages)


def _row(work: tuple[Case, int]) -> tuple[Case, int | None]:
    return work[0], optimum(*work)


def main() -> int:
    """Write the file, and print how many optima were found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--nodes", type=int, choices=range(2, 6), default=5, help="nodes of the largest networks")
    parser.add_argument("--conflicts", type=int, default=50_000, help="limit of the solver for one number of steps")
    parser.add_argument("--processes", type=int, default=2, help="processes that solve")
    parser.add_argument("--out", type=Path, default=Path("optima.csv"), help="file to write")
    options = parser.parse_args()
    if find_spec("pysat") is None:
        print("optima: the solver is not installed: pip install python-sat", file=sys.stderr)
        return 4
    work = [(case, options.conflicts) for case in cases(options.nodes)]
    unsolved = 0
    with get_context("spawn").Pool(options.processes) as pool, options.out.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*Case._fields, "steps"])
        for done, (case, steps) in enumerate(pool.imap(_row, work, chunksize=8), 1):
            writer.writerow([*case, "" if steps is None else steps])
            unsolved += steps is None
            if done % 200 == 0:
                print(f"{done:,} of {len(work):,}, {unsolved} not solved", file=sys.stderr, flush=True)
    print(f"{len(work) - unsolved:,} of {len(work):,} optima in {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
