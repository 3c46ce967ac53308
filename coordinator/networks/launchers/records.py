"""Records of the objects that runs create outside this process, such as containers and jobs, written before the objects are
created, so that `clean` can remove the remaining ones.

One JSON file per run, in $XDG_STATE_HOME/collective-testbench (or ~/.local/state/..); it is removed after everything that
it names.
"""

import json
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import psutil

from coordinator.scenario.drivers import DRIVERS
from emunode.errors import RunError
from emunode.state_folder import state_folder


@dataclass(frozen=True)
class Record:
    """A run, the process that drives it, and the names of all that it creates with its engine."""

    run: str
    pid: int
    began: float
    """The start of that process in seconds since 1970: its number may belong to another process by now."""
    driver: str
    """The name of the driver, whose launcher has `sweep(record)`."""
    engine: str
    """The engine that has the objects, such as DOCKER_HOST; empty: the default."""
    objects: tuple[str, ...]
    """The names of the objects, as the engine knows them."""

    @property
    def path(self) -> Path:
        """The file of this record, in the state folder."""
        return state_folder() / f"{self.run}.json"

    def write(self) -> None:
        """Write the file; RunError if that fails, or if another run has this id."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("x") as file:
                json.dump(asdict(self), file)
        except FileExistsError:
            raise RunError(
                f"run {self.run} already exists; if it was killed, remove it with `coordinator clean`"
            ) from None
        except OSError as error:
            raise RunError(f"cannot record what the run creates in {self.path}: {error.strerror}") from None

    def remove(self) -> None:
        """Remove the file, after everything that it names."""
        self.path.unlink(missing_ok=True)


def new_record(run: str, driver: str, engine: str, objects: tuple[str, ...]) -> Record:
    """Return a record of a run of this process."""
    return Record(run, os.getpid(), psutil.Process().create_time(), driver, engine, objects)


def orphans() -> list[Record]:
    """Return the records of processes that have ended; malformed files are skipped."""
    found = []
    for path in sorted(state_folder().glob("*.json")):
        try:
            values = json.loads(path.read_text())
        except (OSError, ValueError):
            continue
        names = {field.name for field in fields(Record)}
        if not isinstance(values, dict) or values.keys() != names or not isinstance(values["objects"], list):
            continue
        if values["driver"] not in DRIVERS or not DRIVERS[values["driver"]].leaves_objects:
            continue
        record = Record(**{**values, "objects": tuple(map(str, values["objects"]))})
        if not _is_running(record):
            found.append(record)
    return found


def _is_running(record: Record) -> bool:
    try:
        began: float = psutil.Process(record.pid).create_time()
    except psutil.NoSuchProcess:
        return False
    return abs(began - record.began) < 1
