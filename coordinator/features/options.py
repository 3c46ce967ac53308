"""The options of features, apart from the features, so that help texts need not import those."""

import re
from typing import Annotated

from pydantic import BeforeValidator, Field

from coordinator.scenario.added_options import AddedOptions
from coordinator.scenario.durations import format_duration, parse_duration
from coordinator.scenario.model import Count, Number, OnFailure, Whole, step_count
from coordinator.scenario.option import Form, Needs, Option, OptionGroup
from coordinator.scenario.reach import DATA
from emunode.registry import register

IN_AGREEMENT = Needs("on_failure", f"nodes agree only with --on-failure {OnFailure.AGREE} or {OnFailure.SHRINK}")
ON_RELIABLE_LINKS = Needs("reliable", "only reliable links have it; add --reliable")
MOST_ATTEMPTS = 1000
MOST_WINDOW = 1024


@register
class AgreementOptions(AddedOptions):
    """The option of nodes that agree on failures."""

    before = "plugin"

    agreement_steps: Annotated[Count | None, Option(OptionGroup.FAULTS, IN_AGREEMENT, reach=DATA)] = Field(
        None,
        description="steps from a suspicion to the decision on it; default: the largest diameter that fewer failed nodes "
        "than the connectivity leave, or a bound on it",
    )


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
