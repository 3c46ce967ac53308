"""The rest of a stored folder: its pages are drawn again and compared, and every other file is named.

A verification compares the files that hold results. What people look at, the report and the thumbnail, must say the same.
"""

import html
import re
from collections.abc import Collection, Iterator
from math import isclose
from pathlib import Path
from typing import Final

from coordinator.execution.verification import Verification
from coordinator.history.run_index import REPORT, THUMBNAIL
from coordinator.history.stored.reading import read_bytes
from coordinator.history.stored.version import VERSION_KEY
from coordinator.reports.data import read_run
from coordinator.reports.run_report import render
from coordinator.reports.thumbnail import thumbnail
from emunode import __version__
from emunode.terminal import plural

LOG: Final = "log.jsonl"
DECIMAL: Final = re.compile(r"\d+\.\d+")
NAMED: Final = re.compile(r'<p class="quiet">Run (.*?)\.(?: The command|</p>)')
SHIFT: Final = 0.02
"""How far coordinates and shares may differ that libraries of another version have computed: two digits are written."""


def check_rest(path: Path, compared: Collection[str], verification: Verification) -> None:
    """Compare the pages of a run that has no findings yet, and name each file that is not among `compared`."""
    names = sorted(entry.name for entry in path.iterdir())
    strange = [name for name in names if name not in {*compared, REPORT, THUMBNAIL, LOG}]
    verification.unchecked += [f"{name}: it is not a file of a run" for name in strange]
    pages = [name for name in names if name in (REPORT, THUMBNAIL)]
    if verification.findings or verification.undecided:
        verification.unchecked += [f"{name}: it is drawn from files that do not verify" for name in pages]
        return
    differing = [name for name in pages if not _is_drawn(path, name)]
    # Runs of the last version before this one have the same number and no reason.
    ours = not differing or ((run := read_run(path)).get(VERSION_KEY) == __version__ and "reason" in run.summary)
    for name in differing:
        if ours:
            verification.findings.append(f"{name}: differs from the run; `coordinator report` draws it again")
        else:
            verification.unchecked.append(f"{name}: another version drew it")
    if not verification.unchecked:
        count = plural(len(names) - (LOG in names), "file")
        verification.statement = f"{count} as computed again" + (f"; {LOG} is not checked" if LOG in names else "")


def _is_drawn(path: Path, name: str) -> bool:
    """Return whether a page is the one that this version draws of a run."""
    expected = list(_drawings(path, name))
    most = 2 * max(len(text.encode()) for text in expected) + 1000 if expected else 0
    try:
        stored = read_bytes(path / name, most, follow=False).decode()
    except (OSError, ValueError):
        return False
    return any(_are_alike(stored, text) for text in expected)


def _drawings(path: Path, name: str) -> Iterator[str]:
    """Yield the texts that a page may have; the folder may have had another name when its report was drawn."""
    if name == THUMBNAIL:
        drawn = thumbnail(read_run(path))
        yield from [] if drawn is None else [drawn]
        return
    try:
        named = NAMED.search(read_bytes(path / name, follow=False).decode())
    except (OSError, ValueError):
        return
    data = read_run(path, None if named is None else html.unescape(named[1]))
    yield from dict.fromkeys(render(data, thorough=thorough) for thorough in (False, True))


def _are_alike(stored: str, drawn: str) -> bool:
    """Return whether texts are equal but for the last digits of decimal numbers."""
    if stored == drawn:
        return True
    if DECIMAL.split(stored) != DECIMAL.split(drawn):
        return False
    pairs = zip(DECIMAL.findall(stored), DECIMAL.findall(drawn), strict=True)
    return all(isclose(float(one), float(other), rel_tol=1e-6, abs_tol=SHIFT) for one, other in pairs)
