"""The most harmful set of faults of a given size: most healthy nodes miss a message under this set.

Copies of messages travel on fixed paths (`dependence.message_paths`). Each place therefore has a row of bits, one for
each copy that it stops, and the union of rows decides a set. Where the sets are few, all of them are evaluated.
Otherwise cuts may prove that no set of this size costs any node a message.

If that fails too, a heuristic searches. From several starts it adds the place that harms most until the set is full.
Then it exchanges single places as long as that harms more. The set that it finds is known to be exact only if every
healthy node misses a message. The text of the result says whether it is exact.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from coordinator.features.registry import why_unpredictable
from coordinator.scenario.blocks import Block
from coordinator.scenario.fault_draws import FaultSites, Site, WorstSet, eligible_for_search, sets_of
from coordinator.scenario.fault_sets import FaultSetSpec
from coordinator.scenario.fault_syntax import parse_faults
from coordinator.scenario.model import Scenario
from coordinator.theory.dependence.message_paths import paths_of
from coordinator.theory.dependence.size import InexactError
from coordinator.theory.least_faults import Copy, ThreatPlace
from coordinator.theory.survivors import SetCounter
from coordinator.theory.threats import STOPS, ThreatenedMessages, Threats, given_damage, no_fixed_paths, parts_of
from coordinator.theory.tolerance import Tolerance
from emunode.algorithms.base import Algorithm
from emunode.errors import ScenarioError
from emunode.faults.kinds import NodeFault
from emunode.model import Rank

MOST_SETS: Final = 1_000_000
"""Most sets that are all evaluated."""
MOST_WORDS: Final = 2**27
"""Most words of 64 bits that are united for that: a few seconds."""
MOST_CELLS: Final = 2**27
"""Most pairs of a place and a copy in the table: 128 megabytes."""
SEARCH_CELLS: Final = 2**30
"""About how many pairs the heuristic looks at. This limits the number of its starts."""
MOST_STARTS: Final = 24

Bools = NDArray[np.bool_]
Chosen = tuple[int, ...]


def worst_set(fault_set: FaultSetSpec, sites: FaultSites, scenario: Scenario, given: Sequence[str]) -> WorstSet:
    """Return the most harmful set that fits a description.

    Its faults come in addition to the `given` ones. Of equally harmful sets the first is returned. Raises ScenarioError
    where the harm of a set does not follow from the paths of a run without faults.
    """
    table = _Table(fault_set, sites, _threats(fault_set, sites, scenario, given))
    counts = [part.count for part in fault_set.parts]
    rooms = {part.site: len(each) for part, each in zip(fault_set.parts, table.sites, strict=True)}
    number = sets_of(fault_set.parts, rooms)
    if not number:
        raise ScenarioError("faults", fault_set.name, "it needs more places than may fail")
    if number <= MOST_SETS and table.goes_through(number):
        chosen, harm = table.exact(counts)
        how = f"exact: the most harmful of {number:,} sets"
    elif not fault_set.in_blocks and table.tolerates(fault_set):
        chosen, harm = table.first(counts), 0
        how = f"exact: by smallest cuts, none of {number:,} sets does harm"
    else:
        most = table.receivers - sum(part.count for part in fault_set.parts if not part.on_links)
        chosen, harm, starts = table.searched(counts, most)
        how = f"heuristic: greedy choice and exchanges from {starts} starts among {number:,} sets, so others may harm more"
        no_switches = len(sites.topology.data_ranks) == sites.topology.order
        if harm == most and no_switches and not fault_set.in_blocks:
            how = f"exact: of {number:,} sets none harms more, as every healthy node is harmed"
    method = f"{fault_set.name}: {how}; {harm} healthy {'node misses' if harm == 1 else 'nodes miss'} a message"
    return WorstSet({part.site: table.places(at, chosen) for at, part in enumerate(fault_set.parts)}, harm, method)


def why_paths_vary(algorithm: Algorithm, scenario: Scenario) -> str | None:
    """Return why the paths of copies may depend on faults, or None if they do not."""
    return why_unpredictable(algorithm.spec) or no_fixed_paths(algorithm, scenario)


def _threats(fault_set: FaultSetSpec, sites: FaultSites, scenario: Scenario, given: Sequence[str]) -> Threats:
    def refused(reason: str) -> ScenarioError:
        return ScenarioError("faults", fault_set.name, f"the worst set is not searched: {reason}")

    reason = (
        "the timed clock has no fixed steps" if scenario.clock == "timed" else why_paths_vary(sites.algorithm, scenario)
    )
    if reason:
        raise refused(reason)
    faults = parse_faults(given, sites.topology)
    faulty = {fault.rank for fault in faults if isinstance(fault, NodeFault)}
    try:
        parts = parts_of(fault_set, sites)
        outages, byzantine = given_damage(faults, faulty, sites.topology, scenario.seed)
    except InexactError as error:
        raise refused(str(error)) from None
    if byzantine or any(part.weight != STOPS for part in parts):
        raise refused("it takes faults that stop packets, such as nodes, links, hang, silent, and blocks")
    if len({part.site for part in fault_set.parts}) < len(parts):
        raise refused("give one part for each kind of place")
    return Threats(outages, byzantine, parts)


@dataclass(frozen=True)
class _Column:
    """The copies of a segment of a message to one receiver.

    Only a set that stops all copies loses the segment.
    """

    origin: Rank
    receiver: Rank
    copies: tuple[Copy, ...]


class _Table:
    """For every place that may fail, the copies that it stops, and the receivers that it takes out itself."""

    def __init__(self, fault_set: FaultSetSpec, sites: FaultSites, threats: Threats) -> None:
        try:
            paths = paths_of(sites.algorithm)
            paths.require_all()
        except InexactError as error:
            raise ScenarioError("faults", fault_set.name, f"the worst set is not searched: {error}") from None
        self._tolerance = Tolerance(paths, threats, ())
        self._columns = list(_columns(self._tolerance))
        self.sites = [eligible_for_search(fault_set, part, sites) for part in fault_set.parts]
        starts = np.cumsum([0, *map(len, self.sites)]).tolist()
        self._range = [range(first, last) for first, last in pairwise(starts)]
        copies = max((len(column.copies) for column in self._columns), default=1)
        shape = copies, len(self._columns)
        if starts[-1] * copies * max(shape[1], 1) > MOST_CELLS:
            raise ScenarioError(
                "faults",
                fault_set.name,
                f"the search needs a table of more than {MOST_CELLS:,} pairs of a place and a copy",
            )
        self._stops = np.zeros((starts[-1], *shape), np.bool_)
        self._takes_out = np.zeros((starts[-1], shape[1]), np.bool_)
        self._stopped = np.ones(shape, np.bool_)
        receivers = [column.receiver for column in self._columns]
        # The first column of each receiver: columns are ordered by receiver.
        self._first = np.unique(np.array(receivers, np.int64), return_index=True)[1]
        self._counter = SetCounter(
            self._tolerance,
            [[site.places if isinstance(site, Block) else (site,) for site in each] for each in self.sites],
        )

    def _fill(self) -> None:
        index: list[dict[ThreatPlace, list[int]]] = []
        for each, numbers in zip(self.sites, self._range, strict=True):
            of_place: dict[ThreatPlace, list[int]] = {}
            for number, site in zip(numbers, each, strict=True):
                for place in site.places if isinstance(site, Block) else (site,):
                    of_place.setdefault(place, []).append(number)
            index.append(of_place)
        for at, column in enumerate(self._columns):
            for copy, path in enumerate(column.copies):
                self._stopped[copy, at] = bool(path.damage)
                for of_place, places in zip(index, path.places, strict=True):
                    for place in places:
                        self._stops[of_place.get(place, []), copy, at] = True
            for of_place in index:
                for rank in (column.origin, column.receiver):
                    self._takes_out[of_place.get(rank, []), at] = True

    @property
    def receivers(self) -> int:
        """Nodes that messages are due to."""
        return len(self._first)

    def places(self, part: int, chosen: Chosen) -> list[Site]:
        """Return the places of one part among the chosen numbers."""
        numbers = self._range[part]
        return [self.sites[part][number - numbers.start] for number in chosen if number in numbers]

    def first(self, counts: Sequence[int]) -> Chosen:
        """Return the first set of all."""
        return tuple(chain.from_iterable(numbers[:count] for numbers, count in zip(self._range, counts, strict=True)))

    def tolerates(self, fault_set: FaultSetSpec) -> bool:
        """Return whether no set costs any node a message, proved by cuts."""
        return self._tolerance.defeat(fault_set) is None

    def goes_through(self, sets: int) -> bool:
        """Return whether this number of sets can be evaluated in full."""
        return sets * self._counter.width <= MOST_WORDS and 64 * self._counter.table_words <= MOST_CELLS

    def exact(self, counts: Sequence[int]) -> tuple[Chosen, int]:
        """Return the first of the most harmful sets in lexicographic order.

        Also returned is the number of nodes that miss a message.
        """
        numbers, harm = self._counter.most_harmful(counts)
        offsets = chain.from_iterable([each.start] * count for each, count in zip(self._range, counts, strict=True))
        return tuple(map(sum, zip(numbers, offsets, strict=True))), harm

    # --- heuristic -------------------------------------------------------------------------------------------------------

    def _receivers(self, lost: Bools) -> NDArray[np.int64]:
        if not len(self._first):
            return np.zeros(len(lost), np.int64)
        counts: NDArray[np.int64] = np.logical_or.reduceat(lost, self._first, axis=1).sum(axis=1, dtype=np.int64)
        return counts

    def searched(self, counts: Sequence[int], most: int) -> tuple[Chosen, int, int]:
        """Return a harmful set found by greedy choices and exchanges, its harm, and the number of starts.

        No further start is made once a set harms `most` nodes.
        """
        # The other ways to find a set do without these tables.
        self._fill()
        rounds = 4 * max(1, sum(counts))
        starts = max(1, min(MOST_STARTS, SEARCH_CELLS // (rounds * max(1, self._stops.size)), len(self._columns)))
        victims = [None, *np.linspace(0, len(self._columns) - 1, starts - 1).astype(int).tolist()]
        best, reached, tried = self.first(counts), (-1, -1), 0
        for victim in victims:
            chosen, harm = self._exchanged(self._greedy(counts, victim))
            tried += 1
            if harm > reached:
                best, reached = tuple(sorted(chosen)), harm
            if reached[0] == most:
                break
        return best, reached[0], tried

    def _greedy(self, counts: Sequence[int], victim: int | None) -> list[int]:
        """Return places, each of which harms most after the ones before.

        With a victim, places that stop its copies come first.
        """
        chosen: list[int] = []
        left = list(counts)
        while any(left):
            free = [
                number
                for numbers, count in zip(self._range, left, strict=True)
                if count
                for number in numbers
                if number not in chosen and (victim is None or not self._takes_out[number, victim])
            ]
            if not free:
                victim = None
                continue
            number = self._best(chosen, free, victim)[0]
            chosen.append(number)
            left[next(part for part, numbers in enumerate(self._range) if number in numbers)] -= 1
        return chosen

    def _exchanged(self, chosen: list[int]) -> tuple[list[int], tuple[int, int]]:
        """Return the set after all exchanges of single places that harm more, and its score."""
        score, improved = (-1, -1), bool(chosen)
        while improved:
            improved = False
            for at, old in enumerate(chosen):
                others = chosen[:at] + chosen[at + 1 :]
                numbers = next(numbers for numbers in self._range if old in numbers)
                number, reached = self._best(others, [each for each in numbers if each not in others])
                if reached > score:
                    chosen[at], score, improved = number, reached, True
        return chosen, score

    def _best(
        self, chosen: Sequence[int], free: Sequence[int], victim: int | None = None
    ) -> tuple[int, tuple[int, int]]:
        """Return the place that harms most in addition to the chosen ones: its number, and the harm with it.

        The harm is the number of nodes that miss a message; of equal ones, more stopped copies of the others count.
        """
        stopped = self._stopped | self._stops[list(chosen)].any(axis=0)
        out = self._takes_out[list(chosen)].any(axis=0)
        best, reached = free[0], (-1, -1, -1)
        size = max(1, MOST_CELLS // 8 // max(1, stopped.size))
        for start in range(0, len(free), size):
            numbers = free[start : start + size]
            copies = (stopped | self._stops[numbers]).sum(axis=1, dtype=np.int64)
            due = ~(out | self._takes_out[numbers])
            nodes = self._receivers((copies == len(stopped)) & due)
            near = (copies**3 * due).sum(axis=1)
            aimed = copies[:, victim] if victim is not None else np.zeros(len(numbers), np.int64)
            at = int(np.lexsort((near, nodes, aimed))[-1])
            if (harm := (int(aimed[at]), int(nodes[at]), int(near[at]))) > reached:
                best, reached = numbers[at], harm
        return best, reached[1:]


def _columns(messages: ThreatenedMessages) -> Iterator[_Column]:
    """Yield the segments that are due, by receiver.

    Segments whose copies share their fates come once.
    """
    for message in sorted(messages.due, key=lambda each: (each.receiver, each.origin)):
        for copies in messages.distinct(message):
            yield _Column(message.origin, message.receiver, copies)
