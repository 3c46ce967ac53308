"""The interface of placements, and their registry. A placement decides about the links within a host, and about nothing
else.

To add one, register a subclass of `RankPlacement`: in a plug-in, or in a module of this folder that `MODULES` names. Hosts
receive the table that it makes, so they need no plug-in.
"""

from abc import ABC, abstractmethod
from array import array
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, Final

from emunode.errors import PLUGIN_HINT, ScenarioError, did_you_mean
from emunode.host.placement import TYPE, Placement
from emunode.registry import Registry
from emunode.topologies.base import Topology

FIELD: Final = "placement"
"""The field of errors."""
MOST_LINK_ENDS: Final = 2_000_000
"""Most order x degree of a network that a placement looks at: about a second."""


class RankPlacement(ABC):
    """A rule for the host of each rank of a network."""

    name: ClassVar[str]
    """The name of the placement in a scenario, up to a colon."""
    form: ClassVar[str]
    """The general form of that text, such as `file:FILE`."""
    meaning: ClassVar[str]
    """One line for lists and help."""

    def __init__(self, parameter: str) -> None:
        """Take the text after the colon. Here there must be none: ScenarioError (field `placement`)."""
        if parameter:
            raise ScenarioError(FIELD, f"{self.name}:{parameter}"[:80], f"it has no parameter; write {self.form}")

    @abstractmethod
    def host_of_each(self, topology: Topology, hosts: int) -> Sequence[int] | None:
        """Return the host of each rank, by rank, each of 0 .. `hosts` - 1 at least once; None for consecutive blocks whose
        sizes differ by at most one.

        `hosts` is between 1 and the order. ScenarioError (field `placement`) if the rule does not fit the network.
        """

    def host_count(self, topology: Topology) -> int | None:
        """Return the number of hosts that the rule itself sets; None if it places ranks on any number of hosts."""
        del topology
        return None

    def resolved(self, topology: Topology) -> str | None:
        """Return the text that stored scenarios have in place of a file, None if the rule reads none."""
        del topology
        return None

    @classmethod
    def with_absolute_path(cls, parameter: str, folder: Path) -> str:
        """Return a parameter with the path of its file, if it names one, taken as relative to `folder`."""
        del folder
        return parameter


PLACEMENTS: Final = Registry[str, type[RankPlacement]](
    "placement", RankPlacement, key=lambda each: each.name, required=("name", "form", "meaning")
)
"""Every placement by its name."""

MODULES: Final[tuple[tuple[str, str], ...]] = (
    ("blocks", "coordinator.planning.placements.blocks"),
    ("round-robin", "coordinator.planning.placements.blocks"),
    ("sub-network", "coordinator.planning.placements.sub_network"),
    ("least-crossing", "coordinator.planning.placements.least_crossing"),
    ("file", "coordinator.planning.placements.listed"),
    ("table", "coordinator.planning.placements.listed"),
)
"""The name and the module of each built-in placement."""
PLACEMENTS.declare(MODULES)


def rank_placement(text: str) -> RankPlacement:
    """Return the placement that a scenario names; ScenarioError (field `placement`) lists the known ones."""
    name, _, parameter = text.partition(":")
    if name not in PLACEMENTS:
        forms = ", ".join(each.form for each in PLACEMENTS.values())
        raise ScenarioError(FIELD, text[:80], f"{did_you_mean(name, PLACEMENTS)}known are {forms}; {PLUGIN_HINT}")
    return PLACEMENTS[name](parameter)


def place(text: str, topology: Topology, hosts: int) -> Placement:
    """Place the ranks of a network on hosts by the rule in `text`.

    Raises ScenarioError: field `placement`, or `hosts` for no host or more hosts than ranks.
    """
    if not 1 <= hosts <= topology.order:
        raise ScenarioError("hosts", hosts, f"from 1 to {topology.order}, one per node")
    # A file is read each time, because it may change.
    text = rank_placement(text).resolved(topology) or text
    return _placed(type(rank_placement(text)), text, topology, hosts)


# The trials of a campaign are planned one by one, and a placement may take seconds. The class is part of the key, because
# another plug-in may have a rule of the same name.
@lru_cache(maxsize=8)
def _placed(rule: type[RankPlacement], text: str, topology: Topology, hosts: int) -> Placement:
    found = rule(text.partition(":")[2]).host_of_each(topology, hosts)
    if found is None:
        return Placement(topology.order, hosts)
    try:
        # The rule of a plug-in may return anything.
        return Placement(topology.order, hosts, array(TYPE, found).tobytes())
    except (ValueError, TypeError, OverflowError) as error:
        raise ScenarioError(FIELD, text[:80], f"a host for each rank; it gives {error}") from None


def require_links(text: str, topology: Topology, most: int = MOST_LINK_ENDS) -> None:
    """Refuse a network with too many links for a rule that looks at all of them; ScenarioError (field `placement`)."""
    if topology.order * topology.degree > most:
        raise ScenarioError(
            FIELD,
            text,
            f"it looks at every link, in networks of at most {most:,} link ends; {topology.name} has up to "
            f"{topology.order * topology.degree:,}",
        )
