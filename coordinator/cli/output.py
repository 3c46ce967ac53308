"""Flags that several commands share."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from inspect import getdoc
from pathlib import Path
from typing import Annotated

from cyclopts import App, Group, Parameter

from coordinator.scenario.option import PLUGIN
from coordinator.scenario.plugins import load_plugins
from emunode.terminal import unwrapped

OUTPUT = Group("Output", sort_key=90)
PAGE = Group("Page in a browser", sort_key=90)
JsonFlag = Annotated[
    bool,
    Parameter(group=OUTPUT, help="print one JSON document instead of text"),
]

PluginFlag = Annotated[list[str] | None, Parameter(name="--plugin", help=PLUGIN)]
"""`load_plugins` executes the given files and modules."""
ProgramFlag = Annotated[str | None, Parameter(help="program of the runs, so that their hops can be replayed")]
RunArgument = Annotated[Path, Parameter(help="run directory, or a folder of runs/ for its latest run")]


def _switch(text: str) -> Parameter:
    """Describe a flag without a value, among those for output."""
    return Parameter(group=OUTPUT, help=text)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunOutput:
    """The flags of `run` and `serve` for their output and their files."""

    out: Annotated[
        Path | None, Parameter(group=OUTPUT, help="run directory; default: runs/NAME/TIME-SEED, created by the run")
    ] = None
    open: Annotated[bool, _switch("show the report in the browser afterwards")] = False
    metrics: Annotated[
        str | None,
        Parameter(
            group=OUTPUT,
            metavar="HOST:PORT|FILE",
            help="serve metrics for Prometheus during the run, or write them at its end",
        ),
    ] = None
    claims: Annotated[bool, _switch("print every claim with its measurement and its source")] = False
    quiet: Annotated[bool, _switch("show no progress, only the result")] = False
    json: Annotated[bool, _switch("print one JSON document instead of text")] = False


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PageFlags:
    """The flags of a run with a page."""

    watch: Annotated[
        bool,
        Parameter(
            group=PAGE,
            help="steer the run from a page in a browser, which opens from a terminal; the run begins paused",
        ),
    ] = False
    no_open: Annotated[bool, Parameter(group=PAGE, help="do not open the page in the browser")] = False
    watch_timeout: Annotated[
        str | None,
        Parameter(
            group=PAGE, metavar="TIME", help="end a paused run, undecided, or its page after this long; default: 30m"
        ),
    ] = None
    watch_port: Annotated[
        str | None, Parameter(group=PAGE, metavar="PORT", help="where the page is served; default: any free port")
    ] = None


@dataclass(kw_only=True)
class Command:
    """A command as a record of its flags: a call runs it, and returns the exit status."""

    json: JsonFlag = False


@dataclass(kw_only=True)
class PluginCommand(Command):
    """A command that executes plug-ins before anything else."""

    plugin: PluginFlag = None

    def __post_init__(self) -> None:
        load_plugins(self.plugin)


def as_command(function: Callable[..., object]) -> App:
    """Return a command, named by the first word of the name of `function`.

    Its help ends with the docstring after the first line: details and examples.
    """
    name = re.findall("[A-Z]?[a-z]+", function.__name__)[0].lower()
    _, _, rest = (getdoc(function) or "").partition("\n\n")
    command = App(name=name, help_epilogue=unwrapped(rest), help_format="plaintext")
    command.default(function)
    return command
