"""The audit of small journals: impossible hops, faults of every kind, knowledge and port models."""

import pytest

from emunode.model import ALL_RANKS
from tests.helpers.result_support import BROADCAST, Row, hop, measured


def illegal(rows: list[Row], **values: object) -> object:
    """Number of illegal hops in these rows."""
    return measured(rows, **values).metrics["illegal_hops"]


RELAYED: list[Row] = [(1, 0, 0, 1, 0, 3, 0, 0, 64, "relay"), (2, 1, 1, 3, 0, 3, 0, 0, 64, "first")]


FLOOD = [hop(1, 0, 0), hop(1, 0, 1), hop(2, 1, 1), hop(2, 2, 0, "duplicate")]


@pytest.mark.parametrize(
    ("rows", "values"),
    [
        pytest.param(BROADCAST, {}, id="a broadcast"),
        pytest.param([], {}, id="nothing"),
        pytest.param(RELAYED, {"collective": "scatter"}, id="a relayed personalised message"),
        pytest.param(FLOOD, {"algorithm": "flood"}, id="flooding"),
        pytest.param(FLOOD, {"algorithm": "flood", "duplex": "half"}, id="flooding over half-duplex links"),
    ],
)
def test_correct_hops_are_legal(rows: list[Row], values: dict[str, object]) -> None:
    assert illegal(rows, **values) == 0


@pytest.mark.parametrize(
    ("rows", "times"),
    [
        pytest.param([hop(1, 1, 1)], 1, id="sent without receiving it"),
        pytest.param([hop(1, 0, 0), hop(1, 1, 1)], 1, id="sent in the step of its arrival"),
        pytest.param([hop(3, 0, 0), hop(2, 1, 1)], 1, id="sent before its arrival"),
        pytest.param([hop(1, 0, 0, segment=1), hop(2, 1, 1, segment=0)], 1, id="sent after another segment arrived"),
        pytest.param([hop(1, 0, 0, "duplicate")], 1, id="duplicate of nothing"),
        pytest.param([hop(1, 0, 0), hop(2, 0, 0)], 1, id="first twice"),
        pytest.param([hop(1, 0, 0, "duplicate"), hop(2, 0, 0)], 1, id="duplicate before first"),
        pytest.param([hop(1, 0, 0), hop(2, 1, 0)], 1, id="first copy at its origin"),
        pytest.param([hop(1, 0, 0, "relay")], 1, id="relay of a broadcast"),
        pytest.param([hop(1, 0, 0, "lost")], 1, id="lost for no reason"),
        pytest.param([hop(1, 0, 0, "corrupt")], 1, id="corrupt for no reason"),
        pytest.param([(1, 0, 0, 2, 0, ALL_RANKS, 0, 0, 64, "first")], 1, id="no such link"),
        pytest.param([(1, 0, 2, 0, 0, ALL_RANKS, 0, 0, 64, "duplicate")], 1, id="no such port"),
        pytest.param([(1, 0, 0, 1, 0, 2, 0, 0, 64, "first")], 2, id="first of what is for another, and for one"),
        pytest.param([(1, 0, 0, 1, 0, 2, 0, 0, 64, "duplicate")], 3, id="the same as a duplicate, of nothing"),
        pytest.param([(1, 0, 0, 1, 0, 1, 0, 0, 64, "relay")], 2, id="relay at its target, and for one"),
        pytest.param(RELAYED, 2, id="what is for one in a broadcast"),
        pytest.param(
            [hop(1, 0, 0), (2, 1, 0, 0, 0, 1, 0, 0, 1, "relay")], 1, id="an acknowledgement where none is sent"
        ),
        pytest.param([hop(1, 0, 0, segment=0), hop(1, 0, 0, segment=1)], 1, id="two segments where one fits"),
    ],
)
def test_audit_counts_impossible_hops(rows: list[Row], times: int) -> None:
    assert illegal(rows, messages=2) == times


LATE = [hop(1, 0, 1), hop(3, 0, 0)]
"""Packets that leave 0 for 1 in step 1 arrive two steps later."""


