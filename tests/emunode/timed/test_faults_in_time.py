"""Faults under the timed clock in memory: examples worked out by hand, lock-step, and a simulation of trees of its own."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.history.prediction import completed, prediction, timed_faults
from coordinator.history.timetable import FaultFreeSteps, Timetable
from coordinator.scenario.fault_syntax import parse_faults
from emunode.algorithms.base import Algorithm
from emunode.algorithms.registry import make_algorithm
from emunode.engine.memory import MemoryEngine
from emunode.errors import FrameError, ScenarioError
from emunode.faults.effects import ALWAYS
from emunode.faults.in_time import FaultsInTime, TimedFault, exact
from emunode.faults.kinds import Crash, Moment, Recover
from emunode.faults.slowness import Jitter, Slow, SlowLink
from emunode.model import Collective, CollectiveSpec, FaultKnowledge, PortModel
from emunode.net.wire import ROW
from emunode.play import play
from emunode.timed.cost_model import LinearCostModel
from emunode.topologies.registry import parse_topology
from tests.helpers.support import examples, golden_rows

MS = 1_000_000
ONE_MS = LinearCostModel(1e-3, 0.0)
CUBE = parse_topology("hypercube:3")


def made(name: str, collective: str, algorithm: str, ports: str = "all-port", **more: Any) -> Algorithm:
    spec = CollectiveSpec(name, Collective(collective), algorithm, 0, PortModel(ports), **{"message_bytes": 4, **more})
    return make_algorithm(parse_topology(name), spec)


def predicted(algorithm: Algorithm, faults: str, costs: LinearCostModel = ONE_MS, limit: int = 10**6) -> Timetable:
    parsed = parse_faults(faults.split(), algorithm.topology, timed=True)
    return completed(prediction(algorithm, parsed, costs, limit))


def receipts(timetable: Timetable) -> dict[str, float]:
    """Return milliseconds of the first receipt, by label, on Q_3."""
    found: dict[str, float] = {}
    for rank, end in timetable.arriving.sort("end").select("receiver", "end").iter_rows():
        found.setdefault(CUBE.label(rank), end / MS)
    return found


# --- examples by hand ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", golden_rows("timed", "binomial_tree"), ids=lambda row: row["faults"] or "none")
def test_a_binomial_tree_of_eight_nodes(row: dict[str, str]) -> None:
    """When each node receives the message, in milliseconds, the packets lost, and the last receipt."""
    faults, *times, lost, last = row.values()
    timetable = predicted(made("hypercube:3", "broadcast", "sbt"), faults)
    assert receipts(timetable) == {label: float(time) for label, time in zip([*row][1:], times, strict=False) if time}
    assert len(timetable.packets) - len(timetable.arriving) == int(lost)
    assert timetable.intended_seconds == pytest.approx(float(last) / 1000)


def test_jitter_lengthens_every_packet_by_less_than_its_spread() -> None:
    before = predicted(made("hypercube:3", "broadcast", "sbt"), "").arriving
    timetable = predicted(made("hypercube:3", "broadcast", "sbt", seed=3), "jitter:*:0.1")
    durations = [(end - start) / MS for start, end in timetable.packets.select("start", "end").iter_rows()]
    assert len(before) == len(durations) == len(set(durations))
    assert all(1 <= duration < 1.1 for duration in durations)
    assert 3 <= timetable.intended_seconds * 1000 < 3.3
    again = predicted(made("hypercube:3", "broadcast", "sbt", seed=3), "jitter:*:0.1")
    assert again.packets.equals(timetable.packets)
    other = predicted(made("hypercube:3", "broadcast", "sbt", seed=4), "jitter:*:0.1")
    assert not other.packets.equals(timetable.packets)


def test_a_node_that_recovers_follows_its_timetable() -> None:
    """A source with six packets on each port, gone from 1.5 to 3.2 ms: the third to the fifth are never sent."""
    algorithm = made("hypercube:3", "broadcast", "sbt", segments=6, message_bytes=6)
    timetable = predicted(algorithm, "crash:000@1.5ms recover:000@3.2ms")
    sent = timetable.packets.filter(sender=0, port=0).select("start", "end").rows()
    assert sent == [(0, MS), (MS, None), (4 * MS, 5 * MS), (5 * MS, 6 * MS)]


def test_a_slow_clock_delays_only_what_the_clock_decides() -> None:
    """A reduce up a path: rank 1 folds at its own time what it has; its clock runs at half rate."""
    algorithm = made("mesh:4", "reduce", "bfs-tree")
    plain = predicted(algorithm, "").packets
    assert predicted(algorithm, "drift:1:-0.5").packets.equals(plain), "it has received everything, so it goes by that"
    lossy, slow = (predicted(algorithm, f"drop:2>1:1 {drift}").packets for drift in ("", "drift:1:-0.5"))
    starts = [each.filter(sender=1)["start"].to_list() for each in (plain, lossy, slow)]
    assert starts == [[2 * MS], [2 * MS], [4 * MS]]


def test_forwarding_follows_arrivals_and_ignores_the_clock() -> None:
    """Around a ring, each rank passes on what arrives, although an earlier packet is missing and its clock is slow."""
    algorithm = made("star:3", "allgather", "hamiltonian-cycle", "one-port")
    ring = predicted(algorithm, "").packets
    label, receiver = algorithm.topology.label, int(ring["receiver"][0])
    lossy = f"drop:{label(int(ring['sender'][0]))}>{label(receiver)}:1"
    one, other = (predicted(algorithm, f"{lossy}{drift}").packets for drift in ("", f" drift:{label(receiver)}:-0.5"))
    assert one.equals(other)
    assert one.filter(sender=receiver)["start"].to_list() == [0, 2 * MS, 3 * MS, 4 * MS]


def test_the_step_limit_holds_under_faults() -> None:
    timetable = predicted(made("hypercube:3", "broadcast", "sbt", segments=6, message_bytes=6), "slow:001:2", limit=3)
    assert not timetable.complete
    assert timetable.steps == 3


# --- lock-step -------------------------------------------------------------------------------------------------------

CASES: list[tuple[str, str, str, str, dict[str, Any]]] = [
    ("hypercube:3", "broadcast", "sbt", "one-port", {"segments": 3}),
    ("hypercube:3", "broadcast", "nesbt", "all-port", {"redundancy": 3}),
    ("star:4", "broadcast", "edt", "all-port", {"redundancy": 3}),
    ("star:4", "allgather", "hamiltonian-cycle", "one-port", {}),
    ("ej:1+2", "broadcast", "flood", "all-port", {}),
    ("mesh:2x3", "alltoall", "list-schedule", "all-port", {}),
    ("hypercube:3", "gather", "sbt", "one-port", {}),
]
VALUES = {"down": "", "loss": ":0.5", "corrupt": ":0.5", "duplicate": ":0.7", "delay": ":1", "drop": ":1"}

# A hang that makes a send wait for its turn, and an outage while a delayed packet is on its way, are all that differs: under
# the timed clock the packet of that send is missed alone, and a delayed packet is lost at any time until it arrives.
SINGLE = ("loss", "corrupt", "drop")
TOGETHER = [
    ("hang", "crash", "recover", "down", "byzantine", *SINGLE),
    ("duplicate", "crash", "recover", "down", "byzantine", *SINGLE),
    ("delay", *SINGLE),
]


@st.composite
def scenarios(draw: st.DrawFn) -> tuple[tuple[str, str, str, str, dict[str, Any]], list[str], FaultKnowledge, int]:
    """Return a case with up to three faults by steps."""
    case = draw(st.sampled_from(CASES))
    topology = parse_topology(case[0])
    kinds = draw(st.sampled_from(TOGETHER))
    faults = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(kinds))
        rank = draw(st.integers(0, topology.order - 1))
        first = draw(st.integers(1, 5))
        last = first + draw(st.integers(0, 2))
        label = topology.label(rank)
        if kind == "crash":
            faults.append(f"crash:{label}@{first}")
        elif kind == "recover":
            faults += [f"crash:{label}@{first}", f"recover:{label}@{last + 1}"]
        elif kind in VALUES:
            other = topology.label(draw(st.sampled_from([peer for _, peer in topology.adjacent(rank)])))
            faults.append(f"{kind}:{label}{draw(st.sampled_from('~>'))}{other}{VALUES[kind]}@{first}-{last}")
        else:
            faults.append(f"{kind}:{label}@{first}-{last}")
    knowledge = draw(st.sampled_from([FaultKnowledge.NONE, FaultKnowledge.NEIGHBOURS]))
    return case, faults, knowledge, draw(st.integers(0, 99))


@settings(max_examples=examples(100))
@given(scenarios())
def test_faults_by_steps_have_the_history_of_lockstep(
    scenario: tuple[tuple[str, str, str, str, dict[str, Any]], list[str], FaultKnowledge, int],
) -> None:
    """Row by row, with packets of one size that start and end with their steps."""
    (name, collective, rule, ports, more), specs, knowledge, seed = scenario
    try:
        faults = parse_faults(specs, parse_topology(name))
    except ScenarioError:  # two faults that contradict each other
        return
    algorithm, other = (
        made(name, collective, rule, ports, **{"message_bytes": 3, **more, "knowledge": knowledge, "seed": seed})
        for _ in range(2)
    )
    revived = max((fault.step for fault in faults if isinstance(fault, Recover)), default=0)
    turns = play(MemoryEngine(algorithm), faults, over=lambda step, busy: not busy and step > revived)
    rows = b"".join(turns)
    timetable = completed(prediction(other, faults, ONE_MS, 1000))
    assert timetable.inputs is not None
    assert timetable.inputs.steps.is_kept_by(timetable.inputs.fault_free.packets)
    assert sorted(ROW.iter_unpack(rows)) == sorted(ROW.iter_unpack(replayed(timetable, other)))


def replayed(timetable: Timetable, algorithm: Algorithm) -> bytes:
    """Return the rows of the history that a timetable is of."""
    assert timetable.inputs is not None
    return b"".join(play(timetable.inputs.engine(algorithm)))


# --- a simulation of its own -----------------------------------------------------------------------------------------


def simulated(segments: int, faults: Sequence[tuple[Any, ...]]) -> dict[tuple[int, int, int], tuple[int, int | None]]:
    """Start and end of every packet (sender, receiver, segment) of a pipelined binomial tree; no end for lost ones.

    Faults: ("crash", rank, T), ("down", sender, receiver, T, T'), ("slow", rank, factor, T, T').
    """
    silent = {rank: since for kind, rank, since, *_ in faults if kind == "crash"}
    down = [fault[1:] for fault in faults if fault[0] == "down"]
    slow = [fault[1:] for fault in faults if fault[0] == "slow"]
    found: dict[tuple[int, int, int], tuple[int, int | None]] = {}
    arrived: dict[int, dict[int, int]] = {0: dict.fromkeys(range(segments), 0)}
    # A parent has a smaller number than its children.
    for rank in range(8):
        children = [rank | 1 << bit for bit in range(rank.bit_length(), 3)]
        for child in children:
            free = 0
            for segment, here in sorted(arrived.get(rank, {}).items()):
                start = max(free, here, (rank.bit_count() + segment) * MS)
                if start >= silent.get(rank, ALWAYS):
                    continue
                factor = Fraction(1)
                for where, times, since, until in slow:
                    factor *= times if where == rank and since <= start < until else 1
                free = end = start + int(MS * factor)
                lost = end > min(silent.get(rank, ALWAYS), silent.get(child, ALWAYS)) or any(
                    (one, other) == (rank, child) and start < until and since < end for one, other, since, until in down
                )
                found[rank, child, segment] = (start, None if lost else end)
                if not lost:
                    arrived.setdefault(child, {})[segment] = end
    return found


TIMES = st.integers(0, 60).map(lambda tenths: tenths * MS // 10)
EDGES = [(rank, rank | 1 << bit) for rank in range(8) for bit in range(rank.bit_length(), 3)]


@settings(max_examples=examples(60))
@given(
    st.dictionaries(st.integers(0, 7), TIMES, max_size=2),
    st.lists(st.tuples(st.sampled_from(EDGES), TIMES, st.integers(1, 20)), max_size=3),
    st.lists(st.tuples(st.integers(0, 6), st.sampled_from([2, 3]), TIMES, st.integers(1, 40)), max_size=2),
)
def test_a_tree_is_as_in_a_simulation_of_its_own(
    crashes: dict[int, int],
    downs: list[tuple[tuple[int, int], int, int]],
    slows: list[tuple[int, int, int, int]],
) -> None:
    label = CUBE.label
    faults: list[tuple[Any, ...]] = [("crash", rank, since) for rank, since in crashes.items()]
    specs = [f"crash:{label(rank)}@{since}ns" for rank, since in crashes.items()]
    for (one, other), since, tenths in downs:
        until = since + tenths * MS // 10
        faults.append(("down", one, other, since, until))
        specs.append(f"down:{label(one)}>{label(other)}@{since}ns-{until}ns")
    for rank, factor, since, tenths in slows:
        until = since + tenths * MS // 10
        faults.append(("slow", rank, factor, since, until))
        specs.append(f"slow:{label(rank)}:{factor}@{since}ns-{until}ns")
    timetable = predicted(made("hypercube:3", "broadcast", "sbt", segments=4), " ".join(specs))
    ours = sorted(
        (sender, receiver, start, end) for (sender, receiver, _), (start, end) in simulated(4, faults).items()
    )
    theirs = timetable.packets.select("sender", "receiver", "start", "end").rows()
    assert sorted(theirs) == ours


@pytest.mark.parametrize(("ports", "segments"), [("all-port", 1), ("all-port", 5), ("one-port", 1), ("one-port", 5)])
def test_stragglers_slow_a_run_by_no_more_than_their_factor(ports: str, segments: int) -> None:
    """Times are maxima of sums of durations, so durations up to F times as long make them up to F times as late."""
    for seed in range(5):
        algorithm = made("hypercube:3", "broadcast", "sbt", ports, segments=segments, message_bytes=segments, seed=seed)
        before = predicted(algorithm, "").intended_seconds
        faults = "slow:001:2@1ms-4ms slow:010~110:1.5 jitter:*:0.25"
        timetable = predicted(algorithm, faults)
        assert timetable.inputs is not None
        factor = FaultsInTime(CUBE, seed, timetable.inputs.faults).largest_factor()
        assert factor == 2 * 1.25
        assert before <= timetable.intended_seconds <= before * factor + 1e-6
        assert sorted(ROW.iter_unpack(replayed(timetable, algorithm))) == sorted(ROW.iter_unpack(plain_rows(algorithm)))


def plain_rows(algorithm: Algorithm) -> bytes:
    """Return the rows of lock-step without faults."""
    return b"".join(play(MemoryEngine(algorithm)))


# --- parts -----------------------------------------------------------------------------------------------------------


def test_factors_of_node_and_link_multiply_and_round_once() -> None:
    slow = [TimedFault(0, 200, Slow(1, 5, 1.1)), TimedFault(0, 100, SlowLink(1, 5, 1, 1.5))]
    faults = FaultsInTime(CUBE, 1, slow)
    assert faults.occupancy(1, 5, 1, 99, MS) == 1_650_000
    assert faults.occupancy(1, 5, 1, 100, MS) == 1_100_000
    assert faults.occupancy(1, 5, 1, 200, MS) == MS
    assert faults.occupancy(1, 5, 1, 99, 3) == 5, "4.95"
    assert faults.occupancy(1, 5, 0, 99, 10) == 11
    assert faults.occupancy(1, 4, 1, 99, MS) == MS
    assert exact(1.1) == Fraction(11, 10)


def test_jitter_is_drawn_for_each_packet_and_fault_on_its_own() -> None:
    one = FaultsInTime(CUBE, 1, [TimedFault(0, ALWAYS, Jitter(1, 5, 1, 1.0))])
    two = FaultsInTime(CUBE, 1, [TimedFault(0, ALWAYS, Jitter(1, 5, 1, 1.0))] * 2)
    draws = [one.occupancy(step, 5, 1, 0, MS) for step in range(1, 401)]
    assert len(set(draws)) == 400
    # The mean of 400 numbers of [1, 2) is within five standard deviations of 1.5.
    assert abs(sum(draws) / 400 / MS - 1.5) < 5 / (12 * 400) ** 0.5
    assert two.occupancy(7, 5, 1, 0, MS) > draws[6]


def test_incarnations_begin_with_recoveries_and_end_with_crashes() -> None:
    faults = [TimedFault(5, ALWAYS, Crash(1, 2)), TimedFault(9, ALWAYS, Recover(1, 2)), TimedFault(9, 9, Crash(1, 3))]
    found = FaultsInTime(CUBE, 1, faults)
    assert found.incarnations(2) == [(0, 5), (9, ALWAYS)]
    assert found.incarnations(3) == [(0, 9)]
    assert found.incarnations(4) == [(0, ALWAYS)]
    assert [found.silent(2, time) for time in (4, 5, 8, 9)] == [False, True, True, False]


@pytest.mark.parametrize(
    "record", [[1, 2], [2, 1, ["crash", 1, 5]], [-1, 2, ["crash", 1, 5]], [0, 1, ["crash", 1, 8]], "x", [0, 1.5, []]]
)
def test_a_malformed_fault_with_times_is_refused(record: object) -> None:
    with pytest.raises(FrameError, match="malformed fault"):
        TimedFault.from_record(record, CUBE)


def test_a_fault_with_times_survives_encoding() -> None:
    """Its steps do not: a time is no step."""
    fault = TimedFault(5, ALWAYS, Slow(Moment(9_000_000_000), 5, 3.0, Moment(9_500_000_000)))
    start, end, record = fault.record()
    decoded = TimedFault.from_record((start, end, list(record)), CUBE)  # type: ignore[call-overload]
    assert decoded == TimedFault(5, ALWAYS, Slow(1, 5, 3.0))


def test_steps_take_as_long_as_their_heaviest_packets() -> None:
    packets = predicted(made("hypercube:3", "scatter", "sbt"), "", LinearCostModel(0.0, 1e-6)).packets
    steps = FaultFreeSteps(packets, LinearCostModel(0.0, 1e-6))
    assert [steps.begins(step) for step in range(1, 6)] == [0, 4_000, 12_000, 16_000, 24_000]
    assert [steps.step_at(time) for time in (0, 3_999, 4_000, 15_999, 16_000, 23_999, 24_000)] == [1, 1, 2, 3, 4, 4, 5]
    assert not steps.is_kept_by(packets), "a packet for a leaf is shorter than its step"
    found = timed_faults(parse_faults(["crash:001@2", "down:000~010@2-3"], CUBE), steps)
    assert [(start, end) for start, end, _ in found] == [(4_000, ALWAYS), (4_000, 16_000), (4_000, 16_000)]
