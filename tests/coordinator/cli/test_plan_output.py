"""The table of a plan, and what it leaves to JSON."""

from pathlib import Path

from emunode.topologies.registry import parse_topology
from tests.helpers.command_line import Call


def test_a_long_placement_is_cut_in_the_table_alone(call: Call, tmp_path: Path) -> None:
    topology = parse_topology("star:5")
    rows = [f"{topology.label(rank)},{rank % 2}\n" for rank in topology.ranks()]
    (tmp_path / "hosts.csv").write_text("".join(rows))
    plan = "plan --topology star:5 --collective broadcast --algorithm edt --placement file:hosts.csv"
    listed = f"table:{','.join(['0,1'] * 60)}"
    (row,) = (line.split() for line in call(plan).out.splitlines() if line.startswith(" placement"))
    assert row == ["placement", f"{listed[:40]}.."]
    assert call(f"{plan} --json").data["placement"] == listed
