"""Histories and trees with one error, and functions that judge them."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from coordinator.history.journal import sorted_records, table
from coordinator.planning.plan import Plan
from coordinator.results.claims import Verdict
from coordinator.results.conclude import History, conclude
from coordinator.results.differential import replay_mismatches
from emunode.algorithms.base import Algorithm
from emunode.algorithms.flooding import Flood
from emunode.engine.memory import MemoryEngine
from emunode.model import HopOutcome, Port, Rank
from emunode.play import play
from emunode.trees.base import Trees

Records = np.ndarray[Any, np.dtype[Any]]
"""Journal rows, packed, in the order of the journal."""


def history_of(plan: Plan, algorithm: Algorithm | None = None) -> Records:
    """The journal rows of a run in memory, sorted."""
    engine = MemoryEngine(algorithm or plan.algorithm)
    records = sorted_records(list(play(engine, plan.faults, limit=10_000)))
    assert not engine.busy, "the run does not end"
    return records


def verdict_on(plan: Plan, records: Records) -> Verdict:
    """The verdict of claims and audit on these rows."""
    return conclude(plan, History(table(records).lazy(), len(records)), replay=False).ruling.verdict


def replayed(plan: Plan, records: Records) -> int:
    """Number of hops that differ from a replay."""
    return replay_mismatches(plan, table(records).lazy())


# --- two judges ------------------------------------------------------------------------------------------------------


Mutation = Callable[[Plan, Records, int], Records | None]
"""Changes one row of a history; None if the change does not apply to the row."""


def with_values(records: Records, place: int, **values: int) -> Records:
    """The same history, but for values of one row."""
    changed = records.copy()
    for name, value in values.items():
        changed[name][place] = value
    return changed


def _other_link(plan: Plan, rank: Rank, port: Port, peer: Rank) -> tuple[Port, Rank] | None:
    """The next port of `rank` after `port` that leads elsewhere than to `peer`, and where; or None."""
    topology = plan.topology
    ports = sorted(topology.ports(rank), key=lambda each: (each - port - 1) % topology.degree)
    return next(((each, to) for each in ports if (to := topology.neighbour(rank, each)) != peer), None)


def dropped(_plan: Plan, records: Records, place: int) -> Records:
    """Remove the hop."""
    return np.delete(records, place)


def duplicated(_plan: Plan, records: Records, place: int) -> Records:
    """Repeat the hop."""
    return np.concatenate([records, records[place : place + 1]])


def added(plan: Plan, records: Records, place: int) -> Records | None:
    """Add a hop from the receiver over a port that it did not use."""
    row, topology = records[place], plan.topology
    sender, step = int(row["receiver"]), int(row["step"]) + 1
    used = {int(other["port"]) for other in records[(records["sender"] == sender) & (records["step"] == step)]}
    port = min(set(topology.ports(sender)) - used, default=topology.ports(sender)[0])
    receiver = topology.neighbour(sender, port)
    if receiver == row["target"]:
        return None
    outcome = HopOutcome.DUPLICATE if row["target"] < 0 else HopOutcome.RELAY
    new = with_values(records, place, step=step, sender=sender, port=port, receiver=receiver, outcome=outcome)
    return np.concatenate([records, new[place : place + 1]])


def later(_plan: Plan, records: Records, place: int) -> Records:
    """Delay the hop by one step."""
    return with_values(records, place, step=int(records[place]["step"]) + 1)


def earlier(_plan: Plan, records: Records, place: int) -> Records | None:
    """Move the hop one step earlier."""
    step = int(records[place]["step"])
    return with_values(records, place, step=step - 1) if step > 1 else None


def redirected(plan: Plan, records: Records, place: int) -> Records | None:
    """Send the hop to another neighbour."""
    row = records[place]
    link = _other_link(plan, int(row["sender"]), int(row["port"]), int(row["receiver"]))
    return None if link is None else with_values(records, place, port=link[0], receiver=link[1])


def from_another(plan: Plan, records: Records, place: int) -> Records | None:
    """Take the hop from another neighbour."""
    row, receiver = records[place], int(records[place]["receiver"])
    link = _other_link(plan, receiver, int(row["port"]), int(row["sender"]))
    if link is None:
        return None
    return with_values(records, place, sender=link[1], port=plan.topology.end(receiver, link[0])[1])


def off_the_links(_plan: Plan, records: Records, place: int) -> Records:
    """Send the hop where no link leads."""
    return with_values(records, place, receiver=int(records[place]["sender"]))


def _plus_one(name: str) -> Mutation:
    return lambda _plan, records, place: with_values(records, place, **{name: int(records[place][name]) + 1})


def _retargeted(_plan: Plan, records: Records, place: int) -> Records:
    row = records[place]
    return with_values(records, place, target=int(row["target"]) + 1 if row["target"] >= 0 else int(row["receiver"]))


def _came_to(outcome: HopOutcome) -> Mutation:
    return lambda _plan, records, place: (
        None if records[place]["outcome"] == outcome else with_values(records, place, outcome=outcome)
    )


IMPOSSIBLE: Final[dict[str, Mutation]] = {
    "added": added,
    "duplicated": duplicated,
    "off the links": off_the_links,
    "another size": _plus_one("bytes"),
    "another target": _retargeted,
    **{f"now {outcome.name.lower()}": _came_to(outcome) for outcome in HopOutcome},
}
"""Changes that claims and audit reject for every algorithm, except where `is_within_claims` says otherwise."""


def is_within_claims(plan: Plan, name: str) -> bool:
    """Return whether the claims leave room for a change: floods on odd cycles claim one or two packets for each link, so
    only a replay notices an added one.
    """
    return name == "added" and isinstance(plan.algorithm, Flood) and not plan.topology.bipartite


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
"""Changes that can give an equally good history, so that only the replay detects them."""

MUTATIONS: Final = {**IMPOSSIBLE, **POSSIBLE}


# --- one child -------------------------------------------------------------------------------------------------------


class Grafted(Trees):
    """Trees in which some ranks of one tree have wrong children; parents are unchanged."""

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
    """Every removal, addition or exchange of one child of one rank."""
    ports = trees.children(rank, tree)
    others = {*trees.topology.ports(rank)} - {*ports}
    for port in ports:
        rest = tuple(other for other in ports if other != port)
        yield Grafted(trees, tree, {rank: rest})
        for other in sorted(others):
            yield Grafted(trees, tree, {rank: (*rest, other)})
    for other in sorted(others):
        yield Grafted(trees, tree, {rank: (*ports, other)})


def moved(trees: Trees, rank: Rank, tree: int) -> Iterator[Grafted]:
    """Every move of one rank below another neighbour."""
    topology = trees.topology
    own = trees.parent(rank, tree)
    parent = topology.neighbour(rank, own)
    rest = tuple(port for port in trees.children(parent, tree) if topology.neighbour(parent, port) != rank)
    for port in topology.ports(rank):
        if port != own:
            other, its_port = topology.end(rank, port)
            more = (*trees.children(other, tree), its_port)
            yield Grafted(trees, tree, {parent: rest, other: more})
