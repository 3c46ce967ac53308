"""Conformance of the drivers: a scenario has the same history on each, byte for byte."""

import sys
import time
from collections import Counter
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import psutil
import pytest
import trio
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from coordinator.annexes import merged
from coordinator.execution.sinks import FinishedRun
from coordinator.networks.base import MemoryNetwork, Network
from coordinator.networks.host_network import HostNetwork
from coordinator.networks.launchers.local import LocalLaunch
from coordinator.planning.plan import Plan
from coordinator.results.host_traffic import HOST_TRAFFIC
from coordinator.scenario.drivers import DRIVERS
from emunode.algorithms.flooding import Flood
from emunode.errors import RuleError, ScenarioError
from emunode.net.wire import ROW
from emunode.topologies.base import Topology
from emunode.topologies.registry import parse_topology
from tests.helpers.command_line import SECONDS, fields, wait_until
from tests.helpers.scenarios import Case
from tests.helpers.support import examples, run_scenario, same_tables

Values = dict[str, object]

OF_THE_DRIVER = {"driver", "hosts", "wall_seconds", "setup_seconds", "links_opened", "replay_mismatches", *HOST_TRAFFIC}
"""Keys of a summary that may differ between drivers; only histories of hosts are replayed."""
TESTED_ELSEWHERE = {
    "docker": "test_docker.py",
    "join": "test_join.py",
}
"""Drivers whose hosts this process cannot start."""

