"""Reliable links: examples, formulas for the time and the losses, every algorithm."""

from math import sqrt

import numpy as np
import polars as pl
import pytest

from coordinator.execution.sinks import MemoryRun
from coordinator.features.journals.rows import IS_DATA
from coordinator.results.claims import Verdict
from tests.helpers.command_line import fields
from tests.helpers.feature_support import RELIABLE, Values
from tests.helpers.scenarios import Case

LINK: Values = fields("mesh:2 broadcast bfs-tree reliable=true")


def receipts(result: MemoryRun) -> dict[str, int]:
    """Return the step when each node receives its first copy, by label."""
    label = result.plan.topology.label
    firsts = result.journal.filter(pl.col("outcome") == "first").select("receiver", "step").collect()
    return {label(rank): step for rank, step in firsts.iter_rows()}


# --- the examples: Q_3, one packet, a round trip of two steps ---------------------------------------------------------


FIRST_LOST = {"001": 3, "010": 1, "100": 1, "011": 4, "101": 4, "110": 2, "111": 5}
NOTHING_LOST = {"001": 1, "010": 1, "100": 1, "011": 2, "101": 2, "110": 2, "111": 3}


@pytest.mark.parametrize(
    ("faults", "steps", "segments", "discarded", "retransmissions"),
    [
        ([], NOTHING_LOST, 7, 0, 0),
        (["drop:000>001:1@1"], FIRST_LOST, 8, 0, 1),
        (["drop:001>000:1@1"], NOTHING_LOST, 8, 1, 1),
        (["drop:000>001:1@1", "drop:001>000:1@1"], FIRST_LOST, 9, 1, 2),
        (["duplicate:000>001:1@1-1"], NOTHING_LOST, 8, 1, 0),
        (["delay:000>001:1@1-1"], FIRST_LOST | {"001": 2, "011": 3, "101": 3, "111": 4}, 8, 1, 1),
        (["corrupt:001>000:1@2-2"], NOTHING_LOST, 8, 1, 1),
    ],
)
def test_a_lost_packet_is_sent_again_and_handed_on_once(
    faults: list[str], steps: dict[str, int], segments: int, discarded: int, retransmissions: int
) -> None:
    result = Case(RELIABLE, fault=faults).run
    assert receipts(result) == steps
    summary = result.summary
    assert summary["segments"] == segments
    assert summary["discarded_copies"] == discarded
    assert summary["retransmissions"] == retransmissions
    assert summary["intact_deliveries"] == summary["deliveries"] == 7
    altered = any(fault.startswith("corrupt") for fault in faults)
    # Links do not know what is altered, so nothing is claimed then.
    assert result.verdict is (Verdict.UNDECIDED if altered else Verdict.HOLDS)


@pytest.mark.parametrize(("attempts", "back_off", "steps"), [(3, False, (1, 3, 5)), (4, True, (1, 3, 7, 15))])
def test_a_dead_neighbour_is_given_up_after_the_last_attempt(
    attempts: int, back_off: bool, steps: tuple[int, ...]
) -> None:
    result = Case(RELIABLE, fault=["crash:001@1"], attempts=attempts, back_off=back_off).run
    lost = result.journal.filter(pl.col("outcome") == "lost").select("step", "sender").collect()
    assert tuple(lost["step"]) == steps
    assert set(lost["sender"]) == {0}
    assert result.summary["abandoned_segments"] == 1
    assert {label for label in NOTHING_LOST if label not in receipts(result)} == {"001", "011", "101", "111"}
    assert result.verdict is Verdict.HOLDS


def test_the_next_segment_replaces_an_abandoned_segment() -> None:
    result = Case(LINK, messages=2, fault=["down:0>1@1-4"], attempts=2).run
    assert result.summary["abandoned_segments"] == 1
    assert result.journal.filter(IS_DATA).select("step", "segment").collect().rows() == [(1, 0), (3, 0), (5, 1)]


def test_a_time_out_in_steps_is_kept() -> None:
    result = Case(LINK, fault=["down:0>1@1-9"], retransmit_after=4).run
    assert result.journal.filter(IS_DATA).collect()["step"].to_list() == [1, 5, 9, 13]


def test_a_run_does_not_wait_for_time_outs_that_are_needless() -> None:
    result = Case(RELIABLE, messages=2, retransmit_after=50_000).run
    assert result.execution.steps < 10
    assert result.verdict is Verdict.HOLDS


# --- formulas --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [1, 2, 5])
@pytest.mark.parametrize("links", [1, 2, 5])
@pytest.mark.parametrize("messages", [1, 2, 7])
def test_segments_follow_each_other_after_a_round_trip(links: int, messages: int, window: int) -> None:
    """(m - 1)(c_d + c_a) + L c_d with c_d = c_a = 1 for stop and wait; a window covers the round trip."""
    result = Case(LINK | {"topology": f"mesh:{links + 1}"}, messages=messages, window=window).run
    spacing = 2 if window == 1 else 1
    assert result.summary["steps"] == (messages - 1) * spacing + links
    assert result.summary["acknowledgements"] == result.summary["segments"] == messages * links
    assert result.summary["retransmissions"] == 0
    assert result.verdict is Verdict.HOLDS


