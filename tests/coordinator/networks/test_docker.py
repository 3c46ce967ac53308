"""Containers: the same history as in memory, clear refusals, and nothing left behind.

Needs a Docker engine that answers and the images (`scripts/image`); `.ci/run` provides both.
"""

import gc
import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import StringIO
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

import pytest

from coordinator.cli.leftovers import leftovers
from coordinator.execution.run import run
from coordinator.execution.sinks import DirectorySink
from coordinator.history.stored.left_behind import new_record
from coordinator.networks.launchers import docker
from coordinator.networks.registry import make_network
from coordinator.planning.feasibility import require_possible
from emunode import __version__
from emunode.errors import RunError
from tests.helpers.command_line import ROOT, SECONDS, Call, Ended, Start, command, fields, flags, run_process
from tests.helpers.scenarios import Case
from tests.helpers.support import golden_rows, loaded, run_scenario

Test = TypeVar("Test", bound=Callable[..., None])
IMAGE = f"collective-testbench:{__version__}"
HOST_IMAGE = f"collective-testbench-host:{__version__}"
FLOOD = fields("star:3 broadcast flood")
ON_DOCKER = FLOOD | {"driver": "docker"}


def engine(*arguments: str) -> Ended:
    """Call the `docker` command."""
    return run_process(ROOT, ["docker", *arguments])


def unavailable_reason() -> str | None:
    """Return why no container can be run here, or None."""
    if not shutil.which("docker") or engine("version").status:
        return "no Docker engine answers here"
    for image in (IMAGE, HOST_IMAGE):
        if engine("image", "inspect", image).status:
            return f"the engine has no image {image}; build it with scripts/image"
    return None


# the SDK forgets the socket of an engine that did not answer, and of a stream that was cut
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")


@pytest.fixture(autouse=True)
def nothing_left(empty_folder: Path, request: pytest.FixtureRequest) -> Iterator[None]:  # noqa: ARG001  # sets the state folder
    """Afterwards no container, network, volume or record is there that was not before."""
    if "docker" not in request.keywords:
        yield
        gc.collect()
        return
    request.getfixturevalue("the_engine")
    before = everything()
    yield
    gc.collect()
    assert everything() == before
    assert not list(Path(os.environ["XDG_STATE_HOME"]).rglob("*.json"))


def everything() -> list[str]:
    """Return the containers, networks and volumes of this project."""
    return [
        line
        for command in (
            ("container", "ls", "--all", "--format", "{{.Names}}"),
            ("network", "ls", "--format", "{{.Name}}"),
            ("volume", "ls", "--format", "{{.Name}}"),
        )
        for line in sorted(engine(*command).out.splitlines())
        if "testbench" in line
    ]


reason = unavailable_reason()
if reason and os.environ.get("TESTBENCH_NEEDS_DOCKER"):
    pytest.fail(reason, pytrace=False)


def needs_images(test: Test) -> Test:
    """Skip a test where there is no engine or no image."""
    marked: Test = pytest.mark.docker(pytest.mark.skipif(bool(reason), reason=str(reason))(test))
    return marked


@needs_images
@pytest.mark.parametrize(
    "row", [row for row in golden_rows("", "histories") if "docker" in row["places"]], ids=itemgetter("name")
)
def test_containers_have_the_history_of_memory(row: dict[str, str]) -> None:
    # six nodes of S_3 need no more containers than a busy engine starts in a moment
    memory, contained = Case(row["scenario"]), Case(f"{row['scenario']} {row['places']}")
    assert contained.summary["journal_hash"] == memory.summary["journal_hash"]
    assert contained.summary["verdict"] == memory.summary["verdict"]
    assert contained.summary["hosts"] == 6


