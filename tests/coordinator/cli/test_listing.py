"""`coordinator list`: topologies, algorithms and faults."""

import pytest

from coordinator.cli.app import CORE_COMMANDS
from coordinator.scenario.blocks import BLOCK_KINDS
from coordinator.scenario.fault_sets import STRATEGIES
from emunode.algorithms.registry import registered
from emunode.faults.kinds import KINDS
from emunode.topologies.base import FAMILIES
from emunode.topologies.registry import parse_topology
from tests.helpers.command_line import Call


def test_topologies_are_listed_with_an_example(call: Call) -> None:
    rows = call("list topologies --json").data
    assert [row["family"] for row in rows] == list(FAMILIES)
    for row in rows:
        topology = parse_topology(row["example"])
        assert (row["order"], row["degree"], row["diameter"]) == (topology.order, topology.degree, topology.diameter)


def test_every_algorithm_is_listed_once(call: Call) -> None:
    rows = call("list algorithms --json").data
    listed = {(row["topology"], row["collective"], row["algorithm"]) for row in rows}
    assert listed == {(entry.family, str(entry.collective), entry.name) for _, entry in registered()}
    assert all(row["citation"] and row["port_models"] for row in rows)
    assert len(listed) == len(rows)


def test_every_fault_is_listed(call: Call) -> None:
    rows = call("list faults --json").data
    for use, names in (("fault", KINDS), ("block", BLOCK_KINDS), ("strategy", STRATEGIES)):
        assert [row["kind"] for row in rows if row["use"] == use] == list(names)
    text = call("list faults").out
    # None of them is taken for an emoji, such as `:label:`.
    for written in ("crash:LABEL@STEP", "silent-ports:LABEL:RATE", "random:substar=1", "worst:nodes=3"):
        assert written in text


@pytest.mark.parametrize("name", [words.split()[1] for words in CORE_COMMANDS if words.startswith("list ")])
def test_names_are_listed_in_full_in_80_columns(call: Call, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    printed = call(f"list {name}")
    assert printed.status == 0
    assert max(map(len, printed.out.splitlines())) <= 80
    assert "…" not in printed.out
    columns = ("family", "example") if name == "topologies" else ("algorithm", "kind")
    for row in call(f"list {name} --json").data:
        assert all(row[column] in printed.out for column in columns if column in row)
