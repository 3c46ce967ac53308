"""The network families by name: `star:5`, `hypercube:7`, `ej:3+4`, `ej:3+4^3`."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final, NamedTuple

from emunode.errors import ScenarioError
from emunode.topologies.base import Topology
from emunode.topologies.eisenstein_jacobi import EisensteinJacobi
from emunode.topologies.hypercube import Hypercube
from emunode.topologies.star import StarGraph

Family = type[StarGraph] | type[Hypercube] | type[EisensteinJacobi]

FAMILIES: Final[Mapping[str, Family]] = {
    "star": StarGraph,
    "hypercube": Hypercube,
    "ej": EisensteinJacobi,
}


class Description(NamedTuple):
    """One line of `list topologies`."""

    family: str
    form: str
    condition: str
    example: str
    describe: str
    """What the network is, for people."""


DESCRIBE: Final[Mapping[str, str]] = {
    "star": "permutation star graph S_N: N! nodes, degree N-1; a link swaps the first symbol with another one",
    "hypercube": "hypercube Q_N: 2^N nodes, degree N; a link flips one bit",
    "ej": "Eisenstein-Jacobi network of alpha = A+B rho in one or more dimensions of degree 6; a link adds a unit",
}


def descriptions() -> tuple[Description, ...]:
    """Every family in the order of the registry."""
    return tuple(
        Description(name, family.form, family.condition, family.example, DESCRIBE[name])
        for name, family in FAMILIES.items()
    )


def parse_topology(text: str) -> Topology:
    """The network called `text`; equal networks get the same canonical `name`.

    Raises ScenarioError (field `topology`) that says what is allowed, and which family is nearest to an unknown one.
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
    forms = "; ".join(f"{family.form} with {family.condition}" for family in FAMILIES.values())
    return f"{hint}known are {forms}"
