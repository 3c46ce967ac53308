"""Two engines, one history: whatever carries the packets, a scenario gives the same journal, byte for byte."""

from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from coordinator.plan import make_plan
from coordinator.run import RunResult
from coordinator.scenario import make_scenario
from emunode.errors import RuleError, ScenarioError
from emunode.topology.registry import parse_topology
from tests.support import run_scenario

Values = dict[str, object]

OF_THE_DRIVER = {"driver", "hosts", "wall_seconds", "setup_seconds", "links_opened"}
"""What a summary says of how a run was done, and not of what happened."""

BROADCASTS: dict[str, Values] = {
    "star": {"topology": "star:4", "algorithm": "greedy-tree", "source": "3142"},
    "star one-port": {"topology": "star:4", "algorithm": "greedy-tree", "port_model": "one-port", "segments": 3},
    "star with crashes": {
        "topology": "star:4",
        "algorithm": "flood",
        "messages": 4,
        "fault": ["crash:4231@2", "crash:2134@3", "crash:1243@3"],
    },
    "star one-port with crashes": {
        "topology": "star:4",
        "algorithm": "bfs-tree",
        "port_model": "one-port",
        "messages": 2,
        "fault": ["crash:3214@4", "crash:4321@1"],
    },
    "hypercube": {
        "topology": "hypercube:4",
        "algorithm": "sbt",
        "source": "0110",
        "messages": 3,
        "message_bytes": 5000,
    },
    "hypercube exchange": {"topology": "hypercube:4", "algorithm": "sbt", "port_model": "exchange", "segments": 2},
    "hypercube with crashes": {
        "topology": "hypercube:4",
        "algorithm": "sbt",
        "messages": 2,
        "fault": ["crash:0100@2", "crash:1111@4"],
    },
    "hypercube send-or-receive with a crash": {
        "topology": "hypercube:4",
        "algorithm": "sbt",
        "port_model": "send-or-receive",
        "fault": ["crash:0010@3"],
    },
    "ej": {"topology": "ej:2+3", "algorithm": "improved", "source": "-1,1", "seed": 5},
    "ej one-port": {"topology": "ej:2+3", "algorithm": "improved", "port_model": "one-port"},
    "ej with crashes": {
        "topology": "ej:2+3",
        "algorithm": "flood",
        "segments": 3,
        "fault": ["crash:1,0@1", "crash:0,1@3"],
    },
    "ej one-port with a crash": {
        "topology": "ej:2+3",
        "algorithm": "bfs-tree",
        "port_model": "one-port",
        "fault": ["crash:-1,0@3"],
    },
}
ENDS: dict[str, Values] = {
    "the source crashes": {"topology": "star:3", "algorithm": "flood", "messages": 3, "fault": ["crash:123@2"]},
    "the source crashes first": {"topology": "star:3", "algorithm": "flood", "fault": ["crash:123@1"]},
    "everybody crashes": {
        "topology": "star:3",
        "algorithm": "flood",
        "fault": [f"crash:{label}@2" for label in ("123", "213", "132", "321", "312", "231")],
    },
    "a crash after the end": {"topology": "star:3", "algorithm": "flood", "fault": ["crash:321@50"]},
    "a step limit": {"topology": "star:3", "algorithm": "flood", "messages": 9, "step_limit": 4},
}
OTHERS: dict[str, Values] = {
    "reduce": {"topology": "star:4", "collective": "reduce", "algorithm": "greedy-tree", "segments": 2},
    "reduce with a crash": {
        "topology": "star:4",
        "collective": "reduce",
        "algorithm": "greedy-tree",
        "fault": ["crash:3214@2"],
    },
    "scatter": {"topology": "star:4", "collective": "scatter", "algorithm": "balanced-tree", "source": "4321"},
    "gather": {"topology": "star:4", "collective": "gather", "algorithm": "balanced-tree"},
    "allgather": {"topology": "star:4", "collective": "allgather", "algorithm": "rotated-trees"},
    "alltoall with a crash": {
        "topology": "star:4",
        "collective": "alltoall",
        "algorithm": "list-schedule",
        "fault": ["crash:4123@5"],
    },
}
SCENARIOS = {name: {"collective": "broadcast", **values} for name, values in (BROADCASTS | ENDS | OTHERS).items()}


def facts(result: RunResult) -> Values:
    """What happened, by the summary, whoever carried it; only histories of hosts are replayed."""
    assert result.summary.get("strange_hops", 0) == 0
    told = {key: value for key, value in result.summary.items() if key not in (*OF_THE_DRIVER, "strange_hops")}
    claims: Any = told["claims"]
    return told | {"claims": [claim for claim in claims if claim["name"] != "strange_hops"]}


