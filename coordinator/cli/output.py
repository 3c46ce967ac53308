"""Output that all commands share: the `--json` flag, JSON documents and tables."""

import json
from collections.abc import Callable, Mapping, Sequence
from inspect import getdoc
from pathlib import Path
from typing import Annotated

from cyclopts import App, Group, Parameter

OUTPUT = Group("Output", sort_key=90)
JsonFlag = Annotated[
    bool,
    Parameter(negative=(), show_default=False, group=OUTPUT, help="print one JSON document instead of text"),
]

RunArgument = Annotated[Path, Parameter(help="run directory, or a folder of runs/, which stands for its latest run")]


def as_command(function: Callable[..., object], name: str | None = None) -> App:
    """A command whose help ends with the docstring of `function` after its first line: details and examples."""
    _, _, rest = (getdoc(function) or "").partition("\n\n")
    command = App(name=name or function.__name__, help_epilogue=rest, help_format="plaintext")
    command.default(function)
    return command


def print_json(value: Mapping[str, object] | Sequence[Mapping[str, object]]) -> None:
    """Print a value as JSON on standard output."""
    print(json.dumps(value, indent=2))
