"""The flags of a scenario, derived from the fields of `Scenario`: types, allowed values, defaults and help.

A flag hands its text over unchanged, so that flags, files and the Python API are validated in one place. `given` makes a
scenario of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field, make_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter, Token

from coordinator.scenario.model import Scenario, format_duration

GROUPS: Mapping[str, tuple[str, ...]] = {
    "Network and collective": (
        "topology",
        "network_sha256",
        "relabel",
        "collective",
        "algorithm",
        "source",
        "target",
        "permutation",
        "port_model",
        "duplex",
    ),
    "Messages": ("message_bytes", "messages", "segments", "redundancy", "packet_limit", "link_capacity"),
    "Faults": ("fault", "fault_knowledge", "keep_alive", "on_failure", "agreement_steps"),
    "Reliable links": ("reliable", "retransmit_after", "attempts", "window", "back_off"),
    "Repair": ("repair", "repair_after"),
    "Processes": ("driver", "ranks_per_host", "netns", "hang_by"),
    "Clock": ("clock", "startup", "per_byte", "lateness_limit", "worst_lateness_limit"),
    "Repetition": ("seed", "step_limit", "name"),
    "Plug-ins and programs": ("plugin", "program", "program_deadline"),
}
"""The fields of a scenario as `--help` groups them."""
TYPES = {"integer": "INT", "number": "FLOAT", "string": "TEXT"}
"""Placeholders for the types of JSON Schema."""
SCHEMA = Scenario.model_json_schema()


def make_flags(name: str, defaults: Mapping[str, object], without: Sequence[str] = ()) -> Any:
    """A dataclass with every field of a scenario as an optional text; the help shows `defaults` before the model's own.

    The fields `without` are left out.

    None means "not given": a scenario file or the model supplies the value.
    """
    groups = {
        member: Group(title, sort_key=number)
        for number, (title, names) in enumerate(GROUPS.items())
        for member in names
    }
    members = [member for member in SCHEMA["properties"] if member not in without]
    types = ((member, flag_type(member, groups[member], defaults)) for member in members)
    flags = make_dataclass(name, [(member, kind, field(default=None)) for member, kind in types])
    flags.__module__ = __name__  # where cyclopts looks up its annotations
    return flags


def flag_type(name: str, group: Group, defaults: Mapping[str, object]) -> Any:
    """The annotated type of a flag: what cyclopts shows, completes and hands over."""
    schema = SCHEMA["properties"][name]
    variants = _variants(schema)
    if schema.get("type") == "boolean":
        return Annotated[
            bool | None, Parameter(help=_description(name, variants, required=False), negative=(), group=group)
        ]
    several = schema.get("type") == "array"
    choices = variants[0].get("enum")
    # `| str`: cyclopts must not refuse a value; `make_scenario` does, with the same message for flags and files.
    value: Any = list[str] if several else Literal[tuple(choices)] | str if choices else str
    return Annotated[
        value | None,
        Parameter(
            help=_description(name, variants, required=name in SCHEMA["required"] and name not in defaults),
            converter=texts_of if several else text_of,
            metavar="CHOICE" if choices else _placeholder(name, variants),
            show_default=_shown(name, defaults.get(name, schema.get("default"))),
            negative=(),
            group=group,
            allow_leading_hyphen=name in ("source", "target"),  # labels of some topologies begin with a minus
        ),
    ]


def text_of(_hint: object, tokens: Sequence[Token]) -> str:
    """Hand over the text of a flag unchanged."""
    return tokens[-1].value


def texts_of(_hint: object, tokens: Sequence[Token]) -> list[str]:
    """Hand over the texts of a repeated flag unchanged."""
    return [token.value for token in tokens]


def _variants(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The alternatives of a field without null, references resolved."""
    alternatives = schema.get("anyOf", [schema])
    resolved = [SCHEMA["$defs"][each["$ref"].rpartition("/")[2]] if "$ref" in each else each for each in alternatives]
    return [each for each in resolved if each.get("type") != "null"]


def _description(name: str, variants: Sequence[Mapping[str, Any]], required: bool) -> str:
    low, high = _bounds(variants[0])
    allowed = f" ({low} to {high})" if high else ""
    return f"{Scenario.model_fields[name].description}{allowed}{'; required, here or in the file' if required else ''}"


def _bounds(schema: Mapping[str, Any]) -> tuple[str, str]:
    """The allowed range of a number; pydantic writes it under these keys, by the kind of annotation."""
    low = schema.get("minimum", schema.get("ge"))
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum", schema.get("lt"))
    high = schema.get("maximum", schema.get("le", None if below is None else below - 1))
    shown_low = f"above {above:g}" if low is None and above is not None else f"{low}"
    return shown_low, "" if high is None else f"{high:,.0f}" if isinstance(high, float) else f"{high:,}"


def _placeholder(name: str, variants: Sequence[Mapping[str, Any]]) -> str:
    if _is_duration(name):
        return "TIME"
    if name == "retransmit_after":
        return "STEPS|TIME"
    return "|".join(each.get("const") or TYPES[each.get("items", each)["type"]] for each in variants)


def _shown(name: str, default: object) -> str | bool:
    """The default as a user writes it; False, which hides it, where the description states it."""
    if default is None or default == []:
        return False
    return format_duration(default) if isinstance(default, float) and _is_duration(name) else str(default)


def _is_duration(name: str) -> bool:
    return any(getattr(each, "func", None) is format_duration for each in Scenario.model_fields[name].metadata)


Flags: Any = make_flags("Flags", {})
ScenarioFlags = Annotated[Flags | None, Parameter(name="*")]
ScenarioFile = Annotated[Path | None, Parameter(help="scenario file in TOML; flags override its keys")]
