"""The kinds of blocks by name. To add one, write a `BlockKind` and list an instance here."""

from typing import Final

from coordinator.scenario.blocks.base import BlockKind
from coordinator.scenario.blocks.dimensions import Dimension
from coordinator.scenario.blocks.neighbourhoods import Ball, LinksOf
from coordinator.scenario.blocks.racks import Rack
from coordinator.scenario.blocks.sub_networks import SubCube, SubStar

BLOCK_KINDS: Final[dict[str, BlockKind]] = {
    kind.name: kind for kind in (SubStar(), SubCube(), Ball(), LinksOf(), Dimension(), Rack())
}
