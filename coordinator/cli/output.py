"""Flags that several commands share."""

from collections.abc import Callable
from dataclasses import Field, field, fields, make_dataclass
from inspect import getdoc
from pathlib import Path
from typing import Annotated, Any, get_args

from cyclopts import App, Group, Parameter

from coordinator.cli.run_flags import PageFlags, RunOutput
from coordinator.scenario.option import PLUGIN

OUTPUT = Group("Output", sort_key=90)
PAGE = Group("Page in a browser", sort_key=90)
JsonFlag = Annotated[
    bool,
    Parameter(negative=(), show_default=False, group=OUTPUT, help="print one JSON document instead of text"),
]

PluginFlag = Annotated[list[str] | None, Parameter(name="--plugin", negative=(), help=PLUGIN)]
"""`load_plugins` executes the given files and modules."""
ProgramFlag = Annotated[str | None, Parameter(help="program of the runs, so that their hops can be replayed")]
RunArgument = Annotated[Path, Parameter(help="run directory, or a folder of runs/ for its latest run")]


def with_parameters(flags: type, group: Group) -> Any:
    """Return a subclass of a record of flags for cyclopts to show and parse them."""
    shown = make_dataclass(
        flags.__name__,
        [(each.name, _annotated(each, group), field(default=each.default)) for each in fields(flags)],
        bases=(flags,),
        frozen=True,
        kw_only=True,
    )
    shown.__module__ = __name__  # where cyclopts looks up its annotations
    return shown


def _annotated(flag: Field[Any], group: Group) -> Any:
    kind, text = get_args(flag.type)
    is_switch = kind is bool
    return Annotated[
        kind,
        Parameter(
            help=text.help,
            metavar=text.metavar,
            group=group,
            negative=() if is_switch else None,
            show_default=False if is_switch else None,
        ),
    ]


_RunOutput: Any = with_parameters(RunOutput, OUTPUT)
_PageFlags: Any = with_parameters(PageFlags, PAGE)
RunOutputFlags = Annotated[_RunOutput | None, Parameter(name="*")]
PageParameters = Annotated[_PageFlags | None, Parameter(name="*")]


def as_command(function: Callable[..., object], name: str | None = None) -> App:
    """Return a command whose help ends with the docstring of `function` after its first line: details and examples."""
    _, _, rest = (getdoc(function) or "").partition("\n\n")
    command = App(name=name or function.__name__, help_epilogue=rest, help_format="plaintext")
    command.default(function)
    return command
