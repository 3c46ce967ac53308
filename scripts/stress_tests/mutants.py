"""Mutation testing: change the code of the core in one place; its tests must fail.

A mutant is one change of the syntax tree of a module: a replaced operator, comparison or constant, or an omitted statement.
It is applied to a copy of the project, where the tests of the module run. A mutant survives if they pass.
"""

import ast
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from stress_tests.common import ROOT, Attempt, Budget, Row

SECONDS = 900
MUTANTS = 6
"""Mutants per module."""
OUT_OF_TIME = "out of time"
UNSHRUNK = """
from hypothesis import Phase, settings
settings.register_profile("unshrunk", settings.get_profile("repeatable"), phases=(Phase.explicit, Phase.generate))
"""
"""Hypothesis need not shrink the failing example: a failure is enough."""
TOPOLOGIES = "topologies/test_golden_networks.py topologies/test_topologies.py topologies/test_labels.py"
TESTS = {
    "engine/node.py": "engine/test_node.py algorithms/test_conformance.py",
    "net/wire.py": "net/test_wire.py net/test_framed_streams.py",
    "algorithms/payload.py": "algorithms/test_payload.py algorithms/test_conformance.py",
    "host/placement.py": "host/test_placement.py",
    "topologies/star.py": TOPOLOGIES,
    "topologies/hypercube.py": TOPOLOGIES,
    "topologies/eisenstein_jacobi.py": TOPOLOGIES,
    "trees/star/greedy.py": "trees/test_star.py test_conformance.py",
    "trees/star/edge_disjoint.py": "trees/test_star.py",
    "trees/eisenstein_jacobi/sectors.py": "trees/test_eisenstein_jacobi.py test_conformance.py",
    "trees/hypercube/binomial.py": "trees/test_hypercube.py test_conformance.py",
    "trees/hypercube/balanced.py": "trees/test_hypercube.py",
    "algorithms/tree_collective.py": "algorithms/test_tree_collective.py algorithms/test_expected_runs.py "
    "algorithms/star/test_allgather.py",
    "algorithms/routed_collective.py": "algorithms/star/test_personalized.py algorithms/test_expected_runs.py",
}
"""Modules of emunode with their tests in tests/emunode, the fastest first: a mutant is killed by the first failure."""
CHECKS = {
    "engine/node.py": "conforms or memory_engine",
    "algorithms/payload.py": "conforms or memory_engine",
    "algorithms/tree_collective.py": "outages or crashes",
    "algorithms/routed_collective.py": "outages or crashes",
}
"""Modules whose mutants also meet checks of every algorithm, in `tests/contract`, where the tests of the module pass."""
SLOW = " test_conformance.py"
"""Every tree on every network, 20 s of processor time; not in a sample."""
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
    """Yield (description, source of the mutant) for at most `most` random places."""
    tree = ast.parse(source)
    places = [(node, *change) for node in ast.walk(tree) for change in _changes(node)]
    for node, description, field, value in draw.sample(places, min(len(places), most)):
        original = getattr(node, field)
        setattr(node, field, value)
        yield f"line {getattr(node, 'lineno', 0)}: {description}", ast.unparse(tree)
        setattr(node, field, original)


def _changes(node: ast.AST) -> Iterator[tuple[str, str, Any]]:
    """Yield (description, field, new value) of every change of one node."""
    match node:
        case ast.BinOp(op=old) | ast.AugAssign(op=old) | ast.BoolOp(op=old) if type(old) in SWAPS:
            new = SWAPS[type(old)]
            yield f"{type(old).__name__} to {new.__name__}", "op", new()
        case ast.Compare(ops=[old, *rest]) if type(old) in SWAPS:
            new = SWAPS[type(old)]
            yield f"{type(old).__name__} to {new.__name__}", "ops", [new(), *rest]
        case ast.Constant(value=bool(old)):
            yield f"{old} to {not old}", "value", not old
        case ast.Constant(value=int(old)):
            yield f"{old} to {old + 1}", "value", old + 1
        case ast.FunctionDef(body=body) if len(body) > 1:
            for at, statement in enumerate(body):
                if isinstance(statement, ast.Assign | ast.AugAssign | ast.If | ast.For):
                    line = ast.unparse(statement).splitlines()[0]
                    yield f"left out: {line}", "body", [*body[:at], ast.Pass(), *body[at + 1 :]]


