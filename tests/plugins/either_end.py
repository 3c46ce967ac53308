"""A plug-in for tests: a broadcast in the hypercube with options of its own, which its nodes receive."""

from typing import Annotated, Literal

from pydantic import Field

from coordinator.scenario.added_options import AddedOptions
from coordinator.scenario.model import Seconds
from coordinator.scenario.option import Needs, Option, OptionGroup
from emunode.algorithms.tree_collective import TreeCollective
from emunode.model import Collective, Port, Rank
from emunode.registry import register
from emunode.topologies.base import Topology
from emunode.trees.base import Trees


@register
class EndOptions(AddedOptions):
    """Two options of the algorithm, and one that hosts do not receive."""

    end: Annotated[Literal["low", "high"], Option("Ends", for_hosts=True)] = Field(
        "high", description="bit of a relative address that leads to its parent"
    )
    end_budget: Annotated[int | None, Option("Ends", for_hosts=True)] = Field(None, description="a number")
    end_pause: Annotated[Seconds, Option(OptionGroup.CLOCK, Needs("reliable", "only with --reliable"))] = Field(
        0.5, description="time for which nothing happens"
    )


class Ends(Trees):
    """The parent of a relative address lacks its lowest or its highest bit."""

    def __init__(self, topology: Topology, low: bool) -> None:
        super().__init__(topology)
        self.low = low

    def parent(self, rank: Rank, tree: int) -> Port:
        if not rank:
            raise ValueError("the root has no parent")
        return ((rank & -rank) if self.low else rank).bit_length() - 1


@register
class EitherEnd(TreeCollective):
    """A binomial tree from either end of the address."""

    family = "hypercube"
    name, citation = "either-end", "a plug-in"
    collective = Collective.BROADCAST

    def make_trees(self, topology: Topology) -> Trees:
        return Ends(topology, self.spec.setting("end") == "low")
