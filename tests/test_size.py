"""The size of the code base and of one run: limits that may only become smaller.

A size is a number of nodes of the syntax tree without docstrings and annotations: layout and comments do not change it,
ideas do. A limit that has to grow gets one line of reason here.
"""

import ast
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from coordinator.features.base import Feature
from coordinator.scenario.model import Scenario
from emunode.algorithms.base import Algorithm
from tests.helpers.command_line import ROOT

LIMITS: Final = {
    # Words before flags, suggestions, one bar, heads, trees of a file; the live page sees arrivals, goes on after the end;
    # added options have a place in files, which moved 15 fields of `Scenario` beside what uses them;
    # the numbers of a sample of all sets.
    "core": 324_555,
    "annexes": 197_980,  # checkers of archives; a class of invariants; options; repair; links; agreement
    # The place of options, rows of annexes, losses by structure as a second oracle, an example of every name, search,
    # the coverage of a sample of all sets, the layers of annexes; the papers' own examples and the judges of their own;
    # late sends over a full link, and the number of trees.
    "tests": 343_205,
    "scripts": 37_953,  # the site begins with the README
    "modules of the core": 439,  # a branch and a report verify runs, blocked writes do input and output
    "late imports": 30,
    "longest function of the command line": 40,
    "members of Algorithm": 40,
    "hooks of Feature": 16,
    "fields of Scenario": 33,
    "annex lesson": 1_605,
    "tests and scripts of the annex lesson": 3_437,  # lessons of hundreds of branches are made with --all only
    "annex trees": 2_012,
    "tests and scripts of the annex trees": 2_191,
}
"""The most of each; annexes that 0.3.0 does not have, and their tests, have rows of their own.

The goals are lower: a core of 325,000, tests of 325,000, scripts of 38,000, 470 modules, 30 late
imports, functions of 40 lines, 40 members, 16 hooks and 34 fields."""
ONE_CALL: Final = {"modules entered": 96, "functions entered": 632, "own modules imported": 219}
"""The most that `network("star:4").broadcast("edt", redundancy=3, faults=["crash:4231@2"])` enters, the second time.
The traits of an algorithm are a record in a module of their own, as are the options of an agreement in its annex.
The losses come from the pass over the schedule that all others use, in small functions. Networks of hosts, drawings,
derived claims and the engine of the timed clock are imported by name where they are used. The goals are 72, 480, 200."""
FOLDERS: Final = ("emunode", "coordinator", "scripts", "tests")
NEW_ANNEXES: Final = ("lesson", "trees")
"""The annexes that 0.3.0 does not have."""


class Source(NamedTuple):
    """A file with Python code: its nodes, the imports within its functions, and the lines of its longest function."""

    path: Path
    size: int
    late_imports: int
    longest: int

    @property
    def is_annex(self) -> bool:
        """Whether it is part of an annex of the product."""
        return self.path.parts[1:2] == ("annexes",) and len(self.path.parts) > 3 and self.path.parts[0] != "tests"

    @property
    def new_annex(self) -> str:
        """The annex of the file, also of a test or a script, if 0.3.0 does not have it; otherwise empty."""
        folder, *inner = self.path.parts
        named = inner[1] if inner[0] == "annexes" else self.path.stem.split("_")[0] if folder == "scripts" else ""
        return named if named in NEW_ANNEXES else ""


@cache
def sources() -> tuple[Source, ...]:
    """Return every file with Python code, also scripts without a suffix."""
    found = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if not path.is_file() or "__pycache__" in path.parts or path.suffix not in (".py", ""):
                continue
            text = path.read_bytes()
            if path.suffix == ".py" or text.startswith(b"#!/usr/bin/env python"):
                # The trees of all files together take 340 MB.
                tree = ast.parse(text)
                found.append(Source(path.relative_to(ROOT), nodes(tree), len([*late_imports(tree)]), longest(tree)))
    return tuple(found)


SKIPPED: Final = frozenset(("annotation", "returns", "type_comment", "ctx"))
"""The fields that count no nodes: annotations, and marks of loading and storing."""


def nodes(tree: ast.AST) -> int:
    """Count nodes without docstrings, annotations and marks of loading and storing."""
    total, todo = 0, [tree]
    while todo:
        node = todo.pop()
        total += 1
        for field in node._fields:
            value = None if field in SKIPPED else getattr(node, field, None)
            if isinstance(value, ast.AST):
                todo.append(value)
            elif isinstance(value, list):
                todo += [
                    each for each in value if isinstance(each, ast.AST) and not (field == "body" and is_text(each))
                ]
    return total


