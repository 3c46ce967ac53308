"""The option of given trees, apart from what reads them, so that help texts need not import it."""

from typing import Annotated, Final

from pydantic import Field

from coordinator.scenario.added_options import AddedOptions
from coordinator.scenario.option import Form, Option, OptionGroup
from coordinator.scenario.reach import Reach
from coordinator.scenario.schedule_text import is_text
from emunode.registry import register

DATA: Final = ".csv"
"""The suffix of files that are read and not executed."""
TREES_FILE: Final = Reach(
    "it is executed, or read outside the folder of that file",
    acts=lambda text: not is_text(text) and not text.endswith(DATA),
    path=lambda text: None if is_text(text) else text,
)


@register
class TreesOptions(AddedOptions):
    """The option of given trees."""

    trees: Annotated[str | None, Option(OptionGroup.CODE, reach=TREES_FILE), Form("FILE", "str")] = Field(
        None,
        max_length=2**24,
        description="file of spanning trees in place of an algorithm: parent(label, tree) in .py, which is executed, or "
        "the columns tree, label and parent in .csv",
    )
