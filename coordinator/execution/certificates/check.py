"""Verification of certificate files, without the code that makes them.

Everything in the file is computed again from the scenario: the digests of network and schedule, the messages that are due,
the path of every copy (from the hops of a fault-free run of the message engine), the fewest faults that defeat each message
(a shortest way through the sets of copies that faults can reach), the numbers of sets, and the run of the counterexample.
Some sets are run by the message engine.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from itertools import islice, pairwise
from math import comb
from pathlib import Path
from random import Random
from typing import Any, Final

from coordinator.execution.certificates.paths import (
    EFFECTS,
    MOST_HOPS,
    Copies,
    Given,
    Place,
    Schedule,
    Threat,
    TooLargeError,
    every_set,
    fewest,
    run_rows,
)
from coordinator.execution.certificates.reading import read_certificate
from coordinator.execution.verify import UnreadableError, Verification, plan_of
from coordinator.history.journal import sorted_records
from coordinator.scenario.fault_sets import FaultSetSpec, parse_fault_sets
from coordinator.scenario.fault_syntax import parse_faults
from coordinator.scenario.model import make_scenario
from coordinator.scenario.networks import with_absolute_network
from emunode.errors import EmulatorError, ScenarioError
from emunode.faults.kinds import FOREVER, Fault, LinkFault, NodeFault
from emunode.model import ALL_RANKS, FOLDING, FaultKnowledge, HopOutcome, Rank
from emunode.net.wire import ROW
from emunode.topologies.base import Topology
from emunode.topologies.digest import network_sha256

RECOUNTED_SETS: Final = 20_000
"""Most sets of one level that are counted again."""
MOST_RUN_HOPS: Final = 1_000_000
"""About the most hops in all runs of one verification."""
SAMPLED_SETS: Final = 10
"""Sets of the largest level without a failing set that are run."""
MOST_FINDINGS: Final = 50
ARRIVED: Final = frozenset({HopOutcome.FIRST, HopOutcome.DUPLICATE, HopOutcome.CORRUPT})


def verify_certificate(path: Path) -> Verification:
    """Check a certificate file; raises nothing, whatever it contains."""
    verification = Verification(path)
    try:
        Check(path, read_certificate(path), verification).everything()
    except UnreadableError as error:
        verification.findings.append(str(error))
    except OSError as error:
        verification.findings.append(f"it cannot be read: {error.strerror}")
    del verification.findings[MOST_FINDINGS:]
    return verification


class Check:
    """All checks of one certificate."""

    def __init__(self, path: Path, data: Mapping[str, Any], verification: Verification) -> None:
        self._data = data
        self._found = verification.findings
        self._verification = verification
        try:
            scenario = make_scenario(with_absolute_network(data["scenario"], path.parent))
        except (ScenarioError, TypeError, ValueError) as error:
            raise UnreadableError(f"scenario: {str(error)[:200]}") from None
        self._plan = plan_of(scenario)

    def everything(self) -> None:
        """Run all checks; what would take too long is noted, and leaves the certificate undecided."""
        try:
            self._all()
        except TooLargeError as error:
            self._undecided(str(error))
        except EmulatorError as error:
            self._found.append(f"a run fails: {str(error)[:200]}")

    def _undecided(self, reason: str) -> None:
        self._verification.unchecked.append(reason)
        self._verification.undecided = True

    def _differs(self, name: str, stored: object, expected: object) -> None:
        if stored != expected:
            self._found.append(f"{name} is {str(stored)[:100]}, and it should be {str(expected)[:100]}")

    def _all(self) -> None:
        data, plan = self._data, self._plan
        topology = plan.topology
        network = {
            "name": topology.name, "order": topology.order, "links": topology.link_count, "sha256": network_sha256(topology)
        }  # fmt: skip
        for name, expected in network.items():
            self._differs(f"network: {name}", data["network"][name], expected)
        if self._found:
            return
        self._schedule = Schedule(plan)
        self._differs("schedule: hops", data["schedule"]["hops"], len(self._schedule.rows))
        self._differs("schedule: sha256", data["schedule"]["sha256"], self._schedule.sha256)
        if self._found:
            return
        if data["method"] not in ("cuts", "runs"):
            raise UnreadableError(f"method is {data['method'][:40]!r}; expected cuts or runs")
        levels = [(level, self._fault_set(level)) for level in data["levels"]]
        self._runs_left = max(SAMPLED_SETS, MOST_RUN_HOPS // max(1, len(self._schedule.rows)))
        if data["method"] == "cuts":
            self._cuts(levels)
        else:
            self._differs("threats of a certificate by runs", data["threats"], [])
            for level, fault_set in levels:
                self._run_level(level, fault_set)
        self._verdict()
        self._counterexample(levels)

    def _fault_set(self, level: Mapping[str, Any]) -> FaultSetSpec:
        """The fault set of a level, with its number of sets checked."""
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
        nodes, links = self._places()
        left, sets = {False: len(nodes), True: len(links)}, 1
        for part in found.parts:
            sets *= comb(max(0, left[part.on_links]), part.count)
            left[part.on_links] -= part.count
        self._differs(f"{text}: sets", level["sets"], sets)
        survived = level["survived"]
        if len(survived) != 2 or not 0 <= survived[0] <= survived[1] <= sets:
            raise UnreadableError(f"{text}: survived is {str(survived)[:60]}; expected two numbers within 0..{sets}")
        if not 0 <= level["undecided"] <= sets or (level["lost"] or 0) < 0:
            raise UnreadableError(f"{text}: undecided and lost are numbers from 0 on")
        return found

    def _places(self) -> tuple[frozenset[Rank], frozenset[tuple[Rank, Rank]]]:
        """The nodes and the links that may fail in addition: none that the scenario breaks, and not the source."""
        plan, topology = self._plan, self._plan.topology
        rooted = len(plan.algorithm.sources) == 1 or plan.algorithm.target >= 0
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

    # --- by cuts ---------------------------------------------------------------------------------------------------------

    def _cuts(self, levels: Sequence[tuple[Mapping[str, Any], FaultSetSpec]]) -> None:
        plan = self._plan
        fixed = plan.algorithm.collective not in FOLDING and plan.algorithm.keeps_time
        if not fixed or plan.scenario.fault_knowledge != FaultKnowledge.NONE or plan.scenario.reliable:
            raise UnreadableError(f"paths decide nothing about {plan.spec.algorithm}, whose nodes choose or fold")
        threats: dict[tuple[tuple[str, ...], str], tuple[Threat, int | None]] = {}
        for stored in self._data["threats"]:
            key = tuple(stored["kinds"]), stored["when"]
            threat = self._threat(*key)
            if key in threats:
                raise UnreadableError(f"threat {key}: it is repeated")
            threats[key] = threat, self._tolerance(threat, stored)
        used = set()
        proved: tuple[Mapping[str, Any], FaultSetSpec] | None = None
        for level, fault_set in levels:
            key = tuple(part.kind for part in fault_set.parts), fault_set.when
            if key not in threats:
                raise UnreadableError(f"{level['faults']}: no threat of the certificate has its kinds of faults")
            used.add(key)
            self._level(level, fault_set, *threats[key])
            if level["survived"][0] == level["sets"]:
                proved = level, fault_set
        self._differs("number of threats", len(threats), len(used))
        if proved is not None and not self._found:
            self._sample(*proved)

    def _threat(self, kinds: tuple[str, ...], when: str) -> Threat:
        if not kinds or any(kind not in EFFECTS for kind in kinds) or len(set(kinds)) < len(kinds):
            raise UnreadableError(f"kinds of faults {str(kinds)[:60]}: expected some of {', '.join(EFFECTS)}")
        first, dash, last = when.partition("-")
        if not (
            first.isascii() and first.isdigit() and len(when) < 30 and (not dash or (last.isascii() and last.isdigit()))
        ):
            raise UnreadableError(f"when is {when[:40]!r}; expected a step or an interval")
        return Threat(kinds, int(first), int(last) if dash else FOREVER, *self._places())

    @cached_property
    def _given(self) -> Given:
        return Given(self._plan)

    def _due(self) -> list[tuple[Rank, Rank]]:
        return [pair for pair in self._schedule.due if not self._given.faulty.intersection(pair)]

    def _copies(self, threat: Threat, piece: tuple[Rank, Rank, int], receiver: Rank) -> Copies:
        stopped = altered = 0
        strikes: dict[tuple[int, Place], tuple[int, int]] = {}
        paths = self._schedule.paths(piece, receiver)
        for at, hops in enumerate(paths):
            effect = self._given.effect(hops)
            stopped |= (effect == 1) << at
            altered |= (effect == 2) << at
            for part, kind in enumerate(threat.kinds):
                for place in threat.touched(hops, kind):
                    stops, alters = strikes.get((part, place), (0, 0))
                    bit = 1 << at
                    strikes[part, place] = (stops, alters | bit) if EFFECTS[kind] else (stops | bit, alters)
        return Copies(len(paths), stopped, altered, strikes)

    def _least(self, threat: Threat, pair: tuple[Rank, Rank], budget: Sequence[int] | None = None) -> int | None:
        """The fewest faults that lose one of the pieces of a receiver."""
        found = []
        for piece in self._schedule.due[pair]:
            copies = self._copies(threat, piece, pair[1])
            most = tuple(budget or (copies.count,) * len(threat.kinds))
            found.append(fewest(copies.count, copies.stopped, copies.altered, copies.moves, most))
        return min((size for size in found if size is not None), default=None)

    def _tolerance(self, threat: Threat, stored: Mapping[str, Any]) -> int | None:
        """The tolerance of a threat, with the stored classes checked: all messages, their paths and smallest cuts."""
        name = " and ".join(threat.kinds)
        due, members = self._due(), Counter[tuple[Rank, Rank]]()
        for each in stored["classes"]:
            members.update(map(tuple, each["members"]))
        missing = [pair for pair in due if pair not in members]
        if missing:
            self._found.append(f"{name}: no class has the message of rank {missing[0][0]} to rank {missing[0][1]}")
        if len(members) > len(due) - len(missing) or max(members.values(), default=0) > 1:
            self._found.append(f"{name}: a class has a message that is not due, or that another class has")
        if self._found:
            return None
        smallest: int | None = None
        for each in stored["classes"]:
            least = self._class(threat, each)
            if least is not None and (smallest is None or least < smallest):
                smallest = least
        tolerated = None if smallest is None else smallest - 1
        self._differs(f"{name}: tolerated", stored["tolerated"], tolerated)
        return tolerated

    def _class(self, threat: Threat, each: Mapping[str, Any]) -> int | None:
        """The fewest faults that defeat a message of a class, with its paths and its cut checked."""
        origin, receiver = each["members"][0]
        name = f"rank {origin} to rank {receiver}"
        piece = tuple(each["piece"])
        if len(piece) != 3 or piece not in self._schedule.due[origin, receiver]:
            self._found.append(f"{name}: piece {str(piece)[:60]} is not one of this message")
            return None
        self._paths(
            name,
            each["paths"],
            [[hop.sender for hop in hops] + [receiver] for hops in self._schedule.paths(piece, receiver)],
        )
        copies = self._copies(threat, piece, receiver)
        places = [place for place, _ in copies.strikes.items()]
        shared = any((stops | alters).bit_count() > 1 for stops, alters in copies.strikes.values())
        self._differs(f"{name}: argument", each["argument"], "search" if shared else "disjoint")
        wrong = [pair for pair in each["members"] if self._least(threat, tuple(pair)) != each["least"]]
        if wrong:
            self._found.append(
                f"rank {wrong[0][0]} to rank {wrong[0][1]}: the fewest faults that cost it a message are "
                f"{self._least(threat, tuple(wrong[0]))}, and the certificate says {each['least']}"
            )
        if (each["cut"] is None) != (each["least"] is None):
            self._found.append(f"{name}: it has a cut exactly if some faults defeat it")
        elif each["cut"] is not None:
            self._cut(name, threat, each, copies, places)
        least: int | None = each["least"]
        return least

    def _paths(self, name: str, stored: Sequence[Sequence[int]], expected: Sequence[Sequence[int]]) -> None:
        topology = self._plan.topology
        for path in stored:
            for one, other in pairwise(path):
                if not 0 <= one < topology.order or other not in topology.neighbours(one):
                    self._found.append(
                        f"{name}: a path goes from rank {str(one)[:20]} to {str(other)[:20]}: no such link"
                    )
                    return
        if list(map(list, stored)) != list(map(list, expected)):
            self._found.append(f"{name}: its paths are not those of the algorithm")

    def _cut(
        self, name: str, threat: Threat, each: Mapping[str, Any], copies: Copies, places: Sequence[tuple[int, Place]]
    ) -> None:
        topology = self._plan.topology
        when = f"{threat.first}" if threat.last == FOREVER else f"{threat.first}-{threat.last}"
        known = {}
        for part, place in places:
            where = topology.label(place) if isinstance(place, int) else "~".join(map(topology.label, place))
            known[f"{threat.kinds[part]}:{where}@{when}"] = part, place
        strange = [spec for spec in each["cut"] if spec not in known]
        if strange:
            self._found.append(f"{name}: {strange[0][:80]} is not a fault on its paths")
            return
        if len(set(each["cut"])) != len(each["cut"]) or len(each["cut"]) != each["least"]:
            self._found.append(f"{name}: its cut does not have {str(each['least'])[:20]} different faults")
        elif not copies.lost_under(known[spec] for spec in each["cut"]):
            self._found.append(f"{name}: its cut leaves it a majority of right copies")

    def _level(self, level: Mapping[str, Any], fault_set: FaultSetSpec, threat: Threat, tolerated: int | None) -> None:
        """Check the counts of a level: by the tolerance, or set by set if there are few sets."""
        name, sets = level["faults"], level["sets"]
        if sets <= RECOUNTED_SETS and sets * len(self._schedule.rows) <= 20 * MOST_HOPS:
            survived, lost, vacant = self._recount(fault_set, threat)
            if not level["survived"][0] <= survived <= level["survived"][1]:
                self._found.append(
                    f"{name}: {survived} sets are survived, and the certificate says {level['survived']}"
                )
            if level["lost"] is not None:
                self._differs(f"{name}: lost", level["lost"], lost)
            self._differs(f"{name}: undecided", level["undecided"], vacant)
        elif tolerated is None or fault_set.size <= tolerated:
            self._differs(f"{name}: survived", level["survived"], [sets, sets])
            self._differs(f"{name}: lost", level["lost"], 0)
        elif level["survived"][0] == sets:
            budget = [part.count for part in fault_set.parts]
            if any(self._least(threat, pair, budget) is not None for pair in self._due()):
                self._found.append(f"{name}: some of its sets cost a node a message, and the certificate says none")
        else:
            self._verification.unchecked.append(f"{name}: {sets} sets are too many to count again")

    def _recount(self, fault_set: FaultSetSpec, threat: Threat) -> tuple[int, int, int]:
        """The survived sets, the nodes that miss a message summed over all sets, and the sets that leave no receiver."""
        due = self._due()
        pieces = [(*pair, copies) for pair in due for copies in self._distinct(threat, pair)]
        survived = lost = vacant = 0
        for chosen in every_set(fault_set, threat):
            faulty = {place for _, place in chosen if isinstance(place, int)}
            left = [each for each in pieces if each[0] not in faulty and each[1] not in faulty]
            missing = {receiver for _, receiver, copies in left if copies.lost_under(chosen)}
            survived += not missing
            lost += len(missing)
            vacant += not left
        return survived, lost, vacant

    def _distinct(self, threat: Threat, pair: tuple[Rank, Rank]) -> list[Copies]:
        """The pieces of a message, without those that faults affect in the same way."""
        found = [self._copies(threat, piece, pair[1]) for piece in self._schedule.due[pair]]
        keys = {(each.count, each.stopped, each.altered, frozenset(each.strikes.items())): each for each in found}
        return list(keys.values())

    # --- by runs ---------------------------------------------------------------------------------------------------------

    def _run_level(self, level: Mapping[str, Any], fault_set: FaultSetSpec) -> None:
        """Run every set of a level if there are few, else those whose histories are stored and some others."""
        name = level["faults"]
        for history in level["histories"][:SAMPLED_SETS]:
            self._history(name, history)
        whole = level["survived"][0] == level["sets"] and not level["undecided"]
        if not whole:
            return
        threat = Threat(tuple(part.kind for part in fault_set.parts), 1, FOREVER, *self._places())
        if level["sets"] > self._runs_left:
            self._undecided(f"{name}: {level['sets']} sets are too many to run again; some of them were")
        for chosen in islice(every_set(fault_set, threat), self._runs_left):
            self._runs_left -= 1
            specs = self._specs(chosen, fault_set)
            unserved = self._unserved(specs)
            if unserved:
                self._found.append(f"{name}: under {', '.join(specs)} rank {min(unserved)} misses a message")
                return

    # --- runs ------------------------------------------------------------------------------------------------------------

    def _specs(self, chosen: Sequence[tuple[int, Place]], fault_set: FaultSetSpec) -> list[str]:
        label, found = self._plan.topology.label, []
        for part, place in chosen:
            term = fault_set.parts[part]
            where = label(place) if isinstance(place, int) else "~".join(map(label, place))
            found.append(f"{term.kind}:{where}{term.argument}@{fault_set.when}")
        return found

    def _run(self, specs: Sequence[str]) -> list[tuple[int, ...]]:
        return run_rows(self._plan, specs)

    def _unserved(self, specs: Sequence[str]) -> set[Rank]:
        """The healthy nodes that miss a message, by a run of the message engine and a vote of its copies."""
        faults = parse_faults((*self._plan.scenario.fault, *specs), self._plan.topology)
        faulty = {fault.rank for fault in faults if isinstance(fault, NodeFault)}
        votes: dict[tuple[Rank, tuple[Rank, Rank, int]], dict[int, bool]] = {}
        for _, _, receiver, origin, target, segment, _, tree, _, outcome in self._run(specs):
            if outcome in ARRIVED and target in (ALL_RANKS, receiver):
                votes.setdefault((receiver, (origin, target, segment)), {}).setdefault(
                    tree, outcome != HopOutcome.CORRUPT
                )
        missing = set()
        for (origin, receiver), pieces in self._schedule.due.items():
            if origin not in faulty and receiver not in faulty:
                cast = [list(votes.get((receiver, piece), {}).values()) for piece in pieces]
                if any(2 * sum(each) <= len(each) for each in cast):
                    missing.add(receiver)
        return missing

    def _history(self, name: str, history: Mapping[str, Any]) -> None:
        """Run a set whose history is stored."""
        rows = b"".join(ROW.pack(*row) for row in self._run(history["faults"]))
        digest = blake2b(sorted_records([rows]).tobytes(), digest_size=16).hexdigest()
        if digest != history["journal_hash"]:
            specs = ", ".join(history["faults"])[:80] or "no faults"
            self._found.append(f"{name}: under {specs} the history is {digest}, and not {history['journal_hash'][:40]}")

    def _sample(self, level: Mapping[str, Any], fault_set: FaultSetSpec) -> None:
        """Run some sets of a level that is proved; none of them may cost a node a message."""
        nodes, links = (sorted(each) for each in self._places())
        draw = Random(self._data["schedule"]["sha256"])
        for _ in range(min(SAMPLED_SETS, self._runs_left, level["sets"])):
            free: dict[bool, list[Any]] = {False: list(nodes), True: list(links)}
            chosen = []
            for at, part in enumerate(fault_set.parts):
                for place in draw.sample(free[part.on_links], part.count):
                    free[part.on_links].remove(place)
                    chosen.append((at, place))
            specs = self._specs(chosen, fault_set)
            unserved = self._unserved(specs)
            if unserved:
                self._found.append(
                    f"{level['faults']}: a run with {', '.join(specs)[:200]} leaves rank {min(unserved)} unserved"
                )
                return

    # --- the conclusion --------------------------------------------------------------------------------------------------

    def _verdict(self) -> None:
        levels = self._data["levels"]
        if self._data["counterexample"] is not None:
            expected = "violated"
        elif all(level["survived"][0] == level["sets"] and not level["undecided"] for level in levels):
            expected = "holds"
        else:
            expected = "undecided"
        self._differs("verdict", self._data["verdict"], expected)

    def _counterexample(self, levels: Sequence[tuple[Mapping[str, Any], FaultSetSpec]]) -> None:
        """Run the counterexample: a set of one of the levels, under which exactly the named nodes are unserved."""
        stored = self._data["counterexample"]
        if stored is None:
            return
        specs, topology = stored["faults"], self._plan.topology
        places, kinds = set(), Counter[tuple[str, str]]()
        nodes, links = self._places()
        for spec in specs:
            try:
                faults = parse_faults([spec], topology)
            except ScenarioError as error:
                raise UnreadableError(f"counterexample: {str(error)[:160]}") from None
            for fault in faults:
                place = fault.rank if isinstance(fault, NodeFault) else tuple(sorted(_ends(fault, topology)))
                places.add(place)
                if place not in nodes and place not in links:
                    self._found.append(f"counterexample: {spec[:80]} is at a place that may not fail")
            kinds[spec.partition(":")[0], spec.rpartition("@")[2]] += 1
        if len(places) != len(specs):
            self._found.append("counterexample: two of its faults are at the same place")
        wanted = [
            Counter({(part.kind, each.when): part.count for part in each.parts if part.count}) for _, each in levels
        ]
        if kinds not in wanted and (kinds or not any(not each for each in wanted)):
            self._found.append("counterexample: its faults are not a set of any level")
        if self._found:
            return
        unserved = sorted(map(topology.label, self._unserved(specs)))
        if not unserved:
            self._found.append("counterexample: a run with its faults leaves no healthy node without a message")
        self._differs("counterexample: unserved", sorted(stored["unserved"]), unserved)


def _ends(fault: Fault, topology: Topology) -> tuple[Rank, Rank]:
    assert isinstance(fault, LinkFault)
    return fault.sender, topology.neighbour(fault.sender, fault.port)