@needs_images
def test_containers_receive_a_network_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "house.edges").write_text("a b\nb c\nc d\nd a\na e\nb e\n")
    values = FLOOD | {"topology": f"file:{tmp_path}/house.edges", "algorithm": "bfs-tree", "fault": ["crash:b@2"]}
    contained = run_scenario(tmp_path / "docker", driver="docker", ranks_per_host=1, **values)
    memory = run_scenario(tmp_path / "memory", driver="memory", **values)
    assert contained.summary["journal_hash"] == memory.summary["journal_hash"]
    assert (contained.summary["hosts"], contained.verdict) == (5, memory.verdict)


@needs_images
def test_containers_run_a_plug_in(tmp_path: Path) -> None:
    with loaded(ROOT / "tests" / "plugins" / "cycle.py") as plugin:
        values = FLOOD | {"topology": "cycle:6", "algorithm": "one-way", "source": "4", "plugin": plugin}
        contained = run_scenario(tmp_path / "docker", driver="docker", ranks_per_host=3, **values)
        memory = run_scenario(tmp_path / "memory", driver="memory", **values)
    assert contained.summary["journal_hash"] == memory.summary["journal_hash"]
    assert (contained.summary["hosts"], contained.verdict) == (2, "holds")


@needs_images
def test_clean_removes_containers_of_a_killed_coordinator(start: Start, tmp_path: Path) -> None:
    run = start("coordinator run --messages 90000 --message-bytes 8", *flags(**ON_DOCKER))
    run.wait_for(lambda: len(everything()) >= 3, "containers")
    run.process.send_signal(signal.SIGKILL)
    run.process.wait()
    assert len([each for each in leftovers() if each.has_objects]) == 1
    cleaned = run_process(tmp_path, command("coordinator clean --json"))
    assert cleaned.status == 0, cleaned.err
    assert any(name.startswith("container testbench-") for name in cleaned.data["removed"])


def engine_answers() -> bool:
    """Whether there is an engine, with or without the images."""
    try:
        docker.connect(5).close()
    except RunError:
        return False
    return True


@pytest.mark.docker
@pytest.mark.skipif(not engine_answers(), reason="needs a Docker engine")
def test_clean_removes_labelled_objects_of_an_ended_process_only(call: Call, tmp_path: Path) -> None:
    """It asks the engine of the record, whatever DOCKER_HOST says now. One name has no label, and one run may go on."""
    run, other, image = "testbench-clean-a", "testbench-clean-b", "testbench-clean:1"
    with tarfile.open(tmp_path / "empty.tar", "w"):
        pass
    engine("import", str(tmp_path / "empty.tar"), image)
    engine("network", "create", "--internal", "--label", "testbench.run=clean-a", run)
    for name, label in (
        (f"{run}-0", "testbench.run=clean-a"),
        (f"{run}-1", "other=x"),
        (f"{other}-0", "testbench.run=clean-b"),
    ):
        engine("create", "--label", label, "--name", name, image, "/x")
    names = (f"{run}-0", f"{run}-1", f"{run}-2", run)
    replace(new_record(run="clean-a", driver="docker", objects=names), pid=2**22 + 1).write()
    alive = new_record(run="clean-b", driver="docker", objects=(f"{other}-0",))
    alive.write()
    try:
        expected = [f"container {run}-0", f"container network {run}"]
        assert call("clean --dry-run --json").data["would_remove"] == expected
        assert call("clean --json").data["removed"] == expected
        assert call("clean --everywhere").out == "nothing to clean\n"
        assert set(everything()) >= {f"{run}-1", f"{other}-0"}
    finally:
        alive.remove()
        engine("rm", f"{run}-1", f"{other}-0")
        engine("rmi", image)


COMPOSE = {"docker-compose": ["docker-compose"], "docker compose": ["docker", "compose"]}


def has_compose(words: list[str]) -> bool:
    return shutil.which(words[0]) is not None and not run_process(ROOT, [*words, "version"]).status


