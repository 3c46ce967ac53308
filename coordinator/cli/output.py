"""Flags that several commands share, and the output of JSON documents."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import getdoc
from pathlib import Path
from typing import Annotated

from cyclopts import App, Group, Parameter

from emunode.terminal import say

OUTPUT = Group("Output", sort_key=90)
PAGE = Group("Page in a browser", sort_key=90)
JsonFlag = Annotated[
    bool,
    Parameter(negative=(), show_default=False, group=OUTPUT, help="print one JSON document instead of text"),
]

RunArgument = Annotated[Path, Parameter(help="run directory, or a folder of runs/, which stands for its latest run")]

OutFlag = Annotated[
    Path | None, Parameter(group=OUTPUT, help="run directory; default: runs/NAME/TIME-SEED, which is created")
]


@dataclass(frozen=True, kw_only=True)
class RunOutput:
    """The flags of `run` and `serve` for their output and their files."""

    out: OutFlag = None
    open: Annotated[
        bool, Parameter(group=OUTPUT, negative=(), show_default=False, help="show the report in the browser afterwards")
    ] = False
    metrics: Annotated[
        str | None,
        Parameter(
            group=OUTPUT,
            metavar="HOST:PORT|FILE",
            help="serve metrics for Prometheus during the run, or write them at its end",
        ),
    ] = None
    quiet: Annotated[
        bool, Parameter(group=OUTPUT, negative=(), show_default=False, help="show no progress, only the result")
    ] = False
    json: JsonFlag = False


@dataclass(frozen=True, kw_only=True)
class PageFlags:
    """The flags of a run with a page."""

    watch: Annotated[
        bool, Parameter(group=PAGE, negative=(), help="steer the run from a page in a browser; it begins paused")
    ] = False
    watch_timeout: Annotated[
        str | None,
        Parameter(group=PAGE, metavar="TIME", help="end a run that is paused for this long, undecided; default: 30m"),
    ] = None
    watch_port: Annotated[
        str | None, Parameter(group=PAGE, metavar="PORT", help="where the page is served; default: any free port")
    ] = None


def as_command(function: Callable[..., object], name: str | None = None) -> App:
    """Return a command whose help ends with the docstring of `function` after its first line: details and examples."""
    _, _, rest = (getdoc(function) or "").partition("\n\n")
    command = App(name=name or function.__name__, help_epilogue=rest, help_format="plaintext")
    command.default(function)
    return command


def print_json(value: Mapping[str, object] | Sequence[Mapping[str, object]]) -> None:
    """Print a value as JSON on standard output."""
    say(json.dumps(value, indent=2))
