"""Readers of files that the ranks of a measuring program wrote. The files may be cut off, damaged or forged.

Each rank writes a file of lines: a heading, the calibration of its counters, and two lines for each call, when it begins
and when it has ended. A value that the program of this project never writes makes the whole report malformed: nothing of
it is judged.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from coordinator.annexes.mpi.rules.base import PairCount, PairCounts
from coordinator.history.stored.reading import parse_json, read_lines

MOST_LINE_BYTES: Final = 1 << 20
"""The most bytes of one line; a program writes a few kilobytes."""
MOST_COUNT: Final = 2**48
"""Counts of messages and bytes are below this."""
CALIBRATION: Final = (2, 12)
"""Messages and bytes that each rank sends to the next one to show that counting is on."""


class MalformedReport(Exception):  # noqa: N818  # the fault of the measured program, not of this one
    """A report that the measuring program does not write; the text names the file, line and value."""


class RankResult(NamedTuple):
    """The result of one rank: the digest of its bytes and its first elements, or its elements as texts."""

    digest: str
    begin: tuple[int | float | str, ...]


@dataclass(frozen=True)
class CallReport:
    """Counts and results of one call on all ranks. `error` is the text of the library for a refused call."""

    counts: PairCounts
    results: tuple[RankResult | None, ...]
    error: str = ""
    counted: bool = True
    """Whether messages were counted; else `counts` is empty."""


@dataclass
class JobReport:
    """Reports of all ranks of one start of mpirun."""

    library: str = ""
    """Name and version of the library, in its own words."""
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Algorithms that the library offers for each collective."""
    counted: bool = True
    """Whether the library counts messages."""
    problem: str = ""
    """The reason why nothing can be judged; empty if the reports are valid."""
    calls: dict[int, CallReport] = field(default_factory=dict)
    begun: int | None = None
    """The last call that any rank began."""
    ended: bool = False
    """Whether all ranks came to the end of the job."""


def read_job_report(folder: Path, ranks: int, nonce: str) -> JobReport:
    """Read the files of all ranks; MalformedReport for content that the program does not write."""
    report = JobReport()
    rows = [_read_rank(folder / f"rank-{rank}.jsonl", rank, ranks, nonce, report) for rank in range(ranks)]
    if report.problem:
        return report
    missing = [rank for rank, calls in enumerate(rows) if calls is None]
    if missing:
        report.problem = f"rank {missing[0]} reported nothing"
        return report
    complete = [calls for calls in rows if calls is not None]
    report.ended = all(calls.ended for calls in complete)
    report.begun = max((calls.begun for calls in complete if calls.begun is not None), default=None)
    for number in sorted(set.intersection(*(set(calls.lines) for calls in complete))):
        lines = [calls.lines[number] for calls in complete]
        report.calls[number] = _call_report(lines, ranks, counted=report.counted)
    return report


@dataclass
class _RankLines:
    """The calls that one rank reported."""

    lines: dict[int, dict[str, Any]] = field(default_factory=dict)
    begun: int | None = None
    ended: bool = False


def _read_rank(path: Path, rank: int, ranks: int, nonce: str, report: JobReport) -> _RankLines | None:
    found: _RankLines | None = None
    try:
        for number, line in enumerate(_lines(path)):
            where = f"{path.name}, line {number + 1}"
            if number == 0:
                _read_heading(line, rank, ranks, nonce, report, where)
            elif number == 1:
                _check_calibration(line, rank, ranks, report, where)
                found = _RankLines()
            elif found is not None:
                _read_line(line, found, ranks, nonce, where, counted=report.counted)
    except (OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError):
            return None
        raise MalformedReport(f"{path.name}: {error}") from None
    return found


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for text in read_lines(path, MOST_LINE_BYTES, follow=False):
        line = parse_json(text)
        if not isinstance(line, dict):
            raise ValueError("a line is not an object")
        yield line


def _read_heading(line: Mapping[str, Any], rank: int, ranks: int, nonce: str, report: JobReport, where: str) -> None:
    if line.get("nonce") != nonce:
        raise MalformedReport(f"{where}: it belongs to another run")
    if line.get("rank") != rank:
        raise MalformedReport(f"{where}: rank {line.get('rank')!r}, expected {rank}")
    library = line.get("library")
    if not isinstance(library, str):
        raise MalformedReport(f"{where}: no version of the library")
    report.library = " ".join(library.split("\0")[0].split())[:200]
    if line.get("ranks") != ranks:
        report.problem = (
            f"the world has {line.get('ranks')!r} ranks, expected {ranks}: mpirun and library do not belong together"
        )
        return
    if not line.get("dynamic"):
        report.problem = "the library ignores the algorithm asked for: coll_tuned_use_dynamic_rules is off"
        return
    names = line.get("names")
    if not _is_names(names):
        raise MalformedReport(f"{where}: no names of algorithms")
    counted = line.get("counted", True)
    if not isinstance(counted, bool) or (rank and counted != report.counted):
        raise MalformedReport(f"{where}: counted {counted!r}, expected the same on all ranks")
    report.counted = counted
    report.names = {collective: list(values) for collective, values in names.items()}  # type: ignore[union-attr]


