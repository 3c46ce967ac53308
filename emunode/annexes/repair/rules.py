"""Rules that repair a broadcast over trees: the interface, and the registry of all rules.

There are two sorts. A rule that *pulls* (`emunode.annexes.repair.pull`) works at every rank by itself: a rank that misses
a packet asks its neighbours for it. A rule that *plans* knows all faults in force in step 1 (fault knowledge `all`) and
runs the broadcast over other trees that avoid them.

To add a rule, derive a class from `PullRule` or `PlannedRule`, and decorate an instance with `register`; a built-in one also
needs its line in `MODULES`.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import ClassVar, Final, NamedTuple

from emunode.algorithms.base import Algorithm
from emunode.algorithms.claims import Claim
from emunode.algorithms.tree_collective import TreeCollective
from emunode.annexes.repair.components import BrokenLinks
from emunode.errors import ScenarioError
from emunode.model import Collective, CollectiveSpec, Duplex, PortModel, Rank, Step
from emunode.registry import Registry
from emunode.topologies.base import Topology
from emunode.trees.base import Trees
from emunode.trees.partial import PartialTree

MODULES: Final[Mapping[str, str]] = {
    "next-port": "next_port",
    "switch-tree": "switch_tree",
    "spanning-tree": "spanning_tree",
    "re-root": "re_root",
    "edges": "edges",
}
"""The modules below `emunode.annexes.repair`, by the rule that each registers."""


class RepairRule(ABC):
    """One rule. It holds no state of a run."""

    name: ClassVar[str]
    citation: ClassVar[str]
    """The literature, or the definition of the rule."""
    describe: ClassVar[str]
    """One line for lists."""
    port_models: ClassVar[tuple[PortModel, ...]] = (PortModel.ALL_PORT, PortModel.ONE_PORT)

    def require(self, algorithm: Algorithm) -> TreeCollective:
        """Return the algorithm, narrowed; ScenarioError for an algorithm that this rule does not cover. Subclasses add
        conditions.
        """
        spec = algorithm.spec
        if spec.collective is not Collective.BROADCAST:
            raise self.refusal(f"it repairs a broadcast, not {spec.collective}")
        if not isinstance(algorithm, TreeCollective) or not algorithm.forwards:
            raise self.refusal(f"{algorithm.name} is no broadcast whose nodes forward along trees")
        if spec.redundancy > 1:
            raise self.refusal("copies over several trees are not asked for; use --redundancy 1")
        if spec.port_model not in self.port_models:
            raise self.refusal(f"it needs {' or '.join(self.port_models)}, not {spec.port_model}")
        if spec.duplex is not Duplex.FULL:
            raise self.refusal("it needs full-duplex links")
        return algorithm

    def refusal(self, reason: str) -> ScenarioError:
        """Return the error for a job that this rule does not cover."""
        return ScenarioError("repair", self.name, reason)


class RepairedTree(NamedTuple):
    """The result of a planned rule, as seen from the source."""

    tree: PartialTree
    kept: Trees | None = None
    """The tree whose links it keeps, in either direction; None if it keeps none."""
    components: int = 1
    """Components of that tree that were joined."""


class PlannedRule(RepairRule):
    """A rule for a broadcast over other trees; every rank has to know the faults in force in step 1."""

    port_models = (PortModel.ALL_PORT,)

    def require(self, algorithm: Algorithm) -> TreeCollective:
        found = super().require(algorithm)
        if found.trees.count > 1:
            raise self.refusal(f"{algorithm.name} has {found.trees.count} trees; it repairs one")
        return found

    @abstractmethod
    def repair(self, algorithm: TreeCollective, broken: BrokenLinks) -> RepairedTree | None:
        """Return the tree that the broadcast runs over in place of the tree of `algorithm`; None if the rule finds none.

        `broken` has the links broken in step 1, seen from the source. ScenarioError for faults that the rule does not cover.
        """

    @abstractmethod
    def claims(self, algorithm: "RepairedBroadcast") -> list[Claim]:
        """Return the claims of the rule about a run where nothing but the known faults is broken."""


class RepairedBroadcast(TreeCollective):
    """A broadcast over one tree that a planned rule has made; ranks that the tree omits receive nothing."""

    collective = Collective.BROADCAST

    def __init__(
        self,
        spec: CollectiveSpec,
        rule: PlannedRule,
        original: TreeCollective,
        broken: BrokenLinks,
        repaired: RepairedTree,
    ) -> None:
        self.replaces = original
        self.broken = broken
        self.name = original.name  # type: ignore[misc]  # a class of its own for each algorithm would say no more
        self.citation = rule.citation  # type: ignore[misc]
        self.link_capacity = original.link_capacity
        self._rule = rule
        self.repaired = repaired
        super().__init__(original.topology, spec)

    def make_trees(self, topology: Topology) -> Trees:
        return self.repaired.tree

    @cached_property
    def last_offset(self) -> Step:
        return self.repaired.tree.height(0)

    @cached_property
    def final_step(self) -> Step | None:
        return self.last_step

    def claims(self) -> list[Claim]:
        """Return the claims of a run where nothing but the known faults is broken."""
        source = f"{self.citation}: all that the faults leave connected"
        return [
            Claim("steps", self.last_step, "==", f"{self.citation}: height of the tree", derived=True),
            Claim("segments", self.copies * len(self.reached), "==", source),
            Claim("intact_deliveries", self.spec.messages * len(self.receivers), "==", source),
            *self._rule.claims(self),
        ]

    def claims_with_known_faults(self, faulty: Collection[Rank]) -> list[Claim]:
        return self.claims() if self.spec.sources_live(faulty) else []


REPAIRS: Final = Registry[str, RepairRule](
    "repair rule",
    RepairRule,
    key=lambda rule: rule.name,
    required=("name", "citation", "describe"),
    instances=True,
)
"""Every rule by its name."""
REPAIRS.declare((name, f"emunode.annexes.repair.{module}") for name, module in MODULES.items())


def rule_of(spec: CollectiveSpec) -> RepairRule | None:
    """Return the rule that a collective is repaired by, or None; ScenarioError for an unknown name."""
    if spec.repair is None:
        return None
    rule = REPAIRS.get(spec.repair.rule)
    if rule is None:
        raise ScenarioError("repair", spec.repair.rule, f"expected one of {', '.join(REPAIRS)}")
    return rule


def make_repaired(entry: type[Algorithm], topology: Topology, spec: CollectiveSpec) -> Algorithm:
    """Return the algorithm as it runs under the rule that `spec` names; ScenarioError if the rule does not cover it."""
    rule = rule_of(spec)
    if isinstance(rule, PlannedRule):
        original = rule.require(entry(topology, spec._replace(broken=())))
        broken = BrokenLinks(
            original.rooted, [(topology.relative(rank, spec.source), port) for rank, port in spec.broken]
        )
        repaired = rule.repair(original, broken) if spec.broken else None
        if repaired is not None:
            return RepairedBroadcast(spec, rule, original, broken, repaired)
    algorithm = entry(topology, spec)
    return algorithm if rule is None else rule.require(algorithm)
