"""Two engines, one history: whatever carries the packets, a scenario gives the same journal, byte for byte."""

import sys
import time
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import psutil
import pytest
import trio
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from coordinator.execution.run import RunResult
from coordinator.networks.base import MemoryNetwork, Network
from coordinator.networks.host_network import HostNetwork
from coordinator.networks.launchers.local import LocalLaunch
from coordinator.planning.plan import Plan, make_plan
from coordinator.scenario.model import make_scenario
from emunode.algorithms.flooding import Flood
from emunode.errors import RuleError, ScenarioError
from emunode.net.wire import ROW
from emunode.topologies.base import Topology
from emunode.topologies.registry import parse_topology
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
FAULTS: dict[str, Values] = {
    "hang": {"fault": ["hang:213@2-4", "hang:321@3-3"]},
    "hang for good": {"fault": ["hang:213@3"]},
    "hang, and crash meanwhile": {"fault": ["hang:213@2-6", "crash:213@4"]},
    "the source hangs": {"fault": ["hang:123@2-4"]},
    "recover": {"fault": ["crash:213@2", "recover:213@5"]},
    "the source recovers": {"fault": ["crash:123@2", "recover:123@9"]},
    "recover twice": {
        "fault": ["crash:213@2", "recover:213@4", "crash:213@5", "recover:213@7", "crash:321@3", "recover:321@7"]
    },
    "recover where packets are counted": {"fault": ["drop:213>123:3@1", "crash:213@2", "recover:213@4"]},
    "recover beside one that hangs": {"fault": ["hang:213@2-6", "crash:123@3", "recover:123@5"]},
    "down": {"fault": ["down:123~213@2"]},
    "down and up": {"fault": ["down:123~213@2", "up:123~213@4", "down:321~123@1-3"]},
    "down one way": {"fault": ["down:123>213@2", "down:321>123@1", "up:321>123@3"]},
    "down beside one that hangs": {"fault": ["hang:213@2-6", "down:213~123@3-4"]},
    "loss": {"fault": ["loss:123~213:0.5", "loss:213>312:1@2-3"]},
    "corrupt": {"fault": ["corrupt:123>213:0.5", "corrupt:312~213:1@2"]},
    "duplicate": {"fault": ["duplicate:123~213:0.5", "duplicate:123~213:1@3"]},
    "delay": {"fault": ["delay:123>213:2", "delay:213~312:1@3-5"]},
    "drop": {"fault": ["drop:123>213:2", "drop:123>213:1@4"]},
    "byzantine": {"fault": ["byzantine:213", "byzantine:321@3-4"]},
    "all at once": {
        "fault": ["delay:123~213:1", "duplicate:123~213:0.5", "loss:123~213:0.3", "byzantine:213", "crash:321@4"]
    },
    "known to neighbours": {
        "fault": ["crash:213@2", "recover:213@4", "down:123>321@3", "hang:132@3-4"],
        "fault_knowledge": "neighbours",
    },
}
OF_FAULTS: Values = {"topology": "star:3", "collective": "broadcast", "algorithm": "flood", "messages": 12}
OTHERS: dict[str, Values] = {
    "a tree around what is broken": {
        "topology": "hypercube:3",
        "algorithm": "bfs-tree",
        "fault": ["crash:001@1", "down:000>010@1"],
        "fault_knowledge": "all",
    },
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
SCENARIOS = {name: {"collective": "broadcast", **values} for name, values in (BROADCASTS | ENDS | OTHERS).items()} | {
    name: OF_FAULTS | values | {"seed": seed} for seed, (name, values) in enumerate(FAULTS.items())
}


def facts(result: RunResult) -> Values:
    """What happened, by the summary, whoever carried it; only histories of hosts are replayed."""
    assert result.summary.get("replay_mismatches", 0) == 0
    told = {key: value for key, value in result.summary.items() if key not in (*OF_THE_DRIVER, "replay_mismatches")}
    claims: Any = told["claims"]
    return told | {"claims": [claim for claim in claims if claim["name"] != "replay_mismatches"]}


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


@pytest.mark.parametrize(
    "name", ["all at once", "hang, and crash meanwhile", *(name for name in FAULTS if "recover" in name)]
)
def test_one_history_of_faults(name: str) -> None:
    check_history(name, None)


async def test_who_recovers_is_another_process() -> None:
    restarted: Counter[int] = Counter()

    class Watched(LocalLaunch):
        async def restart(self, host: int) -> None:
            restarted[host] += 1
            await super().restart(host)

    plan = make_plan(make_scenario(SCENARIOS["recover twice"] | {"driver": "local", "ranks_per_host": 1}))
    network = HostNetwork(plan, Watched(sys.stderr))
    try:
        await network.open(lambda *_: None)
        before = network.pids
        await history(network, plan)
        after = network.pids
    finally:
        await network.close()
    assert restarted == {plan.topology.rank("213"): 2, plan.topology.rank("321"): 1}
    changed = {host for host, (old, new) in enumerate(zip(before, after, strict=True)) if old != new}
    assert changed == restarted.keys()
    assert not any(psutil.pid_exists(pid) for pid in (*before, *after))


async def history(network: Network, plan: Plan) -> list[bytes]:
    """The rows of a run on a network to which nothing has happened yet, in order; and that nobody sent what was not due."""
    rows = b""
    for step in range(1, 100):
        result = await network.step(step, plan.faults_at(step))
        rows += b"".join(bytes(block) for block in result.rows)
        if not result.busy and step >= plan.last_revival:
            break
    return sorted(rows[start : start + ROW.size] for start in range(0, len(rows), ROW.size))


@pytest.mark.parametrize("hosts", [1, 4, 6], ids=["one host", "four hosts", "a process a rank"])
async def test_one_network_is_made_as_new_for_every_fault(hosts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All kinds, one after the other, on a network that stays up; but for those that kill a process."""
    where = {"driver": "local", "ranks_per_host": ranks_per_host(OF_FAULTS, hosts)}
    plans = {
        name: (
            make_plan(make_scenario(SCENARIOS[name] | where)),
            make_plan(make_scenario(SCENARIOS[name] | {"driver": "memory"})),
        )
        for name in FAULTS
        if hosts != 6 or not any(fault.startswith("crash:") for fault in FAULTS[name]["fault"]) or "recover" in name  # type: ignore[attr-defined]
    }
    stopped: list[str] = []
    pause = LocalLaunch.pause

    async def watched_pause(launch: LocalLaunch, host: int, pid: int) -> None:
        await pause(launch, host, pid)
        deadline = time.monotonic() + 10  # a signal takes effect when the kernel comes to it
        while psutil.Process(pid).status() != psutil.STATUS_STOPPED and time.monotonic() < deadline:  # noqa: ASYNC110  # nothing tells
            await trio.sleep(0.001)
        stopped.append(psutil.Process(pid).status())

    monkeypatch.setattr(LocalLaunch, "pause", watched_pause)
    first, _ = next(iter(plans.values()))
    network = HostNetwork(first, LocalLaunch(sys.stderr))
    memory = MemoryNetwork(first)
    try:
        await network.open(lambda *_: None)
        for name, (plan, in_memory_plan) in plans.items():
            await network.reset(plan)
            await memory.reset(in_memory_plan)
            assert await history(network, plan) == await history(memory, in_memory_plan), name
    finally:
        with trio.CancelScope(shield=True):
            await network.close()
    assert len(plans) > 15
    assert (psutil.STATUS_STOPPED in stopped) == (hosts == 6)


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
def test_a_rule_that_breaks_its_promise_is_stopped_on_every_driver(
    driver: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flooding a triangle over half-duplex links: two ranks tell each other in the same step.

    Flooding refuses that, unless its own check is taken away, here and in the host processes.
    """
    monkeypatch.setattr(Flood, "validate", Flood.cut)
    folder = tmp_path_factory.mktemp("unchecked")
    unchecked = "from emunode.algorithms.flooding import Flood\nFlood.validate = Flood.cut\n"
    (folder / "sitecustomize.py").write_text(unchecked)
    monkeypatch.setenv("PYTHONPATH", str(folder))
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
def specifications(draw: st.DrawFn, topology: Topology) -> str:
    """A fault of any kind that needs no other before it."""
    node = draw(st.integers(0, topology.order - 1))
    other = topology.neighbour(node, draw(st.integers(0, topology.degree - 1)))
    step = draw(st.integers(1, 7))
    link = f"{topology.label(node)}{draw(st.sampled_from('~>'))}{topology.label(other)}"
    lasting = f"@{step}{draw(st.sampled_from(['', f'-{step}', f'-{step + 2}']))}"
    rate = draw(st.sampled_from(["0", "0.5", "1"]))
    return draw(
        st.sampled_from(
            [
                f"crash:{topology.label(node)}@{step}",
                f"hang:{topology.label(node)}{lasting}",
                f"byzantine:{topology.label(node)}{lasting}",
                f"down:{link}{lasting}",
                *(f"{kind}:{link}:{rate}{lasting}" for kind in ("loss", "corrupt", "duplicate")),
                *(f"{kind}:{link}:{1 + step % 3}{lasting}" for kind in ("delay", "drop")),
            ]
        )
    )


@st.composite
def small_scenarios(draw: st.DrawFn) -> Values:
    """Broadcasts on a small network, with faults of any kind, and hosts of any size."""
    name = draw(st.sampled_from(sorted(ALGORITHMS)))
    topology = parse_topology(name)
    labels = st.integers(0, topology.order - 1).map(topology.label)
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
        "fault": draw(st.lists(specifications(topology), max_size=4)),
        "fault_knowledge": draw(st.sampled_from(["none", "neighbours"])),
        "ranks_per_host": draw(st.integers(1, topology.order)),
    }


@settings(max_examples=8)
@given(small_scenarios())
def test_any_small_scenario_has_one_history(values: Values) -> None:
    local = values | {"driver": "local"}
    try:
        make_plan(make_scenario(local))
    except ScenarioError:
        assume(False)  # flooding knows no one-port schedule, and nobody crashes twice
    memory = {key: value for key, value in values.items() if key != "ranks_per_host"}
    assert facts(run_scenario(None, **local)) == facts(run_scenario(None, **memory))
