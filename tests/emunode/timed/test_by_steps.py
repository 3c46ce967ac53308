"""Timed runs with faults whose ranks keep their steps: examples by hand, and a simulation of reductions of its own."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.history.timetable import Timetable
from emunode.faults.effects import ALWAYS
from emunode.model import HopOutcome
from emunode.net.wire import ROW
from emunode.timed.cost_model import LinearCostModel
from tests.emunode.timed.test_faults_in_time import CUBE, MS, made, predicted, replayed
from tests.helpers.support import examples

Times = dict[int, tuple[int, int | None]]
"""By rank, start and end of its packet; no end for a lost one, and no entry for one that never starts."""


def reduction(faults: str, **more: Any) -> Timetable:
    return predicted(made("hypercube:3", "reduce", "sbt", **more), faults)


def times(timetable: Timetable) -> Times:
    rows = timetable.packets.select("sender", "start", "end").iter_rows()
    return {sender: (start, end) for sender, start, end in rows}


# --- examples by hand ------------------------------------------------------------------------------------------------

PLAIN = {0b111: 0, 0b011: 1, 0b101: 0, 0b110: 0, 0b001: 2, 0b010: 1, 0b100: 0}
EXAMPLES: list[tuple[str, dict[int, float | None]]] = [
    ("", {}),
    # Cut on its way: noticed at the end of its occupancy, 6 ms, and not when the link goes down.
    ("slow:011:5 down:011>001@4ms", {0b001: 6}),
    ("slow:011:5 down:011>001@7ms", {0b001: 6}),
    # 011 never starts: it waits for 111 until 4 ms, and crashes at 3 ms, which 001 learns then.
    ("slow:111:4 crash:011@3ms", {0b011: None, 0b001: 3}),
    ("slow:111:4 crash:011@0.5ms", {0b011: None}),
    # A crash before the time of the packet delays no other one.
    ("crash:011@0s", {0b011: None}),
    ("crash:011@0s slow:101:3", {0b011: None, 0b001: 3}),
    # Missed in a hang: 011 passes the step when it resumes, or never.
    ("hang:011@0.5ms-5ms", {0b011: None, 0b001: 5}),
    ("hang:011@0.5ms", {0b011: None}),
    ("hang:011@0.5ms-1ms", {}),
    # A loss alone changes no time, and neither does a recovery.
    ("drop:011>001:1", {}),
    ("down:011>001@1.5ms-1.6ms", {}),
    ("crash:011@0.5ms recover:011@1.2ms", {0b011: None}),
    # A delay alone holds up those that wait for it.
    ("slow:111:3", {0b011: 3, 0b001: 4}),
]


@pytest.mark.parametrize(("faults", "changes"), EXAMPLES, ids=[each[0] or "none" for each in EXAMPLES])
def test_a_loss_is_known_when_it_can_be_known(faults: str, changes: dict[int, float | None]) -> None:
    expected = {rank: start for rank, start in (PLAIN | changes).items() if start is not None}
    assert {rank: start / MS for rank, (start, _) in times(reduction(faults)).items()} == expected


def test_a_delayed_packet_counts_as_lost_in_its_own_step() -> None:
    """It is read when it comes: in step 4 as in lock-step, when 001 has sent what it had."""
    timetable = reduction("delay:011>001:2")
    assert {rank: start for rank, (start, _) in times(timetable).items()} == {
        rank: start * MS for rank, start in PLAIN.items()
    }
    (late,) = timetable.packets.filter(sender=0b011).select("step", "end").rows()
    assert late == (4, 4 * MS)


def test_what_comes_after_its_step_keeps_the_step_in_its_row() -> None:
    """A message of a delayed child is longer than a step, and comes when its parent has read the last step."""
    bytes_cost = LinearCostModel(0.0, 1e-3)
    algorithm = made("hypercube:3", "gather", "sbt", "exchange", message_bytes=1)
    timetable = predicted(algorithm, "delay:111>011:1", bytes_cost)
    rows = sorted(row[0] for row in ROW.iter_unpack(replayed(timetable, algorithm)) if row[-1] != HopOutcome.LOST)
    steps = sorted(timetable.arriving["step"].to_list())
    assert set(rows) == set(steps)


# --- a simulation of its own -----------------------------------------------------------------------------------------


def simulated(faults: list[tuple[Any, ...]]) -> Times:
    """Return the packets of a reduction up a binomial tree, by the rule alone.

    Faults: ("crash", rank, T), ("hang", rank, T, T'), ("down", rank, T, T') of the link up, ("slow", rank, factor, T, T').
    """
    dead = {rank: since for kind, rank, since, *_ in faults if kind == "crash"}
    hangs = [fault[1:] for fault in faults if fault[0] == "hang"]
    found: Times = {}
    known: dict[int, int] = {}
    # Children have higher numbers than their parents.
    for rank in range(7, 0, -1):
        parent = rank & ~(1 << rank.bit_length() - 1)
        children = [rank | 1 << bit for bit in range(rank.bit_length(), 3)]
        start = max([(3 - rank.bit_length()) * MS, *(known[child] for child in children)])
        missed = [until for who, since, until in hangs if who == rank and since <= start < until]
        if start >= dead.get(rank, ALWAYS):
            known[rank] = dead[rank]
        elif missed:
            # It passes the step when it resumes, unless it crashes before.
            known[rank] = min(missed[0], dead.get(rank, ALWAYS))
        else:
            factor = Fraction(1)
            for kind, who, *values in faults:
                if kind == "slow" and who == rank and values[1] <= start < values[2]:
                    factor *= values[0]
            end = known[rank] = start + int(MS * factor)
            cut = end > min(dead.get(rank, ALWAYS), dead.get(parent, ALWAYS))
            for kind, who, *values in faults:
                concerned = (kind == "hang" and who in (rank, parent)) or (kind == "down" and who == rank)
                cut |= concerned and start < values[1] and values[0] < end
            found[rank] = (start, None if cut else end)
    return found


TIMES = st.integers(0, 90).map(lambda tenths: tenths * MS // 10)
SPANS = st.tuples(TIMES, st.integers(1, 40)).map(lambda span: (span[0], span[0] + span[1] * MS // 10))


@settings(max_examples=examples(150), deadline=None)
@given(
    st.dictionaries(st.integers(1, 7), TIMES, max_size=2),
    st.dictionaries(st.integers(1, 7), SPANS, max_size=2),
    st.dictionaries(st.integers(1, 7), SPANS, max_size=2),
    st.dictionaries(st.integers(1, 7), st.tuples(st.sampled_from([2, 3, 7]), SPANS), max_size=3),
)
def test_a_reduction_is_as_in_a_simulation_of_its_own(
    crashes: dict[int, int],
    hangs: dict[int, tuple[int, int]],
    downs: dict[int, tuple[int, int]],
    slows: dict[int, tuple[int, tuple[int, int]]],
) -> None:
    label = CUBE.label
    faults: list[tuple[Any, ...]] = [("crash", *crash) for crash in crashes.items()]
    specs = [f"crash:{label(rank)}@{since}ns" for rank, since in crashes.items()]
    for rank, (since, until) in hangs.items():
        if rank not in crashes:
            faults.append(("hang", rank, since, until))
            specs.append(f"hang:{label(rank)}@{since}ns-{until}ns")
    for rank, (since, until) in downs.items():
        parent = rank & ~(1 << rank.bit_length() - 1)
        faults.append(("down", rank, since, until))
        specs.append(f"down:{label(rank)}>{label(parent)}@{since}ns-{until}ns")
    for rank, (factor, (since, until)) in slows.items():
        faults.append(("slow", rank, factor, since, until))
        specs.append(f"slow:{label(rank)}:{factor}@{since}ns-{until}ns")
    assert times(reduction(" ".join(specs))) == simulated(faults)
