"""The options of a scenario as its fields state them, and options that features and plug-ins add.

Beside its type, a field states its group, the form of its values and its prerequisites. Flags, help, the Python API,
refusals and the reference pages read all of that here, so a new option is one field. This module imports no model, so
that commands without a scenario start fast.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args, get_origin

from coordinator.scenario.durations import format_duration
from coordinator.scenario.reach import Reach

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

PLUGIN: Final = "plug-in to execute: a file such as mine.py, or an installed module (repeatable)"
"""Also the help of a flag of commands that have no scenario."""


class OptionGroup(StrEnum):
    """The groups of options, in the order of `--help`."""

    COLLECTIVE = "Network and collective"
    MESSAGES = "Messages"
    FAULTS = "Faults"
    LINKS = "Reliable links"
    REPAIR = "Repair"
    PROCESSES = "Processes"
    """Where ranks run. These options change nothing of the history."""
    CLOCK = "Clock"
    REPETITION = "Repetition"
    CODE = "Plug-ins and programs"


class Form(NamedTuple):
    """How the values of a type are written, where its JSON schema does not say it; part of the annotation."""

    metavar: str
    """The placeholder in `--help`."""
    python: str
    """The type of the keyword argument in the Python API."""
    is_duration: bool = False
    """Whether a value is a time with a unit; the API takes seconds as a number too."""
    may_begin_with_hyphen: bool = False


class Needs(NamedTuple):
    """Another option that an option needs: without it the option has no effect, and is refused."""

    option: str
    reason: str
    """The text of the error."""


class Option(NamedTuple):
    """The part of an option that its type does not state; part of the annotation of every field of `Scenario`."""

    group: str
    """The heading in `--help`: an `OptionGroup`, or a group of its own."""
    needs: Needs | None = None
    for_hosts: bool = False
    """Whether hosts receive the value (a number, a text or a bool): `CollectiveSpec.setting`."""
    reach: Reach | None = None
    """`DATA`, or the effects of its values. If it is not stated, a value in a file counts only if the user names it too."""


METAVARS = {"integer": "INT", "number": "NUMBER", "string": "TEXT", "boolean": "BOOL"}
"""Placeholders for the types of JSON Schema."""
TYPES = {"integer": "int", "number": "float", "string": "str", "boolean": "bool"}
"""Python's types for the types of JSON Schema."""


