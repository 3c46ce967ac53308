"""A swarm of two engines on this machine: hosts on both, the history of memory, and an engine that is lost."""

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.coordinator.networks.test_docker import HOST_IMAGE, IMAGE, unavailable_reason
from tests.helpers.command_line import ROOT, Call, fields, flags
from tests.helpers.support import run_scenario

SECONDS = 180
STACK = "testbench-test"
HERE = "10.177.0.1"
"""This engine's address on the cable between the two."""
SCENARIO = fields("star:4 broadcast greedy-tree")


def why_no_swarm() -> str | None:
    """Return why no second engine can run beside the first one, or None."""
    if reason := unavailable_reason():
        return reason
    if os.geteuid():
        return "a second engine in a network namespace needs root"
    missing = [program for program in ("ip", "dockerd", "nsenter", "unshare") if not shutil.which(program)]
    if missing:
        return f"there is no {missing[0]} here"
    state, address = docker("info", "--format", "{{.Swarm.LocalNodeState}} {{.Swarm.NodeAddr}}.").split()
    if state != "inactive" and address != f"{HERE}.":  # else left by these tests when they were killed
        return "this engine is in a swarm already"
    return None


def docker(*command: str, **options: object) -> str:
    """Return the output of a `docker` command; fails with its error."""
    done = subprocess.run(
        ["docker", *command],
        text=True,
        timeout=SECONDS,
        check=False,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},  # type: ignore[call-overload]
    )
    assert not done.returncode, f"docker {' '.join(command)}: {done.stderr or done.stdout}"
    return str(done.stdout)


class Swarm(NamedTuple):
    """Two engines in one swarm."""

    second: str
    """The endpoint of the second engine."""

    @contextmanager
    def stack(self, file: Path = ROOT / "compose/stack.yaml", **variables: str) -> Iterator[None]:
        """Deploy the stack of a file; afterwards it is removed with its volume."""
        try:
            docker(
                *("stack", "deploy", "--compose-file", str(file), STACK),
                env={**os.environ, "TESTBENCH_IMAGE": IMAGE, "TESTBENCH_HOST_IMAGE": HOST_IMAGE, **variables},
            )
            yield
        finally:
            _remove_stack()

    @contextmanager
    def cut(self) -> Iterator[None]:
        """Take the link between the two down."""
        subprocess.run(["ip", "link", "set", "testbench-a", "down"], check=True)
        try:
            yield
        finally:
            subprocess.run(["ip", "link", "set", "testbench-a", "up"], check=True)

    def tasks(self, service: str) -> list[dict[str, str]]:
        """Return the containers of a service and their states."""
        lines = docker("service", "ps", "--no-trunc", "--format", "{{json .}}", f"{STACK}_{service}").splitlines()
        return [json.loads(line) for line in lines]

    def outcome(self) -> tuple[str, dict[str, object]]:
        """Return how the coordinator ended, and the summary of its run."""
        deadline = time.monotonic() + SECONDS
        while True:
            states = [task["CurrentState"].partition(" ")[0] for task in self.tasks("coordinator")]
            if states and states[0] in ("Complete", "Failed", "Rejected"):
                break
            assert time.monotonic() < deadline, (states, docker("service", "logs", f"{STACK}_coordinator"))
            time.sleep(0.5)
        # In a folder of the scenario's name and the time, or where a manifest says.
        (summary,) = [*self.files("*/2*/summary.json"), *self.files("run/summary.json")]
        return states[0], json.loads(summary.read_text())

    def files(self, pattern: str) -> list[Path]:
        """Return the coordinator's output so far."""
        if f"{STACK}_runs" not in docker("volume", "ls", "--quiet").split():
            return []
        return list(
            Path(docker("volume", "inspect", "--format", "{{.Mountpoint}}", f"{STACK}_runs").strip()).glob(pattern)
        )


def _remove_stack() -> None:
    docker("stack", "rm", STACK)
    deadline = time.monotonic() + SECONDS
    while docker("ps", "--all", "--quiet", "--filter", f"label=com.docker.stack.namespace={STACK}"):
        assert time.monotonic() < deadline, "containers of the stack do not go"
        time.sleep(0.5)
    while f"{STACK}_runs" in docker("volume", "ls", "--quiet").split():
        assert time.monotonic() < deadline, "the volume of the stack does not go"
        subprocess.run(["docker", "volume", "rm", f"{STACK}_runs"], capture_output=True, timeout=SECONDS, check=False)
        time.sleep(0.5)


