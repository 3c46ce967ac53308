"""Grading of trees: from a CSV file, a parent function, or a class; of wrong ones the grade names node and reason."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from coordinator.annexes.grading.grade import GradeOptions, grade
from coordinator.annexes.grading.marks import MarkVerdict
from coordinator.annexes.grading.tree_marks import (
    MOST_CSV,
    PROPERTIES,
    grade_trees,
    read_csv,
    read_parents,
    read_submission,
    spanning_problems,
)
from emunode.errors import ScenarioError
from emunode.topologies.base import Topology
from emunode.topologies.hypercube import Hypercube
from emunode.topologies.meshes import Mesh
from emunode.topologies.star import StarGraph
from emunode.trees.hypercube.rotated import EdgeDisjointBinomialTrees
from emunode.trees.star.edge_disjoint import EdgeDisjointTrees
from emunode.trees.star.greedy import GreedyTree
from tests.annexes.grading.tree_files import labels_of, write_csv

STAR = StarGraph(4)


def verdicts(topology: Topology, trees: Sequence[Sequence[object]], *wanted: str) -> dict[str, tuple[str, list[str]]]:
    marks = grade_trees(topology, trees, wanted)
    return {mark.requirement: (str(mark.verdict), [*mark.findings, *mark.notes]) for mark in marks}


# --- properties ------------------------------------------------------------------------------------------------------


def test_known_trees_have_their_properties(tmp_path: Path) -> None:
    star = labels_of(STAR, EdgeDisjointTrees(STAR))
    path = write_csv(tmp_path / "t.csv", STAR, star)
    assert read_csv(path, path.read_text(), STAR) == star
    # Fragopoulou and Akl: n - 1 arc-disjoint trees; together they have more links than the graph, so some are shared.
    seen = verdicts(STAR, star, "arc-disjoint", "edge-disjoint")
    assert seen["spanning"][0] == seen["arc-disjoint"][0] == "pass"
    assert seen["edge-disjoint"][0] == "fail"
    cube = Hypercube(3)
    seen = verdicts(cube, labels_of(cube, EdgeDisjointBinomialTrees(cube)), "arc-disjoint", "independent")
    assert seen["arc-disjoint"][0] == "pass"
    single = verdicts(STAR, labels_of(STAR, GreedyTree(STAR)), *PROPERTIES)
    assert {name: verdict for name, (verdict, _) in single.items() if verdict != "pass"} == {"depth": "information"}
    assert single["depth"][1] == ["star:4: tree 0 has depth 4, at least 4: 1.00 times"]


def test_properties_by_hand() -> None:
    ring = Hypercube(2)  # ranks 0 1 3 2 in a circle
    one, other = [None, "00", "11", "01"], [None, "11", "00", "10"]
    seen = verdicts(ring, [one, other])
    assert seen["independent"][0] == "information"
    marks = {mark.requirement: mark for mark in grade_trees(ring, [one, other], list(PROPERTIES))}
    assert [name for name in PROPERTIES if marks[name].verdict is MarkVerdict.PASS] == ["arc-disjoint", "independent"]
    assert marks["edge-disjoint"].findings == ["hypercube:2: trees 0 and 1 both use the link 01~11"]
    same = {mark.requirement: mark for mark in grade_trees(ring, [one, one], list(PROPERTIES))}
    assert same["independent"].findings == ["hypercube:2: trees 0 and 1 both use the link 00>01"]
    shared = [None, "00", "00", "10"]
    twice = {mark.requirement: mark for mark in grade_trees(ring, [[None, "00", "11", "01"], shared], ["independent"])}
    assert twice["independent"].verdict is MarkVerdict.FAIL


# --- what is wrong ---------------------------------------------------------------------------------------------------


def greedy(**changes: object) -> list[object]:
    """Return the greedy tree of S_4 by labels, with other answers at some labels."""
    answers: list[object] = list(labels_of(STAR, GreedyTree(STAR))[0])
    for label, answer in changes.items():
        answers[STAR.rank(label.removeprefix("at_"))] = answer
    return answers


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (greedy(at_2134=7), "2134 hangs under port 7; permutation star graph S_4 has ports 0..2"),
        (greedy(at_2134="1243"), "2134 hangs under 1243, but its neighbours are 1234, 3124, 4132"),
        (greedy(at_2134="12"), "2134 hangs under '12', which is not a node of permutation star graph S_4"),
        (greedy(at_2134=True), "the parent of 2134 is True; expected a label, a port, or None for the root"),
        (greedy()[:-1], "4321 is missing"),
    ],
)
def test_wrong_parents_are_named(answers: list[object], expected: str) -> None:
    assert read_parents(STAR, answers)[1] == [expected]


def test_cycles_and_lost_nodes_are_named() -> None:
    parents, problems = read_parents(STAR, greedy(at_4231="2431", at_2431="4231"))
    assert problems == []
    found = list(spanning_problems(STAR, parents))
    assert found[0] == "4231 -> 2431 -> 4231 is a cycle"
    assert found[1].startswith("not reached: ")
    assert "4231" in found[1]
    parents, _ = read_parents(STAR, greedy(at_4231=None))
    assert next(iter(spanning_problems(STAR, parents))) == "one root expected, found 1234, 4231"
    assert list(spanning_problems(Mesh((3,)), [1, 2, 1])) == [
        "one root expected, found none",
        "1 -> 2 -> 1 is a cycle",
        "not reached: 0, 1, 2",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tree,label\n", "line 1.*expected the columns tree, label, parent, found tree, label"),
        ("", "found none"),
        ("tree,label,parent\nx,1234,\n", "line 2.*tree 'x': expected a number"),
        ("tree,label,parent\n0,1235,\n", "line 2.*1235"),
        ("tree,label,parent\n0,1234,\n0,1234,\n", "line 3.*tree 0 mentions 1234 a second time"),
        ("tree,label,port\n0,1234,up\n", "line 2.*port 'up'"),
        ("tree,label,parent\n1,1234,\n", "there is no tree 0"),
        ("tree,label,parent\n", "there is no tree 0"),
        ("tree,label,parent\n0,\udcff,\n", "it is not UTF-8"),
        ("tree,label,port\n0,1234,\n0,2134,--1\n", "line 3.*port '--1': expected a number"),
        ("tree,label,port\n0,1234,\n0,2134," + "9" * 5000, "line 3.*expected a number"),
        ("tree,label,parent\n0,1234\n", "line 2.*expected 3 values"),
    ],
)
def test_malformed_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ScenarioError, match=f"(?s){message}"):
        read_csv(path, read_submission(path, MOST_CSV), STAR)


# --- parent functions ------------------------------------------------------------------------------------------------

FUNCTION = """
TREES = 2