BROADCASTS = {
    "star": "star:4 broadcast greedy-tree source=3142",
    "star one-port": "star:4 broadcast greedy-tree port_model=one-port segments=3",
    "star with crashes": "star:4 broadcast flood messages=4 fault=crash:4231@2 fault=crash:2134@3 fault=crash:1243@3",
    "star one-port with crashes": (
        "star:4 broadcast bfs-tree port_model=one-port messages=2 fault=crash:3214@4 fault=crash:4321@1"
    ),
    "hypercube": "hypercube:4 broadcast sbt source=0110 messages=3 message_bytes=5000",
    "hypercube exchange": "hypercube:4 broadcast sbt port_model=exchange segments=2",
    "hypercube with crashes": "hypercube:4 broadcast sbt messages=2 fault=crash:0100@2 fault=crash:1111@4",
    "hypercube send-or-receive with a crash": (
        "hypercube:4 broadcast sbt port_model=send-or-receive fault=crash:0010@3"
    ),
    "ej": "ej:2+3 broadcast improved source=-1,1 seed=5",
    "ej one-port": "ej:2+3 broadcast improved port_model=one-port",
    "ej with crashes": "ej:2+3 broadcast flood segments=3 fault=crash:1,0@1 fault=crash:0,1@3",
    "ej one-port with a crash": "ej:2+3 broadcast bfs-tree port_model=one-port fault=crash:-1,0@3",
}
ENDS = {
    "the source crashes": "star:3 broadcast flood messages=3 fault=crash:123@2",
    "the source crashes first": "star:3 broadcast flood fault=crash:123@1",
    "all nodes crash": (
        "star:3 broadcast flood fault=crash:123@2 fault=crash:213@2 fault=crash:132@2 "
        "fault=crash:321@2 fault=crash:312@2 fault=crash:231@2"
    ),
    "a crash after the end": "star:3 broadcast flood fault=crash:321@50",
    "a step limit": "star:3 broadcast flood messages=9 step_limit=4",
}
OTHERS = {
    "a tree around known faults": (
        "hypercube:3 broadcast bfs-tree fault=crash:001@1 fault=down:000>010@1 fault_knowledge=all"
    ),
    "reduce": "star:4 reduce greedy-tree segments=2",
    "reduce with a crash": "star:4 reduce greedy-tree fault=crash:3214@2",
    "scatter": "star:4 scatter balanced-tree source=4321",
    "gather": "star:4 gather balanced-tree",
    "allgather": "star:4 allgather rotated-trees",
    "colluding nodes": "star:4 broadcast edt redundancy=3 fault=collude:2134 fault=collude:3214 fault=equivocate:4231",
    "reliable links": (
        "hypercube:3 broadcast sbt reliable=true messages=3 fault=loss:000~001:0.5 fault=crash:110@2 attempts=3"
    ),
    "reliable links over one port": "star:4 reduce greedy-tree port_model=one-port reliable=true fault=loss:1234~2134:0.5",
    "repair": (
        "hypercube:3 broadcast sbt repair=next-port messages=4 fault=crash:001@2 fault=recover:001@7 fault=hang:010@3-5 "
        "fault=loss:000~100:0.5"
    ),
    "requests until faults are over": "hypercube:3 broadcast sbt repair=next-port heal_at=15 seed=5 fault=loss:*:0.6",
    "agreement and repetition": (
        "hypercube:3 broadcast sbt fault=crash:001@2 fault=hang:110@3-4 fault=down:000~010@5 fault_knowledge=detect:1 "
        "on_failure=shrink"
    ),
    "alltoall with a crash": "star:4 alltoall list-schedule fault=crash:4123@5",
    "alltoall in full packets": "star:4 alltoall bfs-tree link_capacity=unlimited fault=crash:4123@2",
}
FAULTS = {
    "hang": "hang:213@2-4 hang:321@3-3",
    "hang permanently": "hang:213@3",
    "hang, and crash meanwhile": "hang:213@2-6 crash:213@4",
    "the source hangs": "hang:123@2-4",
    "recover": "crash:213@2 recover:213@5",
    "the source recovers": "crash:123@2 recover:123@9",
    "recover twice": "crash:213@2 recover:213@4 crash:213@5 recover:213@7 crash:321@3 recover:321@7",
    "recover where packets are counted": "drop:213>123:3@1 crash:213@2 recover:213@4",
    "recover beside one that hangs": "hang:213@2-6 crash:123@3 recover:123@5",
    "down": "down:123~213@2",
    "down and up": "down:123~213@2 up:123~213@4 down:321~123@1-3",
    "down one way": "down:123>213@2 down:321>123@1 up:321>123@3",
    "down beside one that hangs": "hang:213@2-6 down:213~123@3-4",
    "loss": "loss:123~213:0.5 loss:213>312:1@2-3",
    "corrupt": "corrupt:123>213:0.5 corrupt:312~213:1@2",
    "duplicate": "duplicate:123~213:0.5 duplicate:123~213:1@3",
    "delay": "delay:123>213:2 delay:213~312:1@3-5",
    "drop": "drop:123>213:2 drop:123>213:1@4",
    "byzantine": "byzantine:213 byzantine:321@3-4",
    "strategies": "equivocate:213 selective:321:0.5 silent-ports:132:0.5@2-5 silent-segments:312:0.5 silent:231@4",
    "all at once": "delay:123~213:1 duplicate:123~213:0.5 loss:123~213:0.3 byzantine:213 crash:321@4",
    "known to neighbours": "crash:213@2 recover:213@4 down:123>321@3 hang:132@3-4",
    "detected": "crash:213@2 recover:213@6 hang:132@3-7 down:123>321@3 loss:231~321:0.5",
}
"""Of a flood on S_3."""
OF_FAULTS = fields("star:3 broadcast flood messages=12")
SCENARIOS = {name: fields(values) for name, values in (BROADCASTS | ENDS | OTHERS).items()} | {
    name: OF_FAULTS | {"fault": faults.split(), "seed": seed} for seed, (name, faults) in enumerate(FAULTS.items())
}
SCENARIOS["known to neighbours"]["fault_knowledge"] = "neighbours"
SCENARIOS["detected"] |= {"fault_knowledge": "detect:2:doubling", "reliable": True}
MEMORY: Values = {"driver": "memory"}


