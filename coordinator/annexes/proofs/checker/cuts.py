"""Checks of a certificate by smallest cuts: its classes of messages, their paths, their cuts, and the numbers of sets."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

from coordinator.annexes.proofs.checker.paths import (
    EFFECTS,
    MOST_HOPS,
    Copies,
    Given,
    Place,
    Threat,
    every_set,
    fewest,
    known_as,
)
from coordinator.annexes.proofs.checker.runs import Runs
from coordinator.annexes.proofs.checker.subject import Subject
from coordinator.execution.verification import TooLargeError, UnreadableError
from coordinator.results.claims import Verdict
from coordinator.scenario.fault_sets import FaultSetSpec
from emunode.faults.kinds import FOREVER
from emunode.model import FOLDING, FaultKnowledge, Rank

RECOUNTED_SETS: Final = 20_000
"""Most sets of one level that are counted again."""
MOST_RECOUNTED: Final = 100_000_000
"""Most sets of all levels that are counted again, times the hops of the run without faults."""
MOST_SEARCHED: Final = 5_000_000
"""Most copies of pieces, over all combinations of kinds of faults."""


class Cuts:
    """All checks of the argument by cuts."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._recounted: set[str] = set()
        """The levels that are counted again, set by set."""

    def bound(self, levels: Sequence[tuple[Mapping[str, Any], FaultSetSpec]]) -> None:
        """Bound the work before it begins: TooLargeError for too many threats; the smallest levels are counted again."""
        schedule, threats = self._subject.schedule, len(self._subject.data["threats"])
        pieces = sum(map(len, schedule.due.values()))
        if threats * pieces * self._subject.plan.spec.redundancy > MOST_SEARCHED:
            raise TooLargeError(f"{threats} combinations of kinds for {pieces:,} pieces are too many to search")
        left = MOST_RECOUNTED
        for level, _ in sorted(levels, key=lambda each: each[0]["sets"]):
            work = level["sets"] * max(1, len(schedule.rows))
            if level["sets"] <= RECOUNTED_SETS and work <= min(left, 20 * MOST_HOPS):
                left -= work
                self._recounted.add(level["faults"])

    def check(self, levels: Sequence[tuple[Mapping[str, Any], FaultSetSpec]]) -> None:
        plan = self._subject.plan
        fixed = plan.algorithm.collective not in FOLDING and plan.algorithm.timing.on_schedule
        told = plan.scenario.fault_knowledge != FaultKnowledge.NONE
        if not fixed or told or any(feature.unpredictable for feature in plan.features):
            raise UnreadableError(f"paths decide nothing about {plan.spec.algorithm}, whose nodes choose or fold")
        threats: dict[tuple[tuple[str, ...], str], tuple[Threat, int | None]] = {}
        for stored in self._subject.data["threats"]:
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
        self._subject.differs("number of threats", len(threats), len(used))
        if proved is not None and not self._subject.findings:
            Runs(self._subject).sample(*proved)

    def _threat(self, kinds: tuple[str, ...], when: str) -> Threat:
        if not kinds or not all(map(known_as, kinds)) or len(set(kinds)) < len(kinds):
            raise UnreadableError(f"kinds of faults {str(kinds)[:60]}: expected some of {', '.join(EFFECTS)}")
        first, dash, last = when.partition("-")
        if not (
            first.isascii() and first.isdigit() and len(when) < 30 and (not dash or (last.isascii() and last.isdigit()))
        ):
            raise UnreadableError(f"when is {when[:40]!r}; expected a step or an interval")
        return Threat(kinds, int(first), int(last) if dash else FOREVER, *self._subject.places)

    @cached_property
    def _given(self) -> Given:
        return Given(self._subject.plan)

    def _due(self) -> list[tuple[Rank, Rank]]:
        return [pair for pair in self._subject.schedule.due if not self._given.faulty.intersection(pair)]

    def _copies(self, threat: Threat, piece: tuple[Rank, Rank, int], receiver: Rank) -> Copies:
        stopped = altered = 0
        strikes: dict[tuple[int, Place], tuple[int, int]] = {}
        paths = self._subject.schedule.paths(piece, receiver)
        for at, hops in enumerate(paths):
            effect = self._given.effect(hops)
            stopped |= (effect == 1) << at
            altered |= (effect == 2) << at
            for part, kind in enumerate(threat.kinds):
                for place in threat.touched(hops, kind):
                    stops, alters = strikes.get((part, place), (0, 0))
                    bit = 1 << at
                    strikes[part, place] = (
                        (stops, alters | bit) if EFFECTS[known_as(kind) or kind] else (stops | bit, alters)
                    )
        return Copies(len(paths), stopped, altered, strikes)

    def _least(self, threat: Threat, pair: tuple[Rank, Rank], budget: Sequence[int] | None = None) -> int | None:
        """Return the fewest faults that lose one of the pieces of a receiver."""
        found = []
        for piece in self._subject.schedule.due[pair]:
            copies = self._copies(threat, piece, pair[1])
            most = tuple(budget or (copies.count,) * len(threat.kinds))
            found.append(fewest(copies.count, copies.stopped, copies.altered, copies.moves, most))
        return min((size for size in found if size is not None), default=None)

    def _tolerance(self, threat: Threat, stored: Mapping[str, Any]) -> int | None:
        """Return the tolerance of a threat, with the stored classes checked: all messages, their paths and smallest
        cuts.
        """
        name = " and ".join(threat.kinds)
        due, members = self._due(), Counter[tuple[Rank, Rank]]()
        for each in stored["classes"]:
            members.update(map(tuple, each["members"]))
        missing = [pair for pair in due if pair not in members]
        if missing:
            self._subject.findings.append(
                f"{name}: no class has the message of rank {missing[0][0]} to rank {missing[0][1]}"
            )
        if len(members) > len(due) - len(missing) or max(members.values(), default=0) > 1:
            self._subject.findings.append(f"{name}: a class has a message that is not due, or that another class has")
        if self._subject.findings:
            return None
        smallest: int | None = None
        for each in stored["classes"]:
            least = self._class(threat, each)
            if least is not None and (smallest is None or least < smallest):
                smallest = least
        tolerated = None if smallest is None else smallest - 1
        self._subject.differs(f"{name}: tolerated", stored["tolerated"], tolerated)
        return tolerated

    def _class(self, threat: Threat, each: Mapping[str, Any]) -> int | None:
        """Return the fewest faults that defeat a message of a class, with its paths and its cut checked."""
        origin, receiver = each["members"][0]
        name = f"rank {origin} to rank {receiver}"
        piece = tuple(each["piece"])
        if len(piece) != 3 or piece not in self._subject.schedule.due[origin, receiver]:
            self._subject.findings.append(f"{name}: piece {str(piece)[:60]} is not one of this message")
            return None
        self._paths(
            name,
            each["paths"],
            [[hop.sender for hop in hops] + [receiver] for hops in self._subject.schedule.paths(piece, receiver)],
        )
        copies = self._copies(threat, piece, receiver)
        places = [place for place, _ in copies.strikes.items()]
        shared = any((stops | alters).bit_count() > 1 for stops, alters in copies.strikes.values())
        self._subject.differs(f"{name}: argument", each["argument"], "search" if shared else "disjoint")
        wrong = [pair for pair in each["members"] if self._least(threat, tuple(pair)) != each["least"]]
        if wrong:
            self._subject.findings.append(
                f"rank {wrong[0][0]} to rank {wrong[0][1]}: the fewest faults that cost it a message are "
                f"{self._least(threat, tuple(wrong[0]))}, and the certificate says {each['least']}"
            )
        if (each["cut"] is None) != (each["least"] is None):
            self._subject.findings.append(f"{name}: it has a cut exactly if some faults defeat it")
        elif each["cut"] is not None:
            self._cut(name, threat, each, copies, places)
        least: int | None = each["least"]
        return least

    def _paths(self, name: str, stored: Sequence[Sequence[int]], expected: Sequence[Sequence[int]]) -> None:
        topology = self._subject.plan.topology
        for path in stored:
            for one, other in pairwise(path):
                if not 0 <= one < topology.order or other not in topology.neighbours(one):
                    self._subject.findings.append(
                        f"{name}: a path goes from rank {str(one)[:20]} to {str(other)[:20]}: no such link"
                    )
                    return
        if list(map(list, stored)) != list(map(list, expected)):
            self._subject.findings.append(f"{name}: its paths are not those of the algorithm")

    def _cut(
        self, name: str, threat: Threat, each: Mapping[str, Any], copies: Copies, places: Sequence[tuple[int, Place]]
    ) -> None:
        topology = self._subject.plan.topology
        when = f"{threat.first}" if threat.last == FOREVER else f"{threat.first}-{threat.last}"
        known = {}
        for part, place in places:
            where = topology.label(place) if isinstance(place, int) else "~".join(map(topology.label, place))
            known[f"{threat.kinds[part]}:{where}@{when}"] = part, place
        strange = [spec for spec in each["cut"] if spec not in known]
        if strange:
            self._subject.findings.append(f"{name}: {strange[0][:80]} is not a fault on its paths")
            return
        if len(set(each["cut"])) != len(each["cut"]) or len(each["cut"]) != each["least"]:
            self._subject.findings.append(f"{name}: its cut does not have {str(each['least'])[:20]} different faults")
        elif not copies.lost_under(known[spec] for spec in each["cut"]):
            self._subject.findings.append(f"{name}: its cut leaves it a majority of right copies")

    def _level(self, level: Mapping[str, Any], fault_set: FaultSetSpec, threat: Threat, tolerated: int | None) -> None:
        """Check the counts of a level: by the tolerance, or set by set if there are few sets."""
        name, sets = level["faults"], level["sets"]
        if name in self._recounted:
            survived, lost, vacant = self._recount(fault_set, threat)
            if survived < sets:
                self._subject.refuted.append(name)
            if not level["survived"][0] <= survived <= level["survived"][1]:
                self._subject.findings.append(
                    f"{name}: {survived} sets are survived, and the certificate says {level['survived']}"
                )
            if level["lost"] is not None:
                self._subject.differs(f"{name}: lost", level["lost"], lost)
            self._subject.differs(f"{name}: undecided", level["undecided"], vacant)
        elif tolerated is None or fault_set.size <= tolerated:
            self._subject.differs(f"{name}: survived", level["survived"], [sets, sets])
            self._subject.differs(f"{name}: lost", level["lost"], 0)
        elif level["survived"][0] == sets:
            budget = [part.count for part in fault_set.parts]
            if any(self._least(threat, pair, budget) is not None for pair in self._due()):
                self._subject.findings.append(
                    f"{name}: some of its sets cost a node a message, and the certificate says none"
                )
        else:
            self._subject.verification.unchecked.append(f"{name}: {sets} sets are too many to count again")
            if self._subject.data["verdict"] == Verdict.UNDECIDED and self._fails(threat, fault_set):
                self._subject.refuted.append(name)

    def _fails(self, threat: Threat, fault_set: FaultSetSpec) -> bool:
        """Return whether some set of a level costs a healthy node a message."""
        budget = [part.count for part in fault_set.parts]
        needed = {
            on_links: sum(part.count for part in fault_set.parts if part.on_links is on_links) for on_links in (0, 1)
        }
        for pair in self._due():
            # The other faults of the set strike elsewhere, neither the receiver nor the origin.
            room = len(threat.nodes - set(pair)) >= needed[False] and len(threat.links) >= needed[True]
            if room and self._least(threat, pair, budget) is not None:
                return True
        return False

    def _recount(self, fault_set: FaultSetSpec, threat: Threat) -> tuple[int, int, int]:
        """Return the survived sets, the nodes that miss a message summed over all sets, and the sets that leave no
        receiver.
        """
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
        """Return the pieces of a message, without pieces that faults affect in the same way as an earlier one."""
        found = [self._copies(threat, piece, pair[1]) for piece in self._subject.schedule.due[pair]]
        keys = {(each.count, each.stopped, each.altered, frozenset(each.strikes.items())): each for each in found}
        return list(keys.values())
