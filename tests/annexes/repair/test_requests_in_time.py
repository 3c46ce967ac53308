"""Rules for nodes that ask for what they miss, under the timed clock: a simulation of its own, on hypercubes."""

from collections import defaultdict, deque
from itertools import combinations

import polars as pl
import pytest

from coordinator.history.prediction import completed, prediction
from coordinator.history.timetable import Timetable
from emunode.algorithms.registry import make_algorithm
from emunode.faults.kinds import Crash, Fault
from emunode.model import Collective, CollectiveSpec, Port, PortModel, Rank, Repair
from emunode.timed.cost_model import LinearCostModel
from emunode.topologies.registry import parse_topology

MS = 1_000_000
DATA_BYTES, REQUEST_BYTES = 64, 8
Sent = tuple[int, Rank, Rank, bool]
"""Start, sender and receiver of a packet, and whether it carries data."""


def simulated(n: int, dead: set[Rank], after: int, data: int, request: int) -> list[Sent]:
    """Return all packets of a broadcast of one segment over the binomial tree, over all ports, with repair by the next
    port.
    """
    arriving: dict[int, dict[Rank, list[tuple[Port, bool]]]] = defaultdict(lambda: defaultdict(list))
    waiting: dict[Rank, list[tuple[bool, Port]]] = defaultdict(list)
    askers: dict[Rank, list[Port]] = defaultdict(list)
    free: dict[tuple[Rank, Port], int] = defaultdict(int)
    waiting[0] = [(True, port) for port in range(n)]
    held, sent = {0}, list[Sent]()
    # The parent is behind the port of the highest bit, and comes last.
    left = {rank: deque((rank.bit_length() + k) % n for k in range(n)) for rank in range(1, 1 << n)}
    due = {rank: (rank.bit_count() + after) * data for rank in left}
    times = {0, *due.values()}
    while times:
        now = min(times)
        times.remove(now)
        came = arriving.pop(now, {})
        for rank in sorted({*range(1 << n)} - dead):
            for port, is_data in sorted(came.get(rank, [])):
                if is_data and rank not in held:
                    held.add(rank)
                    due.pop(rank, None)
                    children = range(rank.bit_length(), n)
                    waiting[rank] = [(True, each) for each in {*children, *askers[rank]}]
                elif not is_data and rank not in held:
                    askers[rank].append(port)
                elif not is_data and (True, port) not in waiting[rank]:
                    waiting[rank].append((True, port))
            if left.get(rank) and due.get(rank, now + 1) <= now:
                waiting[rank].append((False, left[rank].popleft()))
                del due[rank]
            for is_data, port in sorted(waiting[rank]):
                if free[rank, port] <= now:
                    waiting[rank].remove((is_data, port))
                    free[rank, port] = end = now + (data if is_data else request)
                    arriving[end][rank ^ 1 << port].append((port, is_data))
                    sent.append((now, rank, rank ^ 1 << port, is_data))
                    times.add(end)
                    if not is_data:
                        due[rank] = now + request + data
                        times.add(due[rank])
    return sorted(sent)


def predicted(n: int, faults: tuple[Fault, ...], after: int, costs: LinearCostModel) -> Timetable:
    name = f"hypercube:{n}"
    repair = Repair("next-port", after)
    spec = CollectiveSpec(
        name, Collective.BROADCAST, "sbt", 0, PortModel.ALL_PORT, message_bytes=DATA_BYTES, repair=repair
    )
    return completed(prediction(make_algorithm(parse_topology(name), spec), faults, costs, 1000))


@pytest.mark.parametrize(
    "costs", [LinearCostModel(1e-3, 0.0), LinearCostModel(0.0, 1e-3 / 64), LinearCostModel(1e-3, 1e-5)]
)
@pytest.mark.parametrize(("n", "crashes", "after"), [(3, 1, 1), (3, 2, 2), (4, 1, 3)])
def test_next_port_sends_what_a_simulation_does(n: int, crashes: int, after: int, costs: LinearCostModel) -> None:
    """Every set of crashed nodes: the start of every packet, also of those that are lost."""
    requests = 0
    for dead in combinations(range(1, 1 << n), crashes):
        packets = predicted(n, tuple(Crash(1, rank) for rank in dead), after, costs).packets
        found = packets.select("start", "sender", "receiver", packets["bytes"] == DATA_BYTES).rows()
        data, request = costs.nanoseconds(DATA_BYTES), costs.nanoseconds(REQUEST_BYTES)
        assert sorted(found) == simulated(n, set(dead), after, data, request)
        requests += len(packets.filter(bytes=REQUEST_BYTES))
    assert requests > 0


def test_an_example_by_hand() -> None:
    """Q_3 without 001: data takes 1 ms and a request 0.125 ms. 011 asks 111, which has nothing yet, and then 010."""
    packets = predicted(3, (Crash(1, 1),), 1, LinearCostModel(0.0, 1e-3 / 64)).packets
    requests = packets.filter(bytes=REQUEST_BYTES).select("start", "sender", "receiver").rows()
    assert sorted((start / MS, *ends) for start, *ends in requests) == [(3, 3, 7), (3, 5, 4), (4, 7, 6), (4.125, 3, 2)]
    data = packets.filter(bytes=DATA_BYTES).drop_nulls("end").group_by("receiver").agg(pl.col("end").min() / MS)
    assert dict(data.iter_rows()) == {2: 1, 4: 1, 6: 2, 5: 4.125, 7: 5.125, 3: 5.25}
