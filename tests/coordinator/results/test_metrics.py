"""Metrics of small journals by hand, and of random ones against a plain implementation of the definitions."""

from collections import Counter, defaultdict
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.history.journal import OUTCOMES
from coordinator.results.metrics import measure
from tests.helpers.result_support import BROADCAST, SMALL, Row, hop, measured, table_of
from tests.helpers.scenarios import Case
from tests.helpers.support import examples

# --- by hand ---------------------------------------------------------------------------------------------------------


def test_metrics_of_a_complete_broadcast() -> None:
    seen = measured(BROADCAST, startup="1ms", per_byte="1us")
    assert seen.metrics == {
        **seen.metrics,
        "steps": 2,
        "packets": 3,
        "segments": 3,
        "bytes": 192,
        "links_used": 3,
        "max_link_segments_per_step": 1,
        "max_link_segments": 1,
        "expected_deliveries": 3,
        "deliveries": 3,
        "intact_deliveries": 3,
        "delivery_ratio": 1.0,
        **dict.fromkeys(("duplicates", "relays", "lost", "corrupt"), 0),
        "virtual_seconds": pytest.approx(2 * (1e-3 + 64e-6)),
        "senders_per_step": (1, 1),
        "receivers_per_step": (2, 1),
        "average_receive_step": pytest.approx(4 / 3),
        "served_nodes": 3,
        "mean_latency": pytest.approx(4 / 3),
        "max_latency": 2,
        "informed_nodes_per_step": (1, 3, 4),
        "redundancy_cost": 1.0,
    }


def test_tables_of_a_complete_broadcast() -> None:
    seen = measured(BROADCAST)
    assert seen.nodes.rows() == [
        (0, "00", 0, None, None, 0, "alive"),
        (1, "01", 1, 1, 1, 1, "alive"),
        (2, "10", 1, 1, 1, 1, "alive"),
        (3, "11", 1, 2, 2, 1, "alive"),
    ]
    assert seen.nodes.columns == ["rank", "label", "received", "first_step", "last_step", "expected", "state"]
    used = [(0, 0, 1), (0, 1, 2), (1, 1, 3)]
    assert seen.links.rows() == [
        (*link, 1, 1, 64, 1) if link in used else (*link, 0, 0, 0, 0)
        for link in [(0, 0, 1), (0, 1, 2), (1, 0, 0), (1, 1, 3), (2, 0, 3), (2, 1, 0), (3, 0, 2), (3, 1, 1)]
    ]
    assert seen.links.columns == ["sender", "port", "receiver", "packets", "segments", "bytes", "busiest_step_segments"]
    numbers = seen.steps.drop("virtual_seconds")
    # step, sending, receiving, active, free, packets, segments, bytes, max_link_segments
    assert numbers.rows() == [(1, 1, 2, 3, 1, 2, 2, 128, 1), (2, 1, 1, 2, 2, 1, 1, 64, 1)]


TWO_OF_THREE = [hop(1, 0, 0, "corrupt"), hop(2, 0, 0, tree=1), hop(3, 0, 0, "duplicate", tree=2)]


@pytest.mark.parametrize(
    ("rows", "elected"),
    [
        pytest.param(TWO_OF_THREE, "right", id="two of three"),
        pytest.param(TWO_OF_THREE[:2], "none", id="one of two"),
        pytest.param([*TWO_OF_THREE[:2], hop(3, 0, 0, "duplicate", tree=1)], "none", id="a tree has one vote"),
        pytest.param([*TWO_OF_THREE[:2], hop(3, 0, 0, "corrupt", tree=2)], "wrong", id="byzantine nodes that agree"),
        pytest.param([hop(1, 0, 0, "corrupt"), hop(2, 0, 0)], "wrong", id="the first copy of a tree"),
        pytest.param([hop(1, 0, 0), hop(2, 0, 0, "corrupt")], "right", id="the first copy of a tree, right"),
    ],
)
def test_copies_are_voted_on(rows: list[Row], elected: str) -> None:
    seen = measured([*rows, hop(9, 0, 1)], algorithm="nesbt", redundancy=2)
    votes = [f"elected_{name}" for name in ("right", "wrong", "none") for _ in range(seen.metrics[f"elected_{name}"])]  # type: ignore[arg-type]
    assert sorted(votes) == sorted(["elected_right", f"elected_{elected}"])
    assert seen.metrics["intact_deliveries"] == 1 + (elected == "right")
    assert seen.elections is not None
    assert set(seen.elections["elected"]) <= {elected}


def test_byzantine_nodes_that_disagree_elect_no_value() -> None:
    rows = [hop(1, 0, 0, "corrupt", tree=tree) for tree in (0, 1)] + [hop(2, 0, 0, tree=2)]
    altered_copies = [(1, 1, 0, 0, 0, 0, 17), (1, 1, 0, 0, 1, 0, 18)]
    plan = Case(SMALL, algorithm="nesbt", redundancy=2).plan
    apart, together = measure(plan, table_of(rows), altered_copies), measure(plan, table_of(rows))
    assert (apart.metrics["elected_none"], together.metrics["elected_wrong"]) == (1, 1)


