"""The network families by name: `star:5`, `hypercube:7`, `ej:3+4^3`, `torus:4x4x4`, `dragonfly:4,2`."""

from difflib import get_close_matches

from emunode.errors import ScenarioError
from emunode.registry import register
from emunode.topologies.base import FAMILIES, Topology
from emunode.topologies.bit_rules import CrossedCube, LocallyTwistedCube, MoebiusCube, TwistedCube
from emunode.topologies.dragonfly import Dragonfly
from emunode.topologies.eisenstein_jacobi import EisensteinJacobi
from emunode.topologies.fat_tree import FatTree
from emunode.topologies.hypercube import Hypercube
from emunode.topologies.jellyfish import Jellyfish
from emunode.topologies.lattices import Circulant, Complete, Hamming, RingNetwork, Torus, TwistedTorus
from emunode.topologies.meshes import Mesh
from emunode.topologies.partial_permutations import Arrangement, NkStar
from emunode.topologies.permutation_groups import (
    AlternatingGraph,
    AlternatingNetwork,
    BubbleSort,
    BurntPancake,
    ModifiedBubbleSort,
    Pancake,
    Transposition,
    TranspositionTree,
)
from emunode.topologies.petersen import HyperPetersen, Petersen
from emunode.topologies.residues import Gaussian
from emunode.topologies.rings_of_bits import Butterfly, CubeConnectedCycles
from emunode.topologies.shift_words import DeBruijn, Kautz
from emunode.topologies.slim_fly import SlimFly
from emunode.topologies.star import StarGraph
from emunode.topologies.words import AugmentedCube, BalancedHypercube, FoldedHypercube, XorNetwork

for _family in (
    StarGraph,
    Hypercube,
    EisensteinJacobi,
    Pancake,
    BurntPancake,
    BubbleSort,
    ModifiedBubbleSort,
    Transposition,
    TranspositionTree,
    AlternatingGraph,
    AlternatingNetwork,
    NkStar,
    Arrangement,
    RingNetwork,
    Torus,
    TwistedTorus,
    Mesh,
    Circulant,
    Gaussian,
    Complete,
    Hamming,
    XorNetwork,
    FoldedHypercube,
    AugmentedCube,
    BalancedHypercube,
    CubeConnectedCycles,
    Butterfly,
    CrossedCube,
    LocallyTwistedCube,
    MoebiusCube,
    TwistedCube,
    DeBruijn,
    Kautz,
    Petersen,
    HyperPetersen,
    Dragonfly,
    SlimFly,
    Jellyfish,
    FatTree,
):
    register(_family)


def descriptions() -> tuple[type[Topology], ...]:
    """Every family in the order of registration; its class attributes describe it."""
    return tuple(FAMILIES.values())


def small_examples() -> list[str]:
    """The small examples of every registered family: networks that a test can check exhaustively."""
    return [name for family in FAMILIES.values() for name in family.small_examples]


def large_examples() -> list[str]:
    """The large examples of every registered family: networks of which a test can only look at a few ranks."""
    return [name for family in FAMILIES.values() for name in family.large_examples]


def parse_topology(text: str) -> Topology:
    """The network called `text`; equal networks get the same canonical `name`.

    Raises ScenarioError (field `topology`), whose message lists what is allowed and suggests the nearest family.
    """
    name, colon, parameters = text.partition(":")
    family = FAMILIES.get(name.lower())
    if family is None:
        raise ScenarioError("topology", text, _allowed_families(name, colon + parameters))
    if not colon:
        raise ScenarioError("topology", text, f"write {family.form} with {family.condition}, such as {family.example}")
    return family.parse(parameters)


def _allowed_families(name: str, parameters: str) -> str:
    hint = ""
    if nearest := get_close_matches(name.lower(), FAMILIES, n=1):
        meant = nearest[0] + parameters
        try:
            FAMILIES[nearest[0]].parse(parameters[1:])
        except ScenarioError:
            meant = FAMILIES[nearest[0]].example
        hint = f"did you mean {meant}? "
    return f"{hint}known are {', '.join(FAMILIES)}"
