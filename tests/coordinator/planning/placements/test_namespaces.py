"""Placements over two network namespaces: the kernel's counters of the wire between them judge the packets that cross hosts.

The namespaces are machines of the driver ssh, whose client is replaced by `ip netns exec`. There is no delay on the wire.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.planning.namespace import unavailable_reason
from tests.helpers.annex_support import needs_every_annex
from tests.helpers.cluster_support import needs
from tests.helpers.command_line import run_process
from tests.helpers.scenarios import Case
from tests.helpers.wired_machines import wired

PLACEMENTS = ("blocks", "round-robin")
RUNS = """
import sys
from pathlib import Path
from coordinator.cli.invoke import main
for placement in sys.argv[1].split(","):
    assert main([*sys.argv[2:], "--placement", placement, "--out", placement, "--quiet"]) == 0
    (line,) = (line for line in Path("/proc/net/dev").read_text().splitlines() if "wire:" in line)
    Path(placement, "wire").write_text(line.partition(":")[2])
"""
"""Runs a scenario with several placements, and writes the counters of the wire after each into its folder."""
MACHINES = {"tb-one": "10.177.0.2", "tb-two": "10.177.0.3"}
SCENARIO = "star:4 broadcast edt messages=10 message_bytes=8000"
FLAGS = (
    "--topology star:4 --collective broadcast --algorithm edt --messages 10 --message-bytes 8000 --ranks-per-host 12"
)


@pytest.fixture
def ssh(tmp_path: Path) -> Iterator[Path]:
    """Connect two namespaces by one wire; yield a client that executes a command in the namespace of an address."""
    client = tmp_path / "client"
    cases = "\n".join(f"{address}) name={name};;" for name, address in MACHINES.items())
    # The last two words are the machine and the command; the words before are options of ssh.
    script = f'words=("$@")\ncase ${{words[-2]}} in\n{cases}\nesac\nexec ip netns exec $name sh -c "${{words[-1]}}"\n'
    client.write_text(f"#!/bin/bash\n{script}")
    client.chmod(0o755)
    with wired(MACHINES):
        yield client


def bytes_on_the_wire(folder: Path) -> int:
    """Return the bytes that had crossed the wire in both directions at the end of a run."""
    numbers = [int(word) for word in (folder / "wire").read_text().split()]
    return numbers[0] + numbers[8]


@needs_every_annex
@needs("ip")
@pytest.mark.skipif(bool(unavailable_reason()), reason="needs network namespaces")
def test_the_kernel_counts_the_packets_that_cross_hosts(ssh: Path, tmp_path: Path) -> None:
    machines = tmp_path / "machines"
    machines.write_text("".join(f"{address}\n" for address in MACHINES.values()))
    memory = Case(SCENARIO)
    largest = int(str(memory.journal["bytes"].max()))
    # The coordinator is in the first namespace, beside the first host.
    line = ["ip", "netns", "exec", "tb-one", sys.executable, "-c", RUNS, ",".join(PLACEMENTS), "run", *FLAGS.split()]
    ended = run_process(tmp_path, [*line, "--driver", "ssh", "--launcher", ssh, "--host-file", machines])
    assert ended.status == 0, ended.err
    crossed: dict[str, int] = {}
    before = 0
    for placement in PLACEMENTS:
        total = bytes_on_the_wire(tmp_path / placement)
        wire, before = total - before, total
        summary = json.loads((tmp_path / placement / "summary.json").read_text())
        assert summary["journal_hash"] == memory.summary["journal_hash"]
        crossed[placement] = int(summary["packets_across_hosts"])
        payload = crossed[placement] * largest
        # Headers, acknowledgements, orders and journal rows come on top.
        assert payload < wire < 1.3 * payload
    assert crossed["blocks"] < crossed["round-robin"]
