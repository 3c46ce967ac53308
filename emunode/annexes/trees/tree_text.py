"""Spanning trees of a file as text, in the form in which a scenario and the record for hosts have them.

The text has the port to the parent of every node, and the file itself with its digest. So a run is repeated, and hosts play
it, without executing the file again.
"""

import json
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, NamedTuple

from emunode.annexes import TREES
from emunode.errors import ScenarioError
from emunode.model import Port, Rank
from emunode.topologies.base import CayleyTopology, Topology
from emunode.trees.any_network.checks import NO_PARENT, Parents, depths, root_of, same_root_problem, tree_problem

MOST_PARENTS: Final = 500_000
"""The most nodes of all trees together."""
MOST_LINKS: Final = 10_000_000
"""The most links of all paths from the root, in all trees: rules walk them."""
MOST_FILE: Final = 4 << 20
"""Characters of the largest file."""
MOST_TEXT: Final = 2**24
"""Characters of the text, as of the option `trees`."""


class TreeText(NamedTuple):
    """The trees of a file."""

    file: str
    """The name of the file."""
    sha256: str
    text: str
    """The text of the file."""
    ports: Sequence[Sequence[Port]]
    """By tree and rank: the port to the parent, `NO_PARENT` at the root."""

    @property
    def json(self) -> str:
        """The text that `parse_trees` reads."""
        return json.dumps(self._asdict(), separators=(",", ":"))


@lru_cache(4)
def parse_trees(text: str) -> TreeText:
    """Return the trees in a text; ScenarioError (field `trees`) for a text that is malformed or has another digest."""
    try:
        found = json.loads(text) if len(text) <= MOST_TEXT else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or set(found) != set(TreeText._fields):
        raise invalid_trees("neither a file that can be read nor the text of trees")
    trees = TreeText(**found)
    if not all(isinstance(each, str) for each in trees[:3]) or not _are_ports(trees.ports):
        raise invalid_trees("its text needs the texts file, sha256 and text, and for each tree a list of ports")
    if digest(trees.text) != trees.sha256:
        raise invalid_trees(f"digest mismatch: the scenario says {trees.sha256:.64}, the text has {digest(trees.text)}")
    return trees


def digest(text: str) -> str:
    """Return the digest of the text of a file."""
    return sha256(text.encode(errors="surrogatepass")).hexdigest()


def _are_ports(trees: Any) -> bool:
    if not isinstance(trees, list) or not trees or not all(isinstance(tree, list) for tree in trees):
        return False
    return sum(map(len, trees)) <= MOST_PARENTS and all(type(port) is int for tree in trees for port in tree)


def invalid_trees(reason: str, file: str | None = None) -> ScenarioError:
    """Return the error for trees that cannot be used."""
    return ScenarioError(TREES, file, reason)


def parents_of(topology: Topology, given: TreeText) -> list[Parents]:
    """Return the parent of every rank in every tree; ScenarioError (field `trees`) unless all are spanning trees of one
    root.
    """
    trees: list[Parents] = []
    for number, ports in enumerate(given.ports):
        known = len(ports) == topology.order and all(
            port == NO_PARENT or port in topology.ports(rank) for rank, port in enumerate(ports)
        )
        if not known:
            raise invalid_trees(
                f"tree {number} is not a tree of {topology.name}: other nodes, or other ports", given.file
            )
        parents = [port if port == NO_PARENT else topology.neighbour(rank, port) for rank, port in enumerate(ports)]
        if problem := tree_problem(topology, parents, number):
            raise invalid_trees(problem, given.file)
        trees.append(parents)
    if problem := same_root_problem(topology, trees):
        raise invalid_trees(f"{problem}; one root is expected", given.file)
    if (links := sum(sum(depths(parents)) for parents in trees)) > MOST_LINKS:
        raise invalid_trees(f"the paths from the root have {links:,} links; at most {MOST_LINKS:,} are run", given.file)
    return trees


def rooted_at(topology: Topology, given: TreeText, source: Rank) -> list[Parents]:
    """Return the parent of every rank as seen from `source`, where that is rank 0.

    Raises ScenarioError (field `source`) where no translation of the network carries the trees to `source`.
    """
    trees = parents_of(topology, given)
    root = root_of(trees[0])
    if source != root and not isinstance(topology, CayleyTopology):
        label = topology.label(root)
        reason = (
            f"the trees of {given.file} have the root {label}, and {topology.name} has no translations that move it"
        )
        raise ScenarioError("source", topology.label(source), reason)
    name = [topology.relative(rank, root) for rank in topology.ranks()]
    moved: list[Parents] = []
    for parents in trees:
        seen = [NO_PARENT] * topology.order
        for rank, parent in enumerate(parents):
            seen[name[rank]] = parent if parent == NO_PARENT else name[parent]
        moved.append(seen)
    return moved
