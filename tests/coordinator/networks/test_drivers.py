"""Scenarios with one history on every driver: restarts, resets, time limits, and small networks."""

import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest
import trio
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from coordinator.networks.base import MemoryNetwork, Network
from coordinator.networks.host_network import HostNetwork
from coordinator.networks.launchers.local import LocalLaunch
from coordinator.planning.plan import Plan
from emunode.algorithms.flooding import Flood
from emunode.errors import RuleError, ScenarioError
from emunode.net.wire import ROW
from emunode.topologies.base import Topology
from emunode.topologies.registry import parse_topology
from tests.contract.test_one_history import facts
from tests.helpers.command_line import SECONDS, fields, wait_until
from tests.helpers.scenarios import Case
from tests.helpers.support import examples, golden_rows, run_scenario

Values = dict[str, object]

SCENARIOS = {row["name"]: fields(row["scenario"]) for row in golden_rows("", "histories")}
FAULTS = [row["name"] for row in golden_rows("", "histories", kind="fault")]


def placed(values: Values, hosts: int | None) -> Values:
    """Return a scenario on this number of local hosts; None: one process per rank."""
    order = parse_topology(str(values["topology"])).order
    return values | {"driver": "local", "ranks_per_host": -(-order // hosts) if hosts else 1}


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
        name: tuple(Case(values).plan for values in (placed(SCENARIOS[name], hosts), SCENARIOS[name]))
        for name in FAULTS
        if hosts != 6 or "crash:" not in str(SCENARIOS[name]["fault"]) or "recover" in name
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