@dataclass(frozen=True)
class ScenarioOption:
    """One field of a scenario, with everything that its annotation and its JSON schema say about it."""

    name: str
    model: "type[BaseModel]"

    # These two are kept: half of the time of a plan otherwise.
    @cached_property
    def field(self) -> "FieldInfo":
        """The field of the model."""
        return self.model.model_fields[self.name]

    @cached_property
    def option(self) -> Option:
        """The group of the field, and its prerequisites."""
        (found,) = (each for each in self.field.metadata if isinstance(each, Option))
        return found

    @property
    def form(self) -> Form | None:
        """How values are written, if the type says more than the JSON schema."""
        stated = (*self.field.metadata, *_metadata(self.field.annotation))
        return next((each for each in stated if isinstance(each, Form)), None)

    @property
    def needs(self) -> Needs | None:
        """The option that this one needs to have an effect."""
        return self.option.needs

    @property
    def reach(self) -> Reach | None:
        """The effects of the values; None if the option does not state them."""
        return self.option.reach

    def acts(self, text: str) -> bool:
        """Return whether a value starts a program or reaches another machine."""
        return self.reach is None or (self.reach.acts is not None and self.reach.acts(text))

    def path(self, text: str) -> str | None:
        """Return the path of the file that a value names, if it names one."""
        return None if self.reach is None or self.reach.path is None else self.reach.path(text) or None

    @property
    def group(self) -> str:
        """The group of the option in `--help`."""
        return self.option.group

    @property
    def is_duration(self) -> bool:
        """Whether values are times with a unit."""
        return self.form is not None and self.form.is_duration

    @property
    def is_repeatable(self) -> bool:
        """Whether the option has a list of values."""
        return get_origin(self.field.annotation) is tuple

    @property
    def is_switch(self) -> bool:
        """Whether the option is either on or off."""
        return self.field.annotation is bool

    @cached_property
    def variants(self) -> Sequence[Mapping[str, Any]]:
        """The alternatives in the JSON schema of the field without null, references resolved."""
        schema = _schema(self.model)
        described = schema["properties"][self.name]
        resolved = [
            schema["$defs"][each["$ref"].rpartition("/")[2]] if "$ref" in each else each
            for each in described.get("anyOf", [described])
        ]
        return [each for each in resolved if each.get("type") != "null"]

    @property
    def choices(self) -> Sequence[str]:
        """The allowed texts, if there is a list of them."""
        return tuple(self.variants[0].get("enum", ()))

    @property
    def words(self) -> Sequence[str]:
        """The texts that are allowed in place of a number."""
        return [each["const"] for each in self.variants if "const" in each]

    @property
    def bounds(self) -> tuple[str, str]:
        """The least and the largest number as texts; the second is empty without a bound."""
        schema = self.variants[0]
        # Pydantic writes bounds under these keys, by the kind of annotation.
        low = schema.get("minimum", schema.get("ge"))
        above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum", schema.get("lt"))
        high = schema.get("maximum", schema.get("le", None if below is None else below - 1))
        least = f"above {above:g}" if low is None and above is not None else f"{low}"
        return least, "" if high is None else f"{high:,.0f}" if isinstance(high, float) else f"{high:,}"

    @property
    def allowed(self) -> str:
        """The allowed numbers and words, for a number that is not a duration; else empty."""
        kind = {"integer": "a whole number", "number": "a number"}.get(self.variants[0].get("type", ""))
        if kind is None or (self.form is not None and self.form.is_duration):
            return ""
        low, high = (bound.replace(",", "") for bound in self.bounds)
        if low.startswith("above"):
            limits = f" {low}" + (f", at most {high}" if high else "")
        elif low == "None":
            limits = f" of at most {high}" if high else ""
        else:
            limits = f" from {low} to {high}" if high else f" of at least {low}"
        return kind + limits + "".join(f", or {word!r}" for word in self.words)

    @property
    def metavar(self) -> str:
        """The placeholder of a value in `--help`."""
        if self.choices:
            return "CHOICE"
        if self.form is not None and self.form.metavar:
            return self.form.metavar
        return "|".join(each.get("const") or METAVARS[each.get("items", each)["type"]] for each in self.variants)

    @property
    def python(self) -> str:
        """The type of the keyword argument in the Python API."""
        if self.form is not None:
            return self.form.python
        if self.is_repeatable:
            return "str | Sequence[str]"
        return " | ".join(dict.fromkeys(TYPES[each.get("type", "string")] for each in self.variants))

    def written(self, value: object) -> str:
        """Write a value as a user writes it."""
        return format_duration(value) if isinstance(value, float) and self.is_duration else str(value)

    def help(self, required: bool = False) -> str:
        """Return the description with the allowed range."""
        low, high = self.bounds
        allowed = f" ({low} to {high})" if high else ""
        return f"{self.field.description}{allowed}{'; required, here or in the file' if required else ''}"


@cache
def _schema(model: "type[BaseModel]") -> Mapping[str, Any]:
    """Return the JSON schema of a model, made once for all of its options: it takes milliseconds."""
    return model.model_json_schema()


# Cached, and so are the schemas that the options read.
@cache
def options_of(model: "type[BaseModel]") -> Mapping[str, ScenarioOption]:
    """Return every option of a scenario by the name of its field."""
    return {name: ScenarioOption(name, model) for name in model.model_fields}


def _metadata(annotation: object) -> Iterator[object]:
    """Yield everything that an annotation carries, at any depth."""
    yield from getattr(annotation, "__metadata__", ())
    for part in get_args(annotation):
        yield from _metadata(part)
