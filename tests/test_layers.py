"""Imports point one way: every module of both packages has a layer, and imports only what lies below it.

A new module first fails here; one line in the tables below decides where it belongs. Imports count wherever they stand,
in functions and under `TYPE_CHECKING` too. What this cannot see are modules imported by a computed name.
"""

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent

# --- the rules -------------------------------------------------------------------------------------------------------

# emunode, by module or subpackage: what lies directly below each; it may import that and everything further down.
# Modules of one subpackage may import one another.
EMUNODE: Final[Mapping[str, set[str]]] = {
    "model": set(),
    "errors": set(),
    "topology": {"model", "errors"},
    "trees": {"topology"},
    "payload": {"model", "errors"},
    "collective": {"trees", "payload"},
    "fault": {"topology"},
    "wire": {"model", "errors"},
    "placement": {"model", "errors"},
    "assignment": {"model", "errors"},
    "node": {"collective", "fault", "wire", "payload"},
    "life": {"node"},
    "memory": {"life"},
    "free": {"node", "pacing"},
    "timed": {"free", "libc", "links"},
    "log": set(),
    "libc": {"errors"},
    "pacing": {"model", "errors"},
    "links": {"wire", "log"},
    "host": {"life", "assignment", "placement", "timed", "links", "log"},
    "rehearsal": {"host"},
    "process": {"libc", "rehearsal"},
    "__main__": {"process"},
}

# coordinator: what only computes (and at most reads or writes a file), and what asks the machine or the network.
COORDINATOR_PURE: Final = {
    "audit", "claims", "conclude", "cutoff", "fates", "fault_sets", "faults", "hearing", "journal", "measure",
    "outages", "papers", "replay", "report", "scenario", "structure_metrics", "symmetry", "tally", "theory",
    "timetable", "verify", "voting",
}  # fmt: skip
COORDINATOR_SHELLS: Final = {
    "__main__", "campaign", "cli", "commands", "console", "control", "doctor", "flags", "launch", "network", "plan", "run",
    "rundir", "timed",
}  # fmt: skip

SHELLS: Final = {
    f"emunode.{unit}" for unit in ("__main__", "host", "libc", "links", "log", "process", "rehearsal", "timed")
} | {f"coordinator.{unit}" for unit in COORDINATOR_SHELLS}
ONLY_IN_SHELLS: Final = {
    "asyncio", "ctypes", "fcntl", "multiprocessing", "os", "resource", "select", "selectors", "signal", "socket",
    "subprocess", "threading", "time", "trio",
}  # fmt: skip

ONLY_IN_ONE_MODULE: Final = {"docker": "coordinator.networks.launchers.docker", "msgpack": "emunode.net.wire"}
NEVER_IN_EMUNODE: Final = {"cyclopts", "jinja2", "plotly", "polars", "pydantic", "rich"}
UNSEEDED: Final = {"random.Random()", "random.Random(None)", "Random()", "Random(None)"}

# --- the judge -------------------------------------------------------------------------------------------------------