def waits(result: MemoryRun) -> tuple[np.ndarray, np.ndarray]:
    """For each message over one link: steps from its first attempt to its first arrival, and the number of attempts."""
    data = result.journal.filter(IS_DATA).sort("step")
    table = (
        data.group_by("segment")
        .agg(
            began=pl.col("step").min(),
            came=pl.col("step").filter(pl.col("outcome") != "lost").min(),
            attempts=pl.len(),
        )
        .collect()
    )
    return (table["came"] - table["began"]).to_numpy(), table["attempts"].to_numpy()


@pytest.mark.parametrize(("p", "q"), [(0.2, 0.2), (0.5, 0.0), (0.1, 0.4)])
def test_means_over_a_link_that_loses_data_and_acknowledgements(p: float, q: float) -> None:
    messages, after = 600, 3
    faults = [f"loss:0>1:{p}", f"loss:1>0:{q}"]
    result = Case(LINK, messages=messages, retransmit_after=after, attempts=200, fault=faults, seed=7).run
    delay, attempts = waits(result)
    s = 1 - (1 - p) * (1 - q)
    # Geometric distributions: mean x / (1 - x) failures, variance x / (1 - x)^2; five standard errors.
    assert delay.mean() == pytest.approx(after * p / (1 - p), abs=5 * after * sqrt(p) / (1 - p) / sqrt(messages))
    assert attempts.mean() == pytest.approx(1 / (1 - s), abs=5 * sqrt(s) / (1 - s) / sqrt(messages))
    assert result.summary["intact_deliveries"] == messages
    assert result.verdict is Verdict.HOLDS


def test_the_mean_wait_with_back_off() -> None:
    """RTO p / (1 - 2 p): the j-th failure doubles the time-out."""
    messages, after, p = 800, 2, 0.15
    result = Case(LINK, messages=messages, back_off=True, fault=[f"loss:0>1:{p}"], seed=3).run
    delay, _ = waits(result)
    # After j failures it is 2^j - 1 time-outs late, with probability p^j (1 - p).
    spread = sqrt((1 - p) / (1 - 4 * p) - ((1 - p) / (1 - 2 * p)) ** 2)
    assert delay.mean() == pytest.approx(after * p / (1 - 2 * p), abs=5 * after * spread / sqrt(messages))


def test_loss_falls_with_the_power_of_the_attempts() -> None:
    messages, p, attempts = 600, 0.5, 3
    result = Case(LINK, messages=messages, attempts=attempts, fault=[f"loss:0>1:{p}"], seed=11).run
    never = p**attempts
    lost = messages - result.summary["intact_deliveries"]  # type: ignore[operator]
    assert lost / messages == pytest.approx(never, abs=5 * sqrt(never * (1 - never) / messages))
    assert result.summary["abandoned_segments"] == lost
    # No formula says how many arrive, but the losses that the seed draws do.
    (claim,) = [each.claim for each in result.judgements if each.claim.name == "intact_deliveries"]
    assert (claim.predicted, claim.derived, result.verdict) == (messages - lost, True, Verdict.HOLDS)


# --- judging ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "delivered"),
    [
        ("hypercube:3 broadcast sbt reliable=true fault=loss:000~001:0.2", 7),
        ("hypercube:3 broadcast sbt reliable=true fault=hang:001@1-4", 6),
        ("hypercube:3 broadcast sbt reliable=true messages=3 fault=crash:011@2", None),
        ("hypercube:3 broadcast sbt reliable=true fault=crash:001@1 fault=crash:110@1", 2),
        ("hypercube:3 broadcast sbt reliable=true fault=crash:001@2 fault=recover:001@5", None),
        ("hypercube:3 broadcast nesbt reliable=true redundancy=3 fault=byzantine:001", 6),
        ("hypercube:3 broadcast sbt reliable=true port_model=one-port messages=3", 21),
        ("hypercube:3 broadcast sbt reliable=true port_model=one-port window=3 messages=3 fault=loss:000~001:0.3", 21),
        ("hypercube:3 reduce sbt reliable=true fault=loss:000~001:0.3 fault=delay:001~011:2", 1),
        ("hypercube:3 allgather sbt reliable=true seed=3 fault=loss:000~001:0.3", 56),
        # Every packet of data arrives twice, and there is one attempt.
        ("hypercube:3 broadcast sbt reliable=true attempts=1 fault=duplicate:*:1", 7),
        # After the last step of data, when the last acknowledgements are under way.
        ("hypercube:3 broadcast sbt reliable=true attempts=3 fault=loss:*:1@4", 7),
        ("hypercube:3 broadcast sbt reliable=true attempts=1 fault=hang:111@4", 6),
        # Receipts are not limited over one port, so bounds that go by them do not hold.
        ("hypercube:3 gather sbt reliable=true port_model=one-port", 7),
        ("hypercube:3 reduce sbt reliable=true port_model=one-port messages=3", 3),
        # A time-out that is shorter than the way back over one port.
        ("hypercube:3 gather sbt reliable=true port_model=one-port retransmit_after=2 messages=3", 21),
        ("hypercube:3 reduce sbt reliable=true port_model=one-port retransmit_after=2 messages=3", 3),
        # Packets of any number of segments take longer than the time-out.
        ("ej:1+2 allgather three-phase reliable=true messages=3 window=4 clock=timed", 126),
    ],
)
def test_no_run_is_judged_wrong(line: str, delivered: int | None) -> None:
    result = Case(line).run
    assert result.verdict is not Verdict.VIOLATED, [each.record() for each in result.judgements]
    assert result.summary["illegal_hops"] == 0
    assert delivered is None or result.summary["intact_deliveries"] == delivered
