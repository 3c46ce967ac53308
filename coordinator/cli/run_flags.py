"""The flags of `run` and `serve` beside the options of a scenario. This module imports no parser: see `direct`."""

from pathlib import Path
from typing import Annotated, NamedTuple

from emunode.lazy_dataclass import dataclass


class FlagHelp(NamedTuple):
    """The text of a flag in `--help`; part of its annotation."""

    help: str
    metavar: str | None = None


@dataclass(frozen=True, kw_only=True)
class RunOutput:
    """The flags of `run` and `serve` for their output and their files."""

    out: Annotated[Path | None, FlagHelp("run directory; default: runs/NAME/TIME-SEED, created by the run")] = None
    open: Annotated[bool, FlagHelp("show the report in the browser afterwards")] = False
    metrics: Annotated[
        str | None,
        FlagHelp("serve metrics for Prometheus during the run, or write them at its end", "HOST:PORT|FILE"),
    ] = None
    claims: Annotated[bool, FlagHelp("print every claim with its measurement and its source")] = False
    quiet: Annotated[bool, FlagHelp("show no progress, only the result")] = False
    json: Annotated[bool, FlagHelp("print one JSON document instead of text")] = False


@dataclass(frozen=True, kw_only=True)
class PageFlags:
    """The flags of a run with a page."""

    watch: Annotated[bool, FlagHelp("steer the run from a page in a browser; it begins paused")] = False
    watch_timeout: Annotated[
        str | None, FlagHelp("end a run that is paused for this long, undecided; default: 30m", "TIME")
    ] = None
    watch_port: Annotated[str | None, FlagHelp("where the page is served; default: any free port", "PORT")] = None
