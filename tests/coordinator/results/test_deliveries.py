"""Deliveries: messages are counted as by comparing pieces, one by one, with the pieces of a run without faults."""

from collections import defaultdict
from random import Random

import numpy as np
import pytest

from coordinator.results.deliveries import (
    Arrivals,
    Deliveries,
    count_deliveries,
    messages_due,
    record_arrivals,
)
from emunode.model import ALL_RANKS
from tests.helpers.mutation_support import history_of, verdict_on
from tests.helpers.scenarios import Case

Piece = tuple[int, int, int]
"""Receiver, origin and segment."""
Message = tuple[int, int, int]
"""Receiver, origin and number of the message."""

MESSAGES = 2
CASES = (
    "star:4 broadcast greedy-tree",
    "star:4 scatter balanced-tree",
    "star:4 gather balanced-tree",
    "star:3 allgather rotated-trees",
    "hypercube:3 alltoall sbt",
)
MANY_SOURCES = {"gather", "allgather", "alltoall"}


def pieces_of(case: Case) -> set[Piece]:
    """Return the pieces that reached a receiver they are meant for, faulty or not."""
    columns = ("receiver", "origin", "segment", "target", "outcome")
    return {
        (receiver, origin, segment)
        for receiver, origin, segment, target, outcome in case.journal.select(columns).iter_rows()
        if outcome in ("first", "duplicate") and target in (ALL_RANKS, receiver) and receiver != origin
    }


def messages_of(pieces: set[Piece]) -> dict[Message, set[Piece]]:
    """Return the pieces of each message; the messages share the segment numbers of a run without faults equally."""
    per_message = (max(segment for *_, segment in pieces) + 1) // MESSAGES
    messages = defaultdict(set)
    for piece in pieces:
        receiver, origin, segment = piece
        messages[receiver, origin, segment // per_message].add(piece)
    return messages


def pieces_in(arrivals: Arrivals) -> list[Piece]:
    """Return the pieces of arrivals, in their order."""
    columns = (arrivals.receiver, arrivals.origin, arrivals.segment)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def cases_with_faults(line: str) -> list[tuple[Case, Case, int]]:
    """Return cases without and with faults, and the rank that crashes."""
    free = Case(line, messages=MESSAGES, segments=2)
    topology, source = free.plan.topology, free.plan.spec.source
    ranks = [rank for rank in topology.ranks() if rank != source]
    chosen = Random(line).sample(ranks, 4)
    # A node that crashes after the last step counts as healthy.
    last = int(free.journal["step"].max())  # type: ignore[arg-type]
    return [
        (free, free.but(f"crash:{topology.label(rank)}@{step}", "random:down=1@1"), rank)
        for step, rank in enumerate(chosen[:last], 1)
    ]


@pytest.mark.parametrize("line", CASES)
def test_the_count_equals_a_count_one_by_one(line: str) -> None:
    missed = spoiled = 0
    for free, faulty, crashed in cases_with_faults(line):
        plan = faulty.plan
        silent = {crashed} if plan.spec.collective.value in MANY_SOURCES else set()
        due = {
            message: pieces
            for message, pieces in messages_of(pieces_of(free)).items()
            if message[0] != crashed and message[1] not in silent
        }
        records = history_of(plan)
        arrivals, _ = record_arrivals(plan, records)
        arrived = pieces_in(arrivals)
        assert len(set(arrived)) == len(arrived)
        # A node that crashes later may have received pieces before, which are not counted.
        arrived_elsewhere = {piece for piece in arrived if piece[0] != crashed}
        assert arrived_elsewhere == {piece for piece in pieces_of(faulty) if piece[0] != crashed}
        flags = np.array([Random(f"{line}/{piece}").random() < 0.9 for piece in arrived], dtype=np.bool_)
        right = {piece for piece, is_intact in zip(arrived, flags.tolist(), strict=True) if is_intact}
        complete = {message for message, pieces in due.items() if pieces <= set(arrived)}
        intact = {message for message, pieces in due.items() if pieces <= right}

        counted = count_deliveries(plan, arrivals._replace(intact=flags))
        by_rank = [sum(message[0] == rank for message in due) for rank in plan.topology.ranks()]
        assert counted.due.tolist() == messages_due(plan).tolist() == by_rank
        assert counted.metrics == {
            "expected_deliveries": len(due),
            "deliveries": len(complete),
            "intact_deliveries": len(intact),
            "delivery_ratio": len(intact) / len(due),
        }
        lacking = {message[0] for message in due.keys() - intact}
        assert counted.unserved == tuple(sorted(lacking))
        assert set(np.flatnonzero(counted.served).tolist()) == {message[0] for message in due} - lacking
        if plan.spec.collective.value == "gather":
            assert counted.unheard(plan) == tuple(sorted({message[1] for message in due.keys() - intact}))
        missed += len(due) - len(complete)
        spoiled += len(complete) - len(intact)
    assert missed, "no message was lost"
    assert spoiled, "no message was altered"


def test_pieces_of_no_message_are_not_counted() -> None:
    plan = Case("star:3 broadcast greedy-tree").plan
    arrivals, _ = record_arrivals(plan, history_of(plan))
    beyond = arrivals._replace(segment=arrivals.segment + plan.algorithm.segments_per_message)
    assert count_deliveries(plan, arrivals).metrics["deliveries"] == 5
    assert count_deliveries(plan, beyond).metrics["deliveries"] == 0


def test_ranks_that_are_due_nothing_are_not_counted() -> None:
    none, nobody = np.zeros(0, dtype=np.bool_), np.zeros(0, dtype=np.int64)
    empty = Deliveries(np.zeros(3, dtype=np.int64), nobody, nobody, none, none)
    assert empty.unserved == ()
    assert empty.served.tolist() == [False] * 3
    assert empty.metrics["delivery_ratio"] == 0.0


def test_an_origin_that_does_not_exist_is_no_error() -> None:
    case = Case("star:4 gather edt")
    records = history_of(case.plan).copy()
    records["origin"][-1] = case.plan.topology.order
    assert verdict_on(case.plan, records) == "violated"
