"""Mutation testing: change the code of the core in one place; its tests must fail.

A mutant is one change of the syntax tree of a module: a replaced operator, comparison or constant, or an omitted statement.
It is applied to a copy of the project, in which the tests of the module run. A mutant survives if they pass.
"""

import ast
import copy
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from stress_tests.common import ROOT, Budget, Row, each

SECONDS = 120
MUTANTS = 6
"""Mutants per module."""
UNSHRUNK = """
from hypothesis import Phase, settings
settings.register_profile("unshrunk", phases=(Phase.explicit, Phase.generate), deadline=None)
settings.load_profile("unshrunk")
"""
"""Hypothesis need not shrink the failing example: a failure is enough."""
TESTS: dict[str, tuple[str, ...]] = {
    "emunode/engine/node.py": ("tests/emunode/engine/test_node.py", "tests/emunode/algorithms/test_conformance.py"),
    "emunode/net/wire.py": ("tests/emunode/net/test_wire.py",),
    "emunode/algorithms/payload.py": (
        "tests/emunode/algorithms/test_payload.py",
        "tests/emunode/algorithms/test_conformance.py",
    ),
    "emunode/host/placement.py": ("tests/emunode/host/test_placement.py",),
    "emunode/topologies/star.py": (
        "tests/emunode/topologies/test_topologies.py",
        "tests/emunode/topologies/test_labels.py",
    ),
    "emunode/topologies/hypercube.py": (
        "tests/emunode/topologies/test_topologies.py",
        "tests/emunode/topologies/test_labels.py",
    ),
    "emunode/topologies/eisenstein_jacobi.py": (
        "tests/emunode/topologies/test_topologies.py",
        "tests/emunode/topologies/test_labels.py",
    ),
    "emunode/trees/star/greedy.py": ("tests/emunode/test_conformance.py", "tests/emunode/trees/test_star.py"),
    "emunode/trees/star/edge_disjoint.py": ("tests/emunode/trees/test_star.py",),
    "emunode/trees/eisenstein_jacobi/sectors.py": ("tests/emunode/test_conformance.py",),
    "emunode/trees/hypercube/binomial.py": (
        "tests/emunode/trees/test_hypercube.py",
        "tests/emunode/test_conformance.py",
    ),
    "emunode/trees/hypercube/balanced.py": ("tests/emunode/trees/test_hypercube.py",),
    "emunode/algorithms/tree_collective.py": (
        "tests/emunode/algorithms/test_expected_runs.py",
        "tests/emunode/algorithms/star/test_allgather.py",
        "tests/emunode/algorithms/test_losses.py",
    ),
    "emunode/algorithms/routed_collective.py": (
        "tests/emunode/algorithms/star/test_personalized.py",
        "tests/emunode/algorithms/test_expected_runs.py",
        "tests/emunode/algorithms/test_losses.py",
    ),
}
"""Modules with their tests."""

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitXor: ast.BitOr,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


def mutants(source: str, draw: random.Random, most: int) -> Iterator[tuple[str, str]]:
    """(description, source of the mutant) for at most `most` random places."""
    tree = ast.parse(source)
    places = [(number, what) for number, node in enumerate(ast.walk(tree)) for what in _changes(node)]
    for number, what in draw.sample(places, min(len(places), most)):
        changed = copy.deepcopy(tree)
        twin = list(ast.walk(changed))[number]
        line = getattr(twin, "lineno", 0)
        _apply(twin, what)
        yield f"line {line}: {what}", ast.unparse(ast.fix_missing_locations(changed))


def _changes(node: ast.AST) -> list[str]:
    if isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp) and type(node.op) in SWAPS:
        return [f"{type(node.op).__name__} to {SWAPS[type(node.op)].__name__}"]
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        return [f"{type(node.ops[0]).__name__} to {SWAPS[type(node.ops[0])].__name__}"]
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return [f"{node.value} to {node.value + 1}"]
    if isinstance(node, ast.Constant) and type(node.value) is bool:
        return [f"{node.value} to {not node.value}"]
    if isinstance(node, ast.FunctionDef) and len(node.body) > 1:
        kinds = ast.Assign | ast.AugAssign | ast.If | ast.For
        return [f"left out: {ast.unparse(one).splitlines()[0]}" for one in node.body if isinstance(one, kinds)]
    return []


def _apply(node: ast.AST, what: str) -> None:
    if isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp):
        node.op = SWAPS[type(node.op)]()  # type: ignore[assignment]
    elif isinstance(node, ast.Compare):
        node.ops[0] = SWAPS[type(node.ops[0])]()  # type: ignore[call-overload]
    elif isinstance(node, ast.Constant):
        node.value = not node.value if isinstance(node.value, bool) else node.value + 1  # type: ignore[operator]
    elif isinstance(node, ast.FunctionDef):
        gone = next(one for one in node.body if what == f"left out: {ast.unparse(one).splitlines()[0]}")
        node.body[node.body.index(gone)] = ast.Pass()


def try_one(scratch: Path, chosen: list[tuple[str, str, str]], number: int) -> tuple[str, str]:
    """Test one mutant: (`killed`, `survived` or `stalled`, its description)."""
    module, what, source = chosen[number]
    copy_of = scratch / f"mutant-{number}"
    ignored = shutil.ignore_patterns(".*", "__pycache__", "runs", "docs", "corpus")
    shutil.copytree(ROOT, copy_of, ignore=ignored)
    (copy_of / module).write_text(source)
    with (copy_of / "tests" / "conftest.py").open("a") as conftest:
        conftest.write(UNSHRUNK)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow",
        *TESTS[module],
    ]
    environment = {**os.environ, "PYTHONPATH": str(copy_of), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=copy_of, env=environment, capture_output=True, timeout=SECONDS, check=False)
        fate = "survived" if done.returncode == 0 else "killed"
    except subprocess.TimeoutExpired:
        fate = "stalled"
    shutil.rmtree(copy_of)
    return fate, f"{module} {what}"


def run_section(budget: Budget) -> list[Row]:
    """Test several mutants per module, or one for every third module; survivors are listed for review.

    Modules without survivors are also tested unchanged (in a sample, the first of them): their tests must pass.
    """
    draw = random.Random(budget.seed)
    chosen = []
    for module in list(TESTS)[:: budget.times(1, 3)]:
        for what, source in mutants((ROOT / module).read_text(), draw, budget.times(MUTANTS, 1)):
            chosen.append((module, what, source))
    row = Row("mutants", "the core's rules, changed in one place")
    survivors = []
    for fate, which in each(partial(try_one, budget.scratch, chosen), range(len(chosen)), 2):
        row.tried += 1
        if row.tried % 10 == 0:
            print(f"  mutants: {row.tried} of {len(chosen)}", flush=True)
        if fate == "survived":
            survivors.append(which)
            print(f"  survived: {which}", flush=True)
    proved = {which.split()[0] for which in survivors}
    unproved = [module for module in dict.fromkeys(module for module, _, _ in chosen) if module not in proved]
    controls = [
        (module, "unchanged", (ROOT / module).read_text()) for module in unproved[: budget.times(len(TESTS), 1)]
    ]
    fates = each(partial(try_one, budget.scratch, controls), range(len(controls)), 2)
    row.wrong = [f"{which}: its tests do not pass" for fate, which in fates if fate != "survived"]
    row.note = (
        f"{row.tried - len(survivors)} killed, {len(survivors)} survived (known survivors: "
        f"docs/maintainers/robustness.md); {len(controls)} modules unchanged"
    )
    return [row]
