"""The host of each rank, and the ranks of each host: arithmetic that must agree with itself both ways."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emunode.errors import FrameError
from emunode.host.placement import TYPE, Placement, placement_of
from emunode.host.warmup import CONFIG


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


# --- tables ----------------------------------------------------------------------------------------------------------


def packed(hosts: list[int]) -> bytes:
    """Return a table as it stands in the configuration of a host."""
    return array(TYPE, hosts).tobytes()


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60))
def test_a_table_places_ranks_where_it_says(numbers: list[int]) -> None:
    # Hosts without a rank are left out, and the others are numbered anew.
    used = sorted(set(numbers))
    hosts = [used.index(number) for number in numbers]
    placement = Placement(len(hosts), len(used), packed(hosts))
    assert [placement.host(rank) for rank in range(len(hosts))] == hosts
    assert placement.sizes == [hosts.count(host) for host in range(len(used))]
    for host in range(len(used)):
        ranks = placement.ranks(host)
        assert list(ranks) == [rank for rank, other in enumerate(hosts) if other == host]
        for rank in range(len(hosts)):
            assert (rank in ranks) == (hosts[rank] == host)
            if rank in ranks:
                assert ranks.index(rank) == list(ranks).index(rank)


@pytest.mark.parametrize("hosts", [[0, 0, 0], [0, 2, 0], [0, -1, 1], [0, 1, 2], [0, 1], [0, 1, 0, 1]])
def test_a_table_that_does_not_fit_is_refused(hosts: list[int]) -> None:
    with pytest.raises(ValueError, match="a table "):
        Placement(3, 2, packed(hosts))
    with pytest.raises(FrameError, match="placement: a table "):
        placement_of(CONFIG._replace(hosts=2, placement=packed(hosts)), 3)
