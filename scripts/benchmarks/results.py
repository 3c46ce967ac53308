"""What was measured, as a JSON document that sections can be measured anew in; and the machine it was measured on.

`{"sections": {name: {"measured", "machine", "quick", "turns", "seconds", "load", "rows", "notes"}}}`. `load` is the load
average before and after: beyond one or two, other work went on beside it, and times and rates say little.
"""

import json
import os
import platform
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import trio

from benchmarks.record import Note, Options, Row
from emunode import __version__

Document = dict[str, Any]


@dataclass(frozen=True)
class Measured:
    """A section that has been measured."""

    rows: list[Row]
    notes: list[Note]
    seconds: float
    load: tuple[float, float]

    def record(self, options: Options) -> Document:
        """As plain values."""
        return {
            "measured": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            "machine": machine(),
            "quick": options.quick,
            "turns": options.turns,
            "seconds": round(self.seconds, 1),
            "load": [round(load, 2) for load in self.load],
            "rows": [asdict(row) | {"met": row.met} for row in self.rows],
            "notes": [note.text for note in self.notes],
        }


def machine() -> str:
    """What figures depend on, in one line."""
    cores = len(os.sched_getaffinity(0))
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"{cores} cores ({_processor()}), {memory:.0f} GiB, Linux {platform.release()}, Python {platform.python_version()}, "
        f"trio {trio.__version__}, version {__version__}"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


class Clock:
    """Time and load since it was made."""

    def __init__(self) -> None:
        self._began, self._load = time.perf_counter(), os.getloadavg()[0]

    def read(self) -> tuple[float, tuple[float, float]]:
        """Seconds, and the load average before and after."""
        return time.perf_counter() - self._began, (self._load, os.getloadavg()[0])


def read_document(path: Path) -> Document:
    """What was measured before; an empty document where there is none. ValueError for a file of another kind."""
    if not path.exists():
        return {"sections": {}}
    document = json.loads(path.read_text(encoding="utf-8"))
    if not (isinstance(document, dict) and isinstance(document.get("sections"), dict)):
        raise ValueError(f"{path} is no JSON of this benchmark")
    return document


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Write it, readable and in order."""
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def rows_of(document: Mapping[str, Any], section: str) -> list[Row]:
    """The rows of a section; none if it was not measured."""
    records = document["sections"].get(section, {"rows": []})["rows"]
    return [Row(**{key: value for key, value in record.items() if key != "met"}) for record in records]
