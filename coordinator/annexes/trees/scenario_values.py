"""Files of spanning trees in scenarios: read as `coordinator check` reads them, and kept as text.

A scenario that is resolved has the trees as text, so that it is repeated without executing the file again, and hosts receive
them with the record of the run.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from coordinator.annexes.grading.confinement import Limits
from coordinator.annexes.grading.submission import GradingTimeError, SubmissionEndedError, SubmissionServer
from coordinator.annexes.grading.tree_marks import (
    Answers,
    read_csv,
    read_parents,
    read_submission,
    spanning_problems,
)
from coordinator.annexes.trees.options import DATA
from coordinator.scenario.named import require_value_named
from coordinator.scenario.networks import network_of_values
from emunode.annexes import TREES
from emunode.annexes.trees.tree_text import MOST_FILE, MOST_PARENTS, TreeText, digest, invalid_trees, parents_of
from emunode.errors import ScenarioError
from emunode.model import ROOTLESS
from emunode.topologies.base import Topology
from emunode.trees.any_network.checks import NO_PARENT, Parents, root_of

SECONDS: Final = 10.0
"""Time for the answers of a file, which are computed one after the other."""


def with_trees_file(values: Mapping[str, object], named: str) -> dict[str, object]:
    """Return the values of a scenario with the trees of the file `named` as text, their algorithm, and their root.

    Raises ScenarioError for a file that is executed and that only a file names, for trees that are wrong, and for values
    that contradict them.
    """
    require_value_named(TREES, named)
    path = Path(named)
    if str(values.get("algorithm", TREES)) != TREES:
        raise ScenarioError("algorithm", values["algorithm"], f"{path.name} takes its place; leave it out")
    topology = network_of_values(values)
    if topology is None:
        raise ScenarioError(
            "topology",
            None,
            "--trees has the trees of one network: name it, as in run star:4 broadcast --trees FILE; a sweep over networks "
            "takes an algorithm of --plugin FILE",
        )
    trees = read_trees(path, topology)
    found = {**values, TREES: trees.json, "algorithm": TREES}
    if str(values.get("collective", "")).lower() not in ROOTLESS and values.get("source") is None:
        found["source"] = topology.label(root_of(parents_of(topology, trees)[0]))
    return found


def read_trees(path: Path, topology: Topology) -> TreeText:
    """Return the trees of a file for a network; ScenarioError (field `trees`) with tree and label for wrong ones.

    A file in Python runs in a process of its own, confined and limited as a submission is.
    """
    if topology.order > MOST_PARENTS:
        raise invalid_trees(
            f"{topology.name} has {topology.order:,} nodes; at most {MOST_PARENTS:,} are run", str(path)
        )
    try:
        text = read_submission(path, MOST_FILE)
        answers = read_csv(path, text, topology) if path.suffix == DATA else _answers(path, text, topology)
    except ScenarioError as error:
        if error.field != "file":
            raise
        raise invalid_trees(error.allowed, str(error.value)) from None
    if not answers:
        raise invalid_trees("it has no trees; TREES is their number", str(path))
    if len(answers) * topology.order > MOST_PARENTS:
        raise invalid_trees(
            f"{len(answers)} trees of {topology.order:,} nodes; at most {MOST_PARENTS:,} in all", str(path)
        )
    trees = [_ports(path, topology, number, each) for number, each in enumerate(answers)]
    return TreeText(path.name, digest(text), text, trees)


def _answers(path: Path, text: str, topology: Topology) -> Sequence[Answers]:
    """Execute a file and return its answers."""
    try:
        with SubmissionServer(path.name, text, Limits(SECONDS)) as server, server.process() as process:
            names = [] if process.loaded is None else process.loaded.trees
            if len(names) != 1:
                reason = process.problem or f"expected one parent(label, tree), found {', '.join(names) or 'none'}"
                raise invalid_trees(reason, str(path))
            labels = [topology.label(rank) for rank in topology.ranks()]
            answer: Any = process.ask("parents", topology=topology.name, source=names[0], labels=labels)
            tried = [*process.load_calls, *process.refused_calls()]
    except (SubmissionEndedError, GradingTimeError) as error:
        raise invalid_trees(str(error), str(path)) from None
    if answer.problem is not None or tried:
        raise invalid_trees(answer.problem or f"it tried {tried[0]}; a tree is computed from a label", str(path))
    trees: Sequence[Answers] = answer.result.trees
    return trees


def _ports(path: Path, topology: Topology, number: int, answers: Answers) -> list[int]:
    """Return the port to the parent of every rank; ScenarioError for the first mistake."""
    parents, problems = read_parents(topology, answers)
    if problem := next(iter(problems), None) or next(spanning_problems(topology, parents), None):
        raise invalid_trees(f"tree {number}: {problem}", str(path))
    return [_port(topology, rank, parents) for rank in topology.ranks()]


def _port(topology: Topology, rank: int, parents: Parents) -> int:
    to = parents[rank]
    return NO_PARENT if to == NO_PARENT else next(port for port, peer in topology.adjacent(rank) if peer == to)
