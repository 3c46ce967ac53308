"""Trees as text: what a host accepts of a stranger's record."""

import json

import pytest

from emunode.annexes.trees.tree_text import TreeText, digest, parents_of, parse_trees
from emunode.errors import ScenarioError
from emunode.topologies.meshes import Mesh

PATH = TreeText("t.py", digest("x"), "x", [[-1, 1, 1]])


def test_trees_come_back_from_their_text() -> None:
    assert parse_trees(PATH.json) == PATH
    assert parents_of(Mesh((3,)), PATH) == [[-1, 0, 1]]


@pytest.mark.parametrize(
    "text",
    [
        "no", "[1]", "{}", "[" * 5000,
        *(
            json.dumps({**PATH._asdict(), key: value})
            for key, value in (("file", 1), ("text", None), ("ports", []), ("ports", [0]), ("ports", [[True]]))
        ),
        json.dumps({**PATH._asdict(), "more": 1}),
    ],
)  # fmt: skip
def test_malformed_texts_of_trees_are_refused(text: str) -> None:
    with pytest.raises(ScenarioError, match=r"^trees: (neither a file|its text needs)"):
        parse_trees(text)


def test_another_text_of_trees_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"^trees: digest mismatch"):
        parse_trees(PATH._replace(text="y").json)


@pytest.mark.parametrize(
    ("ports", "reason"),
    [
        ([[-1, 1]], "tree 0 is not a tree of mesh:3: other nodes, or other ports"),
        ([[-1, 7, 1]], "tree 0 is not a tree of mesh:3: other nodes, or other ports"),
        ([[-1, 1, 1], [-1, 0, 1]], "tree 1: the parents of 1 lead back to itself"),
        ([[-1, 1, 1], [0, 0, -1]], "tree 0 has root 0, tree 1 has root 2; one root is expected"),
    ],
)
def test_ports_that_are_no_trees_are_refused(ports: list[list[int]], reason: str) -> None:
    with pytest.raises(ScenarioError, match=reason):
        parents_of(Mesh((3,)), PATH._replace(ports=ports))
