"""The certificate that is checked: its scenario, its network, its fault sets, and the findings so far."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from math import comb, lgamma, log
from pathlib import Path
from typing import Any, Final

from coordinator.annexes.proofs.checker.paths import MOST_HOPS, CopyRoutes, Place
from coordinator.execution.untrusted import plan_of
from coordinator.execution.verification import TooLargeError, UnreadableError, Verification
from coordinator.planning.bounds import pieces_due
from coordinator.scenario.fault_sets import FaultSetSpec, parse_fault_sets
from coordinator.scenario.fault_syntax import parse_faults
from coordinator.scenario.model import Scenario, make_scenario
from coordinator.scenario.named import values_of_file
from emunode.errors import ScenarioError
from emunode.faults.kinds import LinkFault, NodeFault
from emunode.model import Rank

MOST_DIGITS: Final = 4_000
"""Most digits of a number of sets."""


def require_lock_step(scenario: Scenario) -> None:
    """Refuse a scenario under the timed clock: ScenarioError."""
    if scenario.clock != "steps":
        raise ScenarioError("clock", scenario.clock, "certificates are about lock-step: use --clock steps")


SetShape = Mapping[tuple[str, str], int]
"""The number of faults of each kind and time in a set."""


def shape_of(fault_set: FaultSetSpec) -> SetShape:
    """Return the kinds of the faults of every set of a fault set."""
    found = Counter[tuple[str, str]]()
    for part in fault_set.parts:
        # A kind may have several parts, with other arguments.
        found[part.kind, fault_set.when] += part.count
    return found


def _digits(places: int, count: int) -> float:
    """Return the number of decimal digits of a binomial coefficient, roughly."""
    if not 0 <= count <= places:
        return 0.0
    return (lgamma(places + 1) - lgamma(count + 1) - lgamma(places - count + 1)) / log(10)


class Subject:
    """A certificate with the plan of its scenario; all checks add to the same findings."""

    def __init__(self, path: Path, data: Mapping[str, Any], verification: Verification) -> None:
        self.data = data
        self.findings = verification.findings
        self.verification = verification
        try:
            scenario = make_scenario(values_of_file(data["scenario"], path.parent))
            require_lock_step(scenario)
        except (ScenarioError, TypeError, ValueError) as error:
            raise UnreadableError(f"scenario: {str(error)[:200]}") from None
        self.plan = plan_of(scenario)
        if pieces_due(self.plan.scenario, self.plan.topology.order) > 2 * MOST_HOPS:
            raise TooLargeError(f"a run has more than {MOST_HOPS:,} hops")
        # Before any walk over a network that may be far larger than the certified one.
        topology, stated = self.plan.topology, data["network"]
        for name, size in {"order": topology.order, "links": topology.link_count}.items():
            if stated[name] != size:
                raise UnreadableError(f"network: {name} is {stated[name]}, and it should be {size}")
        self.refuted: list[str] = []
        """Levels with a set that costs a node a message, or violates a claim."""

    @cached_property
    def schedule(self) -> CopyRoutes:
        """The hops of the run without faults."""
        return CopyRoutes(self.plan)

    def undecided(self, reason: str) -> None:
        """Note a part that could not be checked and that the claim depends on."""
        self.verification.unchecked.append(reason)
        self.verification.undecided = True

    def differs(self, name: str, stored: object, expected: object) -> None:
        """Add a finding if a stored value is not the expected one."""
        if stored != expected:
            self.findings.append(f"{name} is {str(stored)[:100]}, and it should be {str(expected)[:100]}")

    def fault_set(self, level: Mapping[str, Any]) -> FaultSetSpec:
        """Return the fault set of a level, with its number of sets checked."""
        text = level["faults"]
        if text == "as they are":
            found = FaultSetSpec("all", ())
        else:
            try:
                (found,) = parse_fault_sets(text)
            except (ScenarioError, ValueError) as error:
                raise UnreadableError(f"level {text[:40]!r}: {str(error)[:160]}") from None
            if found.how != "random" or found.sources:
                raise UnreadableError(f"level {text[:40]!r}: it draws at random")
        nodes, links = self.places
        if sum(_digits(len(links if part.on_links else nodes), part.count) for part in found.parts) > MOST_DIGITS:
            raise UnreadableError(f"level {text[:40]!r}: it has more sets than a certificate can state")
        left, sets = {False: len(nodes), True: len(links)}, 1
        for part in found.parts:
            sets *= comb(max(0, left[part.on_links]), part.count)
            left[part.on_links] -= part.count
        self.differs(f"{text}: sets", level["sets"], sets)
        survived = level["survived"]
        if len(survived) != 2 or not 0 <= survived[0] <= survived[1] <= sets:
            raise UnreadableError(f"{text}: survived is {str(survived)[:60]}; expected two numbers within 0..{sets}")
        if not 0 <= level["undecided"] <= sets or (level["lost"] or 0) < 0:
            raise UnreadableError(f"{text}: undecided and lost are numbers from 0 on")
        return found

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

    def shape(self, specs: Sequence[str]) -> SetShape | None:
        """Return the kinds of the faults of a set; None if two are at one place, or one is where nothing may fail.

        UnreadableError if a fault cannot be read.
        """
        topology, (nodes, links) = self.plan.topology, self.places
        places, kinds = set[Place](), Counter[tuple[str, str]]()
        for spec in specs:
            try:
                faults = parse_faults([spec], topology)
            except ScenarioError as error:
                raise UnreadableError(str(error)[:160]) from None
            for fault in faults:
                if isinstance(fault, NodeFault):
                    places.add(fault.rank)
                elif isinstance(fault, LinkFault):
                    ends = fault.sender, topology.neighbour(fault.sender, fault.port)
                    places.add((min(ends), max(ends)))
            kinds[spec.partition(":")[0], spec.rpartition("@")[2]] += 1
        return kinds if len(places) == len(specs) and places <= nodes | links else None

    def specs(self, chosen: Sequence[tuple[int, Place]], fault_set: FaultSetSpec) -> list[str]:
        """Return the fault specifications of one set of a fault set."""
        label, found = self.plan.topology.label, []
        for part, place in chosen:
            term = fault_set.parts[part]
            where = label(place) if isinstance(place, int) else "~".join(map(label, place))
            found.append(f"{term.kind}:{where}{term.argument}@{fault_set.when}")
        return found