@needs_images
@pytest.mark.parametrize("words", COMPOSE.values(), ids=COMPOSE)
def test_compose_gives_the_same_history_and_its_exit_status(words: list[str], tmp_path: Path) -> None:
    if not has_compose(words):
        pytest.skip(f"there is no {' '.join(words)} here")
    runs = tmp_path / "runs"
    runs.mkdir()
    compose = [*words, "--file", ROOT / "compose/compose.yaml"]
    # RUNS and RUN_AS as the README exports them
    settings = {"TOPOLOGY": "star:3", "ALGORITHM": "flood", "HOSTS": 6, "RUNS": runs}
    settings["RUN_AS"] = f"{os.getuid()}:{os.getgid()}"
    try:
        up = run_process(tmp_path, [*compose, "up", "--scale", "host=6", "--exit-code-from", "coordinator"], **settings)
    finally:
        down = run_process(tmp_path, [*compose, "down", "--volumes", "--timeout", "5"], **settings)
        assert down.status == 0, down.err
    assert up.status == 0, up.out + up.err
    (printed,) = re.findall(r"run directory: (\S+)", up.out)
    assert (tmp_path / printed / "report.html").exists(), "the printed path is not where the user is"
    assert re.search("collective-testbench[_-]host[_-]1", up.out + up.err), "the project has no name of its own"
    summary = json.loads(next(runs.glob("*/2*/summary.json")).read_text())
    memory = run_scenario(tmp_path / "m", **FLOOD)
    assert summary["journal_hash"] == memory.summary["journal_hash"]
    assert summary["driver"] == "join"


@needs_images
@pytest.mark.parametrize("words", COMPOSE.values(), ids=COMPOSE)
def test_compose_runs_a_manifest(words: list[str], call: Call, tmp_path: Path) -> None:
    if not has_compose(words):
        pytest.skip(f"there is no {' '.join(words)} here")
    file = tmp_path / "compose.yaml"
    file.write_text(call("manifest compose --hosts 3", *flags(**FLOOD)).out)
    compose = [*words, "--project-name", "testbench", "--file", file]
    try:
        up = run_process(tmp_path, [*compose, "up", "--exit-code-from", "coordinator"])
        assert up.status == 0, up.out + up.err
        # The volume belongs to the services, and is not below a folder of this user.
        read = ("--network", "none", "--volume", "testbench_runs:/runs:ro", IMAGE, "cat", "/runs/run/summary.json")
        summary = engine("run", "--rm", *read).data
    finally:
        down = run_process(tmp_path, [*compose, "down", "--volumes", "--timeout", "5"])
        assert down.status == 0, down.err
    assert summary["journal_hash"] == run_scenario(tmp_path / "m", **FLOOD).summary["journal_hash"]
    assert (summary["hosts"], summary["verdict"]) == (3, "holds")


@needs_images
def test_an_image_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker, "IMAGE", "collective-testbench:none")
    with pytest.raises(RunError, match="build it with `coordinator image`"):
        run_scenario(tmp_path / "d", **ON_DOCKER)


