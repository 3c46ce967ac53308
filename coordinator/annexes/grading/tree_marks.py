"""The requirements of trees: answers that name neighbours, spanning trees, and the properties that are asked for.

A tree is given by the answer of every node: the label of its parent, the port that leads there, or None at the root.
"""

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from coordinator.annexes.grading.answers import MOST_TREES
from coordinator.annexes.grading.marks import Mark
from coordinator.annexes.grading.refereed_run import named, port_names
from coordinator.history.stored.reading import read_text
from emunode.errors import ScenarioError
from emunode.model import Rank
from emunode.topologies.base import Topology
from emunode.trees.any_network.checks import (
    NO_PARENT,
    Parents,
    arc_disjoint_problem,
    complete_independence_problem,
    depths,
    edge_disjoint_problem,
    independence_problem,
)

Answers = Sequence[Any]
"""The answer of every node of a tree, by rank; the judge finds out what the answers are."""
MISSING: Final = "?"
"""The answer of a node that a file does not mention."""
MOST_CSV: Final = 64 << 20
MOST_ANSWERS: Final = 1 << 24
"""The most nodes of all trees of a CSV file together."""
PORT: Final = re.compile(r"-?[0-9]{1,9}")
COLUMNS: Final = ("tree", "label", "parent")
PROPERTIES: Final[dict[str, Callable[[Topology, Sequence[Parents]], str | None]]] = {
    "arc-disjoint": arc_disjoint_problem,
    "edge-disjoint": edge_disjoint_problem,
    "independent": independence_problem,
    "completely-independent": complete_independence_problem,
}


def grade_trees(topology: Topology, trees: Sequence[Answers], wanted: Sequence[str]) -> list[Mark]:
    """Return the marks for trees of one network; `wanted` are names of `PROPERTIES`, the others are reported only."""
    parents_mark = Mark("parents", "every node but the root names a neighbour, by its label or by a port")
    spanning = Mark("spanning", "every tree has one root, no cycle, and reaches every node")
    found: list[Parents] = []
    if not trees:
        parents_mark.add(["there are no trees"])
    for tree, answers in enumerate(trees):
        where = f"{topology.name}, tree {tree}"
        parents, problems = read_parents(topology, answers)
        parents_mark.add(f"{where}: {problem}" for problem in problems)
        if problems:
            spanning.add([f"{where}: not every parent is known"])
        elif spanning.add(f"{where}: {problem}" for problem in spanning_problems(topology, parents)):
            found.append(parents)
    properties = [_property(topology, found, len(trees), name, required=name in wanted) for name in PROPERTIES]
    return [parents_mark, spanning, *properties, _depth(topology, found)]


def read_parents(topology: Topology, answers: Answers) -> tuple[list[Rank], list[str]]:
    """Return the parent of every rank, and the mistakes in the answers."""
    parents, problems = [], []
    for rank in topology.ranks():
        parent, problem = _parent(topology, rank, answers[rank] if rank < len(answers) else MISSING)
        parents.append(parent)
        if problem:
            problems.append(problem)
    return parents, problems


def _parent(topology: Topology, rank: Rank, answer: Any) -> tuple[Rank, str | None]:
    if answer is None:
        return NO_PARENT, None
    if isinstance(answer, bool) or not isinstance(answer, int | str):
        return (
            NO_PARENT,
            f"the parent of {topology.label(rank)} is {answer!r}; expected a label, a port, or None for the root",
        )
    return _by_port(topology, rank, answer) if isinstance(answer, int) else _by_label(topology, rank, answer)


def _by_port(topology: Topology, rank: Rank, port: int) -> tuple[Rank, str | None]:
    ports = topology.ports(rank)
    if port in ports:
        return topology.neighbour(rank, port), None
    return NO_PARENT, f"{topology.label(rank)} hangs under port {port}; {topology.title} has ports {port_names(ports)}"


def _by_label(topology: Topology, rank: Rank, label: str) -> tuple[Rank, str | None]:
    name = topology.label(rank)
    if label == MISSING:
        return NO_PARENT, f"{name} is missing"
    try:
        parent = topology.rank(label)
    except ScenarioError:
        return NO_PARENT, f"{name} hangs under {label!r}, which is not a node of {topology.title}"
    if parent in topology.neighbours(rank):
        return parent, None
    neighbours = ", ".join(topology.label(peer) for _, peer in topology.adjacent(rank))
    return NO_PARENT, f"{name} hangs under {topology.label(parent)}, but its neighbours are {neighbours}"


