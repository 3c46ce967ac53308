"""Collectives with a given schedule: a list of hops, each with a chunk, the link that it crosses and the step. A node
sends in its steps what it has: chunks that have arrived, or the fold of its own contribution and of all partial
results that have arrived. So faults take away what depends on a lost hop, and nothing waits for it.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from typing import Final, NamedTuple

from emunode.algorithms.base import Content, Dependence, LocalView, Need, Rule
from emunode.algorithms.claims import Claim, lower_bound
from emunode.algorithms.payload import Payloads
from emunode.annexes.schedules.given_base import (
    MOST_GIVEN_HOPS,
    MOST_GIVEN_STEP,
    GivenAlgorithm,
    invalid_schedule,
    parse_text,
    whole_number,
)
from emunode.annexes.schedules.given_messages import GivenMessageExchange
from emunode.errors import ScenarioError
from emunode.model import (
    ALL_RANKS,
    FOLDING,
    ROOTLESS,
    Collective,
    CollectiveSpec,
    Port,
    PortPacket,
    Rank,
    ScheduledSend,
    Segment,
    Step,
)

LISTED: Final = 6
"""Numbers of a hop in the text."""
HeldPartials = dict[tuple[Rank, Rank, int], list[bytes]]
"""By rank, block and segment, the partial results that have arrived."""


class GivenHop(NamedTuple):
    """A chunk that crosses a link. A partial result has its sender as the origin, and the rank that completes it as the
    target.
    """

    step: Step
    sender: Rank
    receiver: Rank
    origin: Rank
    target: Rank
    """The rank that the chunk is for, or ALL_RANKS."""
    segment: int


class GivenSchedule(NamedTuple):
    """A schedule, and what its file says of itself."""

    file: str
    """The name of the file, for sources of claims."""
    ranks: int
    messages: int
    """Chunks from each origin to each target."""
    folders: tuple[Rank, ...]
    """Allreduce in one block: the ranks that complete the sum; empty where every rank owns a block of it."""
    stated_steps: Step
    """The most steps that the file says it takes; 0 if it does not say."""
    hops: Sequence[GivenHop]

    @property
    def text(self) -> str:
        """The schedule in the form that `parse_given` reads."""
        head = dict(zip(self._fields[:-1], self, strict=False))
        return json.dumps({**head, "hops": [number for hop in self.hops for number in hop]}, separators=(",", ":"))


def parse_given(text: str) -> GivenSchedule:
    """Return the schedule in a text. Raises ScenarioError (field `schedule`)."""
    found = parse_text(text, GivenSchedule._fields)
    ranks = whole_number(found["ranks"], "ranks", 2, 2**20)
    numbers, folders = found["hops"], found["folders"]
    if not isinstance(numbers, list) or not numbers or len(numbers) % LISTED:
        raise invalid_schedule(f"hops: a list of {LISTED} numbers for each hop is expected")
    if len(numbers) > LISTED * MOST_GIVEN_HOPS:
        raise invalid_schedule(f"it has {len(numbers) // LISTED:,} hops; at most {MOST_GIVEN_HOPS:,} are allowed")
    if not isinstance(folders, list) or len(folders) > ranks:
        raise invalid_schedule("folders: a list of ranks is expected")
    messages = whole_number(found["messages"], "messages", 1, 10**6)
    rank = ranks - 1
    bounds = ((1, MOST_GIVEN_STEP), (0, rank), (0, rank), (0, rank), (ALL_RANKS, rank), (0, messages - 1))
    for place, (name, (least, most)) in enumerate(zip(GivenHop._fields, bounds, strict=True)):
        for number in numbers[place::LISTED]:
            whole_number(number, name, least, most)
    return GivenSchedule(
        found["file"],
        ranks,
        messages,
        tuple(whole_number(folder, "folders", 0, rank) for folder in folders),
        whole_number(found["stated_steps"], "stated_steps", 0, 2**31 - 1),
        sorted(GivenHop(*numbers[place : place + LISTED]) for place in range(0, len(numbers), LISTED)),
    )


_parsed = lru_cache(4)(parse_given)


class GivenCollective(GivenAlgorithm):
    """A collective by the hops of a schedule file.

    A node sends in the scheduled step what it has. The claims are the definition of the collective, the steps that the
    file states, and the numbers of its hops.
    """

    dependence = Dependence.FIXED

    def parsed(self, text: str) -> tuple[GivenSchedule, int]:
        self.given = _parsed(text)
        return self.given, self.given.messages

    def crossings(self) -> Iterable[tuple[Step, Rank, Rank]]:
        return ((hop.step, hop.sender, hop.receiver) for hop in self.given.hops)

    def validate(self) -> None:
        super().validate()
        if self.spec.reliable is not None and self.folds:
            raise ScenarioError("reliable", True, "a schedule that adds contributions waits for no packet")
        self.cut()
        self._require_hops()
        self.folds_all_arrivals = len(self.given.folders) > 1

    def _require_hops(self) -> None:
        """Refuse chunks that are sent before they are there."""
        came: set[tuple[Rank, Rank, Rank, int]] = set()
        arrivals: list[tuple[Rank, Rank, Rank, int]] = []
        step = 0
        for hop in self.given.hops:
            if hop.step > step:
                came.update(arrivals)
                arrivals, step = [], hop.step
            what = hop.origin, hop.target, hop.segment
            if hop.sender != hop.origin and (hop.sender, *what) not in came:
                raise invalid_schedule(
                    f"step {hop.step}: {hop.sender} sends a chunk of {hop.origin} that it has not received"
                )
            arrivals.append((hop.receiver, *what))
        came.update(arrivals)
        # Some files send a chunk to a rank that has it.
        self.copies_keep_trees = len(came) == len(self.given.hops)

    @property
    def folds(self) -> bool:
        """Whether contributions are folded."""
        return self.collective in FOLDING

    def use_payloads(self, payloads: Payloads) -> None:
        super().use_payloads(payloads)
        self.__dict__.pop("_partial_results", None)

    # --- the tables

    @cached_property
    def own(self) -> Mapping[Rank, Sequence[GivenHop]]:
        """By rank, its sends of chunks and results of its own, in order of steps."""
        found: dict[Rank, list[GivenHop]] = {}
        for hop in self.given.hops:
            if hop.sender == hop.origin:
                found.setdefault(hop.sender, []).append(hop)
        return found

    @cached_property
    def onward(self) -> Mapping[tuple[Rank, Rank, Rank, int], Sequence[tuple[Step, Port]]]:
        """By (rank, origin, target, segment): the steps and ports of the rank's sends of a chunk."""
        found: dict[tuple[Rank, Rank, Rank, int], list[tuple[Step, Port]]] = {}
        for hop in self.given.hops:
            if hop.sender != hop.origin:
                key = hop.sender, hop.origin, hop.target, hop.segment
                found.setdefault(key, []).append((hop.step, self.ports[hop.sender][hop.receiver]))
        return found

    @cached_property
    def block_owners(self) -> Sequence[Rank]:
        match self.given.folders:
            case ():
                return super().block_owners
            case (folder,):
                return range(folder, folder + 1)
        # One result that several ranks complete, each for itself.
        return range(1)

    @property
    def result_folders(self) -> Sequence[Rank]:
        return self.given.folders or self.block_owners

    @property
    def finishers(self) -> Sequence[Rank]:
        return self.result_folders

    @cached_property
    def _partials_due(self) -> Counter[tuple[Rank, int]]:
        """By (rank, segment): the partial results that the rank completes a result with."""
        return Counter((hop.target, hop.segment) for hop in self.given.hops if hop.target == hop.receiver)

    def segments_due(self, message: int, receiver: Rank = ALL_RANKS) -> int:
        if receiver == ALL_RANKS or not self.folds:
            return self.segments_per_message
        return self._partials_due[receiver, message]

    def block(self, target: Rank) -> Rank:
        """Return the rank that names the block of a partial result for `target`."""
        return self.block_owners[0] if self.given.folders else target

    # --- contents

    @cached_property
    def content(self) -> Content:
        return self._right if self.folds else self.payloads.segment

    def _right(self, origin: Rank, target: Rank, segment: int) -> bytes | None:
        return self._partial_results.get((origin, target, segment))

    @cached_property
    def _partial_results(self) -> dict[tuple[Rank, Rank, int], bytes]:
        """The content of every partial and finished result, by origin, target and segment, if nothing is missing."""
        found: dict[tuple[Rank, Rank, int], bytes] = {}
        held: HeldPartials = {}
        arrivals: list[tuple[tuple[Rank, Rank, int], bytes]] = []
        step = 0
        for hop in self.given.hops:
            if hop.step > step:
                for key, payload in arrivals:
                    held.setdefault(key, []).append(payload)
                arrivals, step = [], hop.step
            what = hop.origin, hop.target, hop.segment
            if hop.target == ALL_RANKS:
                if what not in found:
                    found[what] = self._result(hop.origin, hop.segment)
                continue
            block = self.block(hop.target)
            found[what] = self.fold_at(hop.sender, block, hop.segment, held)
            arrivals.append(((hop.receiver, block, hop.segment), found[what]))
        return found

    def fold_at(self, rank: Rank, block: Rank, segment: int, held: HeldPartials) -> bytes:
        """Return the fold of the own contribution of `rank` and of the partial results that it has."""
        operands = [*self.contributions(rank, block, segment), *held.get((rank, block, segment), ())]
        return self.payloads.folded(operands, block, segment)

    def _result(self, owner: Rank, segment: int) -> bytes:
        """Return the fold of all contributions to a block: from the seed alone, whatever was sent."""
        block = self.block(owner)
        every = [own for rank in self.topology.data_ranks for own in self.contributions(rank, block, segment)]
        return self.payloads.folded(every, block, segment)

    def rule(self, view: LocalView) -> Rule:
        return GivenRule(self, view)

    # --- claims

    def claims(self) -> list[Claim]:
        given, hops = self.given, self.given.hops
        ranks, messages = len(self.topology.data_ranks), self.spec.messages
        counts = {
            Collective.BROADCAST: ranks - 1,
            Collective.SCATTER: ranks - 1,
            Collective.GATHER: ranks - 1,
            Collective.REDUCE: 1,
            Collective.ALLGATHER: ranks * (ranks - 1),
            Collective.ALLTOALL: ranks * (ranks - 1),
            Collective.REDUCE_SCATTER: ranks,
            Collective.ALLREDUCE: ranks if given.folders else ranks * ranks,
        }
        defined = f"definition of {self.collective}"
        claims = [
            Claim("steps", hops[-1].step, "==", f"{given.file}: the last step", derived=True),
            Claim("segments", len(hops), "==", f"{given.file}: its hops", derived=True),
            Claim("intact_deliveries", counts[self.collective] * messages, "==", defined),
            lower_bound("steps", self._farthest, "no chunk arrives in fewer steps than its distance"),
        ]
        if given.stated_steps:
            claims.append(Claim("steps", given.stated_steps, "<=", f"{given.file} says so"))
        return claims

    @cached_property
    def _farthest(self) -> Step:
        """The distance that some contribution or chunk has to travel."""
        topology, data = self.topology, self.topology.data_ranks
        if self.collective in ROOTLESS:
            return max(max(topology.distances_from(one)[other] for other in data) for one in data)
        return max(topology.distances_from(self.spec.source)[rank] for rank in data)