def _is_names(names: object) -> bool:
    return isinstance(names, dict) and all(
        isinstance(values, dict) and all(_is_count(each) for each in values.values()) for values in names.values()
    )


def _check_calibration(line: Mapping[str, Any], rank: int, ranks: int, report: JobReport, where: str) -> None:
    """Check that two messages to the next rank were counted, and nothing else."""
    if report.problem:
        return
    if not report.counted:
        if line.get("calibration") != []:
            raise MalformedReport(f"{where}: counts of a library that counts nothing")
        return
    rows = _rows(line.get("calibration"), ranks, where)
    expected = [[value * (target == (rank + 1) % ranks) for target in range(ranks)] for value in CALIBRATION]
    if not any(map(any, rows)):
        report.problem = "the library counts no messages: pml_monitoring is off"
    elif rows != expected:
        report.problem = (
            f"the counters of rank {rank} are wrong: two messages of 12 bytes in all were sent to the next rank"
        )


def _read_line(line: dict[str, Any], found: _RankLines, ranks: int, nonce: str, where: str, *, counted: bool) -> None:
    if line == {"end": nonce}:
        found.ended = True
        return
    number = line.get("call")
    if not isinstance(number, int) or not _is_count(number) or found.ended or number in found.lines:
        raise MalformedReport(f"{where}: call {number!r} is out of order")
    if len(line) == 1:
        if found.begun is not None and number != found.begun + 1:
            raise MalformedReport(f"{where}: call {number!r} is out of order")
        found.begun = number
        return
    if number != found.begun:
        raise MalformedReport(f"{where}: call {number!r} ends without a beginning")
    if "error" in line:
        if not isinstance(line["error"], str):
            raise MalformedReport(f"{where}: error {line['error']!r}, expected text")
    else:
        if counted:
            messages, sizes = _rows([line.get("messages"), line.get("bytes")], ranks, where)
            _check_counts(messages, sizes, where)
        elif line.get("messages") is not None or line.get("bytes") is not None:
            raise MalformedReport(f"{where}: counts of a library that counts nothing")
        line["result"] = _result(line, where)
    found.lines[number] = line


def _check_counts(messages: Sequence[int], sizes: Sequence[int], where: str) -> None:
    for target, (count, size) in enumerate(zip(messages, sizes, strict=True)):
        if size and not count:
            raise MalformedReport(f"{where}: {size} bytes in no message to rank {target}")


def _rows(value: object, ranks: int, where: str) -> list[list[int]]:
    """Return two rows of counts, one count for each rank."""
    if not isinstance(value, list) or len(value) != 2:
        raise MalformedReport(f"{where}: no counts of messages and bytes")
    for row in value:
        if not isinstance(row, list) or len(row) != ranks or not all(map(_is_count, row)):
            raise MalformedReport(f"{where}: expected {ranks} whole numbers from 0 to 2^48")
    return value


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST_COUNT


def _result(line: Mapping[str, Any], where: str) -> RankResult | None:
    digest, begin = line.get("result"), line.get("begin", [])
    if digest is None:
        return None
    if not isinstance(digest, str) or not isinstance(begin, list):
        raise MalformedReport(f"{where}: a result is a digest and the first elements")
    if not all(isinstance(each, int | float | str) for each in begin):
        raise MalformedReport(f"{where}: elements are numbers or texts")
    return RankResult(digest, tuple(begin))


def _call_report(lines: Sequence[Mapping[str, Any]], ranks: int, *, counted: bool) -> CallReport:
    errors = [(rank, line["error"]) for rank, line in enumerate(lines) if "error" in line]
    if errors:
        rank, text = errors[0]
        some = "" if len(errors) == ranks else f"on rank {rank} only: "
        return CallReport({}, (), some + text[:200], counted)
    results = tuple(line["result"] for line in lines)
    if not counted:
        return CallReport({}, results, counted=False)
    counts = {
        (source, target): PairCount(line["messages"][target], line["bytes"][target])
        for source, line in enumerate(lines)
        for target in range(ranks)
        # Messages of a rank to itself cross no link, and no rule counts them.
        if line["messages"][target] and source != target
    }
    return CallReport(counts, results)