def test_nothing_is_due_to_a_crashed_rank() -> None:
    seen = measured(BROADCAST, fault=("crash:01@2",))
    assert seen.metrics["expected_deliveries"] == 2
    assert seen.metrics["deliveries"] == 2
    assert seen.nodes.filter(rank=1).rows() == [(1, "01", 0, None, None, 0, "crashed")]
    assert seen.metrics["packets"] == 3


@pytest.mark.parametrize(
    ("collective", "algorithm", "expected"),
    [
        ("broadcast", "greedy-tree", 23),
        ("scatter", "balanced-tree", 23),
        ("reduce", "greedy-tree", 1),
        ("gather", "balanced-tree", 23),
        ("allgather", "rotated-trees", 24 * 23),
        ("alltoall", "list-schedule", 24 * 23),
    ],
)
def test_messages_due(collective: str, algorithm: str, expected: int) -> None:
    plan = Case(SMALL, topology="star:4", collective=collective, algorithm=algorithm, messages=2).plan
    assert measure(plan, table_of([])).metrics["expected_deliveries"] == 2 * expected


@pytest.mark.parametrize(
    ("limit", "startups"),
    [(None, 2), (64, 3 + 1), (128, 2 + 1), (63, 4 + 2), (192, 2), (1, 192 + 64)],
)
def test_virtual_time_is_that_of_the_heaviest_link_of_each_step(limit: int | None, startups: int) -> None:
    rows = [hop(1, 0, 0, segment=number) for number in range(3)] + [hop(1, 0, 1), hop(2, 1, 1)]
    values: dict[str, object] = {"startup": "1s", "per_byte": "1ms", "messages": 3}
    if limit:
        values["packet_limit"] = limit
    assert measured(rows, **values).metrics["virtual_seconds"] == pytest.approx(startups + (192 + 64) * 1e-3)


# --- against the definitions -----------------------------------------------------------------------------------------

ROWS: st.SearchStrategy[list[Row]] = st.lists(
    st.builds(
        hop,
        step=st.integers(1, 5),
        sender=st.integers(0, 3),
        port=st.integers(0, 1),
        outcome=st.sampled_from(OUTCOMES.categories.to_list()),
        segment=st.integers(0, 3),
        tree=st.integers(0, 1),
        size=st.integers(0, 99),
    ),
    max_size=25,
)


def elected(rows: list[Row], rank: int, piece: int) -> bool:
    """Return whether more than half of the trees brought the right copy first."""
    votes: dict[object, bool] = {}
    for row in sorted(rows, key=lambda row: (row[0], row[2], OUTCOMES.categories.to_list().index(row[9]))):
        if (row[3], row[7]) == (rank, piece) and row[9] in ("first", "duplicate", "corrupt"):
            votes.setdefault(row[6], row[9] != "corrupt")
    return 2 * sum(votes.values()) > len(votes)


def plainly(rows: list[Row]) -> dict[str, object]:
    """Return two messages in two pieces each, by the definitions."""
    packets: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for step, sender, port, _, _, _, _, _, size, _ in rows:
        packets[step, sender, port].append(size)
    steps = max((step for step, _, _ in packets), default=0)
    heaviest = [
        max((sum(sizes) for (at, _, _), sizes in packets.items() if at == step), default=0)
        for step in range(1, steps + 1)
    ]
    arrived: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for row in rows:
        if row[9] in ("first", "corrupt") and row[3] != 0:
            arrived[row[3], row[7]].append(row)
    whole = [
        (rank, one, one + 1)
        for rank in (1, 2, 3)
        for one in (0, 2)
        if (rank, one) in arrived and (rank, one + 1) in arrived
    ]
    intact = [all(elected(rows, rank, piece) for piece in pieces) for rank, *pieces in whole]
    first = {where: min(row[0] for row in copies) for where, copies in arrived.items()}
    return {
        "steps": steps,
        "packets": len(packets),
        "segments": len(rows),
        "bytes": sum(row[8] for row in rows),
        "max_link_segments_per_step": max(map(len, packets.values()), default=0),
        "max_link_segments": max(Counter(row[1:3] for row in rows).values(), default=0),
        "links_used": len({row[1:3] for row in rows}),
        "expected_deliveries": 6,
        "deliveries": len(whole),
        "intact_deliveries": sum(intact),
        "delivery_ratio": sum(intact) / 6,
        "duplicates": sum(row[9] == "duplicate" for row in rows),
        "lost": sum(row[9] == "lost" for row in rows),
        "virtual_seconds": pytest.approx(sum(1e-3 * ceil(size / 50) + 1e-6 * size for size in heaviest)),
        "senders_per_step": tuple(len({row[1] for row in rows if row[0] == step}) for step in range(1, steps + 1)),
        "receivers_per_step": tuple(
            len({rank for (rank, _), at in first.items() if at == step})
            for step in range(1, max(first.values(), default=0) + 1)
        ),
    }


@settings(max_examples=examples(60))
@given(ROWS)
def test_metrics_match_their_definitions(rows: list[Row]) -> None:
    seen = measured(rows, messages=2, segments=2, packet_limit=50)
    expected = plainly(rows)
    assert {name: seen.metrics[name] for name in expected} == expected
    assert seen.links["segments"].sum() == seen.steps["segments"].sum() == len(rows)
    assert seen.links["bytes"].sum() == seen.steps["bytes"].sum() == expected["bytes"]
    assert (seen.steps["active"] + seen.steps["free"]).to_list() == [4] * len(seen.steps)
