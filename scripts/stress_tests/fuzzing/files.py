"""Schedule files of every format: judged, or refused with a reason, whatever their bytes."""

import contextlib
import re
from pathlib import Path
from tempfile import TemporaryDirectory

from coordinator.annexes.schedules.base import FileVerdict
from coordinator.annexes.schedules.registry import read_schedule, schedule_suffixes
from coordinator.annexes.schedules.scenario_values import network_of_links
from emunode.errors import ScenarioError
from stress_tests.common import ROOT
from stress_tests.fuzzing.source import Source, Target, drawn

SCHEDULES = ROOT / "tests" / "golden" / "schedules"
LARGEST = 4000
"""Bytes of a file of the tests that is an example here."""
SUFFIXES = sorted(schedule_suffixes())
EXAMPLES = [
    path
    for path in sorted(SCHEDULES.rglob("*"))
    if path.suffix in SUFFIXES and path.stat().st_size <= LARGEST and not re.search(r"\.[1-9]\d*\.et$", path.name)
]
"""Right and wrong files; a set of traces stands for all of its files by the first one."""
WORD = re.compile(rb"-?\d+|[A-Za-z_]+")


def changed_example(source: Source) -> tuple[str, bytes]:
    """Return the suffix and the content of an example of which some words are others."""
    path = source.pick(*EXAMPLES)
    data = path.read_bytes()
    for _ in range(source.number(0, 3)):
        words = list(WORD.finditer(data))
        old, other = source.pick(*words), source.pick(*words)
        new = source.pick(other[0], b"0", b"1", b"-1", b"7", str(source.number(-(2**40), 2**40)).encode(), b"")
        data = data[: old.start()] + new + data[old.end() :]
    return path.suffix, data


def fuzz_schedule(data: bytes) -> None:
    """Read and judge one file: given bytes, or an example with other words."""
    source = Source(data)
    kind = source.number(0, 255)
    suffix, content = SUFFIXES[kind % len(SUFFIXES)], data[1:]
    if kind & 128:
        suffix, content = changed_example(source)
    with TemporaryDirectory(prefix="fuzz-schedules-") as folder, contextlib.suppress(ScenarioError):
        path = Path(folder) / f"one.0{suffix}"
        path.write_bytes(content)
        file = read_schedule(path)
        judgement = file.judge(1 + kind % 2)
        assert file.judge(1 + kind % 2) == judgement
        if judgement.verdict is FileVerdict.HOLDS:
            topology = network_of_links(file, "one")
            assert sorted(file.ranks_on(topology).values()) == list(topology.ranks())
            file.timetable()


def schedule_seeds() -> list[bytes]:
    """Return the examples, and choices of words to change."""
    whole = [bytes([SUFFIXES.index(path.suffix)]) + path.read_bytes() for path in EXAMPLES]
    return [*whole, *(b"\x80" + choices for choices in drawn(40)), *(b"\x81" + choices for choices in drawn(24))]


TARGETS = {"schedules": Target(lambda: fuzz_schedule, 100_000, schedule_seeds)}
