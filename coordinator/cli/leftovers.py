"""Leftovers of killed processes of this user: the one answer for `clean` and for `doctor`."""

import os
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from tempfile import gettempdir
from typing import Annotated, Any, NamedTuple

from cyclopts import Parameter

from coordinator.cli.output import JsonFlag, as_command
from coordinator.history.run_directory import RUNS
from coordinator.history.stored.left_behind import (
    PARTIAL,
    TEMPORARY,
    Record,
    process_start,
    read_records,
    remove,
    used_files,
    working_folder,
)
from coordinator.scenario.drivers import DRIVERS
from emunode.errors import RunError
from emunode.launched import JOINS
from emunode.state_folder import state_folder
from emunode.terminal import print_json, say


class Leftover(NamedTuple):
    """The leftovers of one killed process."""

    files: tuple[Path, ...]
    here: bool
    """Whether the process was started in this folder, or its files lie in this folder or in runs/."""
    record: Record | None = None

    @property
    def has_objects(self) -> bool:
        """Whether an engine or a scheduler has objects of it."""
        return self.record is not None and bool(self.record.objects)

    def names(self) -> list[str]:
        """Return what `remove` would remove. RunError if an engine does not answer."""
        names = [shown(path) for path in self.files]
        if self.record is not None and self.record.objects:
            names += _launcher(self.record).remaining(self.record)
        return names

    def remove(self) -> list[str]:
        """Remove it, and its record; return what was removed. RunError if an engine or a scheduler does not answer."""
        if self.record is None:
            for path in self.files:
                remove(path)
            return self.names()
        # Asked again: a run may have begun to use a token file.
        removed = [shown(path) for path in _outermost(self.record.remove_files(used_files(read_records())))]
        if self.has_objects:
            removed += _launcher(self.record).sweep(self.record)
        self.record.remove()
        return removed


def leftovers() -> list[Leftover]:
    """Return what killed processes of this user have left, in all folders; also records of which nothing is left."""
    records = read_records()
    used = used_files(records)
    ended = [record for record in records if not record.is_running()]
    found = [Leftover(_outermost(record.remaining_files(used)), _is_here(record), record) for record in ended]
    recorded = {path for record in records for path in record.files}
    return [*found, *(each for each in _unrecorded() if str(each.files[0].absolute()) not in recorded)]


def shown(path: Path) -> str:
    """Return a path as seen from this folder."""
    here = working_folder()
    return str(path.relative_to(here) if here and path.is_relative_to(here) else path)


def _launcher(record: Record) -> Any:
    driver = DRIVERS.get(record.driver)
    if driver is None or not driver.leaves_objects:
        raise RunError(f"{record.path}: no driver {record.driver!r} is installed that could remove what is in it")
    # Only here: the Docker client takes 0.2 s to import, and most machines have no containers to remove.
    return import_module(str(driver.launcher))


def _outermost(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Leave out files in unfinished and in temporary folders."""
    return tuple(
        path for path in paths if not any(parent.name.startswith((PARTIAL, TEMPORARY)) for parent in path.parents)
    )


def _is_here(record: Record) -> bool:
    folder = working_folder()
    here, places = Path(folder), [Path(path).parent for path in record.files]
    return bool(folder) and (
        record.folder == folder or any(place == here or place.is_relative_to(here / RUNS) for place in places)
    )


def _unrecorded() -> Iterator[Leftover]:
    """Yield unfinished files and folders by the process ids in their names, for want of a record: the state folder could
    not be written.
    """
    for path in _outermost(sorted(RUNS.rglob(f"{PARTIAL}*"))):
        if _is_gone(path, PARTIAL):
            yield Leftover((path,), here=True)
    state = state_folder()
    for path in (*state.glob(f"{PARTIAL}*"), *(state / JOINS).glob(f"{PARTIAL}*")):
        if _is_gone(path, PARTIAL):
            yield Leftover((path,), here=False)
    for path in sorted(Path(gettempdir()).glob(f"{TEMPORARY}*")):
        if _is_gone(path, TEMPORARY) and path.lstat().st_uid == os.getuid():
            yield Leftover((path,), here=False)


def _is_gone(path: Path, prefix: str) -> bool:
    """Return whether the process in a name has ended."""
    # A process id may be reused; that only delays the clean-up.
    pid = path.name.removeprefix(prefix).split("-")[0]
    return pid.isdecimal() and process_start(int(pid)) is None


@as_command
def clean(
    *,
    everywhere: Annotated[bool, Parameter(help="also of runs in other folders: everything of this user")] = False,
    dry_run: Annotated[bool, Parameter(help="only list what would be removed")] = False,
    json: JsonFlag = False,
) -> None:
    """Remove what killed runs of this folder have left.

    A run belongs to this folder if it was started here, or if its files lie here or in runs/. Removed are unfinished run
    directories and files (.partial-*), temporary folders, token files that `serve` has created, join files in the state
    folder, containers and their networks, and jobs of Slurm. What runs in progress have stays, and so does everything
    that was started on another machine.

    Examples:
      coordinator clean --dry-run
      coordinator clean --everywhere
    """
    every = leftovers()
    chosen = [each for each in every if everywhere or each.here]
    names, problems = [], []
    for each in chosen:
        try:
            names += each.names() if dry_run else each.remove()
        except RunError as error:  # what others have left is removed nevertheless
            problems.append(str(error))
    elsewhere = sum(bool(each.files or each.has_objects) for each in every if each not in chosen)
    if json:
        print_json({"would_remove" if dry_run else "removed": names, "elsewhere": elsewhere})
    else:
        verb = "would remove" if dry_run else "removed"
        for line in [f"{verb} {name}" for name in names] or ["nothing to clean"] * (not problems):
            say(line)
        if elsewhere:
            say(f"{elsewhere} more in other folders: coordinator clean --everywhere --dry-run lists them")
    if problems:
        raise RunError("; ".join(problems))
