"""The certificate that is checked: its scenario, its network, its fault sets, and the findings so far."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import lgamma, log
from pathlib import Path
from typing import Any, Final

from coordinator.execution.untrusted import plan_of
from coordinator.execution.verification import TooLargeError, UnreadableError
from coordinator.planning.bounds import copies_due
from coordinator.scenario.fault_sets import FaultSetSpec, parse_fault_sets
from coordinator.scenario.model import Scenario, make_scenario
from coordinator.scenario.named import values_of_file
from coordinator.theory.least_faults import ThreatPlace
from emunode.engine.memory import MemoryEngine
from emunode.errors import ScenarioError
from emunode.faults.kinds import LinkFault, NodeFault
from emunode.model import Rank
from emunode.net.wire import ROW
from emunode.play import play

MOST_HOPS: Final = 2_000_000
MOST_DIGITS: Final = 4_000
"""Most digits of a number of sets."""


def require_lock_step(scenario: Scenario) -> None:
    """Refuse a scenario under the timed clock: ScenarioError."""
    if scenario.clock != "steps":
        raise ScenarioError("clock", scenario.clock, "certificates are about lock-step: use --clock steps")


def _digits(places: int, count: int) -> float:
    """Return the number of decimal digits of a binomial coefficient, roughly."""
    if not 0 <= count <= places:
        return 0.0
    return (lgamma(places + 1) - lgamma(count + 1) - lgamma(places - count + 1)) / log(10)


class Subject:
    """A certificate with the plan of its scenario."""

    def __init__(self, path: Path, data: Mapping[str, Any]) -> None:
        self.data = data
        try:
            scenario = make_scenario(values_of_file(data["scenario"], path.parent))
            require_lock_step(scenario)
        except (ScenarioError, TypeError, ValueError) as error:
            raise UnreadableError(f"scenario: {str(error)[:200]}") from None
        self.plan = plan_of(scenario)
        if copies_due(self.plan.scenario, self.plan.topology.order) > 2 * MOST_HOPS:
            raise TooLargeError(f"a run has more than {MOST_HOPS:,} hops")
        # Before any walk over a network that may be far larger than the certified one.
        topology, stated = self.plan.topology, data["network"]
        for name, size in {"order": topology.order, "links": topology.link_count}.items():
            if stated[name] != size:
                raise UnreadableError(f"network: {name} is {stated[name]}, and it should be {size}")

    @cached_property
    def rows(self) -> list[tuple[int, ...]]:
        """The hops of the run without faults, sorted."""
        plan, rows = self.plan, list[tuple[int, ...]]()
        for turn in play(MemoryEngine(plan.algorithm), limit=plan.scenario.step_limit):
            rows += ROW.iter_unpack(turn)
            if len(rows) > MOST_HOPS:
                raise UnreadableError(f"a run has more than {MOST_HOPS} hops")
        return sorted(rows)

    def fault_set(self, level: Mapping[str, Any]) -> FaultSetSpec:
        """Return the fault set of a level; UnreadableError if it has none, or more sets than anybody can count."""
        text = level["faults"]
        if text == "as they are":
            fault_set = FaultSetSpec("all", ())
        else:
            try:
                (fault_set,) = parse_fault_sets(text)
            except (ScenarioError, ValueError) as error:
                raise UnreadableError(f"level {text[:40]!r}: {str(error)[:160]}") from None
            if fault_set.how != "random" or fault_set.sources:
                raise UnreadableError(f"level {text[:40]!r}: it draws at random")
        nodes, links = self.places
        if sum(_digits(len(links if part.on_links else nodes), part.count) for part in fault_set.parts) > MOST_DIGITS:
            raise UnreadableError(f"level {text[:40]!r}: it has more sets than a certificate can state")
        return fault_set

    @cached_property
    def places(self) -> tuple[frozenset[Rank], frozenset[tuple[Rank, Rank]]]:
        """The nodes and the links that may fail in addition: none that the scenario breaks, and not the source."""
        plan, topology = self.plan, self.plan.topology
        rooted = len(plan.algorithm.sources) == 1 or plan.spec.common_target >= 0
        spared = {plan.spec.source} if rooted else set()
        broken = set()
        for fault in plan.faults:
            if isinstance(fault, NodeFault):
                spared.add(fault.rank)
            elif isinstance(fault, LinkFault):
                broken.add(frozenset((fault.sender, topology.neighbour(fault.sender, fault.port))))
        links = {(min(one, other), max(one, other)) for one, _, other, _ in topology.links()}
        return (
            frozenset(set(topology.ranks()) - spared),
            frozenset(link for link in links if frozenset(link) not in broken),
        )

    def specs(self, chosen: Sequence[tuple[int, ThreatPlace]], fault_set: FaultSetSpec) -> list[str]:
        """Return the fault specifications of one set of a fault set."""
        label, specs = self.plan.topology.label, []
        for part, place in chosen:
            term = fault_set.parts[part]
            where = label(place) if isinstance(place, int) else "~".join(map(label, place))
            specs.append(f"{term.kind}:{where}{term.argument}@{fault_set.when}")
        return specs
