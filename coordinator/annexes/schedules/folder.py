"""Many schedule files at once: the files of a folder that are schedules, and the judgement on each."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from coordinator.annexes.schedules.base import FileJudgement, FileVerdict, RefusedScheduleError, ScheduleFile
from coordinator.annexes.schedules.registry import read_schedule, schedule_suffixes
from emunode.model import Rank
from emunode.topologies.base import Topology

SET_FILE: Final = re.compile(r"(.*)\.\d+\.et")
"""One file of a set that has a file for each rank."""
MOST_FILES: Final = 100_000
"""The most schedule files that are judged at once."""
STATUS: Final[Mapping[FileVerdict, int]] = {
    FileVerdict.VIOLATED: 1, FileVerdict.REFUSED: 2, FileVerdict.UNDECIDED: 3, FileVerdict.HOLDS: 0,
}  # fmt: skip
"""The exit status of a verdict; of several files, the first verdict of this table that occurs decides."""


@dataclass(frozen=True)
class JudgedFile:
    """One schedule file with its judgement."""

    path: Path
    format: str
    judgement: FileJudgement
    schedule: ScheduleFile | None = None
    """The schedule; None for a refused file."""

    def record(self) -> dict[str, Any]:
        """Return the file as plain values."""
        return {"file": str(self.path), "format": self.format, **self.judgement.record()}


def is_schedule(path: Path) -> bool:
    """Return whether a path stands for schedules: a folder, or a file with the suffix of one."""
    return path.is_dir() or path.suffix.lower() in schedule_suffixes()


def schedule_paths(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the schedule files among paths, those of folders and their subfolders in order of names.

    Raises RefusedScheduleError for a folder without any, and for too many files.
    """
    suffixes, count, seen = schedule_suffixes(), 0, set[Path]()
    for path in paths:
        # Links to folders are not followed, so that a loop of links has an end.
        found = sorted(
            each for each in path.rglob("*") if each.suffix.lower() in suffixes and each.is_file()
        ) if path.is_dir() else [path]  # fmt: skip
        if not found:
            raise RefusedScheduleError(
                f"the folder has no file with a suffix of {' '.join(sorted(suffixes))}", str(path)
            )
        count += len(found)
        if count > MOST_FILES:
            raise RefusedScheduleError(f"these are more than {MOST_FILES:,} files", str(path))
        for each in found:
            # The files of one set have one line: the file of the lowest rank stands for all.
            first = SET_FILE.sub(r"\1.*.et", each.name)
            if each.with_name(first) not in seen:
                seen.add(each.with_name(first))
                yield each


def judge_file(path: Path, topology: Topology | None = None, capacity: int | None = None, root: Rank = 0) -> JudgedFile:
    """Return the judgement on a file, over the links of a network or over those that it uses."""
    name = ""
    try:
        schedule = read_schedule(path, root=root)
        name = schedule.format
        if topology is not None:
            schedule.require_network(topology)
        return JudgedFile(path, name, schedule.judge(capacity), schedule)
    except RefusedScheduleError as error:
        return JudgedFile(path, name, FileJudgement(FileVerdict.REFUSED, error.allowed))


def status_of(verdicts: Iterable[FileVerdict]) -> int:
    """Return the exit status for several files: 1 if one is wrong, else 2 if one is refused, else 3 if one is
    undecided.
    """
    found = set(verdicts)
    return next((status for verdict, status in STATUS.items() if verdict in found), 0)
