"""The formats of schedule files by name; every module of `coordinator.annexes.schedules.formats` adds its own."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from coordinator.annexes.schedules import formats
from coordinator.annexes.schedules.base import (
    FORMATS,
    MOST_BYTES,
    RefusedScheduleError,
    ScheduleFile,
    ScheduleFormat,
    ScheduleSource,
)
from coordinator.history.stored.reading import read_bytes
from emunode.model import Rank


def schedule_formats() -> Mapping[str, ScheduleFormat]:
    """Return an object of every format, by name: those of the folder of formats, and those of plug-ins."""
    _import_formats()
    return {name: FORMATS[name]() for name in sorted(FORMATS)}


@cache  # a look at the folder for every file takes longer than reading a small one
def _import_formats() -> None:
    for module in iter_modules(formats.__path__):
        import_module(f"{formats.__name__}.{module.name}")


def schedule_suffixes() -> frozenset[str]:
    """Return the suffixes of schedule files."""
    return frozenset(suffix for entry in schedule_formats().values() for suffix in entry.suffixes)


def read_schedule(path: Path, *, root: Rank = 0, collective: str = "") -> ScheduleFile:
    """Return the schedule in a file, whose format its content tells. Raises RefusedScheduleError."""
    try:
        source = ScheduleSource(path, read_bytes(path, MOST_BYTES), root, collective)
        return _read(source)
    except OSError as error:
        raise RefusedScheduleError(f"the file cannot be read: {error.strerror}", str(path)) from None
    except RefusedScheduleError as error:
        raise error.within(str(path)) from None
    except ValueError as error:
        raise RefusedScheduleError(str(error), str(path)) from None


def _read(source: ScheduleSource) -> ScheduleFile:
    if not source.data.strip():
        raise RefusedScheduleError("the file is empty")
    for entry in schedule_formats().values():
        if entry.recognises(source):
            return entry.read(source)
    for entry in reversed(list(schedule_formats().values())):
        # The reader of the usual content of this suffix says what is wrong.
        if source.path.suffix.lower() in entry.suffixes:
            return entry.read(source)
    known = ", ".join(schedule_formats())
    raise RefusedScheduleError(f"its content has none of the known formats: {known}")
