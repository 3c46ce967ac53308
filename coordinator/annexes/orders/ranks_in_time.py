"""Every order of the events of equal times, under the timed clock.

The events of one time are the acts of ranks. In the memory engine these may come in any order of ranks, and on hosts
each rank acts on its own. A rank receives the packets of one time by any order of ports. The packets of one port come in
the order of sending. Runs without faults are run by the events of ranks too, and hosts run their equivalent.

Orders are reduced in two ways, each checked as the run goes:

* Acts of different ranks at one time commute if none of them changes anything that another rank holds, or anything that all
  share: the packets that they send arrive later. Where an act does, all orders of the ranks of this time are run to the end.
* Orders of arrivals are run rank by rank. An act must give the same actions and leave an equal state in every order of its
  arrivals, from every state. Then, by induction over the times, there is one history.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from math import factorial
from typing import NamedTuple

from coordinator.annexes.orders.fingerprints import fingerprint
from coordinator.annexes.orders.result import (
    EVERYWHERE,
    Deviation,
    DeviationError,
    EventOrder,
    EveryOrder,
    LocalEvent,
    size,
)
from coordinator.annexes.orders.shared_state import PluginVariables, held_by
from coordinator.history.journal import Journal
from coordinator.history.prediction import completed, prediction, timed_faults, without_protocols
from coordinator.history.timetable import FaultFreeSteps, PredictionInputs
from coordinator.planning.plan import Plan
from coordinator.scenario.model import costs_of
from emunode.algorithms.base import Algorithm
from emunode.algorithms.registry import make_algorithm
from emunode.errors import EmulatorError, ScenarioError
from emunode.model import Port, Rank, Step
from emunode.play import play
from emunode.timed.memory_engine import TimedMemoryEngine
from emunode.timed.rank import Arrival, TimedRank


class RankInput(NamedTuple):
    """Everything that a rank receives at one time."""

    now: int
    horizon: int
    """The time when signs of life end, as far as it is known at this time."""
    arrivals: Sequence[Arrival]
    missing: Sequence[Step]


class _Engine(TimedMemoryEngine):
    """A memory engine that keeps the receipts of all ranks.

    At some times it lets ranks act in a given order.
    """

    def __init__(
        self,
        inputs: PredictionInputs,
        algorithm: Algorithm,
        orders: Mapping[int, Sequence[Rank]],
        variables: PluginVariables,
    ) -> None:
        plans = None if algorithm.spec.has_control else inputs.plans()
        super().__init__(algorithm, inputs.faults, inputs.costs, inputs.steps, inputs.limit, plans)
        self._orders = orders
        self._variables = variables
        self.receipts: dict[Rank, list[RankInput]] = {}
        self.acting: dict[int, list[Rank]] = {}
        """By time, the ranks that acted at it."""
        self.entangled: set[int] = set()
        """The times when an act changed what another rank holds, or what all share."""
        self.watches = False
        """Whether to look for such changes after every act, which takes most of the time of a run."""

    def in_order(self, now: int, ranks: set[Rank]) -> Sequence[Rank]:
        """Return the ranks of a time in the order that is asked for."""
        return self._orders.get(now) or super().in_order(now, ranks)

    def _act(self, now: int, rank: Rank, arrivals: list[Arrival], missing: list[Step], rows: bytearray) -> None:
        self.receipts.setdefault(rank, []).append(RankInput(now, self._times_of_run.horizon, [*arrivals], [*missing]))
        self.acting.setdefault(now, []).append(rank)
        before = self._held_by_others(rank) if self.watches else None
        super()._act(now, rank, arrivals, missing, rows)
        if before is not None and self._held_by_others(rank) != before:
            self.entangled.add(now)

    def _held_by_others(self, rank: Rank) -> object:
        """Return what an act of a rank must not change.

        These are the other ranks, the faults and the times of the run.
        """
        others = [found for other, found in sorted(self._ranks.items()) if other != rank]
        # The counts of packets that a rank has sent are its own, wherever they are kept.
        shared = [value for name, value in sorted(vars(self.faults).items()) if name not in ("_counts", "_treatments")]
        counts = sorted((place, kinds) for place, kinds in self.faults._counts.items() if place[0] != rank)
        times = self._times_of_run.cutoff, self._times_of_run.horizon
        return fingerprint((others, shared, counts, times, held_by(self._algorithm), self._variables.content()))


class OrdersInTime:
    """The ranks of one run, time by time."""

    def __init__(
        self, plan: Plan, result: EveryOrder, variables: PluginVariables, only: EventOrder | None = None
    ) -> None:
        self.plan = plan
        self.result = result
        self.only = only
        self.variables = variables
        self._algorithm = self._new_algorithm()
        self._inputs = self._inputs_of(plan)

    def _new_algorithm(self) -> Algorithm:
        """Return an algorithm as in a new process: whatever an earlier replay has noted would decide for others."""
        self.variables.reset()
        return make_algorithm(self.plan.topology, self.plan.spec)

    def _inputs_of(self, plan: Plan) -> PredictionInputs:
        costs, limit = costs_of(plan.scenario), plan.scenario.step_limit
        fault_free = completed(prediction(without_protocols(self._algorithm), (), costs, limit))
        steps = FaultFreeSteps(fault_free.packets, costs)
        return PredictionInputs(timed_faults(plan.faults, steps), fault_free, costs, steps, limit)

    def run(self) -> None:
        """Run all orders; DeviationError if an order deviates, BoundReachedError beyond the bound on executions."""
        engine, expected = self._carry_out({}, watches=True)
        self.result.journal_hash, self.result.steps = expected[0], len(engine.acting)
        for now, ranks in sorted(engine.acting.items()):
            self._orders_of_ranks(now, ranks, expected, entangled=now in engine.entangled)
        for rank, receipts in sorted(engine.receipts.items()):
            _Rank(self, engine, rank).run(receipts)

    def _carry_out(
        self, orders: Mapping[int, Sequence[Rank]], *, watches: bool = False
    ) -> tuple[_Engine, tuple[str, object]]:
        """Run the network once; return the engine, the hash of its journal, and everything else that is recorded."""
        self.result.count()
        engine, journal = _Engine(self._inputs, self._new_algorithm(), orders, self.variables), Journal()
        engine.watches = watches
        journal.add([bytes(rows) for rows in play(engine, limit=self._inputs.limit + 1)])
        journal.close()
        records = engine.packets, engine.withheld, engine.suspicions, engine.reports.items(), engine.altered_copies
        crossings = {rank: list(times) for rank, times in sorted(engine.crossings.items())}
        return engine, (journal.hash, ([sorted(each, key=repr) for each in records], crossings))

    def _orders_of_ranks(
        self, now: int, ranks: Sequence[Rank], expected: tuple[str, object], *, entangled: bool
    ) -> None:
        """Count the orders of the ranks of one time; run them if an act is not independent of the others."""
        # Where packets cost nothing, a time comes again, and its ranks act in several rounds.
        if len(set(ranks)) < len(ranks) or len(ranks) < 2:
            return
        self.result.orders[now, EVERYWHERE] = factorial(len(ranks))
        if not entangled:
            return
        # Those with the fewest inversions first, so that the first that deviates is the shortest.
        orders: Sequence[Sequence[Rank]] = sorted(permutations(ranks), key=lambda order: size([_turns(order)]))
        if self.only is not None:
            asked = self.only.place == EVERYWHERE and self.only.time == now
            orders = [[rank for _, rank in self.only.events[0]]] if asked else []
        for order in orders:
            if sorted(order) != sorted(ranks):
                raise ScenarioError("order", f"{now} ns", "other nodes act at this time")
            try:
                _, found = self._carry_out({now: order})
            except EmulatorError as error:
                found = f"{type(error).__name__}: {error}", None
            if found != expected:
                names = [self.plan.topology.label(rank) for rank in order]
                what = "another journal" if found[0] != expected[0] else "other times or suspicions"
                events = _turns(order)
                again = EventOrder(EVERYWHERE, [events], now)
                raise DeviationError(Deviation(now, "", events, what, names, timed=True, order=again))

    def new_rank(self, engine: _Engine, rank: Rank) -> tuple[TimedRank, _Engine]:
        """Return a rank in its first state, with an engine of its own that holds faults and times."""
        alone = _Engine(self._inputs, self._new_algorithm(), {}, self.variables)
        return alone._rank(rank), alone


class _Rank:
    """One rank of the network, run again from the start for every order of its arrivals."""

    def __init__(self, orders: OrdersInTime, engine: _Engine, rank: Rank) -> None:
        self._orders = orders
        self._engine = engine
        self._rank = rank
        self._label = orders.plan.topology.label(rank)

    def run(self, receipts: Sequence[RankInput]) -> None:
        """Run every order of the arrivals of every time, from every state that earlier orders leave."""
        result, histories = self._orders.result, [list[Sequence[Arrival]]()]
        for number, receipt in enumerate(receipts):
            found: dict[object, list[Sequence[Arrival]]] = {}
            expected: object = None
            merged = sorted(merges(receipt.arrivals), key=lambda arrivals: size([_events(arrivals)]))
            result.orders[receipt.now, self._rank] = len(merged)
            merged = self._chosen(merged, number)
            for history in histories:
                for arrivals in merged:
                    result.count()
                    actions, state = self._act([*history, arrivals], receipts[: number + 1])
                    if expected is None:
                        expected = actions
                    elif actions != expected:
                        raise self._deviation(receipt.now, [*history, arrivals], "other actions")
                    found.setdefault(state, [*history, arrivals])
            histories = list(found.values())

    def _act(self, history: Sequence[Sequence[Arrival]], receipts: Sequence[RankInput]) -> tuple[object, object]:
        """Run the rank with these arrivals; return its last actions in any order, and its state."""
        rank, engine = self._orders.new_rank(self._engine, self._rank)
        actions = None
        for number, (arrivals, receipt) in enumerate(zip(history, receipts, strict=True), 1):
            engine._times_of_run.horizon = receipt.horizon
            try:
                actions = rank.act(receipt.now, arrivals, receipt.missing)
            except EmulatorError as error:
                raise self._deviation(receipt.now, history[:number], f"{type(error).__name__}: {error}") from None
        assert actions is not None
        done = tuple(sorted(map(repr, map(fingerprint, each))) for each in actions)
        shared = held_by(engine._algorithm), self._orders.variables.content()
        return (done, rank.next_time, rank.next_work), fingerprint((rank, shared))

    def _chosen(self, merged: list[Sequence[Arrival]], number: int) -> list[Sequence[Arrival]]:
        """Return the orders of arrivals to run: all of them, or the plain one and the one that is asked for."""
        only = self._orders.only
        if only is None:
            return merged
        asked = only.events[number] if only.place == self._rank and number < len(only.events) else None
        wanted = [each for each in merged if asked == _events(each)]
        if asked is not None and not wanted:
            raise ScenarioError("order", self._label, "its packets cannot arrive in this order")
        return [*merged[:1], *(each for each in wanted if each is not merged[0])]

    def _deviation(self, now: int, history: Sequence[Sequence[Arrival]], what: str) -> DeviationError:
        events = _events(history[-1])
        words = [f"packet on port {port}" for _, port in events]
        order = EventOrder(self._rank, [_events(arrivals) for arrivals in history])
        return DeviationError(Deviation(now, self._label, events, what, words, timed=True, order=order))


def _turns(ranks: Sequence[Rank]) -> tuple[LocalEvent, ...]:
    return tuple(("rank", rank) for rank in ranks)


def _events(arrivals: Sequence[Arrival]) -> tuple[LocalEvent, ...]:
    return tuple(("packet", port) for port, _, _ in arrivals)


def merges(arrivals: Sequence[Arrival]) -> Iterator[Sequence[Arrival]]:
    """Yield every order of arrivals that keeps the order of each port, the given ports first."""
    ports: dict[Port, list[Arrival]] = {}
    for arrival in arrivals:
        ports.setdefault(arrival[0], []).append(arrival)
    yield from _merged(list(ports.values()))


def _merged(queues: Sequence[Sequence[Arrival]]) -> Iterator[Sequence[Arrival]]:
    if not any(queues):
        yield ()
    for number, queue in enumerate(queues):
        if queue:
            rest = [each[1:] if other == number else each for other, each in enumerate(queues)]
            yield from ((queue[0], *more) for more in _merged(rest))