@pytest.fixture
def altered(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Have the driver use an image after running a command in it."""
    tag = f"{HOST_IMAGE}-altered"

    def alter(command: str) -> None:
        file = f"FROM {HOST_IMAGE}\nUSER 0\nRUN {command}\nUSER 65532\n"
        build = ["docker", "build", "--quiet", "--tag", tag, "-"]
        variables = {**os.environ, "DOCKER_BUILDKIT": "0"}
        subprocess.run(build, input=file, text=True, capture_output=True, timeout=SECONDS, check=True, env=variables)
        monkeypatch.setattr(docker, "IMAGE", tag)

    yield alter
    engine("image", "rm", "--force", tag)


@needs_images
def test_hosts_of_another_version_are_refused_and_named(altered: Callable[[str], None], tmp_path: Path) -> None:
    altered("sed -i 's/^__version__ = .*/__version__ = \"0.0.9\"/' /opt/project/emunode/__init__.py")
    with pytest.raises(RunError, match=rf"emunode 0\.0\.9 cannot join coordinator {__version__}"):
        run_scenario(tmp_path / "d", **ON_DOCKER)
    assert not list(tmp_path.glob("d*"))


@needs_images
def test_containers_that_never_join_are_named(altered: Callable[[str], None], tmp_path: Path) -> None:
    altered("printf '#!/bin/sh\\nexec sleep 600\\n' >/opt/project/bin/emunode")
    plan = replace(Case(ON_DOCKER).plan, join_seconds=8.0)
    with pytest.raises(RunError, match=r"0 of 6 containers are up; missing: testbench-[0-9a-f]+-0, testbench-"):
        run(plan, DirectorySink(tmp_path / "d"))
    assert not list(tmp_path.glob("d*"))


@needs_images
def test_a_network_whose_name_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    monkeypatch.setattr("secrets.token_hex", lambda _: "5" * 12)
    assert not engine("network", "create", "testbench-" + "5" * 12).status
    try:
        with pytest.raises(RunError, match="already exists"):
            run_scenario(tmp_path / "d", **ON_DOCKER)
        assert "testbench-" + "5" * 12 in everything(), "a network of another program was removed"
    finally:
        engine("network", "rm", "testbench-" + "5" * 12)


def test_no_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    with pytest.raises(RunError, match="no Docker engine answers; start one"):
        run_scenario(tmp_path / "d", **ON_DOCKER)
    assert not list(tmp_path.glob("d*"))


def test_no_rights_on_the_socket() -> None:
    error = "('Connection aborted.', PermissionError(13, 'Permission denied'))"
    assert "join the group docker" in docker.why_unreachable(error)


def test_two_runs_with_one_id() -> None:
    record = new_record(run="abc", driver="docker", objects=("testbench-abc",))
    record.write()
    with pytest.raises(RunError, match="run abc already exists"):
        new_record(run="abc", driver="docker", objects=("testbench-abc",)).write()
    assert leftovers() == []
    record.remove()


def test_more_containers_than_a_network_holds() -> None:
    plan = Case("star:7 broadcast greedy-tree driver=docker ranks_per_host=1").plan
    with pytest.raises(RunError, match="--ranks-per-host 6"):
        require_possible(plan)


@needs_images
def test_images_are_small_and_grant_no_privileges() -> None:
    sizes = {}
    for image in (IMAGE, HOST_IMAGE):
        as_root = ("run", "--rm", "--user", "0:0", "--network", "none", image)
        found = engine(*as_root, "find", "/", "-xdev", "-type", "f", "-perm", "/6000")
        assert (found.status, found.out) == (0, ""), found
        sizes[image] = int(engine("image", "inspect", "--format", "{{.Size}}", image).out)
    look = "from importlib.util import find_spec as f; print([n for n in ('polars', 'rich', 'coordinator') if f(n)])"
    found = engine("run", "--rm", "--network", "none", HOST_IMAGE, "python3", "-c", look)
    assert found.out == "[]\n", found
    assert sizes[HOST_IMAGE] < sizes[IMAGE] / 2  # numpy, for real numbers, is more than half of it
    asked = "import emunode.host.process as p; p.forgo_privileges(); print(open('/proc/self/status').read())"
    found = engine("run", "--rm", "--network", "none", HOST_IMAGE, "python3", "-c", asked)
    assert "NoNewPrivs:\t1" in found.out


@needs_images
def test_confined_containers_have_the_history_of_memory(tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []

    def look(phase: str, *_: int) -> None:
        if phase == "links up" and not seen:
            names = engine("ps", "--quiet", "--filter", "label=testbench.run").out.split()
            seen.extend(engine("inspect", *names).data)

    result = run(Case(ON_DOCKER).plan, DirectorySink(tmp_path / "d"), look)
    assert result.summary["journal_hash"] == run_scenario(tmp_path / "m", **FLOOD).summary["journal_hash"]
    assert len(seen) == result.summary["hosts"] == 6
    for container in seen:
        config = container["HostConfig"]
        expected = {
            "NanoCpus": 1_000_000_000, "PidsLimit": 64, "ReadonlyRootfs": True, "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
        }  # fmt: skip
        assert {name: config[name] for name in expected} == expected


def test_containers_are_started_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never more than BATCH that have not joined; all of them in the end, each once, in order."""
    plan = Case("star:5 broadcast greedy-tree driver=docker ranks_per_host=3").plan
    launch = docker.DockerLaunch(plan)
    assert launch.join_seconds == 60 + 2 * 40
    assert docker.DockerLaunch(replace(plan, join_seconds=7.0)).join_seconds == 7.0
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
        assert started == list(range(min(40, joined + docker.BATCH)))
        launch.joined(joined, "host")
        assert f"{joined + 1} of 40 containers are up; missing: testbench-" in launch.missing([], [39])
    launch.joined(3, "host")  # a container whose node recovered
    assert started == list(range(40))
    assert "40 of 40 containers are up" in launch.missing([], [3])
    launch._note("the container x ended with status 4")
    with pytest.raises(RunError, match="the container x ended with status 4; 40 of 40 containers are up"):
        launch.check()
    os.close(bell)


def test_a_local_run_waits_for_its_join_seconds() -> None:
    plan = replace(Case(FLOOD, driver="local").plan, join_seconds=123.0)
    network = make_network(plan, StringIO())
    assert network._launch.join_seconds == 123.0  # type: ignore[union-attr]


@needs_images
@pytest.mark.parametrize("words", COMPOSE.values(), ids=COMPOSE)
def test_compose_with_a_killed_host_ends_undecided(words: list[str], tmp_path: Path) -> None:
    if not has_compose(words):
        pytest.skip(f"there is no {' '.join(words)} here")
    runs = tmp_path / "runs"
    runs.mkdir()
    compose = [*words, "--file", ROOT / "compose/compose.yaml", "--project-name", "killed"]
    # a run of minutes
    settings = {"TOPOLOGY": "star:3", "ALGORITHM": "flood", "HOSTS": 6, "MESSAGES": 500_000, "RUNS": runs}
    settings["RUN_AS"] = f"{os.getuid()}:{os.getgid()}"
    variables = {**os.environ, **{name: str(value) for name, value in settings.items()}}
    up = [*map(str, compose), "up", "--scale", "host=6", "--exit-code-from", "coordinator"]
    try:
        with subprocess.Popen(up, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            deadline = time.monotonic() + SECONDS
            while not list(runs.rglob(".partial-*/log.jsonl")) and time.monotonic() < deadline:
                time.sleep(0.2)
            names = ["docker", "ps", "--quiet", "--filter", "name=killed[-_]host[-_]3"]
            (host,) = subprocess.run(names, capture_output=True, text=True, check=True).stdout.split()
            time.sleep(2)  # steps have been taken
            subprocess.run(["docker", "kill", host], capture_output=True, check=True)
            assert process.wait(SECONDS) == 3
    finally:
        run_process(tmp_path, [*compose, "down", "--volumes", "--timeout", "5"], **settings)
    summary = json.loads(next(runs.glob("*/2*/summary.json")).read_text())
    assert summary["verdict"] == "undecided"
    assert host[:12] in summary["undecided_because"]


@needs_images
@pytest.mark.parametrize("hang_by", ["pause", "disconnect"])
def test_the_evidence_of_faults_of_containers(hang_by: str, tmp_path: Path) -> None:
    faults = ["crash:321@1", "recover:321@3", "hang:213@1-2"]
    run_scenario(
        tmp_path / "run", driver="docker", ranks_per_host=1, hang_by=hang_by, fault=faults, messages=6, **FLOOD
    )
    found = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert [(each["action"], each["step"], each["seen"]) for each in found if each["event"] == "process fault"] == [
        ("kill", 1, "ended"),
        ("stop", 1, "stopped"),
        ("continue", 3, "running"),
        ("restart", 3, "running"),
    ]
    assert all(each["means"].startswith("docker ") for each in found)