def is_text(node: ast.AST) -> bool:
    """Return whether a statement is only a text."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def late_imports(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the imports within functions."""
    todo: list[tuple[ast.AST, bool]] = [(tree, False)]
    while todo:
        node, within = todo.pop()
        if within and isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        within |= isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        parts = (getattr(node, name, ()) for name in ("body", "orelse", "finalbody", "handlers", "cases"))
        todo += [(statement, within) for part in parts for statement in part]


def longest(tree: ast.Module) -> int:
    """Return the lines of the longest function."""
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return max((node.end_lineno - node.lineno + 1 for node in functions if node.end_lineno), default=0)


def members(entry: type) -> int:
    """Count the public members of a class and of its bases in the project, with the attributes that have no value."""
    bases = [each for each in entry.__mro__ if each.__module__.startswith(("coordinator.", "emunode."))]
    names = {name for each in bases for name in (*vars(each), *vars(each).get("__annotations__", ()))}
    return len([each for each in names if not each.startswith("_")])


def measured() -> dict[str, int]:
    """Return the numbers that `LIMITS` bounds."""
    product = [each for each in sources() if each.path.parts[0] in ("emunode", "coordinator")]
    core = [each for each in product if not each.is_annex]
    commands = [each for each in product if "cli" in each.path.parts or "command" in each.path.stem]
    return {
        "core": sum(each.size for each in core),
        "annexes": sum(each.size for each in product if each.is_annex and not each.new_annex),
        "tests": sum(each.size for each in sources() if each.path.parts[0] == "tests" and not each.new_annex),
        "scripts": sum(each.size for each in sources() if each.path.parts[0] == "scripts" and not each.new_annex),
        "modules of the core": len([each for each in core if each.path.name != "__init__.py"]),
        "late imports": sum(each.late_imports for each in product),
        "longest function of the command line": max(each.longest for each in commands),
        "members of Algorithm": members(Algorithm),
        "hooks of Feature": members(Feature),
        "fields of Scenario": len(Scenario.model_fields),
        **{
            of: sum(each.size for each in sources() if each.new_annex == name and each.path.parts[0] in folders)
            for name in NEW_ANNEXES
            for of, folders in (
                (f"annex {name}", ("emunode", "coordinator")),
                (f"tests and scripts of the annex {name}", ("tests", "scripts")),
            )
        },
    }


def largest_shares() -> str:
    """Return the ten folders of the core with the most nodes."""
    shares = Counter[str]()
    for each in sources():
        if each.path.parts[0] in ("emunode", "coordinator") and not each.is_annex:
            shares["/".join(each.path.parts[:2])] += each.size
    return ", ".join(f"{folder} {count:,}" for folder, count in shares.most_common(10))


def test_sizes_stay_below_their_limits() -> None:
    found = measured()
    print({name: f"{count:,} of {LIMITS[name]:,}" for name, count in found.items()}, largest_shares())
    assert {name: count for name, count in found.items() if count > LIMITS[name]} == {}, largest_shares()


CODE: Final = """
import json, sys
from coordinator import network
net = network("star:4")
def run():
    return net.broadcast("edt", redundancy=3, faults=["crash:4231@2"])
run()
entered = set()
def profile(frame, event, arg):
    if event == "call" and (name := frame.f_globals.get("__name__", "")).startswith(("coordinator", "emunode")):
        entered.add((name, frame.f_code.co_qualname))
sys.setprofile(profile)
run()
sys.setprofile(None)
ours = [name for name in sys.modules if name.partition(".")[0] in ("coordinator", "emunode")]
print(json.dumps([len({name for name, _ in entered}), len(entered), len(ours)]))
"""


def test_one_call_enters_few_modules() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], cwd=ROOT, capture_output=True, text=True, check=True)
    found = dict(zip(ONE_CALL, json.loads(done.stdout), strict=True))
    assert {name: count for name, count in found.items() if count > ONE_CALL[name]} == {}, found


@pytest.mark.parametrize(
    ("text", "count"),
    [("x = 1", 4), ('"""A text."""\nx: int = 1', 4), ("def f(a: int) -> str:\n    'text'\n    return a", 6)],
)
def test_docstrings_and_annotations_do_not_count(text: str, count: int) -> None:
    assert nodes(ast.parse(text)) == count