@pytest.fixture
def swarm(the_engine: None) -> Iterator[Swarm]:  # noqa: ARG001  # it is held, not used
    """Provide two engines in one swarm, both with the image of hosts; afterwards there is one again, and no
    swarm.
    """
    folder = tempfile.mkdtemp(prefix="engine-")
    subprocess.run(["docker", "swarm", "leave", "--force"], capture_output=True, timeout=SECONDS, check=False)
    subprocess.run([ROOT / "scripts/second-engine", "stop", folder], timeout=SECONDS, check=True)
    started = subprocess.run(
        [ROOT / "scripts/second-engine", "start", folder], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert not started.returncode, started.stderr
    here, there, second = started.stdout.split()
    try:
        # only hosts run there: the coordinator stays on the manager
        with subprocess.Popen(["docker", "save", HOST_IMAGE], stdout=subprocess.PIPE) as image:
            docker("--host", second, "load", stdin=image.stdout)
        docker("swarm", "init", "--advertise-addr", here, "--listen-addr", here)
        token = docker("swarm", "join-token", "--quiet", "worker").strip()
        docker("--host", second, "swarm", "join", "--advertise-addr", there, "--token", token, f"{here}:2377")
        docker("secret", "create", "testbench-token", "-", input="a token of this test\n")
        yield Swarm(second)
    finally:
        docker("swarm", "leave", "--force")
        subprocess.run([ROOT / "scripts/second-engine", "stop", folder], timeout=SECONDS, check=True)
        for network in ("docker_gwbridge", "ingress"):
            subprocess.run(["docker", "network", "rm", network], capture_output=True, timeout=SECONDS, check=False)


reason = why_no_swarm()
if reason and os.environ.get("TESTBENCH_NEEDS_DOCKER"):
    pytest.fail(reason, pytrace=False)
pytestmark = [pytest.mark.docker, pytest.mark.skipif(bool(reason), reason=str(reason))]


def copy_volume(folder: Path) -> dict[str, object]:
    """Return the summary of a run, read from the swarm's volume as docs/how-to/containers.md says."""
    page = (ROOT / "docs/how-to/containers.md").read_text()
    (command,) = [line.strip() for line in page.splitlines() if "testbench_runs:/runs" in line]
    command = command.replace("testbench_runs", f"{STACK}_runs").replace(" collective-testbench ", f" {IMAGE} ")
    (folder / "runs").mkdir()
    subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], cwd=folder, check=True, timeout=SECONDS)
    (summary,) = folder.glob("runs/*/2*/summary.json")
    loaded: dict[str, object] = json.loads(summary.read_text())
    return loaded


def assert_confined() -> None:
    """The stack's containers on this engine can gain no privileges and start few processes."""
    names = docker("ps", "--quiet", "--filter", f"label=com.docker.stack.namespace={STACK}").split()
    assert names
    for container in json.loads(docker("inspect", *names)):
        status = Path(f"/proc/{container['State']['Pid']}/status").read_text()
        assert "NoNewPrivs:\t1" in status
        assert container["HostConfig"]["PidsLimit"] in (64, 256)
        assert container["HostConfig"]["NanoCpus"] == 1_000_000_000


def test_hosts_on_two_engines_have_one_history(swarm: Swarm, call: Call, tmp_path: Path) -> None:
    """The stack of a manifest has it too. Then, in another run, the link between the engines goes down in the middle, and
    the run ends undecided.
    """
    with swarm.stack(HOSTS="4"):
        state, summary = swarm.outcome()
        engines = [task["Node"] for task in swarm.tasks("host")]
        copied = copy_volume(tmp_path)
    assert state == "Complete"
    assert summary["verdict"] == "holds"
    memory = run_scenario(tmp_path / "m", **SCENARIO, driver="memory")
    assert summary["journal_hash"] == memory.summary["journal_hash"]
    assert copied == summary
    assert len(engines) == 4
    assert len(set(engines)) == 2, "the hosts were on one engine only"

    manifest = tmp_path / "stack.yaml"
    manifest.write_text(call("manifest swarm --hosts 4", *flags(**SCENARIO)).out)
    with swarm.stack(manifest):
        state, summary = swarm.outcome()
    assert (state, summary["journal_hash"]) == ("Complete", memory.summary["journal_hash"])

    with swarm.stack(HOSTS="4", ALGORITHM="flood", MESSAGES="60000", MESSAGE_BYTES="8"):
        deadline = time.monotonic() + 2 * SECONDS
        while ": steps" not in docker("service", "logs", f"{STACK}_coordinator", stderr=subprocess.STDOUT):
            assert time.monotonic() < deadline, ("the run never began", swarm.tasks("coordinator"), swarm.tasks("host"))
            time.sleep(0.2)
        assert_confined()
        with swarm.cut():
            state, summary = swarm.outcome()
    assert state == "Failed"
    assert summary["verdict"] == "undecided"