@cache
def in_memory(name: str) -> Values:
    """What happens in memory."""
    return facts(run_scenario(None, **SCENARIOS[name]))


def ranks_per_host(values: Values, hosts: int | None) -> int:
    """How many ranks a host must have for so many hosts; None: a process a rank."""
    order = parse_topology(str(values["topology"])).order
    return -(-order // hosts) if hosts else 1


def check_history(name: str, hosts: int | None) -> None:
    """Run a scenario on so many hosts, and hold it against what happens in memory."""
    values = SCENARIOS[name]
    result = run_scenario(None, **values | {"driver": "local", "ranks_per_host": ranks_per_host(values, hosts)})
    topology = parse_topology(str(values["topology"]))
    assert facts(result) == in_memory(name)
    assert result.summary["hosts"] == (hosts or topology.order)
    assert result.summary["links_opened"] == topology.link_count


# --- the conformance test --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hosts", [1, 4, None], ids=["one host", "four hosts", "a process a rank"])
@pytest.mark.parametrize("name", BROADCASTS)
def test_one_history(name: str, hosts: int | None) -> None:
    check_history(name, hosts)


@pytest.mark.parametrize("hosts", [1, None], ids=["one host", "a process a rank"])
@pytest.mark.parametrize("name", ENDS)
def test_one_end(name: str, hosts: int | None) -> None:
    check_history(name, hosts)


@pytest.mark.parametrize("name", OTHERS)
def test_one_history_of_every_collective(name: str) -> None:
    check_history(name, 4)


def test_the_journals_themselves_are_equal(tmp_path: Path) -> None:
    values = SCENARIOS["star with crashes"]
    one = run_scenario(tmp_path / "one", **values)
    other = run_scenario(tmp_path / "other", **values | {"driver": "local"})
    for table in ("journal", "nodes", "links", "steps"):
        assert pl.read_parquet(one.path / f"{table}.parquet").equals(pl.read_parquet(other.path / f"{table}.parquet"))
    assert (one.path / "faults.json").read_bytes() == (other.path / "faults.json").read_bytes()


def test_histories_differ_where_scenarios_do() -> None:
    hashes = [in_memory(name)["journal_hash"] for name in BROADCASTS]
    assert len(set(hashes)) == len(hashes)


@pytest.mark.parametrize("driver", ["memory", "local"])
def test_a_rule_that_breaks_its_promise_is_stopped_on_every_driver(driver: str, tmp_path: Path) -> None:
    """Flooding a triangle over half-duplex links: two ranks tell each other in the same step."""
    values: Values = {"topology": "ej:1+2", "collective": "broadcast", "algorithm": "flood", "duplex": "half"}
    with pytest.raises(RuleError, match=r"step 2: sent on ports .* half-duplex links does not allow"):
        run_scenario(tmp_path / "run", **values, driver=driver)
    assert list(tmp_path.iterdir()) == []


# --- any small scenario ----------------------------------------------------------------------------------------------

ALGORITHMS = {
    "star:3": "greedy-tree",
    "star:4": "greedy-tree",
    "hypercube:3": "sbt",
    "ej:1+2": "improved",
    "ej:1+3": "improved",
}


@st.composite
def small_scenarios(draw: st.DrawFn) -> Values:
    """Broadcasts on a small network, with crashes, and hosts of any size."""
    name = draw(st.sampled_from(sorted(ALGORITHMS)))
    topology = parse_topology(name)
    labels = st.integers(0, topology.order - 1).map(topology.label)
    crashed = draw(st.lists(labels, max_size=3, unique=True))
    return {
        "topology": name,
        "collective": "broadcast",
        "algorithm": draw(st.sampled_from(["flood", "bfs-tree", ALGORITHMS[name]])),
        "source": draw(labels),
        "port_model": draw(st.sampled_from(["all-port", "one-port"])),
        "messages": draw(st.integers(1, 3)),
        "segments": draw(st.integers(1, 3)),
        "message_bytes": draw(st.sampled_from([3, 64, 20_000])),
        "seed": draw(st.integers(0, 2**63 - 1)),
        "fault": [f"crash:{label}@{draw(st.integers(1, 7))}" for label in crashed],
        "ranks_per_host": draw(st.integers(1, topology.order)),
    }


@settings(max_examples=8)
@given(small_scenarios())
def test_any_small_scenario_has_one_history(values: Values) -> None:
    local = values | {"driver": "local"}
    try:
        make_plan(make_scenario(local))
    except ScenarioError:
        assume(False)  # flooding knows no one-port schedule
    memory = {key: value for key, value in values.items() if key != "ranks_per_host"}
    assert facts(run_scenario(None, **local)) == facts(run_scenario(None, **memory))
