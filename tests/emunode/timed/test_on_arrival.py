"""Timed runs with faults and packets that come out of the order of their steps: examples by hand, and simulations."""

from collections.abc import Mapping
from heapq import heappop, heappush
from itertools import count
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.history.timetable import Timetable
from emunode.algorithms.tree_collective import TreeCollective
from emunode.faults.effects import ALWAYS
from emunode.model import HopOutcome
from emunode.net.wire import ROW
from emunode.timed.cost_model import LinearCostModel
from emunode.topologies.base import Topology
from tests.emunode.timed.test_faults_in_time import CUBE, MS, made, predicted, replayed
from tests.helpers.support import examples

Packet = tuple[int, int, int, int | None]
"""Sender, receiver, start and end (None for a packet that is lost)."""


def packets(timetable: Timetable) -> list[Packet]:
    return sorted(timetable.packets.select("sender", "receiver", "start", "end").iter_rows())


def first_receipts(timetable: Timetable) -> dict[int, int]:
    """By rank, the time of the first packet that it receives."""
    return dict(timetable.arriving.group_by("receiver").agg(pl.col("end").min()).iter_rows())


# --- examples by hand ------------------------------------------------------------------------------------------------


def test_of_several_copies_the_earliest_is_the_first() -> None:
    algorithm = made("hypercube:3", "broadcast", "nesbt", redundancy=3)
    timetable = predicted(algorithm, "slow:000~001:9")
    ends = {
        (step, sender, port): end
        for step, sender, port, end in timetable.packets.select("step", "sender", "port", "end").iter_rows()
    }
    times: dict[int, list[tuple[int, bool]]] = {}
    for step, sender, receiver, *_, port, outcome in ROW.iter_unpack(replayed(timetable, algorithm)):
        times.setdefault(receiver, []).append((ends[step, sender, port], outcome == HopOutcome.FIRST))
    for rank in range(1, 8):
        (first,) = (end for end, is_first in times[rank] if is_first)
        assert first == min(times[rank])[0]
    # Without the fault, tree 0 would be the first to reach 001.
    assert first_receipts(timetable)[1] == 3 * MS


def test_a_late_packet_and_the_next_one_share_no_step() -> None:
    """Copies that a fault repeats are passed on one after the other, and each packet of a port has a step of its own."""
    algorithm = made("hypercube:3", "broadcast", "sbt", segments=3, message_bytes=3)
    timetable = predicted(algorithm, "duplicate:000>001:1 slow:001:2")
    sent = timetable.packets.filter(sender=1).group_by("port").agg("step", pl.col("start").sort()).sort("port")
    assert [sorted(steps) for steps in sent["step"]] == [[2, 3, 4, 5, 6, 7]] * 2
    assert sent["start"].to_list() == [[MS + 2 * MS * place for place in range(6)]] * 2


def test_a_rank_that_lacks_a_packet_reads_its_own_clock() -> None:
    """Two messages around a ring of six; the second one is due at 5 ms, which a clock at half rate shows at 10 ms."""
    algorithm = made("star:3", "allgather", "hamiltonian-cycle", "one-port", messages=2)
    first, label = predicted(algorithm, "").packets, algorithm.topology.label
    sender, receiver = label(int(first["sender"][0])), label(rank := int(first["receiver"][0]))
    slow, lossy, late = f"drift:{receiver}:-0.5", f"drop:{sender}>{receiver}:1", f"slow:{sender}>{receiver}:1.2"
    for faults, start in [(slow, 5), (lossy, 5), (f"{lossy} {slow}", 10), (f"{late} {slow}", 6)]:
        sent = predicted(algorithm, faults).packets.filter(sender=rank, step=6)
        assert sent["start"].to_list() == [start * MS]


def test_packets_of_several_sizes_keep_their_times() -> None:
    """Faults without effect change nothing, though packets then overtake one another all the time."""
    byte = LinearCostModel(1e-4, 1e-5)
    for name, collective, rule, ports, more in [
        ("hypercube:3", "scatter", "sbt", "all-port", {}),
        ("hypercube:3", "broadcast", "flood", "all-port", {"segments": 3, "message_bytes": 11}),
        ("hypercube:3", "broadcast", "nesbt", "all-port", {"segments": 2, "message_bytes": 17}),
        ("hypercube:3", "gather", "sbt", "one-port", {}),
        ("star:4", "broadcast", "edt", "all-port", {"redundancy": 3, "segments": 2, "message_bytes": 5}),
        ("star:3", "allgather", "hamiltonian-cycle", "one-port", {"segments": 2, "message_bytes": 3}),
        ("bubble-sort:3", "alltoall", "list-schedule", "all-port", {"message_bytes": 7}),
        ("mesh:2x3", "allgather", "bfb", "all-port", {"message_bytes": 7}),
    ]:
        algorithm = made(name, collective, rule, ports, **more)
        timetable = predicted(algorithm, f"loss:*:0 crash:{algorithm.topology.label(1)}@9s", byte)
        assert timetable.inputs is not None
        assert timetable.packets.equals(timetable.inputs.fault_free.packets), (name, rule)


# --- simulations of their own ----------------------------------------------------------------------------------------


