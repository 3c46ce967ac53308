"""The option of schedule files, apart from what reads them, so that help texts need not import it."""

from typing import Annotated, Final

from pydantic import Field

from coordinator.scenario.added_options import AddedOptions
from coordinator.scenario.option import Option, OptionGroup
from coordinator.scenario.reach import ELSEWHERE, Reach
from coordinator.scenario.schedule_text import is_text
from emunode.registry import register

SCHEDULE_FILE: Final = Reach(ELSEWHERE, path=lambda text: None if is_text(text) else text)


@register
class ScheduleOptions(AddedOptions):
    """The option of schedule files."""

    before = "seed"

    schedule: Annotated[str | None, Option(OptionGroup.CODE, reach=SCHEDULE_FILE)] = Field(
        None,
        max_length=2**25,
        description="schedule file (MSCCL, TE-CCL, ForestColl, Chakra, GOAL) that says collective and algorithm; without "
        "--topology on the links that it uses",
    )
