"""The titles of host processes, as the kernel shows them."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from coordinator.networks.host_network import HostNetwork
from coordinator.networks.launchers.local import LocalLaunch
from tests.helpers.command_line import environment
from tests.helpers.scenarios import Case

WITHOUT_LIBRARY = """
import sys
sys.modules["setproctitle"] = None
from emunode.host.process import show_title
from emunode.host.warmup import CONFIG
from emunode.topologies.registry import parse_topology
show_title(CONFIG._replace(host=7, hosts=9), parse_topology("star:4"))
for name in ("comm", "cmdline"):
    print(repr(open(f"/proc/self/{name}").read().strip()))
"""


@pytest.mark.parametrize("per_host", [3, 1])
async def test_a_host_says_which_nodes_it_runs(per_host: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRESH_PROGRAM", "visible")
    plan = Case(f"star:3 broadcast flood driver=local ranks_per_host={per_host}").plan
    network = HostNetwork(plan, LocalLaunch(sys.stderr))
    try:
        await network.open(lambda *_: None)
        folders = [Path("/proc", str(pid)) for pid in network.pids]
        titles = [(folder / "cmdline").read_text().rstrip("\0") for folder in folders]
        names = [(folder / "comm").read_text().strip() for folder in folders]
        environments = [(folder / "environ").read_bytes() for folder in folders]
        (parent,) = {psutil.Process(pid).ppid() for pid in network.pids}
        command = psutil.Process(parent).cmdline()
    finally:
        await network.close()
    topology = plan.topology
    assert names == [f"emunode {host}" for host in range(plan.hosts)]
    for host, title in enumerate(titles):
        ranks = range(host * per_host, (host + 1) * per_host)
        labels = [topology.label(rank) for rank in (ranks if len(ranks) == 1 else (ranks[0], ranks[-1]))]
        nodes = f"node{'s' * (len(labels) - 1)} {' to '.join(labels)}"
        assert title == f"emunode: host {host} of {plan.hosts}, {nodes} of star:3"
    # What finds processes by their environment, or the parent of the hosts by its command, still finds them.
    assert all(b"FRESH_PROGRAM=visible" in variables for variables in environments)
    assert command[1:3] == ["-m", "emunode"]
    assert "SPT_NOENV" not in os.environ


def test_without_the_library_the_short_name_remains() -> None:
    shown = subprocess.run(
        [sys.executable, "-c", WITHOUT_LIBRARY],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    name, command = shown.stdout.splitlines()
    assert name == "'emunode 7'"
    assert "import sys" in command
