"""The annexes: optional parts of the coordinator. Each is a folder here, and everything else runs without it.

The core imports no annex. `register()` in the `__init__.py` of an annex, which imports nothing else of it, names what the
annex adds to the core; `BELONGS` has the names that users know, so that a missing annex is named when it is asked for.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple

from emunode.annexes import MissingAnnexError, is_installed, load


class Annex(NamedTuple):
    """The additions of an annex to the core. A target is `module:name`; it is imported when it is used."""

    needs: tuple[str, ...] = ()
    """The annexes without which this one cannot be used."""
    commands: Mapping[str, tuple[str, str]] = {}
    """The target and the summary of each command, as `judge mpi`."""
    groups: Mapping[str, str] = {}
    """The help of each group of commands, as `judge`."""
    names: Mapping[str, str] = {}
    """The target of each name of the Python API."""
    calls: Mapping[str, str] = {}
    """The target of each function that the core calls by what it does."""
    drivers: Mapping[str, Mapping[str, Any]] = {}
    """The values of each driver of a scenario, by their names in `Driver`."""
    options: Mapping[str, str] = {}
    """The module of each record of options of a scenario."""
    features: Mapping[str, str] = {}
    """The target of each feature of nodes by its name; `coordinator.features.registry` has their order."""
    panels: Mapping[str, str] = {}
    """The target of each panel of a report, by the function of the core whose panel it follows."""


BELONGS: Final[Mapping[str, tuple[str, ...]]] = {
    "agreement": ("--agreement-steps", "agreement on failures", "claims of an agreement", "time of an agreement"),
    "clusters": (
        "coordinator manifest",
        "driver 'mpi'",
        "driver 'slurm'",
        "driver 'ssh'",
        "--host-file",
        "--launcher",
    ),
    "exports": (
        "coordinator export",
        "Campaign.export",
        "Run.export",
        "Run.figures",
        "a picture as PNG or PDF",
        "a chart in LaTeX",
    ),
    "schedules": (
        "coordinator.CollectiveSchedule",
        "coordinator.schedule",
        "--schedule",
        "judge schedule files",
        "recognise schedule files",
        "packets as GOAL",
        "schedule files",
        "coordinator export chakra",
        "coordinator export forestcoll",
        "coordinator export goal",
        "coordinator export msccl",
    ),
    "numbers": (
        "--values",
        "--rounding",
        "--fixed-order",
        "--leaves",
        "--data",
        "Run.additions",
        "hold arrays as contributions",
        "store contributions",
        "read results",
        "gather results",
        "compare results",
        "compare bits",
        "price of a fixed order",
        "picture of additions",
    ),
    "reliable": (
        "--reliable",
        "--retransmit-after",
        "--attempts",
        "--window",
        "--back-off",
        "claims of reliable links",
        "claims of repeated packets",
        "time over reliable links",
    ),
    "repair": ("--repair", "--repair-after", "time of a repair by requests", "answers to requests"),
    "mpi": ("coordinator judge", "coordinator.judge", "verify the history of other software"),
    "grading": ("coordinator check", "coordinator new"),
    "lesson": ("coordinator export lesson",),
    "invariants": ("coordinator graph", "figures of a network"),
    "trees": ("coordinator new tree", "--trees"),
    "orders": ("certify --every-order", "run --order"),
    "proofs": (
        "coordinator certify",
        "coordinator pack",
        "coordinator.Certificate",
        "coordinator.certify",
        "the check of a certificate",
        "the archive of a run",
    ),
    "papers": ("coordinator reproduce", "coordinator.reproduce"),
}
"""The names that an annex brings: commands, flags, names of the Python API, and calls, as `register()` states them."""


@cache
def installed() -> Mapping[str, Annex]:
    """Return what each annex of this installation adds, by its name."""
    here = [name for name in BELONGS if is_installed("coordinator", name)]
    found: dict[str, Annex] = {name: import_module(f"coordinator.annexes.{name}").register() for name in here}
    return {name: annex for name, annex in found.items() if found.keys() >= {*annex.needs}}


def needed_by(names: Iterable[str]) -> set[str]:
    """Return these annexes and those that cannot be used without them."""
    gone = {*names}
    while more := {name for name, annex in installed().items() if gone & {*annex.needs}} - gone:
        gone |= more
    return gone


@cache
def merged(field: str) -> dict[str, Any]:
    """Return the entries of a field of `Annex` of all annexes together."""
    return {key: entry for annex in installed().values() for key, entry in getattr(annex, field).items()}


def has_function(what: str) -> bool:
    """Return whether an annex that does `what` is installed."""
    return what in merged("calls")


def annex_function(what: str) -> Any:
    """Return the function of an annex that does `what`; MissingAnnexError if the annex is not installed."""
    if target := merged("calls").get(what):
        return load(target)
    require_installed(what)
    raise KeyError(what)


def require_installed(asked: str) -> None:
    """Raise MissingAnnexError if what is asked for belongs to an annex that is not installed."""
    for annex, names in BELONGS.items():
        if asked in names and annex not in installed():
            raise MissingAnnexError(asked, annex)
