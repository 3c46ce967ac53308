"""Which host runs which ranks: arithmetic that must agree with itself both ways."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emunode.host.placement import Placement


@given(st.integers(1, 400), st.data())
def test_blocks_are_consecutive_complete_and_even(order: int, data: st.DataObject) -> None:
    placement = Placement(order, data.draw(st.integers(1, order)))
    blocks = [placement.ranks(host) for host in range(placement.hosts)]
    assert [rank for block in blocks for rank in block] == list(range(order))
    assert max(map(len, blocks)) - min(map(len, blocks)) <= 1
    assert [placement.host(rank) for rank in range(order)] == [host for host, block in enumerate(blocks) for _ in block]


@given(st.integers(1, 2**31 - 1), st.data())
def test_host_of_a_rank_contains_the_rank(order: int, data: st.DataObject) -> None:
    placement = Placement(order, data.draw(st.integers(1, min(order, 100_000))))
    rank = data.draw(st.integers(0, order - 1))
    assert rank in placement.ranks(placement.host(rank))


def test_every_host_has_at_least_one_rank() -> None:
    for hosts in range(1, 25):
        assert all(Placement(24, hosts).ranks(host) for host in range(hosts))


@pytest.mark.parametrize(
    ("order", "hosts", "blocks"),
    [
        (24, 1, [range(24)]),
        (24, 2, [range(12), range(12, 24)]),
        (7, 3, [range(3), range(3, 5), range(5, 7)]),
        (3, 3, [range(1), range(1, 2), range(2, 3)]),
    ],
)
def test_blocks_of_small_networks(order: int, hosts: int, blocks: list[range]) -> None:
    assert [Placement(order, hosts).ranks(host) for host in range(hosts)] == blocks
