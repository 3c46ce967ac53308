"""How many sets of faults leave every healthy node served: counted set by set with rows of bits, or bounded.

Every place has a row with a bit for each copy and receiver. The bit says whether the path of the copy contains the
place. The union of the rows of a set marks the copies that the set stops or alters, and thousands of sets are united at
once.

Where there are too many sets, inclusion and exclusion over the paths to one given receiver counts the sets that cut it
off. The largest of these numbers is a lower bound of the number of sets that cut off any receiver, their sum an upper
bound. With one origin the sum is also the number of receivers cut off, over all sets.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property, reduce
from itertools import product
from math import comb, prod
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coordinator.scenario.fault_sets import FaultSetSpec
from coordinator.theory.dependence.bit_rows import added, counted, greater, packed_tables
from coordinator.theory.dependence.message_paths import DueMessage
from coordinator.theory.least_faults import Copy, ThreatPlace, disjoint
from coordinator.theory.set_scan import SetScan, sets_at_once, without_repetition
from coordinator.theory.threats import ALTERS, STOPS, ThreatenedMessages
from coordinator.theory.tolerance import MessageClass, Tolerance
from emunode.model import Rank

MOST_WORK: Final = 2**28
"""Most words of 64 bits that are united for one certificate: about ten seconds."""
LEAST_WIDTH: Final = 32
"""The width of rows, in words, where combining them takes as long as the fixed work for a set."""
MOST_TABLE_WORDS: Final = 2**21
"""Largest table of rows."""
MOST_TERMS: Final = 2**12
"""Most terms of inclusion and exclusion for one receiver."""

Words = NDArray[np.uint64]
NOTHING, EVERYTHING = np.uint64(0), ~np.uint64(0)


class Survivors(NamedTuple):
    """Bounds on the number of sets that leave every healthy node served.

    They are equal where the number is known.
    """

    least: int
    most: int
    lost: int | None
    """Healthy nodes that miss a message, summed over all sets; None if unknown."""
    vacant: int = 0
    """Sets that leave no healthy receiver; they count as survived."""


def survivors(
    tolerance: Tolerance, fault_set: FaultSetSpec, sets: int, *, defeated: bool, work: int = MOST_WORK
) -> tuple[Survivors, int]:
    """Return the survivors among the `sets` sets of a fault set, and the work of counting.

    They are counted if that takes no more than `work`. `defeated` says whether faults within the numbers of the set
    defeat a message (`Tolerance.defeat`).
    """
    nodes = sum(part.count for part in fault_set.parts if not part.on_links)
    if not defeated and nodes < len(tolerance.receivers):
        # No set defeats a message, and none is large enough to strike all receivers, so nothing is left to count.
        return Survivors(sets, sets, 0), 0
    counter = SetCounter(tolerance)
    needed = sets * max(LEAST_WIDTH, counter.width)
    if counter.table_words <= MOST_TABLE_WORDS and needed <= work:
        return counter.count([part.count for part in fault_set.parts]), needed
    return bounds(tolerance, fault_set, sets), 0


# --- set by set --------------------------------------------------------------------------------------------------------


class SetCounter:
    """Sets of faults as rows of words.

    A row has the copies that the set stops, the copies that it alters, and the nodes that it strikes. `sites` has for
    each part the sites that are chosen, each with the places that fail there together. Without it each place of a part
    is a site.
    """

    def __init__(
        self, messages: ThreatenedMessages, sites: Sequence[Sequence[Sequence[ThreatPlace]]] | None = None
    ) -> None:
        self._messages = messages
        self._sites = sites or [[(place,) for place in sorted(part.eligible)] for part in messages.threats.parts]
        self._segments = [
            (message, number, copies)
            for message in messages.due
            for number, copies in enumerate(messages.distinct(message))
        ]
        # A slot is an origin with the number of one of its distinct segments. All receivers of a slot share one row of
        # bits, a bit for each rank. A gather has few receivers: slots belong to receivers, and bits to origins.
        origins = {message.origin for message in messages.due}
        self._by_origin = len(origins) <= len(messages.receivers)
        self._slots = sorted({(self._ends(message)[0], number) for message, number, _ in self._segments})
        # Give a message without copies one that never arrives.
        self._copies = max([1, *(len(copies) for *_, copies in self._segments)])
        self._block = -(-messages.paths.topology.order // 64)
        # Without alterations, the half of every row that notes them would be 0 throughout, so it is left out.
        self._altering = any(part.weight == ALTERS for part in messages.threats.parts) or any(
            copy.damage == ALTERS for *_, copies in self._segments for copy in copies
        )
        failing = {place for sites in self._sites for site in sites for place in site}
        self._only_receivers_fail = self._by_origin and failing.isdisjoint(origins)
        self._table = (1 + self._altering) * self._copies * len(self._slots)
        self.width = (self._table + 1) * self._block
        """Words of a row."""
        self.table_words = self.width * (1 + sum(map(len, self._sites)))

    def _ends(self, message: DueMessage) -> tuple[Rank, Rank]:
        """Return the end of a message that has slots of its own, and the end that has a bit."""
        return message if self._by_origin else (message.receiver, message.origin)

    def count(self, counts: Sequence[int]) -> Survivors:
        """Return the survivors among all sets with given numbers of faults, by part.

        They are counted set by set.
        """
        given, tables, due = self._rows
        survived = lost = vacant = 0
        scan = self._scan(counts)
        united: Iterable[Words] = scan.unions(tables, given)
        on_links = [part.on_links for part in self._messages.threats.parts]
        if len(set(on_links)) < len(on_links):
            # Two parts must not strike the same place.
            kinds = [each for each, count in zip(on_links, counts, strict=True) for _ in range(count)]
            united = (
                rows[without_repetition(sites, kinds)] for rows, sites in zip(united, scan.indices(), strict=True)
            )
        nodes = sum(count for each, count in zip(on_links, counts, strict=True) if not each)
        # Fewer faults than receivers leave someone to whom messages are due, if the origins are healthy.
        may_be_vacant = not self._only_receivers_fail or nodes >= len(self._messages.receivers)
        for rows in united:
            missing = self._missing(rows)
            survived += len(rows) - int(np.count_nonzero(missing))
            lost += int(missing.sum())
            if may_be_vacant:
                vacant += int((~self._owed(rows, due).any(axis=(1, 2))).sum())
        return Survivors(survived, survived, lost, vacant)

    def most_harmful(self, counts: Sequence[int]) -> tuple[list[int], int]:
        """Return the set that cuts off most healthy receivers.

        It is given by the numbers of its sites, and with it the number of receivers. Of equal sets, the first in
        lexicographic order is returned.
        """
        given, tables, _ = self._rows
        best, harm = [], -1
        scan = self._scan(counts)
        for rows, sites in zip(scan.unions(tables, given), scan.indices(), strict=True):
            missing = self._missing(rows)
            at = int(missing.argmax())
            if missing[at] > harm:
                best, harm = sites[at].tolist(), int(missing[at])
        return best, harm

    def _scan(self, counts: Sequence[int]) -> SetScan:
        choices = [(len(sites), count) for sites, count in zip(self._sites, counts, strict=True)]
        return SetScan(choices, sets_at_once(self.width))

    @cached_property
    def _rows(self) -> tuple[Words, list[Words], Words]:
        """The row of the given faults, a table of rows for each part, and the bits of the due messages of each slot."""
        threats, block = self._messages.threats, 64 * self._block
        slot_of = {slot: at for at, slot in enumerate(self._slots)}
        shape = 1 + self._altering, self._copies, len(self._slots), block
        given = np.zeros((1, *shape), dtype=np.bool_)
        due = np.zeros((len(self._slots), block), dtype=np.bool_)
        index: list[dict[ThreatPlace, list[int]]] = [{} for _ in self._sites]
        for places, sites in zip(index, self._sites, strict=True):
            for at, site in enumerate(sites):
                for place in site:
                    places.setdefault(place, []).append(at)
        struck = [np.zeros((len(sites), *shape), dtype=np.bool_) for sites in self._sites]
        for message, number, copies in self._segments:
            end, bit = self._ends(message)
            slot = slot_of[end, number]
            due[slot, bit] = True
            # A message with fewer copies than others gets further copies that never arrive, so that all messages have
            # equal numbers.
            given[0, 0, len(copies) :, slot, bit] = True
            for at, copy in enumerate(copies):
                if copy.damage:
                    # The first axis has stopped copies at 0 and altered copies at 1, hence damage and weight less one.
                    given[0, copy.damage - 1, at, slot, bit] = True
                for part, found in enumerate(copy.places):
                    for place in found:
                        rows = index[part].get(place, [])
                        struck[part][rows, threats.parts[part].weight - 1, at, slot, bit] = True
        faulty = [np.zeros((len(sites), block), dtype=np.bool_) for sites in self._sites]
        for part, places in enumerate(index):
            for place, rows in places.items():
                # Only nodes have bits in the last block: a faulty link takes no receiver out.
                if isinstance(place, int):
                    faulty[part][rows, place] = True
        tables = [_joined(one, other) for one, other in zip(struck, faulty, strict=True)]
        return _joined(given, np.zeros((1, block), dtype=np.bool_)), tables, packed_tables(due)

    def _missing(self, united: Words) -> NDArray[np.int64]:
        """Count for each set the healthy receivers that miss a message."""
        shape = 1 + self._altering, self._copies, len(self._slots), self._block
        copies = united[:, : -self._block].reshape(len(united), *shape)
        # Copy by copy, since the copies of a segment are few: numpy combines long axes faster than short ones.
        stopped = [copies[:, 0, at] for at in range(self._copies)]
        lost = _outvoted(copies[:, 0], copies[:, 1]) if self._altering else reduce(np.bitwise_and, stopped)
        # A copy has a bit only where a message is due without faults, so `lost` has none elsewhere. Messages from faulty
        # origins have to be taken out; a faulty receiver is taken out below.
        if not self._only_receivers_fail:
            lost = self._owed(united, lost)
        if not self._by_origin:
            receivers = [receiver for receiver, _ in self._slots]
            first = np.unique(receivers, return_index=True)[1]
            counts: NDArray[np.int64] = np.logical_or.reduceat(lost.any(axis=2), first, axis=1).sum(
                axis=1, dtype=np.int64
            )
            return counts
        faulty = united[:, -self._block :]
        missing = reduce(np.bitwise_or, [lost[:, slot] for slot in range(len(self._slots))], np.zeros_like(faulty))
        missing &= ~faulty
        # Word by word: numpy combines long axes faster.
        return reduce(np.add, [np.bitwise_count(missing[:, at]).astype(np.int64) for at in range(self._block)])

    def _owed(self, united: Words, due: Words) -> Words:
        """Return `due` without bits for messages to and from faulty nodes.

        Nothing is due to a faulty node or from it.
        """
        faulty = united[:, -self._block :]
        ends = np.array([end for end, _ in self._slots])
        # The bit of each slot's end in the block of struck nodes: its word, shifted to the lowest place.
        silent = (faulty[:, ends // 64] >> (ends % 64).astype(np.uint64)) & np.uint64(1)
        return due & ~faulty[:, None, :] & np.where(silent == 0, EVERYTHING, NOTHING)[:, :, None]


def _outvoted(stopped: Words, altered: Words) -> Words:
    """Return where stopped copies, plus twice the altered copies that arrive, are at least as many as there are copies."""
    copies = stopped.shape[1]
    # A copy that is stopped casts no vote, even if it was altered before. An altered copy counts 2, so that sums of
    # altered copies begin at plane 1.
    voting = counted(np.moveaxis(altered & ~stopped, 1, 0))
    harm = added(counted(np.moveaxis(stopped, 1, 0)), [np.zeros_like(stopped[:, 0]), *voting])
    # At least as many as the copies is more than one less, a constant whose planes are all 0 or all 1.
    less = copies - 1
    constant = [np.full_like(harm[0], EVERYTHING if less >> at & 1 else NOTHING) for at in range(less.bit_length())]
    return greater(harm, constant)


def _joined(struck: NDArray[np.bool_], faulty: NDArray[np.bool_]) -> Words:
    return np.concatenate([packed_tables(struck), packed_tables(faulty)], axis=1)


# --- bounds ------------------------------------------------------------------------------------------------------------


def bounds(tolerance: Tolerance, fault_set: FaultSetSpec, sets: int) -> Survivors:
    """Return bounds on the survivors, by the sets that cut off each receiver."""
    kinds = [part.on_links for part in fault_set.parts]
    # Binomial coefficients count the places of each part on their own. Two parts for nodes would take places from each
    # other, and with alterations a message is lost before every path is struck.
    countable = set(tolerance.weights) <= {STOPS} and len(set(kinds)) == len(kinds)
    defeats = [defeating_sets(tolerance, each, fault_set) for each in tolerance.classes] if countable else [None]
    known = [each for each in defeats if each is not None]
    if len(known) < len(defeats):
        # At least one set fails, if the smallest defeat is within the numbers.
        return Survivors(0, sets - (tolerance.defeat(fault_set) is not None), None)
    total = sum(count * len(each.members) for count, each in zip(known, tolerance.classes, strict=True))
    # A node that misses the messages of two origins is one node.
    one_origin = len({each.message.origin for each in tolerance.classes}) == 1
    # A set that cuts off several receivers is counted for each of them, so the sum is at least the number of failing
    # sets; each single number is at most that.
    return Survivors(max(0, sets - total), sets - max(known), total if one_origin else None)


def defeating_sets(tolerance: Tolerance, message_class: MessageClass, fault_set: FaultSetSpec) -> int | None:
    """Count the fault sets that stop all copies of a message and spare its ends.

    By inclusion and exclusion, the sets that hit every path are all sets, minus the sets that miss one path, plus the
    sets that miss two, and so on. None if it is not computed.
    """
    # With several segments, a set may defeat the message in several ways; one sum over paths does not count these.
    (copies, *others) = tolerance.distinct(message_class.message)
    if others or any(copy.damage == ALTERS for copy in copies):
        return None
    # Copies that the given faults stop need no further fault.
    left = [copy for copy in copies if not copy.damage]
    missed = _missed_places(left, len(tolerance.weights))
    if missed is None:
        return None
    # A set that strikes an end of the message does not defeat it: then the message is not due.
    free = [len(part.eligible.difference(message_class.message)) for part in tolerance.threats.parts]
    counts = [part.count for part in fault_set.parts]
    return sum(
        sign * prod(comb(places - gone, count) for places, gone, count in zip(free, spared, counts, strict=True))
        for spared, sign in missed.items()
    )


def _missed_places(copies: Sequence[Copy], parts: int) -> Counter[tuple[int, ...]] | None:
    """Return the terms of inclusion and exclusion: the sum of signs of the choices of paths, by their numbers of places."""
    signs: Counter[tuple[int, ...]] = Counter({(0,) * parts: 1})
    if disjoint(copies):
        for copy in copies:
            sizes = tuple(map(len, copy.places))
            for spared, sign in list(signs.items()):
                # Of disjoint paths, the numbers of places add up. Choices of paths with equal sums share a term, so
                # there are few terms even for many paths.
                signs[tuple(map(sum, zip(spared, sizes, strict=True)))] -= sign
        return signs
    if 2 ** len(copies) > MOST_TERMS:
        return None
    signs.clear()
    for chosen in product((False, True), repeat=len(copies)):
        taken = [copy.places for copy, is_taken in zip(copies, chosen, strict=True) if is_taken]
        united = [frozenset().union(*each) for each in zip(*taken, strict=True)] or [frozenset()] * parts
        signs[tuple(map(len, united))] += (-1) ** len(taken)
    return signs
