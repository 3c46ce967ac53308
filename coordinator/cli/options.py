"""The flags of a scenario, derived from the fields of `Scenario`: types, allowed values, groups, defaults and help.

A flag hands its text over unchanged, so that flags, files and the Python API are validated in one place. `given` makes a
scenario of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field, make_dataclass
from typing import Annotated, Any, Literal

from cyclopts import Group as FlagGroup
from cyclopts import Parameter, Token

from coordinator.scenario.model import OPTIONS
from coordinator.scenario.option import OptionGroup, ScenarioOption

GROUPS: Mapping[str, FlagGroup] = {group: FlagGroup(group, sort_key=number) for number, group in enumerate(OptionGroup)}


def make_flags(
    name: str,
    defaults: Mapping[str, object],
    without: Sequence[str] = (),
    options: Mapping[str, ScenarioOption] = OPTIONS,
) -> Any:
    """Return a dataclass with every option of a scenario as an optional text; the help shows `defaults` before the model's.

    The options `without` are left out. None means "not given": a scenario file or the model supplies the value.
    """
    types = ((member, flag_type(option, defaults)) for member, option in options.items() if member not in without)
    flags = make_dataclass(name, [(member, kind, field(default=None)) for member, kind in types])
    flags.__module__ = __name__  # where cyclopts looks up its annotations
    return flags


def flag_type(option: ScenarioOption, defaults: Mapping[str, object]) -> Any:
    """Return the annotated type of a flag, for cyclopts to show, complete and convert it."""
    # A feature may have a group of its own, below the others.
    group = GROUPS.get(option.group, FlagGroup(option.group, sort_key=len(GROUPS)))
    if option.is_switch:
        return Annotated[bool | None, Parameter(help=option.help(), group=group)]
    # `| str`: cyclopts must not refuse a value; `make_scenario` does, with the same message for flags and files.
    one: Any = Literal[tuple(option.choices)] | str if option.choices else str
    value: Any = list[str] if option.is_repeatable else one
    return Annotated[
        value | None,
        Parameter(
            help=option.help(required=option.field.is_required() and option.name not in defaults),
            converter=texts_of if option.is_repeatable else text_of,
            metavar=option.metavar,
            show_default=_shown(option, defaults),
            group=group,
            allow_leading_hyphen=option.form is not None and option.form.may_begin_with_hyphen,
        ),
    ]


def text_of(_hint: object, tokens: Sequence[Token]) -> str:
    """Hand over the text of a flag unchanged."""
    return tokens[-1].value


def texts_of(_hint: object, tokens: Sequence[Token]) -> list[str]:
    """Hand over the texts of a repeated flag unchanged."""
    return [token.value for token in tokens]


def _shown(option: ScenarioOption, defaults: Mapping[str, object]) -> str | bool:
    """Return the default as a user writes it; False, to hide it, where the description states it."""
    stated = None if option.field.is_required() else option.field.default
    default = defaults.get(option.name, stated)
    return False if default is None or default == () else option.written(default)


Flags: Any = make_flags("Flags", {})
ScenarioFlags = Annotated[Flags | None, Parameter(name="*")]
ScenarioWords = Annotated[
    tuple[str, ...],
    Parameter(
        help="network, collective and algorithm, such as star:4 broadcast edt; or a scenario file in TOML, whose name ends "
        "in .toml or has a slash. Flags give what is left out, and override the keys of a file",
    ),
]
"""The words of a command before its flags."""
