"""The price of the fixed order: bytes on links and bytes held, against a simulation of a ring."""

import pytest

from coordinator.annexes.numbers.feature import price_of
from emunode.errors import ScenarioError
from tests.annexes.numbers.test_fixed_order import fewest_parts
from tests.scenarios import Case

NAME_BYTES = 4


def ring(count: int) -> Case:
    return Case(
        f"ring:{count} allreduce ring values=float32 fixed_order=true port_model=one-port", message_bytes=40 * count
    )


@pytest.mark.parametrize("count", [3, 5, 8, 24])
def test_a_ring_costs_as_much_as_simulated(count: int) -> None:
    on_links, held, largest = 0, [0] * count, 0
    for block in range(count):
        # The partial result starts behind the owner, and each rank on the way adds its own.
        for hops in range(1, count):
            ranks = {(block + distance) % count for distance in range(1, hops + 1)}
            parts = fewest_parts(ranks, 0, 1 << (count - 1).bit_length(), count)
            size = parts * (40 + NAME_BYTES)
            on_links, largest = on_links + size, max(largest, size)
            if hops == count - 1:
                held[block] = size
    run = ring(count)
    summary = run.summary
    assert summary["partial_result_bytes"] == on_links
    # Before its own block arrives, a rank holds one partial result at a time.
    assert summary["held_bytes"] == max(*held, largest)
    assert run.run.verdict == "holds"


@pytest.mark.parametrize("line", ["star:4 allreduce edt", "star:4 reduce bfs-tree", "fat-tree:4 allreduce bfs-tree"])
def test_claims_hold_and_steps_stay(line: str) -> None:
    plain = Case(f"{line} values=float32")
    fixed = plain.but(fixed_order=True)
    assert fixed.run.verdict == "holds"
    names = ("steps", "packets", "segments", "deliveries")
    assert [fixed.summary[name] for name in names] == [plain.summary[name] for name in names]
    price = price_of(fixed.plan.algorithm)
    assert price is not None
    assert price.folded == plain.summary["partial_result_bytes"] < fixed.summary["partial_result_bytes"]
    dropped = {claim["assumes"] for claim in fixed.summary.get("dropped_claims", [])}
    assert dropped <= {"a partial result travels as one sum"}


def test_packets_that_are_too_long_are_refused() -> None:
    large = Case("star:4 allreduce bfs-tree values=float32 fixed_order=true", message_bytes=2**24)
    with pytest.raises(ScenarioError, match="packets of at most 33,554,432 bytes"):
        _ = large.plan
