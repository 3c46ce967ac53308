"""The network families by name: `star:5`, `hypercube:7`, `ej:3+4^3`, `torus:4x4x4`, `dragonfly:4,2`.

The module of a family is imported when the family is first asked for.
"""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from emunode.errors import PLUGIN_HINT, ScenarioError
from emunode.topologies.base import FAMILIES, Topology

MODULES: Final[Mapping[str, str]] = {
    "star": "star",
    "hypercube": "hypercube",
    "ej": "eisenstein_jacobi",
    "pancake": "permutation_groups",
    "burnt-pancake": "permutation_groups",
    "bubble-sort": "permutation_groups",
    "modified-bubble-sort": "permutation_groups",
    "transposition": "permutation_groups",
    "transposition-tree": "permutation_groups",
    "alternating-graph": "permutation_groups",
    "alternating-network": "permutation_groups",
    "nk-star": "partial_permutations",
    "arrangement": "partial_permutations",
    "ring": "lattices",
    "torus": "lattices",
    "twisted-torus": "lattices",
    "mesh": "meshes",
    "circulant": "lattices",
    "gaussian": "residues",
    "complete": "lattices",
    "hamming": "lattices",
    "xor": "words",
    "folded-hypercube": "words",
    "augmented-cube": "words",
    "balanced-hypercube": "words",
    "ccc": "rings_of_bits",
    "butterfly": "rings_of_bits",
    "crossed-cube": "bit_rules",
    "locally-twisted-cube": "bit_rules",
    "moebius-cube": "bit_rules",
    "twisted-cube": "bit_rules",
    "debruijn": "shift_words",
    "kautz": "shift_words",
    "petersen": "petersen",
    "hyper-petersen": "petersen",
    "dragonfly": "dragonfly",
    "slimfly": "slim_fly",
    "jellyfish": "jellyfish",
    "fat-tree": "fat_tree",
}
"""The families in the order of lists, with the module below `emunode.topologies` that registers each."""
FAMILIES.declare((family, f"emunode.topologies.{module}") for family, module in MODULES.items())


def descriptions() -> tuple[type[Topology], ...]:
    """Return every family in the order of registration; its class attributes describe it."""
    return tuple(FAMILIES.values())


def small_examples() -> list[str]:
    """Return the small examples of every registered family: networks that a test can check exhaustively."""
    return [name for family in FAMILIES.values() for name in family.small_examples]


def large_examples() -> list[str]:
    """Return the large examples of every registered family: a test can only look at a few of their ranks."""
    return [name for family in FAMILIES.values() for name in family.large_examples]


def parse_topology(text: str) -> Topology:
    """Return the network called `text`; equal networks get the same canonical `name`.

    Raises ScenarioError (field `topology`), whose message suggests the nearest family.
    """
    name, colon, parameters = text.partition(":")
    family = FAMILIES.get(name.lower())
    if family is None:
        raise ScenarioError("topology", text, _allowed_families(text))
    if not colon:
        raise ScenarioError("topology", text, f"write {family.form} with {family.condition}, such as {family.example}")
    return family.parse(parameters)


def _allowed_families(text: str) -> str:
    name, colon, parameters = text.lower().partition(":")
    if not colon:  # it may be what is missing, as in star4
        name = re.split("[-_]?[0-9]", text.lower())[0]
        parameters = text[len(name) :].lstrip("-_")
    hint = ""
    if nearest := get_close_matches(name, FAMILIES, n=1):
        meant = f"{nearest[0]}:{parameters}"
        try:
            FAMILIES[nearest[0]].parse(parameters)
        except ScenarioError:
            meant = FAMILIES[nearest[0]].example
        hint = f"did you mean {meant}? "
    return f"{hint}`coordinator list topologies` lists {len(FAMILIES)} families; {PLUGIN_HINT}"
