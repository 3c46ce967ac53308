"""Histories and trees that are wrong in one place, and what the judges say of them."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

import numpy as np

from coordinator.history.journal import RECORD, table
from coordinator.planning.plan import Plan, make_plan
from coordinator.results.claims import Verdict
from coordinator.results.conclude import History, conclude
from coordinator.results.differential import replay_mismatches
from coordinator.scenario.model import make_scenario
from emunode.algorithms.base import Algorithm
from emunode.algorithms.registry import registered
from emunode.engine.memory import MemoryEngine
from emunode.errors import ScenarioError
from emunode.model import HopOutcome, Port, Rank
from emunode.topologies.registry import parse_topology
from emunode.trees.base import Trees

Records = np.ndarray[Any, np.dtype[Any]]
"""Journal rows, packed, in the order of the journal."""

SMALL: Final = {"star": "star:4", "hypercube": "hypercube:3", "ej": "ej:1+2"}
CASES: Final = list(registered())
"""Every algorithm on every family of networks that has it."""


def case_name(case: tuple[str, type[Algorithm]]) -> str:
    """A case for people."""
    return f"{case[0]}-{case[1].collective}-{case[1].name}"


@cache
def plan_of(case: tuple[str, type[Algorithm]]) -> Plan:
    """A plan of an algorithm on the small network of its family, under its paper's own port model."""
    family, entry = case
    values: dict[str, object] = {
        "topology": SMALL[family],
        "collective": str(entry.collective),
        "algorithm": entry.name,
        "port_model": str(entry.port_models[0]),
        "driver": "memory",
    }
    try:
        return make_plan(make_scenario(values))
    except ScenarioError:  # some want messages for several trees at once
        return make_plan(make_scenario(values | {"messages": parse_topology(SMALL[family]).degree}))


def history_of(plan: Plan, algorithm: Algorithm | None = None) -> Records:
    """What happens, in the order of the journal."""
    network, rows, step = MemoryEngine(algorithm or plan.algorithm), bytearray(), 0
    while network.busy:
        step += 1
        rows += network.step(step, plan.faults_at(step))
    records = np.frombuffer(bytes(rows), dtype=RECORD)
    return np.sort(records, order=["step", "sender", "port", "origin", "target", "tree", "segment"])


@cache
def history(case: tuple[str, type[Algorithm]]) -> Records:
    """What really happens in a case."""
    return history_of(plan_of(case))


def verdict_on(plan: Plan, records: Records) -> Verdict:
    """What claims and audit say of these rows in the place of what happened."""
    return conclude(plan, History(table(records).lazy(), len(records)), replay=False).ruling.verdict


def replayed(plan: Plan, records: Records) -> int:
    """How many hops the rules know nothing of."""
    return replay_mismatches(plan, table(records).lazy())


# --- one row ---------------------------------------------------------------------------------------------------------

Mutation = Callable[[Plan, Records, int], Records | None]
"""A history with one row changed; None where that cannot be done to this row."""


def _with(records: Records, place: int, **values: int) -> Records:
    changed = records.copy()
    for name, value in values.items():
        changed[name][place] = value
    return changed


def _next_port(plan: Plan, row: Any) -> Port:
    return (int(row["port"]) + 1) % plan.topology.degree


def dropped(_plan: Plan, records: Records, place: int) -> Records:
    """It never happened."""
    return np.delete(records, place)


def duplicated(_plan: Plan, records: Records, place: int) -> Records:
    """It is written down twice."""
    return np.concatenate([records, records[place : place + 1]])


def added(plan: Plan, records: Records, place: int) -> Records | None:
    """Whoever got a piece tells one neighbour more, over a port that it left free."""
    row, topology = records[place], plan.topology
    sender, step = int(row["receiver"]), int(row["step"]) + 1
    used = {int(other["port"]) for other in records[(records["sender"] == sender) & (records["step"] == step)]}
    port = min(set(range(topology.degree)) - used, default=0)
    receiver = topology.neighbour(sender, port)
    if receiver == row["target"]:
        return None
    outcome = HopOutcome.DUPLICATE if row["target"] < 0 else HopOutcome.RELAY
    new = _with(records, place, step=step, sender=sender, port=port, receiver=receiver, outcome=outcome)
    return np.concatenate([records, new[place : place + 1]])


