"""What runs with containers created, written down before it is created: how `clean` knows what a killed run left.

One JSON file a run, in $XDG_STATE_HOME/collective-testbench (or ~/.local/state/..); it is removed once everything it
names is.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from coordinator.history.state_folder import state_folder
from emunode.errors import RunError


@dataclass(frozen=True)
class Record:
    """A run, the process that drives it, and the names of all that it creates with its engine."""

    run: str
    pid: int
    began: float
    """When that process began, in seconds since 1970: its number may have a new owner by now."""
    engine: str
    """DOCKER_HOST of the engine; empty: the default."""
    network: str
    containers: tuple[str, ...]

    @property
    def path(self) -> Path:
        """Where it is kept."""
        return state_folder() / f"{self.run}.json"

    def write(self) -> None:
        """Keep it; RunError when it cannot be kept, or another run has this id."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("x") as file:
                json.dump(asdict(self), file)
        except FileExistsError:
            raise RunError(f"there is a run {self.run} already, or `coordinator clean` has to remove it") from None
        except OSError as error:
            raise RunError(f"what the run creates cannot be written down in {self.path}: {error.strerror}") from None

    def remove(self) -> None:
        """Forget it: all that it names is gone."""
        self.path.unlink(missing_ok=True)


def new_record(run: str, engine: str, network: str, containers: tuple[str, ...]) -> Record:
    """A record of a run of this process."""
    return Record(run, os.getpid(), psutil.Process().create_time(), engine, network, containers)


def orphans() -> list[Record]:
    """Records of processes that are gone; a file that is none is passed over."""
    found = []
    for path in sorted(state_folder().glob("*.json")):
        try:
            values = json.loads(path.read_text())
            record = Record(**{**values, "containers": tuple(values["containers"])})
        except (OSError, ValueError, TypeError, KeyError):
            continue
        if not _lives(record):
            found.append(record)
    return found


def _lives(record: Record) -> bool:
    try:
        began: float = psutil.Process(record.pid).create_time()
    except psutil.NoSuchProcess:
        return False
    return abs(began - record.began) < 1
