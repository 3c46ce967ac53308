"""The cases of the contract: an algorithm on a small network, its plan, its history and its plans with copies."""

from functools import cache
from typing import Final, NamedTuple
from zlib import crc32

from coordinator.planning.plan import Plan
from emunode.algorithms.base import ANY_FAMILY, Algorithm, Need
from emunode.algorithms.registry import registered
from emunode.errors import ScenarioError
from emunode.topologies.base import FAMILIES, Topology
from emunode.topologies.registry import parse_topology
from emunode.trees.base import Trees
from tests.helpers.mutation_support import Records, history_of
from tests.helpers.scenarios import Case

SMALL: Final = {
    name: next(example for example in family.small_examples if parse_topology(example).order > 6)
    for name, family in FAMILIES.items()
}
"""By family, its first small example with at least seven nodes."""
KINDS: Final = ("star", "hypercube", "ej", "bubble-sort", "mesh", "debruijn", "fat-tree")
"""Families of every kind: with algorithms of their own, with translations, with absent ports, and with switches."""


class AlgorithmCase(NamedTuple):
    """An algorithm on a network."""

    network: str
    entry: type[Algorithm]

    @property
    def name(self) -> str:
        """The name of the case in tests."""
        return f"{self.network}-{self.entry.collective}-{self.entry.name}"

    @property
    def scenario(self) -> Case:
        """The scenario under the paper's own port model, without anything else."""
        return Case(f"{self.network} {self.entry.collective} {self.entry.name} port_model={self.entry.port_models[0]}")

    @property
    def plan(self) -> Plan:
        """The plan of the scenario; some algorithms need messages for several trees at once. Computed once."""
        return _plan(self)

    @property
    def history(self) -> Records:
        """The journal rows of a run without faults, sorted. Computed once."""
        return _history(self)

    @property
    def topology(self) -> Topology:
        """The network."""
        return self.plan.topology

    @property
    def has_trees(self) -> bool:
        """Whether the algorithm is based on trees, by its class alone: a plan takes longer to make."""
        return hasattr(self.entry, "make_trees")

    @property
    def trees(self) -> Trees | None:
        """The trees of an algorithm that is based on trees."""
        trees = getattr(self.plan.algorithm, "trees", None)
        return trees if isinstance(trees, Trees) else None

    def accepted_plan(self, **more: object) -> Plan | None:
        """Return a plan with these fields; None if the algorithm refuses them, with three messages too."""
        case = self.scenario.but(**more)
        for messages in (more.get("messages", 1), 3):
            try:
                return case.but(messages=messages).plan
            except ScenarioError:
                continue
        return None

    def plans(self) -> list[Plan]:
        """Return plans without faults: every port model, several messages and segments, and redundancy."""
        models: list[dict[str, object]] = [{"port_model": str(model)} for model in self.entry.port_models]
        more: list[dict[str, object]] = [{"messages": 3, "segments": 3}, {"messages": 3, "redundancy": 2}]
        plans = (self.accepted_plan(**values) for values in (*models, *more))
        return [plan for plan in plans if plan is not None]


@cache
def _plan(case: AlgorithmCase) -> Plan:
    try:
        return case.scenario.plan
    except ScenarioError:
        return case.scenario.but(messages=parse_topology(case.network).degree).plan


@cache
def _history(case: AlgorithmCase) -> Records:
    return history_of(case.plan)


def _on_every_kind() -> list[tuple[str, AlgorithmCase]]:
    return [
        (family, AlgorithmCase(SMALL[family], entry))
        for family, entry in registered()
        if (family in KINDS and Need.SPECIAL_LINKS not in entry.needs) or entry.family != ANY_FAMILY
    ]


def _is_chosen(family: str, entry: type[Algorithm]) -> bool:
    chosen = KINDS[crc32(f"{entry.collective}-{entry.name}".encode()) % len(KINDS)]
    return entry.family != ANY_FAMILY or family == chosen


CASES: Final = [case for _, case in _on_every_kind()]
"""Every algorithm on every family that has algorithms of its own; an algorithm for any network on a family of every kind.

Algorithms that need links that most networks lack have tests of their own, `tests/emunode/algorithms/classical`.
"""
ONCE: Final = [case for family, case in _on_every_kind() if _is_chosen(family, case.entry)]
"""Every algorithm on its own family; an algorithm for any network on one family, a different one each."""


def case_named(name: str) -> AlgorithmCase:
    """Return the case with a name, such as `star:4-broadcast-edt`."""
    return next(case for case in CASES if case.name == name)