def closure(below: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Everything below each unit; a cycle raises `graphlib.CycleError`."""
    reach: dict[str, set[str]] = {}
    for unit in TopologicalSorter(below).static_order():
        reach[unit] = below[unit].union(*(reach[lower] for lower in below[unit]))
    return reach


UNITS: Final = {"emunode": set(EMUNODE), "coordinator": COORDINATOR_PURE | COORDINATOR_SHELLS}
REACH: Final = closure(EMUNODE)


def violations(module: str, source: str) -> list[str]:
    """What in the `source` of the dotted `module` breaks a rule, one line each; empty if nothing does."""
    tree = ast.parse(source)
    package, unit = split(module)
    if unit and unit not in UNITS[package]:
        return [f"{module} has no layer: give it one in {Path(__file__).name}"]
    judged = (problem for name in imports(tree) for problem in judge(module, name))
    return [f"{module} {problem}" for problem in (*judged, *unseeded(tree))]


def split(module: str) -> tuple[str, str]:
    """The package of a module and its unit there, the first name after the package; `""` is the package itself."""
    package, _, rest = module.partition(".")
    return package, rest.partition(".")[0]


def imports(tree: ast.AST) -> Iterator[str]:
    """Every imported name, dotted; for `from a import b` that is `a.b`, whether b is a module or not."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            prefix = "." * node.level + (node.module or "")
            yield from (f"{prefix}.{alias.name}" for alias in node.names)


def judge(module: str, name: str) -> Iterator[str]:
    """Why `module` may not import `name`; nothing if it may."""
    package, unit = split(module)
    top, target = split(name)
    if not top:
        yield f"imports {name} relatively"
    if top == package == "emunode" and target in EMUNODE and target not in {unit, *REACH.get(unit, ())}:
        yield f"imports {name}, which is not below it"
    if top == "coordinator" and package == "emunode":
        yield f"imports {name}: emunode knows nothing of its coordinator"
    if top in ONLY_IN_SHELLS and f"{package}.{unit}" not in SHELLS:
        yield f"imports {name} and is no shell"
    if top in ONLY_IN_ONE_MODULE and module != ONLY_IN_ONE_MODULE[top]:
        yield f"imports {name}, which only {ONLY_IN_ONE_MODULE[top]} may"
    if top in NEVER_IN_EMUNODE and package == "emunode":
        yield f"imports {name}, which is the coordinator's"


def unseeded(tree: ast.AST) -> Iterator[str]:
    """Every use of `random` but to make an instance from a seed, `random.Random(seed)`, or to name its type."""
    imported = set(imports(tree))
    if not any(split(name)[0] == "random" for name in imported):
        return
    proper = {node.value for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "Random"}
    for node in ast.walk(tree):
        match node:
            case ast.alias(name="random" | "Random", asname=str()):
                yield f"renames {node.name}, which hides it from this test"
            case ast.ImportFrom(module="random", names=names) if any(alias.name != "Random" for alias in names):
                yield "takes more from random than Random"
            case ast.Call() if (call := ast.unparse(node)) in UNSEEDED:
                yield f"calls {call} without a seed"
            case ast.Name(id="random") if "random" in imported and node not in proper:
                yield f"uses random otherwise than as random.Random, in line {node.lineno}"


# --- the packages ----------------------------------------------------------------------------------------------------


def modules() -> Iterator[tuple[str, Path]]:
    """Every module of both packages by its dotted name, in order."""
    for package in UNITS:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def test_every_module_keeps_to_its_layer() -> None:
    sources = {name: path.read_text(encoding="utf-8") for name, path in modules()}
    assert {"emunode.model", "emunode.topologies.star", "coordinator.execution.run"} <= sources.keys(), (
        "looked in the wrong place"
    )
    assert [problem for name, source in sources.items() for problem in violations(name, source)] == []


# --- the judge is judged ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        ("emunode.novelty", "", "has no layer"),
        ("coordinator.novelty", "", "has no layer"),
        ("emunode.topologies.star", "from . import base", "relatively"),
        ("emunode", "from emunode.model import Rank", "not below it"),
        ("emunode.model", "from emunode.errors import ScenarioError", "not below it"),
        ("emunode.topologies.star", "from emunode.trees.star.greedy import GreedyTree", "not below it"),
        ("emunode.trees.star.greedy", "from emunode import collective", "not below it"),
        ("emunode.algorithms.flooding", "import emunode.faults.injector", "not below it"),
        ("emunode.net.wire", "from emunode.engine.node import Node", "not below it"),
        ("emunode.engine.node", "def f():\n    from emunode import links", "not below it"),
        ("emunode.engine.node", "if TYPE_CHECKING:\n    from emunode.engine.memory import Memory", "not below it"),
        ("emunode.engine.memory", "import emunode.net.framed_streams as wires", "not below it"),
        ("emunode.net.framed_streams", "from emunode.host.session import Host", "not below it"),
        ("emunode.__main__", "from coordinator.planning.plan import Plan", "knows nothing of its coordinator"),
        ("emunode.host.session", "import coordinator", "knows nothing of its coordinator"),
        *(("emunode.engine.node", f"import {name}", "is no shell") for name in sorted(ONLY_IN_SHELLS)),
        ("emunode", "import os", "is no shell"),
        ("emunode.net.wire", "from os import urandom", "is no shell"),
        ("emunode.engine.memory", "import trio.testing", "is no shell"),
        ("coordinator.results.claims", "from time import monotonic", "is no shell"),
        ("coordinator.networks.launchers.local", "import docker", "only coordinator.networks.launchers.docker may"),
        (
            "emunode.host.session",
            "from docker.errors import NotFound",
            "only coordinator.networks.launchers.docker may",
        ),
        ("emunode.net.framed_streams", "from msgpack import Unpacker", "only emunode.net.wire may"),
        ("coordinator.networks.host_network", "import msgpack", "only emunode.net.wire may"),
        *(("emunode.host.session", f"import {name}", "the coordinator's") for name in sorted(NEVER_IN_EMUNODE)),
        ("coordinator.scenario.fault_syntax", "from random import shuffle", "takes more from random"),
        ("coordinator.scenario.fault_syntax", "from random import *", "takes more from random"),
        (
            "coordinator.scenario.fault_syntax",
            "import random\nrandom.shuffle(items)",
            "otherwise than as random.Random",
        ),
        (
            "coordinator.scenario.fault_syntax",
            "import random\nr = random.SystemRandom()",
            "otherwise than as random.Random",
        ),
        (
            "coordinator.scenario.fault_syntax",
            "import random\nshuffle(items, random)",
            "otherwise than as random.Random",
        ),
        ("coordinator.scenario.fault_syntax", "import random\nr = random.Random()", "without a seed"),
        ("coordinator.scenario.fault_syntax", "from random import Random\nr = Random(None)", "without a seed"),
        ("coordinator.scenario.fault_syntax", "import random as chance", "renames random"),
        ("coordinator.scenario.fault_syntax", "from random import Random as Chance", "renames Random"),
    ],
)
def test_a_broken_rule_is_found(module: str, source: str, complaint: str) -> None:
    (problem,) = violations(module, source)
    assert problem.startswith(f"{module} ")
    assert complaint in problem


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("emunode", '__version__ = "0.1.0"'),
        ("emunode.topologies.star", "import emunode.topologies.base\nfrom emunode.model import Rank"),
        (
            "emunode.engine.memory",
            "from emunode.topologies.base import Topology\nfrom emunode import __version__, wire",
        ),
        ("emunode.net.framed_streams", "import os, select, socket, time, trio"),
        ("emunode.net.wire", "import msgpack"),
        ("coordinator.networks.base", "import trio\nfrom emunode import host, memory"),
        ("coordinator.networks.launchers.docker", "import docker\nfrom docker.errors import NotFound"),
        ("coordinator.execution.run", "from coordinator.networks.launchers import docker"),
        (
            "coordinator.scenario.fault_syntax",
            "import random\ndef draw(chance: random.Random) -> None: random.Random(7).random()",
        ),
        ("coordinator.scenario.fault_syntax", "from random import Random\nrandom = Random(seed).random()"),
        ("coordinator.scenario.fault_syntax", "random = 4"),
    ],
)
def test_what_is_allowed_passes(module: str, source: str) -> None:
    assert violations(module, source) == []


def test_layers_form_no_cycle() -> None:
    with pytest.raises(CycleError):
        closure({"node": {"memory"}, "memory": {"node"}})
    assert "host" not in REACH["memory"]
    assert "memory" not in REACH["host"]
    assert {"model", "errors", "topology", "trees", "collective", "fault", "wire"} <= REACH["node"]
