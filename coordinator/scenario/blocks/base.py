"""The interface of the kinds of blocks."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Final, NamedTuple

from emunode.model import Rank
from emunode.topologies.base import Topology

Link = tuple[Rank, Rank]
"""A link, the lower rank first."""
MOST_MEMBERS: Final = 2**20
"""The most places in all blocks of one kind together."""


class Block(NamedTuple):
    """Places that fail together."""

    places: tuple[Rank | Link, ...]
    """Nodes, or links."""
    owners: tuple[Rank, ...]
    """Nodes that the block belongs to. A block that belongs to a source is spared with it."""


class BlockKind(ABC):
    """A kind of block: which sets of nodes (or of links) of a network fail together."""

    name: ClassVar[str]
    """The word in descriptions of fault sets, such as `substar`."""
    form: ClassVar[str]
    """An example, such as `ball=1:2`."""
    on_links: ClassVar[bool] = False
    """Whether its places are links, which go down, instead of nodes, which crash."""

    def read(self, argument: str) -> str:
        """The canonical form of the text after the number; raises ValueError with what is allowed. Here none is."""
        if argument:
            raise ValueError(f"{self.name!r} takes no value: {self.form}")
        return ""

    @abstractmethod
    def blocks(self, topology: Topology, argument: str) -> Iterator[Block]:
        """Every block of a network, in a fixed order. Raises ValueError if the network has none of this kind.

        `argument` is what `read` returned.
        """


class NumberedBlockKind(BlockKind):
    """A kind of block with a number, such as a dimension or a radius."""

    default: ClassVar[str] = ""
    """The number where none is given; empty if it has to be given."""

    def read(self, argument: str) -> str:
        text = argument or self.default
        if not (text.isascii() and text.isdigit() and len(text) < 5):
            raise ValueError(f"{self.name!r} needs a whole number after its own, as in {self.form}")
        return str(int(text))
