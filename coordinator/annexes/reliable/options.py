"""The options of reliable links, apart from their feature, so that help texts need not import it."""

from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from coordinator.scenario.added_options import AddedOptions
from coordinator.scenario.durations import format_duration, parse_duration
from coordinator.scenario.model import Whole, step_count
from coordinator.scenario.option import Form, Needs, Option, OptionGroup
from coordinator.scenario.reach import DATA
from emunode.registry import register

ON_RELIABLE_LINKS: Final = Needs("reliable", "only reliable links have it; add --reliable")
MOST_ATTEMPTS: Final = 1000
MOST_WINDOW: Final = 1024


def _time_out(value: object) -> int | str:
    """Return a whole number of steps, or a time in the form of `format_duration`. Raises ValueError."""
    try:
        seconds = parse_duration(value)
    except ValueError:
        seconds = 0.0
    if seconds:
        return format_duration(seconds)
    try:
        return step_count(value)
    except ValueError as error:
        raise ValueError(f"{error}, or under the timed clock a time such as 5ms") from None


RetransmitAfter = Annotated[int | str, BeforeValidator(_time_out), Form("STEPS|TIME", "int | str")]


@register
class ReliableOptions(AddedOptions):
    """Options of links that send again what is lost."""

    before = "plugin"

    reliable: Annotated[bool, Option(OptionGroup.LINKS, reach=DATA)] = Field(
        False, description="reliable links: every segment is acknowledged on every link, and sent again until it is"
    )
    retransmit_after: Annotated[RetransmitAfter | None, Option(OptionGroup.LINKS, ON_RELIABLE_LINKS, reach=DATA)] = (
        Field(
            None,
            description="steps, or under the timed clock a time such as 5ms, after which a reliable link sends a segment "
            "again; default: as long as its acknowledgement takes",
        )
    )
    attempts: Annotated[Whole, Option(OptionGroup.LINKS, ON_RELIABLE_LINKS, reach=DATA)] = Field(
        20, ge=1, le=MOST_ATTEMPTS, description="how often a reliable link sends a segment at most"
    )
    window: Annotated[Whole, Option(OptionGroup.LINKS, ON_RELIABLE_LINKS, reach=DATA)] = Field(
        1, ge=1, le=MOST_WINDOW, description="unacknowledged segments of a reliable link at most; 1 is stop and wait"
    )
    back_off: Annotated[bool, Option(OptionGroup.LINKS, ON_RELIABLE_LINKS, reach=DATA)] = Field(
        False, description="reliable links: double the time-out of a segment with every attempt"
    )
