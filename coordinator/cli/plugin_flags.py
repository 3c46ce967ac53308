"""Flags for plug-ins and programs, of commands without a scenario."""

from typing import Annotated

from cyclopts import Parameter

from coordinator.scenario.option import PLUGIN

PluginFlag = Annotated[list[str] | None, Parameter(name="--plugin", negative=(), help=PLUGIN)]
"""`load_plugins` executes the given files and modules."""
ProgramFlag = Annotated[str | None, Parameter(help="program of the runs, so that their hops can be replayed")]
