"""Control connections over a wire that is cut: both sides end, in every state of a run.

Coordinators and hosts are in two network namespaces. The time until a silent machine counts as gone is shorter here.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.planning.namespace import unavailable_reason
from emunode.net.framed_streams import GONE_SECONDS
from tests.helpers.cluster_support import needs
from tests.helpers.command_line import SECONDS, Running, wait_until
from tests.helpers.wired_machines import ip, wired

GONE = 6
ADDRESSES = {"tb-cut-one": "10.178.0.2", "tb-cut-two": "10.178.0.3"}
SHORTER = f"import sys; import emunode.net.framed_streams as streams; streams.GONE_SECONDS = {GONE}; "
SERVE = SHORTER + "from coordinator.cli.invoke import main; sys.exit(main(sys.argv[1:]))"
HOST = SHORTER + "from emunode.__main__ import main; sys.exit(main())"
PAUSED = (
    SHORTER
    + """
from pathlib import Path
from coordinator.execution.run import run
from coordinator.execution.sinks import MemorySink
from coordinator.live.opening import open_listener
from coordinator.live.watch import Watch
from coordinator.planning.plan import make_plan
from coordinator.scenario.drivers import JoinEndpoint
from coordinator.scenario.model import make_scenario
from coordinator.scenario.named import name_values
name_values({"driver": "join"})
address, port = sys.argv[1].split(":")
scenario = make_scenario({"topology": "star:3", "collective": "broadcast", "algorithm": "flood", "driver": "join"})
plan = make_plan(scenario, 1, JoinEndpoint(address, int(port), Path("token"), 60.0))
with Watch(plan, open_listener(), timeout=600) as watch:
    result = run(plan, MemorySink(), steering=watch)
    print(result.summary["undecided_because"])
"""
)
FLAGS = "serve --topology star:3 --collective broadcast --algorithm flood --quiet --out out --listen"
RUNS: dict[str, tuple[str, str, str]] = {
    "joining": (SERVE, FLAGS, "--hosts 2"),
    "lock-step": (SERVE, FLAGS, "--hosts 1 --messages 200000 --message-bytes 8"),
    "timed": (SERVE, FLAGS, "--hosts 1 --clock timed --startup 100s"),
    "paused": (PAUSED, "", ""),
}
"""By state of a run: the program of its coordinator, and its words before and after the endpoint."""


def inside(name: str, program: str, *words: str) -> list[str]:
    """Return the command of a Python program in a namespace."""
    return ["ip", "netns", "exec", name, sys.executable, "-c", program, *words]


@pytest.fixture
def wire() -> Iterator[None]:
    """Connect two namespaces by one wire."""
    with wired(ADDRESSES):
        yield


def connections(name: str) -> int:
    """Return the number of established TCP connections in a namespace."""
    table = ip("netns", "exec", name, "cat", "/proc/net/tcp").splitlines()[1:]
    return sum(line.split()[3] == "01" and "B20A" in line.split()[2] for line in table)


def test_a_silent_machine_is_gone_after_a_minute() -> None:
    """As docs/how-to/clusters.md says."""
    assert GONE_SECONDS == 60


@needs("ip")
@pytest.mark.skipif(bool(unavailable_reason()), reason="needs network namespaces")
@pytest.mark.usefixtures("wire")
def test_hosts_and_coordinators_end_when_the_wire_is_cut(tmp_path: Path) -> None:
    one, two = ADDRESSES
    coordinators: dict[str, Running] = {}
    hosts: dict[str, Running] = {}
    try:
        for number, (state, (program, before, after)) in enumerate(RUNS.items()):
            folder, endpoint = tmp_path / state, f"{ADDRESSES[one]}:{7001 + number}"
            coordinators[state] = Running(folder, inside(one, program, *before.split(), endpoint, *after.split()))
            coordinators[state].wait_for((folder / "token").exists, "it listens")
            words = ("--token-file", "token", "--join-seconds", "60", "--coordinator", endpoint)
            hosts[state] = Running(folder, inside(two, HOST, *words))
        wait_until(lambda: connections(one) == len(RUNS), "all hosts have joined")
        # Machines that answer are not gone, however long they say nothing.
        answers_until = time.monotonic() + 2 * GONE
        while time.monotonic() < answers_until:
            for running in (*hosts.values(), *coordinators.values()):
                assert running.process.poll() is None, running.err
            time.sleep(0.5)
        ip("-n", one, "link", "set", "wire", "down")
        cut = time.monotonic()
        for state in ("joining", "timed"):
            coordinators[state].process.kill()
        for state, host in hosts.items():
            assert host.process.wait(SECONDS) == 4, state
            assert time.monotonic() - cut < 3 * GONE, (state, host.err)
        for state in ("lock-step", "paused"):
            ended = coordinators[state].end()
            assert time.monotonic() - cut < 3 * GONE, state
            assert "disconnected" in ended.out + ended.err, (state, ended)
    finally:
        for running in (*hosts.values(), *coordinators.values()):
            running.close()
