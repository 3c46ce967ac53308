"""The options of features, apart from the features, so that help texts need not import those."""

import re
from typing import Annotated

from pydantic import BeforeValidator, Field

from coordinator.scenario.added_options import AddedOptions
from coordinator.scenario.durations import format_duration, parse_duration
from coordinator.scenario.model import Number
from coordinator.scenario.option import Form, Option, OptionGroup
from coordinator.scenario.reach import DATA
from emunode.registry import register


@register
class LatenessOptions(AddedOptions):
    """Options that decide whether a run under the timed clock is valid."""

    before = "packet_limit"

    lateness_limit: Annotated[Number, Option(OptionGroup.CLOCK, reach=DATA)] = Field(
        0.05, gt=0, le=1, description="most lateness of a valid timed run, as a share of its time"
    )
    worst_lateness_limit: Annotated[Number, Option(OptionGroup.CLOCK, reach=DATA)] = Field(
        5.0,
        gt=0,
        le=1e9,
        description="how late any packet of a timed run may be, in durations of its longest packet",
    )


STEP = re.compile("[1-9][0-9]{0,8}", re.ASCII)


def _moment(value: object) -> int | str:
    """Return a step, or a time in the form of `format_duration`. Raises ValueError."""
    text = str(value).strip()
    if STEP.fullmatch(text) and not isinstance(value, bool):
        return int(text)
    try:
        if seconds := parse_duration(value):
            return format_duration(seconds)
    except ValueError:
        pass
    raise ValueError("a step, counted from 1, or for faults with times a time such as 50ms")


@register
class LivenessOptions(AddedOptions):
    """The option of runs that are to finish everything once the faults are over."""

    heal_at: Annotated[
        Annotated[int | str, BeforeValidator(_moment), Form("STEP|TIME", "int | str")] | None,
        Option(OptionGroup.FAULTS, reach=DATA),
    ] = Field(
        None,
        description="end all faults at the beginning of this step, or at a time such as 50ms, and leave out later ones; "
        "then everything due has to finish (with --reliable, --repair or --on-failure shrink)",
    )