def facts(result: FinishedRun) -> Values:
    """Return the summary of what happened, without what depends on the driver."""
    assert result.summary.get("replay_mismatches", 0) == 0
    kept = {key: value for key, value in result.summary.items() if key not in OF_THE_DRIVER}
    claims: Any = kept["claims"]
    return kept | {"claims": [claim for claim in claims if claim["name"] not in OF_THE_DRIVER]}


@cache
def in_memory(name: str) -> Values:
    """Return the same run in memory."""
    return facts(run_scenario(None, **SCENARIOS[name]))


def placed(values: Values, hosts: int | None) -> Values:
    """Return a scenario on this number of local hosts; None: one process per rank."""
    order = parse_topology(str(values["topology"])).order
    return values | {"driver": "local", "ranks_per_host": -(-order // hosts) if hosts else 1}


# --- conformance -----------------------------------------------------------------------------------------------------


def test_every_driver_is_tested() -> None:
    assert set(DRIVERS) == {"memory", "local", *TESTED_ELSEWHERE, *merged("drivers")}
    assert all((Path(__file__).parent / name).exists() for name in TESTED_ELSEWHERE.values())


@pytest.mark.exhaustive(one_in=8)
@pytest.mark.parametrize(
    ("name", "hosts"),
    [
        *((name, hosts) for turn, name in enumerate(BROADCASTS) for hosts in ((1, 4, None) * 2)[turn % 3 :][:2]),
        *product(ENDS, (1, None)),
        *product(OTHERS, (4,)),
        *product(("all at once", "hang, and crash meanwhile"), (None,)),
        *product((name for name in FAULTS if "recover" in name), (None,)),
        ("reliable links", None),
        *product(("detected",), (2, None)),
    ],
)
def test_local_hosts_have_the_history_of_memory(name: str, hosts: int | None) -> None:
    result = run_scenario(None, **placed(SCENARIOS[name], hosts))
    topology = parse_topology(str(SCENARIOS[name]["topology"]))
    assert facts(result) == in_memory(name)
    assert result.summary["hosts"] == (hosts or topology.order)
    assert result.summary["links_opened"] == topology.link_count


async def test_a_node_that_recovers_is_another_process() -> None:
    restarted: Counter[int] = Counter()

    class Watched(LocalLaunch):
        async def restart(self, host: int) -> None:
            restarted[host] += 1
            await super().restart(host)

    plan = Case(placed(SCENARIOS["recover twice"], None)).plan
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
    # Their parent has ended too, and then it takes the kernel a moment.
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in (*before, *after)), "the end of all hosts")


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the local driver have the time limit of a scheduler, two seconds after its start."""
    start = LocalLaunch.start

    def with_limit(launch: LocalLaunch, port: int, token: bytes, hosts: int) -> int:
        monkeypatch.setattr(launch, "ends_at", time.monotonic() + 2, raising=False)
        return start(launch, port, token, hosts)

    monkeypatch.setattr(LocalLaunch, "start", with_limit)


@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize("more", [{"messages": 90000}, {"clock": "timed", "startup": "1 s"}], ids=["steps", "times"])
def test_a_run_ends_before_the_time_limit_of_its_job(more: dict[str, object], tmp_path: Path) -> None:
    ended = Case("ring:8 broadcast flood message_bytes=8 driver=local ranks_per_host=4", **more).stored(
        tmp_path / "run"
    )
    assert ended.exit_status == 3
    assert str(ended.summary["undecided_because"]).startswith("the time limit of its job is near")


@pytest.mark.usefixtures("limited")
async def test_a_waiting_network_fails_before_the_time_limit() -> None:
    plan = Case("star:3 broadcast flood driver=local ranks_per_host=3").plan
    network = HostNetwork(plan, LocalLaunch(sys.stderr))
    try:
        await network.open(lambda *_: None)
        with trio.fail_after(SECONDS):
            error = await network.failure()
    finally:
        await network.close()
    assert str(error).startswith("the time limit of its job is near")


async def history(network: Network, plan: Plan) -> list[bytes]:
    """Return the rows of a run on a new or reset network, in order."""
    rows = b""
    for step in range(1, 100):
        result = await network.step(step, plan.faults_at(step))
        rows += b"".join(bytes(block) for block in result.rows)
        if plan.is_over(step, result.busy):
            break
    return sorted(rows[start : start + ROW.size] for start in range(0, len(rows), ROW.size))


@pytest.mark.parametrize("hosts", [1, 4, 6])
async def test_a_network_can_be_reset_for_every_fault(hosts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All kinds, one after the other, on a network that stays up, except those that kill a process."""
    plans = {
        name: tuple(Case(values).plan for values in (placed(SCENARIOS[name], hosts), SCENARIOS[name] | MEMORY))
        for name in FAULTS
        if hosts != 6 or "crash:" not in FAULTS[name] or "recover" in name
    }
    stopped: list[str] = []
    pause = LocalLaunch.pause

    async def watched_pause(launch: LocalLaunch, host: int, pid: int) -> None:
        await pause(launch, host, pid)
        deadline = time.monotonic() + SECONDS  # a signal takes effect when the kernel comes to it
        while psutil.Process(pid).status() != psutil.STATUS_STOPPED and time.monotonic() < deadline:  # noqa: ASYNC110  # no event
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