@pytest.mark.parametrize(
    ("fault", "rows", "times"),
    [
        pytest.param("crash:01@2", [hop(1, 0, 0), hop(1, 0, 1)], 0, id="before a crash"),
        pytest.param("crash:01@2", [hop(1, 0, 1), hop(2, 0, 0, "lost")], 0, id="lost to a crash"),
        pytest.param("crash:01@2", [hop(2, 0, 0)], 1, id="received after a crash"),
        pytest.param("crash:01@2", [hop(1, 0, 0, "lost")], 1, id="lost before a crash"),
        pytest.param("crash:01@2", [hop(1, 0, 0), hop(2, 1, 1)], 1, id="sent after a crash"),
        pytest.param("crash:01@2", [hop(1, 0, 1, "lost")], 1, id="lost to another rank"),
        pytest.param("hang:01@2-3", [hop(1, 0, 0), hop(4, 1, 1)], 0, id="sent after it hung"),
        pytest.param("hang:01@2-3", [hop(1, 0, 0), hop(3, 1, 1)], 1, id="sent while it hung"),
        pytest.param("hang:01@2-3", [hop(2, 0, 0)], 1, id="received while it hung"),
        pytest.param("down:00>01@2", [hop(2, 0, 0, "lost"), hop(2, 0, 1)], 0, id="lost to a link that is down"),
        pytest.param("down:00>01@2", [hop(2, 0, 0)], 1, id="crossed a link that is down"),
        pytest.param("down:00>01@2", [hop(1, 0, 0), hop(2, 1, 0, "duplicate")], 0, id="crossed it the other way"),
        pytest.param("down:00>01@2-2", [hop(3, 0, 0, "lost")], 1, id="lost to a link that is up again"),
        pytest.param("loss:00>01:1", [hop(1, 0, 0, "lost"), hop(1, 0, 1)], 0, id="lost by chance"),
        pytest.param("loss:00>01:1", [hop(1, 0, 0)], 1, id="not lost at a rate of 1"),
        pytest.param("loss:00>01:0", [hop(1, 0, 0, "lost")], 1, id="lost at a rate of 0"),
        pytest.param("drop:00>01:2", [hop(1, 0, 0), hop(2, 0, 0, "lost", segment=1)], 0, id="the second is lost"),
        pytest.param("drop:00>01:2", [hop(1, 0, 0, "lost")], 1, id="the first is lost"),
        pytest.param("corrupt:00>01:1", [hop(1, 0, 0, "corrupt"), hop(2, 1, 1, "corrupt")], 0, id="altered, passed on"),
        pytest.param("corrupt:00>01:1", [hop(1, 0, 1, "corrupt")], 1, id="altered on another link"),
        pytest.param("corrupt:00>01:1@2", [hop(1, 0, 0, "corrupt")], 1, id="altered too early"),
        pytest.param("byzantine:01", [hop(1, 0, 0), hop(2, 1, 1, "corrupt")], 0, id="a byzantine node"),
        pytest.param("byzantine:01", [hop(1, 0, 0, "corrupt")], 1, id="altered on the way to a byzantine node"),
        pytest.param("duplicate:00>01:1", [hop(1, 0, 0), hop(1, 0, 0, "duplicate")], 0, id="twice in a step"),
        pytest.param("duplicate:00>01:1", [hop(1, 0, 1), hop(1, 0, 1, "duplicate")], 2, id="twice on another link"),
        pytest.param("delay:00>01:2", LATE, 0, id="late"),
        pytest.param("delay:00>01:2", [hop(1, 0, 0)], 1, id="not late"),
        pytest.param("delay:00>01:2@1-1", [*LATE, hop(3, 0, 0, "duplicate")], 0, id="late, with what is not"),
        pytest.param("delay:00>01:2", [hop(1, 0, 0, "lost")], 1, id="lost where things are late"),
    ],
)
def test_audit_checks_every_fault_kind(fault: str, rows: list[Row], times: int) -> None:
    assert illegal(rows, fault=(fault,), algorithm="sbt", messages=2) == times


def test_recovered_rank_sees_a_first_copy_again() -> None:
    rows = [hop(1, 0, 0), hop(5, 0, 0)]
    assert illegal(rows, fault=("crash:01@2", "recover:01@4")) == 0
    assert illegal(rows, fault=("crash:01@2", "recover:01@6")) == 2


def test_audit_checks_fault_knowledge() -> None:
    rows = [hop(1, 0, 1), hop(2, 0, 0, "lost")]
    known = {"fault_knowledge": "neighbours", "fault": ("down:00~01@1",)}
    assert illegal(rows, **known | {"fault_knowledge": "none"}) == 0
    assert illegal(rows, **known) == 1


def test_fault_records_with_first_evidence() -> None:
    faults = ("crash:01@2", "loss:00>10:1@1-7", "byzantine:11@2")
    seen = measured([hop(1, 0, 1, "lost"), hop(4, 0, 0, "lost")], fault=faults)
    loss, crash, byzantine = seen.faults
    assert crash == {"kind": "crash", "step": 2, "rank": 1, "label": "01", "last": None, "seen": 4}
    assert loss == {
        "kind": "loss", "step": 1, "sender": 0, "port": 1, "label": "00>10", "rate": 1.0, "last": 7, "seen": 1,
    }  # fmt: skip
    assert byzantine["seen"] is None


TRAFFIC = {
    "out": hop(2, 1, 1),
    "in": hop(2, 0, 0, "duplicate"),
    "back": hop(2, 1, 0, "duplicate"),
    "in too": (2, 3, 1, 1, 0, ALL_RANKS, 0, 0, 64, "duplicate"),
}
"""Packets of rank 1 in step 2: `out` and `in too` use its port 1, `in` and `back` its port 0."""


@pytest.mark.parametrize(
    ("traffic", "model", "duplex", "times"),
    [
        ("out,in", "all-port", "full", 0),
        ("out,in", "one-port", "full", 0),
        ("out,in", "exchange", "full", 1),
        ("out,in", "send-or-receive", "full", 1),
        ("back,in", "one-port", "full", 0),
        ("back,in", "exchange", "full", 0),
        ("back,in", "exchange", "half", 2),
        ("back,in", "one-port", "half", 2),
        ("out,in", "one-port", "half", 0),
        ("out,back", "all-port", "half", 0),
        ("out,back", "one-port", "full", 1),
        ("in,in too", "one-port", "full", 2),
    ],
)
def test_audit_checks_the_port_model(traffic: str, model: str, duplex: str, times: int) -> None:
    """Both ends of a half-duplex link violate it. In the last case rank 3 also forwards a piece it never received."""
    rows = [hop(1, 0, 0), *(TRAFFIC[name] for name in traffic.split(","))]
    assert illegal(rows, port_model=model, duplex=duplex) == times
