"""The contents of the wheel and of the sdist, and installations of them."""

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from email.message import Message
from importlib.metadata import distribution
from pathlib import Path

import pytest

from compose import wheels
from tests.helpers.command_line import ROOT, Call, Running, command, fields, flags, free_port, fresh, run_process

SECONDS = 300
FLOOD = fields("star:3 broadcast flood")
HOST_NEEDS = ("msgpack", "numpy", "structlog", "trio")
"""The content of the host image."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Provide the sdist and the wheel."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=SECONDS)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def metadata(built: tuple[Path, Path]) -> Message:
    with zipfile.ZipFile(built[1]) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_bytes(wheel.read(name))


def tracked() -> set[str]:
    """Return every file under version control."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this source tree is under no version control")
    return {name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()}


def test_the_sdist_contains_all_tracked_files(built: tuple[Path, Path]) -> None:
    wanted = tracked()
    with tarfile.open(built[0]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert wanted <= names
    assert not {name for name in names if name.startswith((".git/", ".venv", "runs/", "dist/"))}


def test_the_wheel_contains_types_and_the_files_for_containers(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[1]) as wheel:
        names = set(wheel.namelist())
        for file in ("compose/Dockerfile", "compose/compose.yaml", "compose/stack.yaml", "scripts/image"):
            assert wheel.read(f"coordinator/container/{file}") == (ROOT / file).read_bytes()
    assert {"coordinator/py.typed", "emunode/py.typed"} <= names
    assert {
        f"coordinator/container/compose/{path.name}" for path in (ROOT / "compose").iterdir() if path.is_file()
    } <= names
    # The tree has bytecode of the modules and templates, which belongs to its interpreter.
    assert not {name for name in names if name.startswith("tests/") or "__pycache__" in name}


def test_the_metadata_describes_the_project(metadata: Message) -> None:
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert str(metadata.get_payload()).startswith("# Collective test bench")
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])


def texts() -> Iterator[Path]:
    """Yield the texts of the source tree."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted({*folders} - {".git", ".venv", "corpus", "runs"})
        for path in (Path(folder, name) for name in sorted(names)):
            if path.suffix in {".py", ".md", ".sh", ".toml", ".yaml", ""} and path.is_file():
                yield path


def test_no_text_advises_to_install_this_project_from_an_index(metadata: Message) -> None:
    command, advice = b"pip install", []
    for path in texts():
        data = path.read_bytes()
        if command in data and path != Path(__file__):
            lines = data.splitlines()
            advice += [f"{path}: {line!r}" for line in lines if command in line and metadata["Name"].encode() in line]
    assert advice == []
    assert not [it for it in metadata.get_all("Requires-Dist", []) if it.startswith(metadata["Name"])]


@pytest.fixture(scope="module")
def host_environment(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a virtual environment with the wheel and what the host image holds of packages, and nothing else."""
    folder = tmp_path_factory.mktemp("host") / "environment"
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    with zipfile.ZipFile(built[1]) as wheel:
        wheel.extractall(packages)
    for name in closure():
        for file in distribution(name).files or ():
            source = Path(str(distribution(name).locate_file(file)))
            if ".." not in file.parts and source.exists():
                target = packages / file
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(source)  # copying takes as long as the tests
    return folder


def python_of(environment: Path) -> Path:
    return environment / "bin" / "python"


def closure() -> Iterator[str]:
    """Yield the packages of the host image, as `compose/wheels.py` says."""
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    code = (
        f"import wheels; print(*wheels.closure({HOST_NEEDS!r}, {python!r})); assert wheels.HOST_NEEDS == {HOST_NEEDS!r}"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT / "compose", capture_output=True, text=True, check=True, timeout=SECONDS
    )
    yield from done.stdout.split()


def test_a_host_needs_only_the_packages_of_its_image(host_environment: Path, tmp_path: Path) -> None:
    everything = """
import importlib, importlib.util, pkgutil, emunode
for module in pkgutil.walk_packages(emunode.__path__, "emunode."):
    importlib.import_module(module.name)
from emunode.logging import log
log("a host can log")
assert not [name for name in ("polars", "rich", "pydantic") if importlib.util.find_spec(name)]
"""
    done = run_process(tmp_path, [python_of(host_environment), "-c", everything], PYTHONPATH="")
    assert done.status == 0, done.err
    assert "a host can log" in done.err


def test_a_host_without_the_coordinators_packages_runs(host_environment: Path, tmp_path: Path) -> None:
    endpoint = f"127.0.0.1:{free_port()}"
    words = ["-m", "emunode", "--coordinator", endpoint, "--token-file", "token", "--processes", "2"]
    host = Running(tmp_path, [python_of(host_environment), *words], PYTHONPATH="")
    serve = run_process(tmp_path, command(f"coordinator serve --listen {endpoint} --hosts 2 --json", *flags(**FLOOD)))
    ended = host.end()
    host.close()
    assert serve.status == 0, serve.err
    assert serve.data["verdict"] == "holds"
    assert ended.status == 0


WITHOUT_DOCKER = """
import sys
sys.modules["docker"] = None  # as if it were not installed
from coordinator.cli.invoke import main
sys.exit(main(sys.argv[1:]))
"""


def test_the_demo_installs_what_a_run_needs() -> None:
    everything, run = (
        wheels.pins((ROOT / name).read_text(), "3.11") for name in ("requirements.lock", "compose/run.lock")
    )
    assert run.keys() == wheels.closure([wheels.PROJECT, "hatchling", "editables"], "3.11") - {wheels.PROJECT}
    assert run == {name: everything[name] for name in run}
    assert "ensure_venv run" in (ROOT / "scripts" / "demo").read_text()


def test_without_the_docker_package_the_driver_gives_one_line(tmp_path: Path) -> None:
    done = run_process(
        tmp_path, fresh([sys.executable, "-c", WITHOUT_DOCKER, "run", "--driver=docker", *flags(**FLOOD)])
    )
    assert done.status == 4
    assert done.err == "coordinator: the Python package docker is not installed; pip install 'docker>=7.1'\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("file", ["compose.yaml", "stack.yaml", "Dockerfile"])
def test_compose_prints_the_file_that_is_shipped(call: Call, file: str) -> None:
    printed = call(f"compose {file}")
    assert (printed.status, printed.out) == (0, (ROOT / "compose" / file).read_text())
    ended = call(f"compose {file} --json")
    assert (ended.status, ended.data["file"]) == (0, file)


def test_an_installed_project_is_packed_as_its_wheel(
    built: tuple[Path, Path], host_environment: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(built[1]) as wheel:
        original = {name: wheel.read(name) for name in wheel.namelist()}
    code = f"""
import sys
from importlib.metadata import distributions
from pathlib import Path
sys.path[:0] = [{str(ROOT / "compose")!r}]
sys.path.append({str(Path(str(distribution("packaging").locate_file(""))))!r})
import wheels
(found,) = (it for it in distributions(path=[sys.argv[1]]) if it.name == wheels.PROJECT)
wheels.pack(found, Path({str(tmp_path)!r}))
"""
    (packages,) = host_environment.glob("lib/python*/site-packages")
    done = run_process(tmp_path, [python_of(host_environment), "-c", code, packages], PYTHONPATH="")
    assert done.status == 0, done.err
    (path,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        packed = {name: wheel.read(name) for name in wheel.namelist()}
    assert packed.keys() == original.keys()
    assert {name for name in packed if packed[name] != original[name]} <= {
        name for name in packed if name.endswith("/RECORD")
    }
