"""Placements that a user lists, in a file and in text."""

from pathlib import Path

import pytest

from coordinator.planning.placements.base import place, rank_placement
from coordinator.planning.plan import make_plan
from emunode.errors import ScenarioError
from emunode.topologies.registry import parse_topology
from tests.helpers.scenarios import Case

S3 = parse_topology("star:3")
ROWS = "123,1\n132,0\n213,1\n231,0\n312,1\n321,1\n"


def written(folder: Path, text: str) -> str:
    """Write a file of hosts, and return the placement that names it."""
    (folder / "hosts.csv").write_text(text)
    return f"file:{folder / 'hosts.csv'}"


@pytest.mark.parametrize("head", ["", "node,host\n", "\n"])
def test_a_file_places_nodes_by_their_labels(tmp_path: Path, head: str) -> None:
    placement = place(written(tmp_path, head + ROWS), S3, 2)
    listed = dict(line.split(",") for line in ROWS.split())
    assert all(placement.host(S3.rank(label)) == int(host) for label, host in listed.items())


def test_a_file_is_read_again_after_a_change(tmp_path: Path) -> None:
    for row, sizes in (("123,1", [2, 4]), ("123,0", [3, 3])):
        placement = written(tmp_path, ROWS.replace("123,1", row))
        assert place(placement, S3, 2).sizes == sizes
        assert Case("star:3 broadcast edt driver=local", placement=placement).plan.placement.sizes == sizes


def test_a_stored_scenario_needs_no_file(tmp_path: Path) -> None:
    case = Case("star:3 broadcast edt driver=local", placement=written(tmp_path, ROWS))
    assert case.plan.hosts == 2
    assert case.plan.scenario.placement.startswith("table:")
    again = make_plan(case.scenario.model_copy(update={"placement": case.plan.scenario.placement}))
    assert again.placement.table == case.plan.placement.table
    with pytest.raises(ScenarioError, match="it places nodes on 2 hosts, and the run has 3"):
        _ = case.but(ranks_per_host=2).plan


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (ROWS[:-6], "321 is not listed"),
        (ROWS + "321,0\n", "this one is listed twice"),
        (ROWS.replace("321,1", "321,4"), "host 2 has no node"),
        (ROWS.replace("321,1", "321,-1"), "a whole number from 0 on"),
        (ROWS.replace("321,1", "322,1"), "a node of star:3 is"),
        (ROWS.replace("321,1", "321"), "write a label and the number of a host"),
        (ROWS.replace("321,1", "321,9999999999"), "a whole number from 0 on"),
    ],
)
def test_invalid_files_are_refused(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        place(written(tmp_path, text), S3, 2)
    assert refused.value.field == "placement"
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    ("text", "hosts"), [("table:0*3,1*3", [0, 0, 0, 1, 1, 1]), ("table:1,0,0*2,1,0", [1, 0, 0, 0, 1, 0])]
)
def test_a_table_counts_repetitions(text: str, hosts: list[int]) -> None:
    placement = place(text, S3, 2)
    assert [placement.host(rank) for rank in S3.ranks()] == hosts
    listed = rank_placement(text).resolved(S3)
    assert listed is not None
    assert place(listed, S3, 2).table == placement.table


@pytest.mark.parametrize(
    "text", ["table:0*5", "table:0*7", "table:0*999999999", "table:0*3,x*3", "table:0*6,,", "table:0*-1", "table:"]
)
def test_invalid_tables_are_refused(text: str) -> None:
    with pytest.raises(ScenarioError):
        place(text, S3, 1)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="the file cannot be read: No such file"):
        place(f"file:{tmp_path}/none.csv", S3, 2)
