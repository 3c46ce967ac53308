"""Options that features and plug-ins add to a scenario, each stated in the file that uses it.

`model` joins the registered records with `Scenario`, so that flags, keys, help, the Python API and refusals follow from the
fields of a record as they follow from the fields of a scenario.
"""

import re
from collections.abc import Iterator
from typing import ClassVar, Final, Self

from pydantic import BaseModel, ConfigDict
from pydantic.errors import PydanticInvalidForJsonSchema

from coordinator.annexes import merged
from coordinator.scenario.option import Option, ScenarioOption
from emunode.algorithms.claims import is_metric
from emunode.errors import RegistrationError
from emunode.registry import Registry

NAME: Final = re.compile("[a-z][a-z0-9_]{0,63}")
TAKEN: Final = {
    "claims", "coverage", "paired", "engine", "every_order", "executions", "faults", "from", "help", "hosts", "join_seconds",
    "json", "listen", "method", "metric", "metrics", "no_open", "open", "order", "out", "precision", "quiet", "resume",
    "sample", "scenario", "token_file", "trials", "vary", "version", "watch", "watch_port", "watch_timeout", "workers",
}  # fmt: skip
"""Names of the flags of commands that run scenarios; `model` adds the attributes of `Scenario`."""


class AddedOptions(BaseModel):
    """Options as the fields of a record: each has a default, a description, and in its annotation an `Option`.

    A scenario is an instance of every record that was registered before the scenario was made.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    before: ClassVar[str | None] = None
    """The option of `Scenario` that these precede in files and help; None if they come last.

    Files of 0.3.0 have those with a place, so that files keep their switches even if they are off.
    """

    @classmethod
    def of(cls, scenario: BaseModel) -> Self:
        """Return the values of these options in a scenario; the defaults if it was made without them."""
        return scenario if isinstance(scenario, cls) else cls()


def _check(record: type[AddedOptions]) -> None:
    others = {name for other in ADDED.values() if other is not record for name in other.model_fields}
    for name in record.model_fields:
        for problem in _problems(ScenarioOption(name, record), others):
            raise RegistrationError(f"option {name!r} of {record.__name__}: {problem}")


def _problems(option: ScenarioOption, others: set[str]) -> Iterator[str]:
    """Yield the reasons why a field cannot be an option."""
    if not NAME.fullmatch(option.name):
        yield "expected a name of small letters, digits and _"
    # A run is also one flat row of its scenario and its metrics, where a name means one thing.
    if option.name in TAKEN | others or is_metric(option.name):
        yield "the name is already taken"
    if option.field.is_required():
        yield "it has no default"
    if not option.field.description:
        yield "it has no description"
    if not any(isinstance(each, Option) for each in option.field.metadata):
        yield "its annotation has no Option, which states its group"
        return
    try:
        # Both look at the type of every alternative.
        _ = option.metavar, option.python
    except (KeyError, PydanticInvalidForJsonSchema):
        yield "expected a number, a text, true or false, one of several texts, or a tuple of these"
    if option.option.for_hosts and option.is_repeatable:
        yield "hosts receive single values"


ADDED: Final = Registry[str, type[AddedOptions]](
    "options", AddedOptions, key=lambda record: record.__name__, check=_check
)
"""The records of options by name. A built-in feature declares its record in `MODULES`, so that every command knows it."""

MODULES: Final[tuple[tuple[str, str], ...]] = (
    ("LatenessOptions", "coordinator.features.options"),
    ("ProgramOptions", "coordinator.scenario.programs"),
    *merged("options").items(),
    ("LivenessOptions", "coordinator.features.options"),
)
"""The name and the module of each record of a built-in feature."""
ADDED.declare(MODULES)
