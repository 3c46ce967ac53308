"""Reliable links and detection by silence under the timed clock: examples by hand, formulas, a simulation of its own."""

from collections.abc import Sequence
from itertools import accumulate
from math import ceil, log2

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.history.prediction import completed, prediction
from coordinator.history.timetable import Timetable
from emunode.algorithms.registry import make_algorithm
from emunode.model import Collective, CollectiveSpec, Detection, ReliableLinks
from emunode.timed.cost_model import LinearCostModel
from emunode.timed.rank import TimedSuspicion
from emunode.topologies.registry import parse_topology
from tests.emunode.timed.protocol_support import EIGHTH, MS, STOP_AND_WAIT, data, predicted
from tests.helpers.support import examples

DATA, ANSWER = MS, MS // 8
TENTH = LinearCostModel(0.0, 1e-4 / 8)
"""A control segment takes 0.1 ms."""


def receipts(timetable: Timetable) -> dict[int, float]:
    """Milliseconds of the first receipt of data, by rank."""
    first = data(timetable).drop_nulls("end").group_by("receiver").agg(pl.col("end").min())
    return {rank: end / MS for rank, end in first.iter_rows()}


# --- reliable links: examples by hand --------------------------------------------------------------------------------


PLAIN = {1: 1, 2: 1, 4: 1, 3: 2, 5: 2, 6: 2, 7: 3}
LATE = {**PLAIN, 1: 2.5, 3: 3.5, 5: 3.5, 7: 4.5}


@pytest.mark.parametrize(
    ("faults", "times", "copies"),
    [
        ("", PLAIN, 7),
        ("drop:000>001:1", LATE, 8),
        ("drop:001>000:1", PLAIN, 8),
        ("drop:000>001:1 drop:001>000:1", LATE, 9),
        ("crash:001@0.5ms", {2: 1, 4: 1, 6: 2}, 6),
    ],
)
def test_a_binomial_tree_of_eight_nodes(faults: str, times: dict[int, float], copies: int) -> None:
    timetable = predicted("hypercube:3", faults, STOP_AND_WAIT, algorithm="sbt")
    assert receipts(timetable) == times
    assert len(data(timetable)) == copies
    assert timetable.complete


def test_a_sender_gives_up_when_its_attempts_have_timed_out() -> None:
    """The second segment for 001 takes the place of the first one at 4.5 ms, after three attempts of 1.5 ms."""
    timetable = predicted(
        "hypercube:3", "crash:001@0.5ms", STOP_AND_WAIT, algorithm="sbt", message_bytes=128, segments=2
    )
    to_001 = data(timetable).filter(sender=0, receiver=1)["start"].to_list()
    assert to_001 == [ms * MS for ms in (0, 1.5, 3, 4.5, 6, 7.5)]
    others = data(timetable).filter(pl.col("receiver").is_in([2, 4, 6])).drop_nulls("end")
    assert others["end"].max() == 3.125 * MS


@pytest.mark.parametrize("segments", [1, 2, 5, 16])
@pytest.mark.parametrize("length", [1, 3, 6])
@pytest.mark.parametrize("window", [1, 2, 4])
def test_segments_down_a_path(segments: int, length: int, window: int) -> None:
    """(m - 1)(c_d + c_a) + L c_d by stop and wait; 6.375 for m = 4 and L = 3. With a window the path is a pipe."""
    links = ReliableLinks(2 * MS, 3, window)
    timetable = predicted(f"mesh:{length + 1}", links=links, message_bytes=64 * segments, segments=segments)
    spacing = DATA + ANSWER if window == 1 else DATA
    assert data(timetable)["end"].max() == (segments - 1) * spacing + length * DATA
    # One copy and one acknowledgement of every segment on every link.
    assert len(timetable.packets) == 2 * segments * length


