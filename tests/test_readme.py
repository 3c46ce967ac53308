"""What the README shows works: its algorithm is compiled and run, its commands name flags that exist."""

import re
from inspect import signature
from pathlib import Path
from textwrap import dedent

import pytest

import emunode.collective.dissemination as home
from coordinator.cli import serve
from coordinator.commands.campaign import campaign
from coordinator.commands.certify import certify
from coordinator.scenario import Scenario
from emunode.collective.base import LocalView
from emunode.collective.dissemination import Dissemination
from emunode.memory import MemoryNetwork
from emunode.model import Collective, Job, Port, PortModel, Rank
from emunode.topology.base import Topology
from emunode.topology.hypercube import Hypercube
from emunode.trees.base import Trees, verify
from emunode.wire import ROW

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
NAMES = {
    "Trees": Trees,
    "Rank": Rank,
    "Port": Port,
    "Collective": Collective,
    "PortModel": PortModel,
    "Topology": Topology,
}


def readme_algorithm() -> type[Dissemination]:
    """The class that the README defines, with the names it uses imported."""
    start = README.index("    class GrayPath(")
    code = dedent(README[start : README.index("\nA line in `emunode/collective/registry.py`")])
    made: dict[str, object] = {**NAMES, "Dissemination": Dissemination, "__name__": home.__name__}
    exec(compile(code, "README.md", "exec"), made)
    algorithm = made["GrayPathBroadcast"]
    assert isinstance(algorithm, type)
    assert issubclass(algorithm, Dissemination)
    return algorithm


@pytest.mark.parametrize("n", [2, 3, 5])
def test_the_algorithm_of_the_readme_broadcasts(n: int) -> None:
    job = Job(f"hypercube:{n}", Collective.BROADCAST, "gray-path", source=1)
    algorithm = readme_algorithm()(Hypercube(n), job)
    verify(algorithm.trees)
    network, rows, step = MemoryNetwork(algorithm), bytearray(), 0
    while network.busy:
        step += 1
        rows += network.step(step)
    assert len(rows) // ROW.size == 2**n - 1
    assert step - 1 == 2**n - 1 == algorithm.last_step
    assert LocalView(algorithm.topology, 1).relative(1) == 0


def test_the_algorithm_of_the_readme_is_twenty_lines() -> None:
    start = README.index("    class GrayPath(")
    code = README[start : README.index("\nA line in `emunode/collective/registry.py`")]
    assert len([line for line in code.splitlines() if line.strip()]) <= 23


@pytest.mark.parametrize("page", ["README.md", "docs/campaigns.md", "docs/faults.md"])
def test_flags_that_are_shown_exist(page: str) -> None:
    commands = {f"--{name}" for command in (campaign, certify) for name in signature(command).parameters}
    commands |= {f"--{name.replace('_', '-')}" for name in signature(serve).parameters}
    compose = {"--scale", "--exit-code-from", "--volumes", "--profile"}
    known = (
        commands
        | {"--coordinator", "--processes"}  # of emunode
        | compose
        | {f"--{name.replace('_', '-')}" for name in Scenario.model_fields}
        | {
            "--out",
            "--json",
            "--help",
            "--graphml",
            "--goal",
            "--all",
        }
    )
    flags = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", (ROOT / page).read_text()))
    assert flags <= known


def test_compose_commands_of_the_readme_leave_results_on_the_users_disk() -> None:
    containers = README[README.index("## Containers") : README.index("## Words")]
    exported = containers.index("export RUNS=$PWD/runs RUN_AS=$(id -u):$(id -g)")
    assert exported < containers.index("docker-compose -f compose/compose.yaml up")


def test_files_of_the_readme_exist() -> None:
    for name in set(re.findall(r"`((?:scripts|emunode|coordinator|tests|docs|\.ci)/[\w./-]*)`", README)):
        assert (ROOT / name).exists(), name
