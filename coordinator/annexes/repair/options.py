"""The options of repair, apart from its feature, so that help texts need not import it."""

from typing import Annotated, Final

from pydantic import Field

from coordinator.scenario.added_options import AddedOptions
from coordinator.scenario.model import LowerText, StepCount
from coordinator.scenario.option import Needs, Option, OptionGroup
from coordinator.scenario.reach import DATA
from emunode.registry import register

IN_REPAIR: Final = Needs("repair", "only repair has it; add --repair")


@register
class RepairOptions(AddedOptions):
    """Options of broadcasts that go around faults."""

    before = "plugin"

    repair: Annotated[LowerText | None, Option(OptionGroup.REPAIR, reach=DATA)] = Field(
        None,
        max_length=128,
        description="rule for nodes to get what faults keep from them in a broadcast: next-port, switch-tree, "
        "spanning-tree, re-root or edges",
    )
    repair_after: Annotated[StepCount | None, Option(OptionGroup.REPAIR, IN_REPAIR, reach=DATA)] = Field(
        None,
        description="steps, or times the longest step under the timed clock, by which a packet is overdue before it is "
        "asked for; default: K of detect:K, or 1",
    )
