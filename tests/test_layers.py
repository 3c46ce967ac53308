"""Imports point one way: one table orders the folders of both packages, and every import is held against it.

Imports count wherever they stand: in functions and under `TYPE_CHECKING` too. Modules imported by a computed name are
beyond this test. A new folder fails here first; one line in `BELOW` decides where it belongs.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final

import pytest

from emunode.faults.kinds import Fault
from tests.helpers.command_line import ROOT


def _below(record: type[Fault]) -> Iterator[type[Fault]]:
    """Yield all kinds that derive from a record; those of other tests too, though no module imports them."""
    for kind in record.__subclasses__():
        yield kind
        yield from _below(kind)


# --- the table -------------------------------------------------------------------------------------------------------

# Each folder (or module at the top of a package) and each annex, with what lies directly below it. A folder may import that
# and everything further down; modules of one folder may import one another. No row of the core names an annex. `__main__`
# and the package `coordinator` stand at the top of the core, and annexes above it.
BELOW: Final[Mapping[str, set[str]]] = {
    "emunode": set(),
    "emunode.model": set(),
    "emunode.errors": set(),
    "emunode.annexes": {"emunode.errors"},
    "emunode.available_memory": set(),
    "emunode.logging": set(),
    "emunode.terminal": set(),
    "emunode.moved_modules": set(),
    "emunode.programs": set(),
    "emunode.state_folder": set(),
    "emunode.stop_signals": set(),
    "emunode.launched": {"emunode.errors", "emunode.state_folder"},
    "emunode.runtime": {"emunode.errors", "emunode.terminal"},
    "emunode.play": {"emunode.model"},
    "emunode.registry": {"emunode.errors"},
    "emunode.topologies": {"emunode.model", "emunode.registry"},
    "emunode.net": {"emunode.model", "emunode.errors", "emunode.logging"},
    "emunode.trees": {"emunode.topologies"},
    "emunode.faults": {"emunode.topologies"},
    "emunode.algorithms": {
        "emunode.trees",
        "emunode.annexes",
        "emunode.programs",
        "emunode.logging",
        "emunode.runtime",
        "emunode.play",
    },
    "emunode.plugins": {"emunode.algorithms", "emunode.faults", "emunode.moved_modules"},
    "emunode.protocols": {"emunode.algorithms", "emunode.faults"},
    "emunode.engine": {"emunode.protocols", "emunode.net"},
    "emunode.locality": {"emunode.engine", "emunode.runtime"},
    "emunode.testing": {"emunode.locality"},
    "emunode.timed": {"emunode.engine", "emunode.runtime", "emunode"},
    "emunode.host": {"emunode.timed", "emunode.plugins", "emunode.launched"},
    "emunode.__main__": {"emunode.host"},
    "coordinator.annexes": {"emunode.annexes"},
    "coordinator.history.stored": {
        "emunode",
        "emunode.errors",
        "emunode.available_memory",
        "emunode.state_folder",
    },
    "coordinator.planning.placements": {"emunode.host", "coordinator.history.stored"},
    "coordinator.scenario": {
        "coordinator.planning.placements",
        "coordinator.history.stored",
        "coordinator.annexes",
        "emunode.programs",
    },
    "coordinator.history": {"emunode.host", "coordinator.history.stored"},
    "coordinator.features": {"coordinator.theory", "coordinator.history"},
    "coordinator.planning": {"coordinator.features"},
    "coordinator.theory.dependence": {"coordinator.history"},
    "coordinator.theory": {"coordinator.scenario", "coordinator.theory.dependence"},
    "coordinator.networks": {"coordinator.history", "coordinator.planning"},
    "coordinator.results": {"coordinator.planning"},
    "coordinator.reports": {"coordinator.results"},
    "coordinator.execution": {
        "coordinator.networks",
        "coordinator.reports",
        "coordinator.theory.batch",
        "emunode.stop_signals",
    },
    "coordinator.theory.batch": {"coordinator.results"},
    "coordinator.campaigns": {"coordinator.execution", "coordinator.theory.batch"},
    "coordinator.live": {"coordinator.execution"},
    "coordinator.api": {"coordinator.campaigns", "coordinator.live", "coordinator.annexes"},
    "coordinator.aio": {"coordinator.api"},
    "coordinator": {"coordinator.api"},
    "coordinator.cli": {"coordinator"},
    "coordinator.__main__": {"coordinator.cli"},
    "coordinator.annexes.agreement": {"coordinator.annexes.invariants", "emunode.annexes.agreement"},
    "coordinator.annexes.clusters": {"coordinator.cli"},
    "coordinator.annexes.exports": {"coordinator.cli"},
    "coordinator.annexes.grading": {"coordinator.cli", "emunode.testing"},
    "coordinator.annexes.invariants": {"coordinator.cli"},
    "coordinator.annexes.lesson": {"coordinator.cli", "coordinator.annexes.exports"},
    "coordinator.annexes.mpi": {"coordinator.cli", "coordinator.annexes.numbers"},
    "coordinator.annexes.numbers": {"coordinator.cli", "emunode.annexes.numbers"},
    "coordinator.annexes.orders": {"coordinator.cli"},
    "coordinator.annexes.papers": {
        "coordinator.cli",
        "coordinator.annexes.exports",
        "coordinator.annexes.numbers",
        "emunode.testing",
    },
    "coordinator.annexes.proofs": {"coordinator.cli"},
    "coordinator.annexes.reliable": {"coordinator.theory.batch", "emunode.annexes.reliable"},
    "coordinator.annexes.repair": {"coordinator.features", "emunode.annexes.repair"},
    "coordinator.annexes.schedules": {"coordinator.annexes.exports", "emunode.annexes.schedules"},
    "coordinator.annexes.trees": {"coordinator.cli", "coordinator.annexes.grading", "emunode.annexes.trees"},
    "emunode.annexes.agreement": {"emunode.engine"},
    "emunode.annexes.numbers": {"emunode.engine"},
    "emunode.annexes.programs": {"emunode.plugins", "emunode.annexes.numbers"},
    "emunode.annexes.reliable": {"emunode.protocols"},
    "emunode.annexes.repair": {"emunode.protocols"},
    "emunode.annexes.schedules": {"emunode.plugins"},
    "emunode.annexes.trees": {"emunode.plugins"},
}
FACES: Final = ("coordinator", "coordinator.aio")
"""The modules that tell type checkers, and nothing else, what annexes add to the Python API."""

# Modules (or folders) that may ask the machine, the clock or the network; everything else only computes.
SHELLS: Final = (
    "coordinator.__main__",
    "coordinator.aio",
    "coordinator.api",
    "coordinator.annexes.clusters",
    "coordinator.annexes.proofs",
    "coordinator.annexes.schedules.api",
    "coordinator.campaigns",
    "coordinator.cli",
    "coordinator.execution",
    "coordinator.annexes.grading.attempts",
    "coordinator.annexes.grading.check_command",
    "coordinator.annexes.grading.confinement",
    "coordinator.annexes.grading.landlock",
    "coordinator.annexes.grading.sealed_root",
    "coordinator.annexes.grading.submission",
    "coordinator.annexes.grading.system_calls",
    "coordinator.annexes.grading.worker",
    "coordinator.history.run_directory",
    "coordinator.history.run_index",
    "emunode.state_folder",
    "emunode.stop_signals",
    "coordinator.history.stored.left_behind",
    "coordinator.history.stored.reading",
    "coordinator.history.stored.writing",
    "coordinator.live.frames",
    "coordinator.live.http",
    "coordinator.live.loop_thread",
    "coordinator.live.metrics",
    "coordinator.live.opening",
    "coordinator.live.server",
    "coordinator.live.session",
    "coordinator.live.watch",
    "coordinator.cli",
    "coordinator.annexes.invariants.command",
    "coordinator.annexes.mpi.api",
    "coordinator.annexes.mpi.commands",
    "coordinator.annexes.mpi.enter",
    "coordinator.annexes.mpi.installed",
    "coordinator.annexes.mpi.launch",
    "coordinator.annexes.mpi.library",
    "coordinator.annexes.mpi.mpich",
    "coordinator.annexes.mpi.program",
    "coordinator.networks",
    "coordinator.annexes.orders",
    "coordinator.annexes.papers.api",
    "coordinator.annexes.papers.command",
    "coordinator.annexes.papers.run_store",
    "coordinator.planning.machine",
    "coordinator.planning.namespace",
    "coordinator.scenario.networks",
    "emunode.__main__",
    "emunode.annexes.programs.process",
    "emunode.host",
    "emunode.launched",
    "emunode.logging",
    "emunode.net.blocked_writes",
    "emunode.net.framed_streams",
    "emunode.runtime",
    "emunode.timed.engine",
)
ONLY_IN_SHELLS: Final = {
    "asyncio", "ctypes", "fcntl", "multiprocessing", "os", "resource", "select", "selectors", "signal", "socket",
    "subprocess", "threading", "time", "trio",
}  # fmt: skip

ONLY_IN_ONE_MODULE: Final = {"docker": "coordinator.networks.launchers.docker", "msgpack": "emunode.net.wire"}
KINDS_OF_FAULT: Final = frozenset(kind.__name__ for kind in _below(Fault)) - {"NodeFault", "LinkFault"}
NEVER_IN_EMUNODE: Final = {"cyclopts", "jinja2", "plotly", "polars", "pydantic", "rich"}
UNSEEDED: Final = {"random.Random()", "random.Random(None)", "Random()", "Random(None)"}

# --- the judge -------------------------------------------------------------------------------------------------------


def closure(below: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return everything below each folder; a cycle raises `graphlib.CycleError`."""
    reach: dict[str, set[str]] = {}
    for unit in TopologicalSorter(below).static_order():
        reach[unit] = below[unit].union(*(reach[lower] for lower in below[unit]))
    return reach