def later(_plan: Plan, records: Records, place: int) -> Records:
    """It took a step longer."""
    return _with(records, place, step=int(records[place]["step"]) + 1)


def earlier(_plan: Plan, records: Records, place: int) -> Records | None:
    """It took a step less."""
    step = int(records[place]["step"])
    return _with(records, place, step=step - 1) if step > 1 else None


def redirected(plan: Plan, records: Records, place: int) -> Records:
    """It went to another neighbour."""
    row = records[place]
    port = _next_port(plan, row)
    return _with(records, place, port=port, receiver=plan.topology.neighbour(int(row["sender"]), port))


def from_another(plan: Plan, records: Records, place: int) -> Records:
    """It came from another neighbour."""
    port, receiver = _next_port(plan, records[place]), int(records[place]["receiver"])
    sender = plan.topology.neighbour(receiver, port)
    return _with(records, place, sender=sender, port=plan.topology.reverse_port(port))


def off_the_links(_plan: Plan, records: Records, place: int) -> Records:
    """It went somewhere to which there is no link."""
    return _with(records, place, receiver=int(records[place]["sender"]))


def _plus_one(name: str) -> Mutation:
    return lambda _plan, records, place: _with(records, place, **{name: int(records[place][name]) + 1})


def _retargeted(_plan: Plan, records: Records, place: int) -> Records:
    row = records[place]
    return _with(records, place, target=int(row["target"]) + 1 if row["target"] >= 0 else int(row["receiver"]))


def _came_to(outcome: HopOutcome) -> Mutation:
    return lambda _plan, records, place: (
        None if records[place]["outcome"] == outcome else _with(records, place, outcome=outcome)
    )


IMPOSSIBLE: Final[dict[str, Mutation]] = {
    "added": added,
    "duplicated": duplicated,
    "off the links": off_the_links,
    "another size": _plus_one("bytes"),
    "another target": _retargeted,
    **{f"now {outcome.name.lower()}": _came_to(outcome) for outcome in HopOutcome},
}
"""What claims and audit must not accept of any algorithm."""

POSSIBLE: Final[dict[str, Mutation]] = {
    "dropped": dropped,
    "later": later,
    "earlier": earlier,
    "redirected": redirected,
    "from another": from_another,
    "another origin": _plus_one("origin"),
    "another segment": _plus_one("segment"),
    "another tree": _plus_one("tree"),
}
"""What here and there is as good a way to do it, so that only the rules themselves can tell."""

MUTATIONS: Final = {**IMPOSSIBLE, **POSSIBLE}


# --- one child -------------------------------------------------------------------------------------------------------


class Grafted(Trees):
    """Trees of which some ranks of one tree have other children than they should; parents are as they were."""

    def __init__(self, trees: Trees, tree: int, children: dict[Rank, tuple[Port, ...]]) -> None:
        super().__init__(trees.topology, trees.count)
        self._trees = trees
        self._tree = tree
        self._grafts = children

    def parent(self, rank: Rank, tree: int) -> Port:
        return self._trees.parent(rank, tree)

    def child_ports(self, rank: Rank, tree: int) -> tuple[Port, ...]:
        if tree == self._tree and rank in self._grafts:
            return self._grafts[rank]
        return self._trees.children(rank, tree)


def grafted(trees: Trees, rank: Rank, tree: int) -> Iterator[Grafted]:
    """Every way to give one rank one child less, one more, or another one."""
    ports = trees.children(rank, tree)
    others = set(range(trees.topology.degree)) - {*ports}
    for port in ports:
        rest = tuple(other for other in ports if other != port)
        yield Grafted(trees, tree, {rank: rest})
        for other in sorted(others):
            yield Grafted(trees, tree, {rank: (*rest, other)})
    for other in sorted(others):
        yield Grafted(trees, tree, {rank: (*ports, other)})


def moved(trees: Trees, rank: Rank, tree: int) -> Iterator[Grafted]:
    """Every way to hang one rank under another neighbour."""
    topology = trees.topology
    own = trees.parent(rank, tree)
    parent = topology.neighbour(rank, own)
    rest = tuple(port for port in trees.children(parent, tree) if topology.neighbour(parent, port) != rank)
    for port in range(topology.degree):
        if port != own:
            other = topology.neighbour(rank, port)
            more = (*trees.children(other, tree), topology.reverse_port(port))
            yield Grafted(trees, tree, {parent: rest, other: more})
