"""Allreduce and reduce-scatter: the vector of every rank, cut by algorithms with blocks into one block for each rank."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.planning.plan import Plan
from coordinator.reports.numbers import describe_load
from emunode.algorithms.payload import Payloads
from emunode.algorithms.registry import registered
from emunode.errors import ScenarioError
from emunode.model import Collective
from tests.helpers.scenarios import Case
from tests.helpers.support import failures, run_scenario

RING = {"topology": "complete:6", "algorithm": "ring", "port_model": "one-port"}


def plan_for(collective: str, **values: object) -> Plan:
    return Case(values, collective=collective).plan


@given(ranks=st.integers(3, 40), extra=st.integers(0, 200), segments=st.integers(1, 3))
def test_blocks_make_up_the_vector(ranks: int, extra: int, segments: int) -> None:
    """The first (bytes mod N) blocks are one byte longer, there is no padding, and segments make up the block."""
    vector = ranks * segments + extra
    spec = plan_for("reduce-scatter", topology=f"complete:{ranks}", algorithm="bfb", message_bytes=vector).spec
    assert spec.contributed_bytes == vector
    payloads = Payloads(0, spec.message_bytes, segments, range(ranks - spec.short_blocks, ranks))
    blocks = [len(payloads.message(0, owner, 0)) for owner in range(ranks)]
    assert sum(blocks) == vector
    assert blocks == [vector // ranks + (owner < vector % ranks) for owner in range(ranks)]
    for owner in (0, ranks - 1):
        cut = [payloads.segment(1 - min(owner, 1), owner, number) for number in range(segments)]
        assert [len(piece) for piece in cut] == [payloads.segment_bytes(owner, number) for number in range(segments)]
        assert b"".join(cut) == payloads.message(1 - min(owner, 1), owner, 0)


@pytest.mark.parametrize("collective", ["allreduce", "reduce-scatter"])
@pytest.mark.parametrize("size", [6, 7, 11, 64, 601])
def test_uneven_vectors_are_folded_and_delivered(collective: str, size: int) -> None:
    for algorithm, model in (("ring", "one-port"), ("circulant-halving", "one-port"), ("bfb", "all-port")):
        result = run_scenario(
            topology="complete:6", collective=collective, algorithm=algorithm, port_model=model, message_bytes=size
        )
        assert result.verdict == "holds", failures(result)
        assert result.summary["message_bytes"] == size
        # Over all links together every block crosses N - 1 of them in each phase, whatever its size.
        phases = 2 if collective == "allreduce" else 1
        assert result.summary["bytes"] == phases * (6 - 1) * size


def test_every_algorithm_is_given_the_same_vector() -> None:
    """So that `compare` and `sweep` put equal work side by side."""
    sizes = {}
    for family, entry in registered():
        if entry.collective is Collective.ALLREDUCE and family == "complete" and not entry.traits.negative_control:
            plan = None
            for model in entry.port_models:
                try:
                    plan = plan_for(
                        "allreduce", topology="complete:8", algorithm=entry.name, port_model=model, message_bytes=800
                    )
                except ScenarioError:
                    continue
                break
            if plan is None:
                continue
            sizes[entry.name] = (plan.spec.contributed_bytes, plan.spec.blocks)
    assert {size for size, _ in sizes.values()} == {800}
    assert {blocks for _, blocks in sizes.values()} == {1, 8}, "algorithms that cut the vector, and others"
    assert sizes["ring"] == (800, 8)
    assert sizes["recursive-doubling"] == (800, 1)


@pytest.mark.parametrize(
    "algorithm", ["ring", "recursive-doubling", "recursive-halving", "bfb", "bfs-tree", "circulant"]
)
def test_the_default_is_64_bytes_for_each_rank(algorithm: str) -> None:
    model = "all-port" if algorithm in ("bfb", "bfs-tree") else "one-port"
    spec = plan_for("allreduce", topology="complete:8", algorithm=algorithm, port_model=model).spec
    assert spec.contributed_bytes == 8 * 64


def test_default_of_a_large_network_and_of_other_collectives() -> None:
    large = plan_for("allreduce", topology="hypercube:14", algorithm="bfs-tree").spec
    assert large.contributed_bytes == 1 << 16
    assert plan_for("allgather", topology="complete:8", algorithm="bfb").spec.contributed_bytes == 64


def test_a_segment_has_a_byte_of_every_block() -> None:
    assert plan_for("reduce-scatter", **RING, message_bytes=12, segments=2).spec.message_bytes == 2


def test_the_first_line_says_the_whole_vector() -> None:
    assert (
        describe_load(plan_for("allreduce", **RING, message_bytes=100).spec)
        == "1 vector of 100 bytes in 6 blocks of 17 or 16 bytes"
    )
    assert describe_load(plan_for("allreduce", **RING).spec) == "1 vector of 384 bytes in 6 blocks of 64 bytes"
    whole = plan_for("allreduce", topology="complete:6", algorithm="bfs-tree", messages=2).spec
    assert describe_load(whole) == "2 vectors of 384 bytes"
