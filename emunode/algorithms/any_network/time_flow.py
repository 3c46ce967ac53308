"""Quickest flows: the fewest steps that segments take from node 0 to their targets, and routes with as many steps.

The network is expanded in time: place (v, t) is rank v after step t, a link leads from (v, t) to (w, t + 1) and carries one
segment, and any number of segments may wait from (v, t) to (v, t + 1). An integral flow that brings every target its
segments by (v, T) is a timetable of T steps (Ford and Fulkerson 1958). T starts at a lower bound. A flow for T is also
a flow for T + 1 whose segments wait at the end, so every T only adds to the flow that is there.

Within one T, links that lead away from node 0 are tried first: routes are then shortest paths, unless T forbids that.
This is Dinic's algorithm on an implicit graph; only the flow itself is stored.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from emunode.model import Port, Rank, Step
from emunode.topologies.base import Topology

TimedPlace = tuple[Rank, Step]
"""A rank after a step."""
WAIT: Port = -1
TimedRoute = list[tuple[Port, Step]]
"""A route as ports, each with the step of its use."""


class Move(NamedTuple):
    """One arc of the residual graph: a new hop or wait, or an earlier hop or wait that is taken back."""

    place: TimedPlace
    """Where it leads."""
    tail: TimedPlace
    """Where the hop begins, in time."""
    port: Port
    adds: bool
    """Whether it adds to the flow of the hop, or takes it back."""


class TimeFlow:
    """An integral flow over time from rank 0 to `demand` (segments by rank), in at most `steps` steps."""

    def __init__(self, topology: Topology, demand: Mapping[Rank, int], steps: Step) -> None:
        self.steps = steps
        self._missing = dict(demand)
        self._arrived = dict.fromkeys(demand, 0)
        self._ends = [list(topology.ends(rank)) for rank in topology.ranks()]
        self._depth = [topology.weight(rank) for rank in topology.ranks()]
        self._used: set[tuple[TimedPlace, Port]] = set()
        self._waiting: dict[TimedPlace, int] = {}

    def complete(self) -> None:
        """Route everything, in as many steps more as that needs."""
        while not self._fill():
            for rank, count in self._arrived.items():
                if count:
                    self._waiting[rank, self.steps] = count
            self.steps += 1

    def _fill(self) -> bool:
        """Route segments as far as they fit into `steps` steps; return whether all did."""
        for outwards in (True, False):
            while any(self._missing.values()) and (levels := self._levels(outwards)):
                self._block(levels, outwards)
        return not any(self._missing.values())

    def _moves(self, place: TimedPlace, outwards: bool) -> Iterator[Move]:
        """Yield the arcs of the residual graph from a place: hops first, by port, so that segments leave early."""
        rank, step = place
        if step < self.steps:
            for port, peer, _ in self._ends[rank]:
                if (place, port) not in self._used and (not outwards or self._depth[peer] > self._depth[rank]):
                    yield Move((peer, step + 1), place, port, True)
            yield Move((rank, step + 1), place, WAIT, True)
        for _, peer, its_port in self._ends[rank]:
            before = peer, step - 1
            if (before, its_port) in self._used:
                yield Move(before, before, its_port, False)
        before = rank, step - 1
        if self._waiting.get(before):
            yield Move(before, before, WAIT, False)

    def _levels(self, outwards: bool) -> dict[TimedPlace, int]:
        """Return the places by their number of moves from the root, up to the first that lacks segments; empty without
        such a place.
        """
        levels, queue = {(0, 0): 0}, [(0, 0)]
        last: int | None = None
        for place in queue:
            if levels[place] == last:
                break
            if place[1] == self.steps and self._missing.get(place[0]):
                last = levels[place]
            for move in self._moves(place, outwards):
                if move.place not in levels:
                    levels[move.place] = levels[place] + 1
                    queue.append(move.place)
        return {} if last is None else levels

    def _block(self, levels: Mapping[TimedPlace, int], outwards: bool) -> None:
        """Add paths that climb one level per move until every such path is blocked."""
        dead: set[TimedPlace] = set()
        path: list[Move] = []
        place: TimedPlace = (0, 0)
        while True:
            if place[1] == self.steps and self._missing.get(place[0]):
                self._augment(path)
                path, place = [], (0, 0)
            level = levels[place] + 1
            onward = (move for move in self._moves(place, outwards) if move.place not in dead)
            move = next((move for move in onward if levels.get(move.place) == level), None)
            if move is not None:
                path.append(move)
                place = move.place
                continue
            dead.add(place)
            if not path:
                return
            path.pop()
            place = path[-1].place if path else (0, 0)

    def _augment(self, path: list[Move]) -> None:
        target = path[-1].place[0]
        self._missing[target] -= 1
        self._arrived[target] += 1
        for _, tail, port, adds in path:
            if port == WAIT:
                self._waiting[tail] = self._waiting.get(tail, 0) + (1 if adds else -1)
            elif adds:
                self._used.add((tail, port))
            else:
                self._used.remove((tail, port))

    def routes(self) -> dict[Rank, list[TimedRoute]]:
        """Return the routes to every target. A route that would return to a rank waits there instead."""
        used, waiting = self._used.copy(), self._waiting.copy()
        found: dict[Rank, list[TimedRoute]] = {}
        for _ in range(sum(self._arrived.values())):
            here, route, ranks = 0, [], [0]
            for step in range(self.steps):
                place = here, step
                hop = next(((port, peer) for port, peer, _ in self._ends[here] if (place, port) in used), None)
                if hop is None:
                    waiting[place] -= 1
                    continue
                used.remove((place, hop[0]))
                route.append((hop[0], step + 1))
                here = hop[1]
                if here in ranks:
                    del route[ranks.index(here) :], ranks[ranks.index(here) + 1 :]
                else:
                    ranks.append(here)
            found.setdefault(here, []).append(route)
        return found