def spanning_problems(topology: Topology, parents: Parents) -> Iterator[str]:
    """Return why parents are not a spanning tree: roots, cycles, and the nodes that are not reached from the root."""
    roots = [rank for rank, parent in enumerate(parents) if parent == NO_PARENT]
    if len(roots) != 1:
        yield f"one root expected, found {named(topology, roots) if roots else 'none'}"
    state = dict.fromkeys(roots, True)
    """Whether a rank leads to a root, as far as it is known."""
    for start in topology.ranks():
        path: list[Rank] = []
        here = start
        while here not in state and here not in path:
            path.append(here)
            here = parents[here]
        if here in path:
            circle = [*path[path.index(here) :], here]
            shown = circle if len(circle) <= 8 else [*circle[:7], here]
            dots = "" if len(circle) <= 8 else " -> .."
            labels = " -> ".join(map(topology.label, shown[:-1])) + dots
            yield f"{labels} -> {topology.label(here)} is a cycle"
        state |= dict.fromkeys(path, state.get(here, False))
    lost = [rank for rank in topology.ranks() if not state[rank]]
    if lost:
        yield f"not reached: {named(topology, lost)}"


def _property(topology: Topology, trees: Sequence[Parents], count: int, name: str, *, required: bool) -> Mark:
    mark = Mark(name, "a property of all trees together", required=required)
    if len(trees) < count or not count:
        if required:
            mark.add([f"{topology.name}: not every tree is a spanning tree"])
        return mark
    problem = PROPERTIES[name](topology, trees)
    mark.add([f"{topology.name}: {problem}"] if problem else [])
    return mark


def _depth(topology: Topology, trees: Sequence[Parents]) -> Mark:
    """Return the depth of the trees, beside the least possible depth."""
    mark = Mark("depth", "the deepest tree, as a multiple of the largest distance from its root", required=False)
    ratios = []
    for tree, parents in enumerate(trees):
        root = list(parents).index(NO_PARENT)
        deepest, least = max(depths(parents)), topology.eccentricity(root)
        ratios.append(
            (deepest / least, f"tree {tree} has depth {deepest}, at least {least}: {deepest / least:.2f} times")
        )
    if ratios:
        mark.add(())
        mark.notes.append(f"{topology.name}: {max(ratios)[1]}")
    return mark


# --- files -----------------------------------------------------------------------------------------------------------


def read_submission(path: Path, most: int) -> str:
    """Return the text of a file; ScenarioError (field `file`) if it cannot be read, or has more than `most` bytes."""
    try:
        return read_text(path, most)
    except UnicodeDecodeError as error:
        raise ScenarioError("file", str(path), f"it is not UTF-8: {error}") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ScenarioError("file", str(path), f"it cannot be read: {reason}") from None


def read_csv(path: Path, text: str, topology: Topology) -> list[Answers]:
    """Return the trees in the text of a file with the columns tree, label and parent, or port in place of parent.

    The parent of a root is empty. Raises ScenarioError (field `file`) with the line for a file that is malformed; trees that
    are wrong are for the judge.
    """
    answers: dict[int, list[Any]] = {}
    try:
        rows = csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline=""))
        columns = [name.strip() for name in rows.fieldnames or ()]
        by_port = "port" in columns and "parent" not in columns
        needed = ("tree", "label", "port") if by_port else COLUMNS
        if not set(needed) <= set(columns):
            raise _malformed(
                path, 1, f"expected the columns {', '.join(COLUMNS)}, found {', '.join(columns) or 'none'}"
            )
        rows.fieldnames = columns
        for row in rows:
            if any(row[name] is None for name in needed):
                raise _malformed(path, rows.line_num, f"expected {len(columns)} values, with commas between them")
            tree, label, parent = (row[name].strip() for name in needed)
            _put(path, rows.line_num, answers, topology, (tree, label, parent), by_port=by_port)
    except csv.Error as error:
        raise ScenarioError("file", str(path), f"it is not CSV: {error}") from None
    missing = sorted(set(range(max(answers, default=-1) + 1)) - set(answers))
    if missing or not answers:
        raise ScenarioError("file", str(path), f"there is no tree {missing[0] if missing else 0}; trees count from 0")
    return [answers[tree] for tree in sorted(answers)]


def _put(
    path: Path,
    line: int,
    answers: dict[int, list[Any]],
    topology: Topology,
    row: tuple[str, str, str],
    *,
    by_port: bool,
) -> None:
    tree, label, parent = row
    if not (tree.isascii() and tree.isdigit() and int(tree[:9]) < MOST_TREES):
        raise _malformed(path, line, f"tree {tree!r}: expected a number from 0 to {MOST_TREES - 1}")
    try:
        rank = topology.rank(label)
    except ScenarioError as error:
        raise _malformed(path, line, str(error)) from None
    if int(tree) not in answers and (len(answers) + 1) * topology.order > MOST_ANSWERS:
        raise _malformed(path, line, f"more than {MOST_ANSWERS:,} nodes in all trees")
    found = answers.setdefault(int(tree), [MISSING] * topology.order)
    if found[rank] != MISSING:
        raise _malformed(path, line, f"tree {tree} mentions {label} a second time")
    if by_port and parent not in ("", "-") and not PORT.fullmatch(parent):
        raise _malformed(path, line, f"port {parent!r}: expected a number")
    found[rank] = None if parent in ("", "-") else int(parent) if by_port else parent


def _malformed(path: Path, line: int, reason: str) -> ScenarioError:
    return ScenarioError("file", f"{path}, line {line}", reason)
