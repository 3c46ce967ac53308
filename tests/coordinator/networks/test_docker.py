"""Real containers: the same history as in memory, clear refusals, and nothing left behind, whatever happens.

Needs a Docker engine that answers and the images (`scripts/image`); `.ci/run` sees to both.
"""

import gc
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from coordinator.execution.run import run
from coordinator.networks.launchers.records import Record, new_record, orphans
from coordinator.networks.registry import make_network
from coordinator.planning.plan import make_plan
from coordinator.scenario.model import make_scenario
from emunode import __version__
from emunode.errors import RunError
from tests.support import run_scenario

ROOT = Path(__file__).resolve().parents[3]
IMAGE = f"collective-testbench:{__version__}"
HOST_IMAGE = f"collective-testbench-host:{__version__}"
SECONDS = 240
STAR = {"topology": "star:4", "collective": "broadcast", "algorithm": "greedy-tree"}
CRASHES = ["crash:4231@2", "crash:2134@3"]


def engine(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["docker", *command], capture_output=True, text=True, timeout=SECONDS, check=False)


def unavailable_reason() -> str | None:
    """Why no container can be run here, or None."""
    if not shutil.which("docker") or engine("version").returncode:
        return "no Docker engine answers here"
    for image in (IMAGE, HOST_IMAGE):
        if engine("image", "inspect", image).returncode:
            return f"the engine has no image {image}; build it with scripts/image"
    return None


# the SDK forgets the socket of an engine that did not answer, and of a stream that was cut
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """Keep records aside; afterwards no container, network, volume or record is there that was not before."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    if "docker" not in request.keywords:
        yield
        gc.collect()
        return
    request.getfixturevalue("the_engine")
    before = everything()
    yield
    gc.collect()
    assert everything() == before
    assert not list(tmp_path.glob("state/**/*.json"))


def everything() -> list[str]:
    """What the engine has of this project's."""
    return [
        line
        for command in (
            ("container", "ls", "--all", "--format", "{{.Names}}"),
            ("network", "ls", "--format", "{{.Name}}"),
            ("volume", "ls", "--format", "{{.Name}}"),
        )
        for line in sorted(engine(*command).stdout.splitlines())
        if "testbench" in line
    ]


reason = unavailable_reason()
if reason and os.environ.get("TESTBENCH_NEEDS_DOCKER"):
    pytest.fail(reason, pytrace=False)


@pytest.mark.parametrize(
    "faults", [pytest.param([], id="fault-free"), pytest.param(CRASHES, id="two crashed containers")]
)
@pytest.mark.docker
@pytest.mark.skipif(bool(reason), reason=str(reason))
def test_one_history_in_memory_and_in_containers(faults: list[str], tmp_path: Path) -> None:
    # six nodes of S_3 need no more containers than a busy engine starts in a moment
    values = {"topology": "star:3", "collective": "broadcast", "algorithm": "flood", "ranks_per_host": 1}
    faults = ["crash:213@2", "crash:321@2"] if faults else []
    memory = run_scenario(tmp_path / "m", **{**values, "fault": faults, "driver": "memory", "ranks_per_host": "auto"})
    docker = run_scenario(tmp_path / "d", **{**values, "fault": faults, "driver": "docker"})
    assert docker.summary["journal_hash"] == memory.summary["journal_hash"]
    assert docker.summary["verdict"] == memory.summary["verdict"]
    assert docker.summary["hosts"] == 6


@pytest.mark.docker
@pytest.mark.skipif(bool(reason), reason=str(reason))
@pytest.mark.parametrize("way", ["pause", "disconnect"])
def test_a_container_that_is_paused_or_off_the_network_hangs_and_goes_on(way: str, tmp_path: Path) -> None:
    values = {"topology": "star:3", "collective": "broadcast", "algorithm": "flood", "fault": ["hang:213@2-3"]}
    memory = run_scenario(tmp_path / "m", **values, driver="memory")
    docker = run_scenario(tmp_path / "d", **values, driver="docker", hang_by=way)
    assert docker.summary["journal_hash"] == memory.summary["journal_hash"]