def parent(label, tree):
    # Two paths around the square.
    order = ["00", "01", "11", "10"]
    if tree:
        order = order[:1] + order[:0:-1]
    place = order.index(label)
    return order[place - 1] if place else None
"""


def test_parent_function(tmp_path: Path) -> None:
    file = tmp_path / "paths.py"
    file.write_text(FUNCTION)
    found = grade(file, GradeOptions([Hypercube(2)], properties=("independent",)), lambda *_: None)
    assert found.verdict is MarkVerdict.PASS
    file.write_text(FUNCTION.replace("order[place - 1] if place else None", "5 if place else None"))
    found = grade(file, GradeOptions([Hypercube(2)]), lambda *_: None)
    findings = [finding for subject in found.subjects for mark in subject.marks for finding in mark.findings]
    assert "hypercube:2, tree 0: 01 hangs under port 5; hypercube Q_2 has ports 0..1" in findings
    file.write_text(FUNCTION.replace("order[place - 1] if place else None", "{1} if place else None"))
    assert "01: TypeError: tree 0: expected a label, a port" in str(
        grade(file, GradeOptions([Hypercube(2)]), lambda *_: None).record()
    )
    with pytest.raises(ScenarioError, match="give --topology NET"):
        grade(file, GradeOptions(), lambda *_: None)


def test_class_of_trees(tmp_path: Path) -> None:
    file = tmp_path / "tree.py"
    file.write_text(
        "from emunode.trees.base import Trees\n\nclass Mine(Trees):\n    def parent(self, rank, tree):\n"
        "        return next(p for p, r in self.topology.adjacent(rank) if r < rank)\n"
    )
    assert grade(file, GradeOptions([Hypercube(3)]), lambda *_: None).verdict is MarkVerdict.PASS


# --- the command -----------------------------------------------------------------------------------------------------
