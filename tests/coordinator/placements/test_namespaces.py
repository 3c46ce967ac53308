"""Placements over two network namespaces: the kernel's counters of the wire between them judge the packets that cross hosts.

The namespaces are machines of the driver ssh, whose client is replaced by `ip netns exec`. There is no delay on the wire.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.planning.namespace import unavailable_reason
from tests.cluster_support import needs
from tests.command_line import run_process
from tests.scenarios import Case

MACHINES = {"tb-one": "10.177.0.2", "tb-two": "10.177.0.3"}
SCENARIO = "star:4 broadcast edt messages=10 message_bytes=8000"
FLAGS = (
    "--topology star:4 --collective broadcast --algorithm edt --messages 10 --message-bytes 8000 --ranks-per-host 12"
)


def ip(*words: str) -> str:
    """Return the output of a command of ip(8)."""
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=30).stdout


@pytest.fixture
def ssh(tmp_path: Path) -> Iterator[Path]:
    """Connect two namespaces by one wire; yield a client that executes a command in the namespace of an address."""
    client = tmp_path / "client"
    cases = "\n".join(f"{address}) name={name};;" for name, address in MACHINES.items())
    # The last two words are the machine and the command; the words before are options of ssh.
    script = f'words=("$@")\ncase ${{words[-2]}} in\n{cases}\nesac\nexec ip netns exec $name sh -c "${{words[-1]}}"\n'
    client.write_text(f"#!/bin/bash\n{script}")
    client.chmod(0o755)
    one, two = MACHINES
    try:
        for name in MACHINES:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("-n", one, "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", two)
        for name, address in MACHINES.items():
            ip("-n", name, "addr", "add", f"{address}/24", "dev", "wire")
            ip("-n", name, "link", "set", "wire", "up")
        yield client
    finally:
        for name in MACHINES:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True, timeout=30)


def bytes_on_the_wire() -> int:
    """Return the bytes that have crossed the wire in both directions."""
    (link,) = json.loads(ip("-n", "tb-one", "-json", "-statistics", "link", "show", "wire"))
    return int(link["stats64"]["rx"]["bytes"]) + int(link["stats64"]["tx"]["bytes"])


@needs("ip")
@pytest.mark.skipif(bool(unavailable_reason()), reason="needs network namespaces")
def test_the_kernel_counts_the_packets_that_cross_hosts(ssh: Path, tmp_path: Path) -> None:
    machines = tmp_path / "machines"
    machines.write_text("".join(f"{address}\n" for address in MACHINES.values()))
    memory = Case(SCENARIO)
    largest = int(str(memory.journal["bytes"].max()))
    crossed: dict[str, int] = {}
    for placement in ("blocks", "round-robin"):
        before = bytes_on_the_wire()
        # The coordinator is in the first namespace, beside the first host.
        line = ["ip", "netns", "exec", "tb-one", sys.executable, "-m", "coordinator", "run", *FLAGS.split()]
        line += ["--driver", "ssh", "--launcher", str(ssh), "--host-file", str(machines), "--placement", placement]
        ended = run_process(tmp_path, [*line, "--out", placement, "--json"])
        assert ended.status == 0, ended.err
        wire = bytes_on_the_wire() - before
        assert ended.data["journal_hash"] == memory.summary["journal_hash"]
        crossed[placement] = int(str(ended.data["packets_across_hosts"]))
        payload = crossed[placement] * largest
        # Headers, acknowledgements, orders and journal rows come on top.
        assert payload < wire < 1.3 * payload
    assert crossed["blocks"] < crossed["round-robin"]