def test_back_off_doubles_the_time_out() -> None:
    links = ReliableLinks(3 * MS // 2, 6, back_off=True)
    timetable = predicted("mesh:2", "crash:1@0s", links)
    assert data(timetable)["start"].to_list() == [0, *accumulate(1.5 * MS * 2**k for k in range(5))]


def test_an_acknowledgement_waits_for_the_port() -> None:
    """Two nodes that send each other: the acknowledgement leaves behind the segment, and the time-out covers it."""
    topology = parse_topology("mesh:2")
    spec = CollectiveSpec("mesh:2", Collective.ALLGATHER, "bfb", 0, reliable=ReliableLinks(3 * MS, 2), messages=2)
    algorithm = make_algorithm(topology, spec)
    timetable = completed(prediction(algorithm, (), EIGHTH, 1000))
    each = [(0, DATA), (DATA, DATA + ANSWER), (DATA + ANSWER, 2 * DATA + ANSWER)]
    assert timetable.packets.filter(sender=0).sort("start").select("start", "end").rows()[:3] == each
    assert timetable.packets.filter(sender=1).sort("start").select("start", "end").rows()[:3] == each
    assert len(data(timetable)) == 4


# --- reliable links: chance ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 100))])
@pytest.mark.parametrize(
    ("name", "algorithm", "trees"),
    [("star:5", "edt", 4), ("hypercube:7", "sbt", 1), pytest.param("ej:3+4^2", "improved", 1, marks=pytest.mark.slow)],
)
def test_everything_is_delivered_over_links_that_lose_a_fifth(name: str, algorithm: str, trees: int, seed: int) -> None:
    """With R = 20 attempts every link of every tree carries its segment; trees share no link. 100 seeds with `--all`."""
    links = ReliableLinks(3 * MS // 2, 20)
    timetable = predicted(name, "loss:*:0.2", links, algorithm=algorithm, seed=seed, segments=trees)
    assert timetable.complete
    carried = data(timetable).drop_nulls("end").select("sender", "port").unique()
    assert len(carried) == trees * (parse_topology(name).order - 1)


# --- reliable links: a simulation of its own --------------------------------------------------------------------------


def one_link(
    submitted: Sequence[int], lost: set[int], unanswered: set[int], attempts: int, out: int
) -> list[int | None]:
    """Stop and wait over one link: when each segment is received first, None if never.

    `lost` and `unanswered` are the numbers, from 1, of the packets that do not cross in either direction.
    """
    now, copy, answer, received = 0, 0, 0, list[int | None]()
    for time in submitted:
        now, first, acknowledged = max(now, time), None, None
        for _ in range(attempts):
            copy += 1
            if copy not in lost:
                first = now + DATA if first is None else first
                answer += 1
                if answer not in unanswered:
                    acknowledged = now + DATA + ANSWER
                    break
            now += out
        now = now if acknowledged is None else acknowledged
        received.append(first)
    return received


@settings(max_examples=examples(60), deadline=None)
@given(
    segments=st.integers(1, 4),
    attempts=st.integers(1, 4),
    drops=st.sets(
        st.tuples(st.sampled_from(["0>1", "1>0", "1>2", "2>1", "2>3", "3>2"]), st.integers(1, 6)), max_size=9
    ),
)
def test_a_path_is_as_in_a_simulation_of_its_own(segments: int, attempts: int, drops: set[tuple[str, int]]) -> None:
    out = 3 * MS // 2
    faults = " ".join(f"drop:{link}:{number}" for link, number in sorted(drops))
    timetable = predicted(
        "mesh:4", faults, ReliableLinks(out, attempts), message_bytes=64 * segments, segments=segments
    )
    at = [k * DATA for k in range(segments)]
    for sender in range(3):
        there, back = (
            {k for link, k in drops if link == name} for name in (f"{sender}>{sender + 1}", f"{sender + 1}>{sender}")
        )
        ends = one_link(at, there, back, attempts, out)
        at = [end for end in ends if end is not None]
        arrived = data(timetable).filter(sender=sender, receiver=sender + 1).drop_nulls("end")["end"].to_list()
        # Later copies are discarded, so only first ones count, and those are among all arrivals.
        assert set(at) <= set(arrived)
        forwarded = data(timetable).filter(sender=sender + 1, receiver=sender + 2)["start"].to_list()
        assert not at or sender == 2 or min(forwarded) == at[0]
        assert bool(at) or not forwarded


# --- detection: examples by hand -------------------------------------------------------------------------------------


def changes(timetable: Timetable, rank: int) -> list[TimedSuspicion]:
    assert timetable.events is not None
    return [each for each in timetable.events.suspicions if each.rank == rank]


def two_nodes(faults: str, k: int, *, doubling: bool = False, segments: int = 5) -> Timetable:
    """Two nodes with h = 1 ms and c_h = 0.1 ms; rank 0 is busy for `segments` ms, and only rank 1 is listened to."""
    return predicted(
        "mesh:2",
        faults,
        detection=Detection(k, doubling, MS),
        costs=TENTH,
        message_bytes=80 * segments,
        segments=segments,
    )


@pytest.mark.parametrize(("crash", "suspected"), [(2.5, 4.1), (2.05, 3.1), (2.1, 4.1)])
def test_when_a_crash_is_suspected(crash: float, suspected: float) -> None:
    (change,) = changes(two_nodes(f"crash:1@{crash}ms", 2), 0)
    assert change == TimedSuspicion(round(suspected * MS), 0, 0, True, True)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_crash_is_suspected_k_minus_1_to_k_intervals_later(k: int) -> None:
    delays = []
    for twentieth in range(30, 51):  # one interval
        crash = twentieth * MS // 20
        (change,) = changes(two_nodes(f"crash:1@{crash}ns", k), 0)
        delays.append(change.time - crash)
    assert min(delays) == (k - 1) * MS + MS // 20, "it crashes just before a sign of life has crossed"
    assert max(delays) == k * MS, "it crashes just after a sign of life has crossed"


@pytest.mark.parametrize("start", [1, 2, 3])
@pytest.mark.parametrize("factor", [1, 2, 3, 4, 5, 8, 9])
def test_stragglers_are_suspected_until_the_wait_is_long_enough(factor: int, start: int) -> None:
    """ceil(log2(f / k)) false suspicions with doubling: one for f = 3 and 4 with k = 2, three for f = 9."""
    timetable = two_nodes(f"slow:1:{factor}", start, doubling=True)
    found = changes(timetable, 0)
    # Its first sign of life takes only its own duration, so the wait for it is no false suspicion.
    assert [each.suspected for each in found] == [True, False] * max(0, ceil(log2(factor / start)))
    assert not any(each.silent for each in found if each.suspected)
    # The straggler hears its neighbour in time if it allows for a segment of 1 ms ahead of a sign: k h >= h + j.
    assert changes(timetable, 1) == [] or start == 1


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("factor", [1, 2, 3, 4])
def test_detection_is_perfect_iff_k_is_at_least_the_factor(factor: int, k: int) -> None:
    """On a port that carries nothing else j = 0, so k h >= f h."""
    false = [each for each in changes(two_nodes(f"slow:1:{factor}", k), 0) if each.suspected]
    assert bool(false) == (k < factor)


@pytest.mark.parametrize(
    ("k", "spread", "perfect"), [(1, 0.0, True), (1, 0.5, False), (2, 9.0, True), (2, 30.0, False)]
)
def test_jitter_within_the_slack_is_no_reason_to_suspect(k: int, spread: float, perfect: bool) -> None:
    """k h >= h + j, where j = 0.1 ms x spread is the most lateness of a sign of life."""
    false = [each for each in changes(two_nodes(f"jitter:1>0:{spread}", k, segments=30), 0) if each.suspected]
    assert (not false) == perfect


def test_signs_of_life_occupy_their_port() -> None:
    """A sign that is due while a segment is sent leaves after it, and before the next segment."""
    timetable = predicted(
        "mesh:2", detection=Detection(3, interval=3 * MS // 2), costs=EIGHTH, message_bytes=128, segments=2
    )
    sent = timetable.packets.filter(sender=0).sort("start").select("bytes", "start").rows()[:4]
    assert sent == [(8, 0), (64, ANSWER), (64, ANSWER + DATA), (8, ANSWER + 2 * DATA)]
    assert changes(timetable, 0) == changes(timetable, 1) == []


def test_a_hang_proves_nothing_to_the_node_that_hangs() -> None:
    timetable = two_nodes("hang:1@1.5ms-6.2ms", 2, segments=8)
    assert [(each.time, each.suspected) for each in changes(timetable, 0)] == [(3_100_000, True), (7_100_000, False)]
    assert changes(timetable, 0)[0].silent
    assert changes(timetable, 1) == []


def test_a_link_down_in_one_direction_makes_its_receiver_suspect() -> None:
    timetable = two_nodes("down:1>0@1.5ms-9ms", 2, segments=11)
    assert [(each.time, each.suspected) for each in changes(timetable, 0)] == [(3_100_000, True), (9_100_000, False)]
    assert changes(timetable, 1) == []


def test_a_fast_clock_times_out_early() -> None:
    links = ReliableLinks(2 * MS, 2)
    starts = [
        data(predicted("mesh:2", f"crash:1@0s {drift}", links))["start"].to_list()
        for drift in ("", "drift:0:0.25", "drift:0:-0.5")
    ]
    assert starts == [[0, 2 * MS], [0, 1.6 * MS], [0, 4 * MS]]


def test_detection_alone_withholds_from_suspected_ports() -> None:
    timetable = two_nodes("crash:1@0.5ms", 1)
    assert timetable.events is not None
    # Suspected at 1.1 ms, when the first segment ends: time-outs come before sends.
    assert [(each.sender, each.silent) for each in timetable.events.withheld] == [(0, True)] * 4
    assert data(timetable)["start"].to_list() == [MS // 10]
