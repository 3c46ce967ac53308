"""What the README shows works: its algorithm is compiled and run, its commands name flags that exist."""

import json
import os
import re
import shlex
import subprocess
import sys
from inspect import signature
from pathlib import Path
from textwrap import dedent

import pytest

import emunode.algorithms.tree_collective as home
from coordinator.cli.app import main, serve
from coordinator.cli.campaign import campaign
from coordinator.cli.certify import certify
from coordinator.scenario.model import Scenario
from emunode.algorithms.base import LocalView
from emunode.algorithms.tree_collective import TreeCollective
from emunode.engine.memory import MemoryEngine
from emunode.model import Collective, CollectiveSpec, Port, PortModel, Rank
from emunode.net.wire import ROW
from emunode.testing import check_trees
from emunode.topologies.base import Topology
from emunode.topologies.hypercube import Hypercube
from emunode.trees.base import Trees

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


def readme_algorithm() -> type[TreeCollective]:
    """The class that the README defines, with the names it uses imported."""
    start = README.index("    class GrayPath(")
    code = dedent(README[start : README.index("\nA line in `emunode/algorithms/registry.py`")])
    made: dict[str, object] = {**NAMES, "TreeCollective": TreeCollective, "__name__": home.__name__}
    exec(compile(code, "README.md", "exec"), made)
    algorithm = made["GrayPathBroadcast"]
    assert isinstance(algorithm, type)
    assert issubclass(algorithm, TreeCollective)
    return algorithm


@pytest.mark.parametrize("n", [2, 3, 5])
def test_the_algorithm_of_the_readme_broadcasts(n: int) -> None:
    spec = CollectiveSpec(f"hypercube:{n}", Collective.BROADCAST, "gray-path", source=1)
    algorithm = readme_algorithm()(Hypercube(n), spec)
    check_trees(algorithm.trees)
    network, rows, step = MemoryEngine(algorithm), bytearray(), 0
    while network.busy:
        step += 1
        rows += network.step(step)
    assert len(rows) // ROW.size == 2**n - 1
    assert step - 1 == 2**n - 1 == algorithm.last_step
    assert LocalView(algorithm.topology, 1).relative(1) == 0


def test_the_algorithm_of_the_readme_is_twenty_lines() -> None:
    start = README.index("    class GrayPath(")
    code = README[start : README.index("\nA line in `emunode/algorithms/registry.py`")]
    assert len([line for line in code.splitlines() if line.strip()]) <= 23


@pytest.mark.parametrize("page", ["README.md", "docs/how-to/campaigns.md", "docs/how-to/faults.md"])
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


# --- the sample output -----------------------------------------------------------------------------------------------

TIMES = (r"\d+\.\d\d s\b", r"\d{4}-\d\d-\d\dT[\d.-]+Z")


def masked(text: str) -> list[str]:
    """The lines of an output without what differs from run to run."""
    for pattern in TIMES:
        text = re.sub(pattern, "TIME", text)
    return [line.rstrip() for line in text.strip().splitlines()]


def test_the_sample_output_is_what_the_demo_prints(tmp_path: Path) -> None:
    """Into a pipe, that is 150 columns wide."""
    start = README.index("    permutation star graph S_4, 24 nodes")
    sample = dedent(README[start : README.index("\n\n", start)])
    (command,) = re.findall(r"^coordinator (run .*) \"\$@\"$", (ROOT / "scripts" / "demo").read_text(), re.MULTILINE)
    demo = subprocess.run(
        [sys.executable, "-m", "coordinator", *shlex.split(command)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert masked(sample) == masked(demo.stdout)


# --- the glossary ----------------------------------------------------------------------------------------------------


def explained() -> set[str]:
    """The terms of docs/reference/glossary.md, several of them in one row apart."""
    rows = re.findall(r"^\| (.+?) \| ", (ROOT / "docs" / "reference" / "glossary.md").read_text(), re.MULTILINE)
    return {term.strip() for row in rows for term in re.sub(r"\(.*?\)", "", row).split(",")}


def test_every_term_that_is_printed_is_in_the_glossary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broadcast = ["--topology", "star:3", "--collective", "broadcast", "--json", "--algorithm"]
    lies = [*broadcast, "edt", "--redundancy", "2", "--fault", "byzantine:213", "--driver", "memory"]
    timed = [*broadcast, "flood", "--driver", "memory", "--clock", "timed"]
    printed: set[str] = set()
    for number, arguments in enumerate(
        (["run", *lies], ["run", *broadcast, "flood"], ["run", *timed], ["plan", *broadcast, "flood"])
    ):
        out = ["--out", str(tmp_path / str(number))] if arguments[0] == "run" else []
        main([*arguments, *out])
        said = json.loads(capsys.readouterr().out)
        printed |= set(said) | {claim["name"] for claim in said["claims"]}
    few = ["--topology", "star:3", "--algorithm", "flood", "--json", "--faults"]
    main(["campaign", *few, "nodes=0..1", "--trials", "2", "--out", str(tmp_path / "campaign")])
    printed |= set(json.loads(capsys.readouterr().out)["rows"][0])
    main(["certify", *few, "nodes<=1"])
    printed |= set(json.loads(capsys.readouterr().out)["levels"][0])
    printed -= {*Scenario.model_fields, "claims", "path", "faults", "redundancy", "predicted"}
    terms = {term.removesuffix("_bytes").replace("_", " ") for term in printed - {"transfer_bytes", "bytes"}}
    assert terms <= explained()


def test_columns_that_are_printed_are_in_the_glossary() -> None:
    columns = re.findall(r"make_table\(([^)*]*)\)", (ROOT / "coordinator" / "cli" / "render.py").read_text())
    shown = {column for text in columns for column in re.findall(r'"([a-z ]+)"', text)}
    assert {"to bound", "guaranteed", "theory"} <= shown
    assert shown - {"needs", "amount", "algorithm", "faults"} <= explained()
