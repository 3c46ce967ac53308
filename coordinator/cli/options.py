"""What the commands share: the flags of a scenario, and how results are printed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field, make_dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from coordinator.scenario.model import Scenario, make_scenario, parse_duration, read_scenario
from emunode.errors import ScenarioError

DAY = 86400.0


def _flag(name: str, description: str | None) -> Any:
    """The type of a flag: text, or several of it; labels of some topologies begin with a minus."""
    kind: Any = list[str] if name == "fault" else str
    return Annotated[kind | None, Parameter(help=description, negative=(), allow_leading_hyphen=name == "source")]


Flags: Any = make_dataclass(
    "Flags",
    [(name, _flag(name, info.description), field(default=None)) for name, info in Scenario.model_fields.items()],
)
"""Every field of a scenario as an optional text: a file may give it, and one place validates both."""
Flags.__module__ = __name__  # where cyclopts looks its annotations up

ScenarioFlags = Annotated[Flags | None, Parameter(name="*")]
JsonFlag = Annotated[bool, Parameter(name="--json", negative=(), help="print JSON instead of text")]


NETNS = ("auto", "always", "never", "true", "false")


def with_netns_value(arguments: Sequence[str]) -> list[str]:
    """A command line in which a bare `--netns`, as it was when it took no value, is `--netns=always`."""
    following = [*arguments[1:], ""]
    return [
        "--netns=always" if argument == "--netns" and after.lower() not in NETNS else argument
        for argument, after in zip(arguments, following, strict=False)
    ]


def values_from(file: Path | None, flags: Any) -> dict[str, object]:
    """The keys of a scenario file, overridden by flags, not validated yet."""
    values: dict[str, object] = read_scenario(file) if file else {}
    if flags is not None:
        values |= {name: value for name, value in asdict(flags).items() if value is not None}
    return values


def scenario_from(file: Path | None, flags: Any) -> Scenario:
    """A scenario from a file, overridden by flags."""
    return make_scenario(values_from(file, flags))


def seconds_from(name: str, text: str) -> float:
    """A flag's duration in seconds, more than 0."""
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise ScenarioError(name, text, str(error)) from None
    if not 0 < seconds <= DAY:
        raise ScenarioError(name, text, "more than 0s, at most 86400s")
    return seconds


def print_rows(title: str, rows: Sequence[Mapping[str, object]], as_json: bool) -> None:
    """Records of one kind, as a table or as JSON."""
    if as_json:
        print_json(rows)
        return
    from coordinator.cli.render import show_rows  # noqa: PLC0415

    show_rows(title, rows)


def print_json(value: Mapping[str, object] | Sequence[Mapping[str, object]]) -> None:
    """A value as JSON on standard output."""
    print(json.dumps(value, indent=2))
