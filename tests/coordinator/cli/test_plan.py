"""`coordinator plan`: resources, claims and remedies."""

from pathlib import Path

import pytest

from coordinator.planning import machine
from tests.helpers.command_line import Call

GREEDY = "--topology star:4 --collective broadcast --algorithm greedy-tree"
STAR = f"{GREEDY} --driver memory"


def test_a_plan_has_resources_and_claims(call: Call, tmp_path: Path) -> None:
    ended = call(f"plan {GREEDY} --ranks-per-host 6 --json")
    assert ended.status == 0
    needs = ended.data
    expected = {
        "order": 24, "degree": 3, "diameter": 4, "processes": 6, "hosts": 4, "ranks_per_host": 6, "links": 36,
        "descriptors_per_host": 6 * 3 + machine.RESERVED_DESCRIPTORS, "listening_ports": 5,
    }  # fmt: skip
    assert {key: needs[key] for key in expected} == expected
    assert 0 < needs["links_across_hosts"] < 36
    assert needs["memory_bytes"] < needs["memory_available_bytes"]
    assert {"name": "segments", "predicted": 23, "relation": "=="}.items() <= needs["claims"][1].items()
    assert list(tmp_path.iterdir()) == []


def test_a_plan_is_printed(call: Call) -> None:
    ended = call(f"plan {STAR}")
    assert (ended.status, ended.err) == (0, "")
    assert "permutation star graph S_4: broadcast by greedy-tree, driver memory" in ended.out
    assert "receivers per step" in ended.out


def test_a_large_network_is_planned_without_building_it(call: Call) -> None:
    large = call("plan --topology star:8 --collective broadcast --algorithm greedy-tree --driver memory --json").data
    assert (large["order"], large["links"], large["processes"]) == (40_320, 0, 1)


def test_an_impossible_plan_has_all_claims_and_the_reason(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "descriptor_limit", lambda: 100)
    ended = call(f"plan {GREEDY} --ranks-per-host 24 --json")
    assert ended.status == 4
    assert ended.data["descriptor_limit"] == 100
    assert ended.data["claims"]
    assert ended.data["possible"] is False
    assert "use --ranks-per-host 12 or less" in ended.data["impossible_because"]
    assert ended.err == f"coordinator: {ended.data['impossible_because']}\n"
    monkeypatch.setattr(machine, "descriptor_limit", lambda: 65)  # no room for a single node
    printed = call(f"plan {GREEDY}")
    assert printed.status == 4
    assert "receivers per step" in printed.out
    assert "file descriptors" in printed.err


def test_the_memory_of_many_messages_is_estimated(call: Call) -> None:
    few, many = (call(f"plan {STAR} --messages {count} --json").data for count in (1, 1_000_000))
    assert many["memory_bytes"] - few["memory_bytes"] > 23 * 999_999 * 300