REACH: Final = closure(BELOW)


@cache  # several tests read all modules; their trees would fill the memory
def read(source: str, *, face: bool = False) -> tuple[Sequence[str], Sequence[str]]:
    """Return every imported name in a text, and its wrong uses of `random`; of a face, only what it imports when it runs."""
    tree = ast.parse(source)
    if face:
        guarded = "TYPE_CHECKING"
        tree.body = [each for each in tree.body if not (isinstance(each, ast.If) and ast.unparse(each.test) == guarded)]
    names = list(imports(tree))
    return names, list(unseeded(tree, {*names}))


def violations(module: str, source: str) -> list[str]:
    """Return the rules that `source`, the text of the dotted `module`, breaks: one line each."""
    names, unseeded_uses = read(source, face=module in FACES)
    if folder(module) not in BELOW:
        return [f"{module} has no place in the import order: give its folder one in {Path(__file__).name}"]
    judged = (problem for name in names for problem in judge(module, name))
    return [f"{module} {problem}" for problem in (*judged, *unseeded_uses)]


def circles(sources: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the pairs of modules that import each other, by their texts; also where only types are imported."""
    used = {module: set(read(text)[0]) for module, text in sources.items()}
    # `from a import b` may name the module a.b, or something in the module a.
    used = {module: names | {name.rpartition(".")[0] for name in names} for module, names in used.items()}
    return [
        (low, high)
        for high, names in used.items()
        for low in sorted(names & used.keys())
        if low < high and high in used[low]
    ]


def folder(module: str) -> str:
    """Return the row of the table that a dotted name belongs to: its first two parts, and the third of an annex."""
    parts = module.split(".")
    annex = ".".join(parts[:3])
    return annex if annex in BELOW else ".".join(parts[:2])


def imports(tree: ast.AST) -> Iterator[str]:
    """Yield every imported name, dotted; for `from a import b` that is `a.b`, whether b is a module or not."""
    for node in statements(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            prefix = "." * node.level + (node.module or "")
            yield from (f"{prefix}.{alias.name}" for alias in node.names)


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield a module and everything in it but expressions: most of a module, and no import among them."""
    yield tree
    for name in ("body", "orelse", "handlers", "finalbody", "cases"):
        for below in getattr(tree, name, ()):
            yield from statements(below)


def judge(module: str, name: str) -> Iterator[str]:
    """Return why `module` may not import `name`; nothing if it may."""
    own, top = folder(module), name.partition(".")[0]
    if not top:
        yield f"imports {name} relatively"
    if top in ("emunode", "coordinator"):
        target = folder(name) if folder(name) in BELOW else top  # a name defined in the package itself
        if target != own and target not in REACH[own]:
            yield f"imports {name}, which is not below it"
    if top in ONLY_IN_SHELLS and not is_shell(module):
        yield f"imports {name}, but may only compute"
    if top in ONLY_IN_ONE_MODULE and module != ONLY_IN_ONE_MODULE[top]:
        yield f"imports {name}, which only {ONLY_IN_ONE_MODULE[top]} may"
    of_faults, _, kind = name.rpartition(".")
    names_kind = of_faults.startswith("emunode.faults.") and kind in KINDS_OF_FAULT
    if names_kind and own != "emunode.faults":
        yield f"imports {name}, a kind of fault: ask the fault for its effects"
    # Real numbers need arrays; a host that has none of them does without the time that this import takes.
    if top == "numpy" and own.startswith("emunode") and own != "emunode.annexes.numbers":
        yield f"imports {name}, which only emunode.annexes.numbers may"
    if top in NEVER_IN_EMUNODE and own.startswith("emunode"):
        yield f"imports {name}, which only the coordinator needs"


def is_annex(unit: str) -> bool:
    """Return whether a row of the table is an annex."""
    return ".annexes." in unit


def is_shell(module: str) -> bool:
    """Return whether a module is one of `SHELLS` or inside one."""
    return any(f"{module}.".startswith(f"{shell}.") for shell in SHELLS)


def unseeded(tree: ast.AST, imported: AbstractSet[str]) -> Iterator[str]:
    """Yield every use of `random` other than making an instance from a seed, `random.Random(seed)`, or naming its type."""
    if not any(name.partition(".")[0] == "random" for name in imported):
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
    """Yield every module of both packages by its dotted name, in order."""
    for package in ("emunode", "coordinator"):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def test_every_module_keeps_to_the_import_order() -> None:
    sources = {name: path.read_text(encoding="utf-8") for name, path in modules()}
    assert {"emunode.model", "emunode.topologies.star", "coordinator.execution.run"} <= sources.keys()
    assert [problem for name, source in sources.items() for problem in violations(name, source)] == []


def test_no_two_modules_import_each_other() -> None:
    sources = {name: path.read_text(encoding="utf-8") for name, path in modules()}
    assert circles(sources) == []
    assert circles({"a": "from b import c", "b": "import a", "d": "import b"}) == [("a", "b")]


def test_nothing_lies_flat_in_the_coordinator() -> None:
    assert sorted(path.name for path in (ROOT / "coordinator").glob("*.py")) == ["__init__.py", "__main__.py", "aio.py"]


# --- the judge is judged ---------------------------------------------------------------------------------------------


SEEDED: Final = "coordinator.scenario.fault_draws"
BROKEN: Final = [
    ("emunode.novelty", "", "no place in the import order"),
    ("coordinator.novelty", "", "no place in the import order"),
    ("emunode.topologies.star", "from . import base", "relatively"),
    ("emunode", "from emunode.model import Rank", "not below it"),
    ("emunode.model", "from emunode.errors import ScenarioError", "not below it"),
    (
        "coordinator.results.audit",
        "from emunode.faults.kinds import Fault, LinkFault, NodeFault, Crash",
        "kind of fault",
    ),
    ("emunode.engine.step", "from emunode.faults.byzantine import ByzantineFault", "kind of fault"),
    ("emunode.engine.step", "def f():\n    from emunode.faults.slowness import Slow", "kind of fault"),
    ("emunode.topologies.star", "from emunode.trees.star.greedy import GreedyTree", "not below it"),
    ("emunode.trees.star.greedy", "from emunode import algorithms", "not below it"),
    ("emunode.algorithms.flooding", "import emunode.faults.injector", "not below it"),
    ("emunode.net.wire", "from emunode.engine.node import Node", "not below it"),
    ("emunode.engine.node", "def f():\n    from emunode import timed", "not below it"),
    ("emunode.engine.node", "if TYPE_CHECKING:\n    from emunode.timed.engine import TimedRun", "not below it"),
    ("emunode.engine.memory", "import emunode.host.session as host", "not below it"),
    ("emunode.net.framed_streams", "from emunode.host.session import Host", "not below it"),
    ("emunode.__main__", "from coordinator.planning.plan import Plan", "not below it"),
    ("emunode.host.session", "import coordinator", "not below it"),
    ("coordinator.scenario.model", "from coordinator.cli.app import app", "not below it"),
    ("coordinator.scenario.model", "def f():\n    from coordinator.cli import app", "not below it"),
    ("coordinator.planning.plan", "from coordinator.networks.base import Network", "not below it"),
    ("coordinator.results.claims", "from coordinator.reports import tables", "not below it"),
    ("coordinator.campaigns.grid", "from coordinator.api import campaigns", "not below it"),
    ("coordinator.api.runs", "from coordinator.cli import render", "not below it"),
    ("coordinator.api.runs", "import coordinator", "not below it"),
    ("coordinator.cli.verify", "from coordinator.annexes.mpi import history", "not below it"),
    ("coordinator.aio", "from coordinator.annexes.mpi import api", "not below it"),
    ("coordinator.annexes.mpi.api", "from coordinator.annexes.papers import api", "not below it"),
    *(("emunode.engine.node", f"import {name}", "may only compute") for name in sorted(ONLY_IN_SHELLS)),
    ("emunode", "import os", "may only compute"),
    ("emunode.net.wire", "from os import urandom", "may only compute"),
    ("emunode.engine.memory", "import trio.testing", "may only compute"),
    ("coordinator.results.claims", "from time import monotonic", "may only compute"),
    ("coordinator.networks.host_network", "import docker", "only coordinator.networks.launchers.docker may"),
    ("emunode.host.session", "from docker.errors import NotFound", "only coordinator.networks.launchers.docker may"),
    ("emunode.net.framed_streams", "from msgpack import Unpacker", "only emunode.net.wire may"),
    ("coordinator.networks.host_network", "import msgpack", "only emunode.net.wire may"),
    *(("emunode.host.session", f"import {name}", "only the coordinator") for name in sorted(NEVER_IN_EMUNODE)),
    (SEEDED, "from random import shuffle", "takes more from random"),
    (SEEDED, "from random import *", "takes more from random"),
    (SEEDED, "import random\nrandom.shuffle(items)", "otherwise than as random.Random"),
    (SEEDED, "import random\nr = random.SystemRandom()", "otherwise than as random.Random"),
    (SEEDED, "import random\nshuffle(items, random)", "otherwise than as random.Random"),
    (SEEDED, "import random\nr = random.Random()", "without a seed"),
    (SEEDED, "from random import Random\nr = Random(None)", "without a seed"),
    (SEEDED, "import random as chance", "renames random"),
    (SEEDED, "from random import Random as Chance", "renames Random"),
]


@pytest.mark.parametrize(("module", "source", "complaint"), BROKEN)
def test_a_broken_rule_is_found(module: str, source: str, complaint: str) -> None:
    (problem,) = violations(module, source)
    assert problem.startswith(f"{module} ")
    assert complaint in problem


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("emunode", '__version__ = "0.3.0"'),
        ("emunode.topologies.star", "import emunode.topologies.base\nfrom emunode.model import Rank"),
        ("emunode.engine.memory", "from emunode.topologies.base import Topology\nfrom emunode.net import wire"),
        ("emunode.net.framed_streams", "import os, select, socket, time, trio"),
        ("emunode.net.wire", "import msgpack"),
        ("emunode.faults.detection", "from emunode.faults.kinds import Crash"),
        ("coordinator.results.audit", "from emunode.faults.kinds import Fault, LinkFault, NodeFault"),
        ("coordinator.results.audit", "from emunode.faults.byzantine import Treatment"),
        ("coordinator.networks.base", "import trio\nfrom emunode.engine import memory"),
        ("coordinator.networks.launchers.docker", "import docker\nfrom docker.errors import NotFound"),
        (
            "coordinator.execution.run",
            "from coordinator.networks.launchers import docker\nfrom emunode import __version__",
        ),
        (SEEDED, "import random\ndef draw(r: random.Random) -> None: random.Random(7).random()"),
        (SEEDED, "from random import Random\nrandom = Random(seed).random()"),
        (SEEDED, "random = 4"),
        ("coordinator.annexes.mpi.api", "from coordinator.api.runs import Run"),
        ("coordinator.aio", "if TYPE_CHECKING:\n    from coordinator.annexes.mpi import api"),
    ],
)
def test_what_is_allowed_passes(module: str, source: str) -> None:
    assert violations(module, source) == []


def test_the_table_has_no_cycle() -> None:
    with pytest.raises(CycleError):
        closure({"engine": {"host"}, "host": {"engine"}})
    assert "emunode.host" not in REACH["emunode.engine"]
    assert {"emunode.model", "emunode.trees", "emunode.algorithms", "emunode.faults"} <= REACH["emunode.engine"]
    core = {unit for unit in BELOW if not is_annex(unit)}
    assert "coordinator.cli" not in set().union(*(REACH[unit] for unit in core - {"coordinator.__main__"}))
    assert not any(is_annex(below) for unit in core for below in REACH[unit])