@pytest.mark.docker
@pytest.mark.skipif(bool(reason), reason=str(reason))
def test_a_container_whose_node_recovers_is_started_again(tmp_path: Path) -> None:
    values = {"topology": "star:3", "collective": "broadcast", "algorithm": "flood", "messages": 9, "ranks_per_host": 1}
    faults = ["crash:213@2", "recover:213@4"]
    memory = run_scenario(tmp_path / "m", **{**values, "ranks_per_host": "auto"}, fault=faults, driver="memory")
    docker = run_scenario(tmp_path / "d", **values, fault=faults, driver="docker")
    assert docker.summary["journal_hash"] == memory.summary["journal_hash"]


@pytest.mark.docker
@pytest.mark.skipif(bool(reason), reason=str(reason))
def test_clean_removes_what_a_killed_coordinator_left(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "coordinator", "run", "--driver", "docker", "--topology", "star:3"]
    run = subprocess.Popen(
        [*command, "--collective", "broadcast", "--algorithm", "flood", "--messages", "90000", "--message-bytes", "8"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + SECONDS
    while len(everything()) < 3:
        assert time.monotonic() < deadline
        assert run.poll() is None
        time.sleep(0.1)
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert len(orphans()) == 1
    cleaned = subprocess.run(
        [sys.executable, "-m", "coordinator", "clean", "--json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    assert any(name.startswith("testbench-") for name in json.loads(cleaned.stdout)["removed"])


COMPOSE = {"docker-compose": ["docker-compose"], "docker compose": ["docker", "compose"]}


def has_compose(command: str) -> bool:
    program, *words = COMPOSE[command]
    if not shutil.which(program):
        return False
    return not subprocess.run(
        [program, *words, "version"], capture_output=True, timeout=SECONDS, check=False
    ).returncode


@pytest.mark.docker
@pytest.mark.skipif(bool(reason), reason=str(reason))
@pytest.mark.parametrize("command", COMPOSE)
def test_compose_gives_the_same_history_and_its_exit_status(command: str, tmp_path: Path) -> None:
    if not has_compose(command):
        pytest.skip(f"there is no {command} here")
    runs = tmp_path / "runs"
    runs.mkdir()
    compose = [*COMPOSE[command], "--file", str(ROOT / "compose/compose.yaml")]
    settings = {**os.environ, "TOPOLOGY": "star:3", "ALGORITHM": "flood", "HOSTS": "6"}
    settings |= {"RUNS": str(runs), "RUN_AS": f"{os.getuid()}:{os.getgid()}"}  # as README exports them
    try:
        up = subprocess.run(
            [*compose, "up", "--scale", "host=6", "--exit-code-from", "coordinator"],
            cwd=tmp_path,
            env=settings,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    finally:
        down = [*compose, "down", "--volumes", "--timeout", "5"]
        subprocess.run(down, env=settings, capture_output=True, timeout=SECONDS, check=True)
    assert up.returncode == 0, up.stdout + up.stderr
    (printed,) = re.findall(r"run directory: (\S+)", up.stdout)
    assert (tmp_path / printed / "report.html").exists(), "the printed path is not where the user is"
    assert re.search("collective-testbench[_-]host[_-]1", up.stdout + up.stderr), "the project has no name of its own"
    summary = json.loads(next(runs.glob("*/2*/summary.json")).read_text())
    memory = run_scenario(tmp_path / "m", topology="star:3", collective="broadcast", algorithm="flood", driver="memory")
    assert summary["journal_hash"] == memory.summary["journal_hash"]
    assert summary["driver"] == "join"


@pytest.mark.docker
@pytest.mark.skipif(bool(reason), reason=str(reason))
def test_an_image_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from coordinator.networks.launchers import docker

    monkeypatch.setattr(docker, "IMAGE", "collective-testbench:none")
    with pytest.raises(RunError, match="build it with `coordinator image`"):
        run_scenario(tmp_path / "d", topology="star:3", collective="broadcast", algorithm="flood", driver="docker")


@pytest.fixture
def altered(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Have the driver use an image in which a command was run."""
    from coordinator.networks.launchers import docker

    tag = f"{HOST_IMAGE}-altered"

    def alter(command: str) -> None:
        file = f"FROM {HOST_IMAGE}\nUSER 0\nRUN {command}\nUSER 65532\n"
        build = ["docker", "build", "--quiet", "--tag", tag, "-"]
        subprocess.run(
            build,
            input=file,
            text=True,
            capture_output=True,
            timeout=SECONDS,
            check=True,
            env={**os.environ, "DOCKER_BUILDKIT": "0"},
        )
        monkeypatch.setattr(docker, "IMAGE", tag)

    yield alter
    engine("image", "rm", "--force", tag)


@pytest.mark.docker
@pytest.mark.skipif(bool(reason), reason=str(reason))
def test_hosts_of_another_version_are_refused_and_named(altered: Callable[[str], None], tmp_path: Path) -> None:
    altered("sed -i 's/^__version__ = .*/__version__ = \"0.0.9\"/' /opt/project/emunode/__init__.py")
    with pytest.raises(RunError, match=rf"emunode 0\.0\.9 cannot join coordinator {__version__}"):
        run_scenario(tmp_path / "d", topology="star:3", collective="broadcast", algorithm="flood", driver="docker")
    assert not list(tmp_path.glob("d*"))


@pytest.mark.docker
@pytest.mark.skipif(bool(reason), reason=str(reason))
def test_containers_that_never_join_are_named(altered: Callable[[str], None], tmp_path: Path) -> None:
    altered("printf '#!/bin/sh\\nexec sleep 600\\n' >/opt/project/bin/emunode")
    scenario = {"topology": "star:3", "collective": "broadcast", "algorithm": "flood", "driver": "docker"}
    plan = replace(make_plan(make_scenario(scenario)), join_seconds=8.0)
    with pytest.raises(RunError, match=r"0 of 6 containers are up; missing: testbench-[0-9a-f]+-0, testbench-"):
        run(plan, tmp_path / "d", lambda *_: None)
    assert not list(tmp_path.glob("d*"))


@pytest.mark.docker
@pytest.mark.skipif(bool(reason), reason=str(reason))
def test_a_network_whose_name_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    monkeypatch.setattr("secrets.token_hex", lambda _: "5" * 12)
    assert not engine("network", "create", "testbench-" + "5" * 12).returncode
    try:
        with pytest.raises(RunError, match="already exists"):
            run_scenario(tmp_path / "d", topology="star:3", collective="broadcast", algorithm="flood", driver="docker")
        assert "testbench-" + "5" * 12 in everything(), "what others made was removed"
    finally:
        engine("network", "rm", "testbench-" + "5" * 12)


def test_no_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    with pytest.raises(RunError, match="no Docker engine answers; start one"):
        run_scenario(tmp_path / "d", topology="star:3", collective="broadcast", algorithm="flood", driver="docker")
    assert not list(tmp_path.glob("d*"))


def test_no_rights_on_the_socket() -> None:
    from coordinator.networks.launchers.docker import why_unreachable

    assert "join the group docker" in why_unreachable(
        "('Connection aborted.', PermissionError(13, 'Permission denied'))"
    )


def test_two_runs_with_one_id() -> None:
    record = new_record("abc", "", "testbench-abc", ())
    record.write()
    with pytest.raises(RunError, match="run abc already exists"):
        new_record("abc", "", "testbench-abc", ()).write()
    assert orphans() == []
    record.remove()
    Record("abc", 2**22 + 1, 0.0, "", "testbench-abc", ("testbench-abc-0",)).write()
    assert [orphan.containers for orphan in orphans()] == [("testbench-abc-0",)]
    orphans()[0].remove()


def test_more_containers_than_a_network_holds() -> None:
    from coordinator.planning.feasibility import require_possible

    plan = make_plan(make_scenario({**STAR, "topology": "star:7", "driver": "docker", "ranks_per_host": 1}))
    with pytest.raises(RunError, match="--ranks-per-host 6"):
        require_possible(plan)


@pytest.mark.docker
@pytest.mark.skipif(bool(reason), reason=str(reason))
def test_hosts_have_a_small_image_and_no_image_lets_a_program_gain_privileges() -> None:
    sizes = {}
    for image in (IMAGE, HOST_IMAGE):
        as_root = ("run", "--rm", "--user", "0:0", "--network", "none", image)
        found = engine(*as_root, "find", "/", "-xdev", "-type", "f", "-perm", "/6000")
        assert (found.returncode, found.stdout) == (0, ""), found
        sizes[image] = int(engine("image", "inspect", "--format", "{{.Size}}", image).stdout)
    look = "from importlib.util import find_spec as f; print([n for n in ('numpy', 'polars', 'coordinator') if f(n)])"
    found = engine("run", "--rm", "--network", "none", HOST_IMAGE, "python3", "-c", look)
    assert found.stdout == "[]\n", found
    assert sizes[HOST_IMAGE] < sizes[IMAGE] / 3
    script = "import emunode.host.process as p; p.forgo_privileges(); print(open('/proc/self/status').read())"
    found = engine("run", "--rm", "--network", "none", HOST_IMAGE, "python3", "-c", script)
    assert "NoNewPrivs:\t1" in found.stdout


@pytest.mark.docker
@pytest.mark.skipif(bool(reason), reason=str(reason))
def test_containers_of_a_run_are_confined(tmp_path: Path) -> None:
    seen: list[dict[str, object]] = []

    def look(phase: str, *_: int) -> None:
        if phase == "links up" and not seen:
            names = engine("ps", "--quiet", "--filter", "label=testbench.run").stdout.split()
            seen.extend(json.loads(engine("inspect", *names).stdout))

    plan = make_plan(
        make_scenario({"topology": "star:3", "collective": "broadcast", "algorithm": "flood", "driver": "docker"})
    )
    run(plan, tmp_path / "d", look)
    assert len(seen) == 6
    for container in seen:
        config = container["HostConfig"]
        assert isinstance(config, dict)
        assert config["NanoCpus"] == 1_000_000_000
        assert config["PidsLimit"] == 64
        assert config["ReadonlyRootfs"]
        assert config["CapDrop"] == ["ALL"]
        assert config["SecurityOpt"] == ["no-new-privileges"]


def test_containers_are_started_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never more than BATCH that have not joined; all of them in the end, each once, in order."""
    from coordinator.networks.launchers.docker import BATCH, DockerLaunch

    plan = make_plan(make_scenario({**STAR, "topology": "star:5", "driver": "docker", "ranks_per_host": 3}))
    launch = DockerLaunch(plan)
    assert launch.join_seconds == 60 + 2 * 40
    assert DockerLaunch(replace(plan, join_seconds=7.0)).join_seconds == 7.0
    started: list[int] = []

    class Pool:
        def submit(self, noting: Callable[..., None], start: Callable[[int], None], index: int) -> None:
            noting(start, index)

        def shutdown(self, **_: object) -> None:
            """Nothing runs in it."""

    class Client:
        def events(self, **_: object) -> Iterator[object]:
            return iter(())

    monkeypatch.setattr(launch, "_pool", Pool())
    monkeypatch.setattr(launch, "_client", Client())
    monkeypatch.setattr(launch, "_start_host", lambda index, *_: started.append(index))
    bell = launch.start(7000, b"token", 40)
    for joined in range(40):
        assert started == list(range(min(40, joined + BATCH)))
        launch.joined(joined)
        assert f"{joined + 1} of 40 containers are up; missing: testbench-" in launch.missing([], [39])
    launch.joined(3)  # a container whose node recovered
    assert started == list(range(40))
    assert "40 of 40 containers are up" in launch.missing([], [3])
    launch._note("the container x ended with status 4")
    with pytest.raises(RunError, match="the container x ended with status 4; 40 of 40 containers are up"):
        launch.check()
    os.close(bell)


def test_a_local_run_waits_as_long_as_it_is_told() -> None:
    plan = replace(make_plan(make_scenario({**STAR, "driver": "local"})), join_seconds=123.0)
    network = make_network(plan, StringIO())
    assert network._launch.join_seconds == 123.0  # type: ignore[union-attr]
