"""Placements by name: what is refused, and the history of runs: no placement changes it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from coordinator.planning.placements.base import PLACEMENTS, RankPlacement, place
from coordinator.results.tables import HOST_TRAFFIC
from coordinator.scenario.networks import absolute_value
from emunode.errors import ScenarioError
from emunode.registry import recorded, register, withdraw
from emunode.topologies.base import Topology
from emunode.topologies.registry import parse_topology
from tests.helpers.scenarios import Case
from tests.helpers.support import golden_rows

S4 = parse_topology("star:4")
WITHOUT_FILE = [name for name in PLACEMENTS if name not in ("file", "table")]


def test_the_histories_of_the_contract_have_every_placement() -> None:
    """In lock-step and in time, hosts have the history of memory: test_one_history.py."""
    for row in golden_rows("", "histories", kind="placement"):
        assert [name for name in WITHOUT_FILE if f"placement={name}" not in row["places"]] == [], row


@pytest.mark.parametrize("placement", WITHOUT_FILE)
def test_links_and_packets_are_counted_by_host(placement: str) -> None:
    case = Case("star:4 allgather mbst driver=local ranks_per_host=9", placement=placement)
    host, topology = case.plan.placement.host, case.plan.topology
    links = [host(one) != host(other) for one, _, other, _ in topology.links()]
    # A packet is everything that crosses a link in a step.
    packets = set(case.journal.select("step", "sender", "port", "receiver").iter_rows())
    across = [host(sender) != host(receiver) for _, sender, _, receiver in packets]
    counts = (links.count(False), links.count(True), across.count(False), across.count(True))
    assert tuple(case.summary[name] for name in HOST_TRAFFIC) == counts
    assert sum(counts[2:]) == case.summary["packets"]


def test_a_run_in_memory_has_no_hosts() -> None:
    assert not set(HOST_TRAFFIC) & Case("star:4 broadcast edt").summary.keys()


def test_paths_are_relative_to_the_folder_of_a_stored_run(tmp_path: Path) -> None:
    assert absolute_value("placement", "file:hosts.csv", tmp_path) == f"file:{tmp_path}/hosts.csv"
    for text in ("blocks", "sub-network:6", "of a plug-in that is not loaded"):
        assert absolute_value("placement", text, tmp_path) == text


def given(hosts: Sequence[int]) -> type[RankPlacement]:
    """Return a rule that places the ranks on these hosts."""

    class Given(RankPlacement):
        """A placement of a test."""

        name = "given"
        form = "given"
        meaning = "a placement of a test"

        def host_of_each(self, topology: Topology, hosts_of_run: int) -> Sequence[int] | None:
            return hosts

    return Given


@contextmanager
def plugged_in(rule: type[RankPlacement]) -> Iterator[None]:
    """Register a rule within the block."""
    with recorded() as additions:
        register(rule)
    try:
        yield
    finally:
        withdraw(additions)


WRONG = ([0] * 24, [0, 1] * 11, [0, 2] * 12, [0, 1] * 11 + [0, -1], ["0", "1"] * 12, [0.5] * 24, [2**40] * 24)


@pytest.mark.parametrize("hosts", WRONG)
def test_a_placement_of_a_plugin_is_checked(hosts: Sequence[int]) -> None:
    with plugged_in(given(hosts)), pytest.raises(ScenarioError, match="a host for each rank; it gives"):
        place("given", S4, 2)


def test_plugins_with_one_name_are_told_apart() -> None:
    for first in (3, 4):
        with plugged_in(given([0] * first + [1] * (24 - first))):
            assert place("given", S4, 2).sizes == [first, 24 - first]
    with pytest.raises(ScenarioError, match="known are"):
        place("given", S4, 2)


@pytest.mark.parametrize("hosts", [-1, 0, 25, 10**12])
@pytest.mark.parametrize("placement", WITHOUT_FILE)
def test_each_host_has_a_node(placement: str, hosts: int) -> None:
    """A damaged run may state any number of hosts."""
    with pytest.raises(ScenarioError, match="from 1 to 24, one per node"):
        place(placement, S4, hosts)