def run_tests(budget: Budget, chosen: list[tuple[str, str, str]], number: int) -> Attempt:
    """Test one mutant in a copy of the project; counts its module and description if the tests pass."""
    module, description, source = chosen[number]
    project = budget.scratch / f"mutant-{number}"
    ignored = shutil.ignore_patterns(".*", "runs", "docs", "corpus")
    shutil.copytree(ROOT, project, ignore=ignored)
    (project / "emunode" / module).write_text(source)
    with (project / "tests" / "conftest.py").open("a") as conftest:
        conftest.write(UNSHRUNK)
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider"]
    if not budget.sample:
        command += ["-m", "not slow"]  # also every parameter set of exhaustive tests
    selections = [[f"tests/emunode/{name}" for name in TESTS[module].split()]]
    if module in CHECKS:
        selections.append(["tests/contract/test_algorithms.py", "-k", CHECKS[module]])
    # The copy has the bytecode that `ensure_venv` left beside the sources: compiling takes longer than most of these tests.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPYCACHEPREFIX"}
    environment |= {"PYTHONPATH": str(project), "PYTHONDONTWRITEBYTECODE": "1", "HYPOTHESIS_PROFILE": "unshrunk"}
    passed = (_pass([*command, *selection], project, environment) for selection in selections)
    failed = next((each for each in passed if each is not True), True)
    shutil.rmtree(project)
    if failed is None:
        return Attempt([], Counter({OUT_OF_TIME: 1}))
    return Attempt([], Counter([f"{module} {description}"] if failed else []))


def _pass(command: list[str], project: Path, environment: dict[str, str]) -> bool | None:
    """Return whether tests pass; None if they do not end in time, because of an endless loop or a busy machine."""
    try:
        done = subprocess.run(command, cwd=project, env=environment, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return None
    return done.returncode == 0


def run_section(budget: Budget) -> Iterator[Row]:
    """Test several mutants per module, or one for every third module with fast tests; survivors are listed for review.

    Modules without survivors are also tested unchanged (in a sample, the first of them): their tests must pass.
    """
    draw, row = random.Random(budget.seed), Row("the core's rules, changed in one place")
    modules = [module for module, tests in TESTS.items() if not (budget.sample and f" {tests}".endswith(SLOW))]
    sources = {module: (ROOT / "emunode" / module).read_text() for module in modules[:: budget.times(1, 3)]}
    chosen = [
        (module, description, mutant)
        for module, source in sources.items()
        for description, mutant in mutants(source, draw, budget.times(MUTANTS, 1))
    ]
    survivors = row.run_all(partial(run_tests, budget, chosen), range(len(chosen)), processes=2)
    late = survivors.pop(OUT_OF_TIME, 0)
    for survivor in survivors:
        row.show(f"survived: {survivor}")
    killed = row.tried - survivors.total()
    proved = {survivor.split()[0] for survivor in survivors}
    controls = [(module, "unchanged", source) for module, source in sources.items() if module not in proved]
    controls = controls[: budget.times(len(TESTS), 1)]
    passed = Row("unchanged").run_all(partial(run_tests, budget, controls), range(len(controls)), processes=2)
    row.wrong = [
        f"{module}: its tests do not pass within {SECONDS} s"
        for module, _, _ in controls
        if not passed[f"{module} unchanged"]
    ]
    row.note = (
        f"{killed} killed, {late} of them by the time limit, {survivors.total()} survived "
        "(known survivors: docs/maintainers/robustness.md); "
        f"{len(controls)} modules unchanged"
    )
    yield row