def test_tables_are_equal(tmp_path: Path) -> None:
    values = SCENARIOS["star with crashes"]
    one = run_scenario(tmp_path / "one", **values)
    other = run_scenario(tmp_path / "other", **values | {"driver": "local"})
    assert same_tables(one, other)
    assert (one.path / "faults.json").read_bytes() == (other.path / "faults.json").read_bytes()


def test_histories_differ_where_scenarios_do() -> None:
    hashes = [in_memory(name)["journal_hash"] for name in BROADCASTS]
    assert len(set(hashes)) == len(hashes)


@pytest.mark.parametrize("driver", ["local", "memory"])
def test_an_invalid_algorithm_is_stopped_on_every_driver(
    driver: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flooding a triangle over half-duplex links: two ranks send to each other in the same step.

    Flooding refuses that, unless its own check is taken away, here and in the host processes.
    """
    monkeypatch.setattr(Flood, "validate", Flood.cut)
    folder = tmp_path_factory.mktemp("unchecked")
    unchecked = "from emunode.algorithms.flooding import Flood\nFlood.validate = Flood.cut\n"
    (folder / "sitecustomize.py").write_text(unchecked)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    with pytest.raises(RuleError, match=r"step 2: sent on ports .* half-duplex links does not allow"):
        run_scenario(tmp_path / "run", **fields("ej:1+2 broadcast flood duplex=half", driver=driver))
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
    """Return a fault of any kind that needs no other before it."""
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
                *(
                    f"{kind}:{topology.label(node)}{lasting}"
                    for kind in ("byzantine", "equivocate", "collude", "silent")
                ),
                *(f"{kind}:{topology.label(node)}:{rate}{lasting}" for kind in ("silent-ports", "selective")),
                f"down:{link}{lasting}",
                *(f"{kind}:{link}:{rate}{lasting}" for kind in ("loss", "corrupt", "duplicate")),
                *(f"{kind}:{link}:{1 + step % 3}{lasting}" for kind in ("delay", "drop")),
            ]
        )
    )


@st.composite
def small_scenarios(draw: st.DrawFn) -> Values:
    """Return broadcasts on a small network, with faults of any kind, and hosts of any size."""
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


@settings(max_examples=examples(8))
@given(small_scenarios())
def test_any_small_scenario_has_one_history(values: Values) -> None:
    local = values | {"driver": "local"}
    try:
        _ = Case(local).plan
    except ScenarioError:
        assume(False)  # flooding has no one-port schedule, and no node crashes twice
    memory = {key: value for key, value in values.items() if key != "ranks_per_host"}
    assert facts(run_scenario(None, **local)) == facts(run_scenario(None, **memory))
