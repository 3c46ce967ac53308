"""The price of the fixed order: bytes on links and bytes held, against a simulation of a ring."""

import pytest

from coordinator.annexes.numbers.feature import price_of
from emunode.errors import ScenarioError
from emunode.model import NumberType, RealNumbers
from tests.annexes.numbers.test_fixed_order import fewest_parts
from tests.helpers.scenarios import Case

NAME_BYTES = 4


@pytest.mark.parametrize(("count", "leaves"), [(3, 3), (5, 5), (8, 8), (24, 24), (6, 6), (6, 7), (6, 24), (6, 25)])
def test_a_ring_costs_as_much_as_simulated(count: int, leaves: int) -> None:
    own = [RealNumbers(NumberType.FLOAT32, leaves=leaves).contributions_of(rank, range(count)) for rank in range(count)]
    on_links, held, largest = 0, [0] * count, 0
    for block in range(count):
        # The partial result starts behind the owner, and each rank on the way adds its own.
        for hops in range(1, count):
            places = {leaf for distance in range(1, hops + 1) for leaf in own[(block + distance) % count]}
            parts = fewest_parts(places, 0, 1 << (leaves - 1).bit_length(), leaves)
            size = parts * (40 + NAME_BYTES)
            on_links, largest = on_links + size, max(largest, size)
            if hops == count - 1:
                held[block] = size
    line = f"ring:{count} allreduce ring values=float32 port_model=one-port leaves={leaves} message_bytes={40 * count}"
    plain, fixed = Case(line), Case(f"{line} fixed_order=true")
    assert fixed.summary["partial_result_bytes"] == on_links
    # Before its own block arrives, a rank holds one partial result at a time.
    assert fixed.summary["held_bytes"] == max(*held, largest)
    assert fixed.run.verdict == "holds"
    assert [fixed.summary[name] for name in ("steps", "packets")] == [
        plain.summary[name] for name in ("steps", "packets")
    ]


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
