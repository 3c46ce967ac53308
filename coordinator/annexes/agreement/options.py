"""The option of nodes that agree, apart from their feature, so that help texts need not import it."""

from typing import Annotated, Final

from pydantic import Field

from coordinator.scenario.added_options import AddedOptions
from coordinator.scenario.model import Count, OnFailure
from coordinator.scenario.option import Needs, Option, OptionGroup
from coordinator.scenario.reach import DATA
from emunode.registry import register

IN_AGREEMENT: Final = Needs("on_failure", f"nodes agree only with --on-failure {OnFailure.AGREE} or {OnFailure.SHRINK}")


@register
class AgreementOptions(AddedOptions):
    """The option of nodes that agree on failures."""

    before = "plugin"

    agreement_steps: Annotated[Count | None, Option(OptionGroup.FAULTS, IN_AGREEMENT, reach=DATA)] = Field(
        None,
        description="steps from a suspicion to the decision on it; default: the largest diameter that fewer failed nodes "
        "than the connectivity leave, or a bound on it",
    )