class GivenRule(Rule):
    """Send in each scheduled step what the schedule names, if it is there."""

    __slots__ = ("_algorithm", "_held", "_partials", "_rank")

    def __init__(self, algorithm: GivenCollective, view: LocalView) -> None:
        self._algorithm = algorithm
        self._rank = view.rank
        self._held: set[tuple[Rank, Rank, int]] = set()
        """The chunks that have arrived, each passed on once."""
        self._partials: HeldPartials = {}

    def start(self) -> Iterator[ScheduledSend]:
        algorithm, me = self._algorithm, self._rank
        ports = algorithm.ports[me]
        for hop in algorithm.own.get(me, ()):
            if algorithm.folds:
                # A function: partial results that arrive before the step are folded into it.
                yield hop.step, ports[hop.receiver], partial(self._folded, hop.target, hop.segment)
            else:
                payload = algorithm.payloads.segment(me, hop.target, hop.segment)
                yield hop.step, ports[hop.receiver], (me, hop.target, 0, hop.segment, payload)

    def receive(self, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        algorithm, me, sends = self._algorithm, self._rank, list[ScheduledSend]()
        for _, segments in packets:
            for segment in segments:
                origin, target, _, number, payload = segment
                if algorithm.folds and target != ALL_RANKS:
                    self._partials.setdefault((me, algorithm.block(target), number), []).append(payload)
                    continue
                what = origin, target, number
                if what in self._held:
                    continue
                self._held.add(what)
                sends += [(when, port, segment) for when, port in algorithm.onward.get((me, *what), ())]
        return sends

    def _folded(self, target: Rank, number: int) -> Segment:
        """Return the own contribution combined with everything received so far."""
        algorithm, me = self._algorithm, self._rank
        block = algorithm.block(me if target == ALL_RANKS else target)
        return me, target, 0, number, algorithm.fold_at(me, block, number, self._partials)


class GivenBroadcast(GivenCollective):
    """A broadcast by a schedule file."""

    collective = Collective.BROADCAST


class GivenScatter(GivenCollective):
    """A scatter by a schedule file."""

    collective = Collective.SCATTER


class GivenGather(GivenCollective):
    """A gather by a schedule file."""

    collective = Collective.GATHER


class GivenReduce(GivenCollective):
    """A reduce by a schedule file."""

    collective = Collective.REDUCE


class GivenAllgather(GivenCollective):
    """An allgather by a schedule file."""

    collective = Collective.ALLGATHER


class GivenAlltoall(GivenCollective):
    """A total exchange by a schedule file."""

    collective = Collective.ALLTOALL


class GivenReduceScatter(GivenCollective):
    """A reduce-scatter by a schedule file."""

    collective = Collective.REDUCE_SCATTER


class GivenAllreduce(GivenCollective):
    """An allreduce by a schedule file, whose sums are completed by ranks that distribute each the whole vector."""

    collective = Collective.ALLREDUCE


class GivenBlockAllreduce(GivenAllreduce):
    """An allreduce by a schedule file: every rank completes the sum of one block."""

    needs = GivenAllreduce.needs | {Need.BLOCKS}


GIVEN: Final[dict[Collective, type[GivenAlgorithm]]] = {
    entry.collective: entry
    for entry in (
        GivenBroadcast, GivenScatter, GivenGather, GivenReduce, GivenAllgather, GivenAlltoall, GivenReduceScatter,
        GivenAllreduce, GivenMessageExchange,
    )
}  # fmt: skip
"""By collective. They are not registered, so lists of algorithms leave them out: they need a file to run."""


def find_given(spec: CollectiveSpec) -> type[GivenAlgorithm]:
    """Return the algorithm of schedule files for a collective. Raises ScenarioError."""
    if spec.collective not in GIVEN:
        raise ScenarioError("collective", str(spec.collective), f"schedule files perform: {', '.join(GIVEN)}")
    if spec.collective is Collective.ALLREDUCE and spec.schedule and not _parsed(spec.schedule).folders:
        return GivenBlockAllreduce
    return GIVEN[spec.collective]
