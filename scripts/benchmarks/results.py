"""Measured sections as a JSON document, where single sections can be measured again; and the machine.

`{"sections": {name: {"measured", "machine", "quick", "turns", "seconds", "load", "rows", "notes"}}}`. `load` is the load
average before and after: above one or two, other work was running, and times and rates are unreliable.
"""

import json
import os
import platform
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
    """The results of one section."""

    rows: list[Row]
    notes: list[Note]
    seconds: float
    load: tuple[float, float]

    def record(self, options: Options) -> Document:
        """Return the JSON record of the section."""
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
    """Return one line that describes the machine and the versions."""
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


def read_document(path: Path) -> Document:
    """Return the stored document, or an empty one if there is no file; raises ValueError for a file of another kind."""
    if not path.exists():
        return {"sections": {}}
    document = json.loads(path.read_text(encoding="utf-8"))
    if not (isinstance(document, dict) and isinstance(document.get("sections"), dict)):
        raise ValueError(f"{path} is not a result file of this benchmark")
    return document


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Write a document as indented JSON."""
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def rows_of(document: Mapping[str, Any], section: str) -> list[Row]:
    """Return the rows of a section; empty if it was not measured."""
    records = document["sections"].get(section, {"rows": []})["rows"]
    return [Row(**{key: value for key, value in record.items() if key != "met"}) for record in records]