def shortest(topology: Topology, factors: Mapping[tuple[int, int], int]) -> dict[int, int]:
    """Return the distances from rank 0 by Dijkstra, where a link (sender, receiver) takes 1 ms or `factors` times that."""
    found: dict[int, int] = {}
    heap = [(0, 0)]
    while heap:
        time, rank = heappop(heap)
        if rank in found:
            continue
        found[rank] = time
        for _, peer in topology.adjacent(rank):
            heappush(heap, (time + MS * factors.get((rank, peer), 1), peer))
    return found


@settings(max_examples=examples(30), deadline=None)
@given(st.sampled_from(["hypercube:3", "star:4", "ej:1+2", "mesh:3x3"]), st.data())
def test_a_flood_takes_the_fastest_ways(name: str, data: st.DataObject) -> None:
    algorithm = made(name, "broadcast", "flood")
    topology = algorithm.topology
    links = [(rank, peer) for rank in topology.ranks() for _, peer in topology.adjacent(rank)]
    factors = data.draw(st.dictionaries(st.sampled_from(links), st.integers(2, 9), max_size=6))
    label = topology.label
    faults = " ".join(f"slow-link:{label(one)}>{label(other)}:{factor}" for (one, other), factor in factors.items())
    found = first_receipts(predicted(algorithm, faults)) | {0: 0}
    assert found == shortest(topology, factors)


def simulated(algorithm: TreeCollective, faults: list[tuple[Any, ...]]) -> list[Packet]:
    """Return the packets of a broadcast from rank 0 over one or several trees, with one queue per port.

    Faults: ("crash", rank, T), ("down", sender, receiver, T, T'), ("slow", sender, receiver, factor).
    """
    dead = {rank: since for kind, rank, since, *_ in faults if kind == "crash"}
    down = [fault[1:] for fault in faults if fault[0] == "down"]
    slow = {fault[1:3]: fault[3] for fault in faults if fault[0] == "slow"}
    number, found = count(), list[Packet]()
    # (time, kind, number, rank, tree, copy): 0 for a receipt, 1 for a look at the ports of a rank.
    events = [
        (0, 0, next(number), 0, tree, copy)
        for tree in range(algorithm.trees.count)
        for copy, _ in algorithm.copies_on_tree(tree)
    ]
    queues: dict[tuple[int, int], list[tuple[int, int, int, int]]] = {}
    free: dict[tuple[int, int], int] = {}
    while events:
        now, kind, _, rank, tree, copy = heappop(events)
        if not kind:
            for port in algorithm.trees.children(rank, tree):
                child = algorithm.topology.neighbour(rank, port)
                step = algorithm.crossing_step(child, tree, copy)
                ready = max(now, (step - 1) * MS)
                queues.setdefault((rank, child), []).append((step, ready, tree, copy))
                heappush(events, (ready, 1, next(number), rank, 0, 0))
            continue
        for (sender, child), queue in queues.items():
            able = sorted(each for each in queue if each[1] <= now)
            if sender != rank or not able or free.get((rank, child), 0) > now or now >= dead.get(rank, ALWAYS):
                continue
            queue.remove(able[0])
            end = free[rank, child] = now + MS * slow.get((rank, child), 1)
            lost = end > min(dead.get(rank, ALWAYS), dead.get(child, ALWAYS)) or any(
                (one, other) == (rank, child) and now < until and since < end for one, other, since, until in down
            )
            found.append((rank, child, now, None if lost else end))
            heappush(events, (end, 1, next(number), rank, 0, 0))
            if not lost:
                heappush(events, (end, 0, next(number), child, *able[0][2:]))
    return sorted(found)


ARCS = st.sampled_from([(rank, rank ^ 1 << bit) for rank in range(8) for bit in range(3)])
TIMES = st.integers(0, 90).map(lambda tenths: tenths * MS // 10)


@pytest.mark.parametrize(("name", "segments"), [("sbt", 4), ("nesbt", 3), ("nesbt", 12)])
@settings(max_examples=examples(40), deadline=None)
@given(
    st.dictionaries(st.integers(1, 7), TIMES, max_size=2),
    st.lists(st.tuples(ARCS, TIMES, st.integers(1, 20)), max_size=3),
    st.dictionaries(ARCS, st.integers(2, 7), max_size=5),
)
def test_trees_are_as_in_a_simulation_of_their_own(
    name: str,
    segments: int,
    crashes: dict[int, int],
    downs: list[tuple[tuple[int, int], int, int]],
    slows: dict[tuple[int, int], int],
) -> None:
    label = CUBE.label
    faults: list[tuple[Any, ...]] = [("crash", *crash) for crash in crashes.items()]
    specs = [f"crash:{label(rank)}@{since}ns" for rank, since in crashes.items()]
    for (one, other), since, tenths in downs:
        until = since + tenths * MS // 10
        faults.append(("down", one, other, since, until))
        specs.append(f"down:{label(one)}>{label(other)}@{since}ns-{until}ns")
    for (one, other), factor in slows.items():
        faults.append(("slow", one, other, factor))
        specs.append(f"slow-link:{label(one)}>{label(other)}:{factor}@0ns")
    algorithm = made("hypercube:3", "broadcast", name, segments=segments, message_bytes=segments)
    assert isinstance(algorithm, TreeCollective)
    assert packets(predicted(algorithm, " ".join(specs))) == simulated(algorithm, faults)
