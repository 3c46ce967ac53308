"""Tables of traffic: who sent how many messages and bytes to whom, from files of other tools.

A table in CSV has the columns source, target, messages and bytes, and may have `collective`. A profile of Open MPI's
monitoring has one file for each rank, whose lines E are messages of the program, and I messages of the library.
"""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Final

from coordinator.annexes.mpi.rules.base import PairCount, PairCounts
from coordinator.history.stored.reading import read_lines, read_text
from emunode.errors import ScenarioError

MOST_TEXT: Final = 64 << 20
"""The largest table in CSV, in bytes."""
MOST_ROWS: Final = 1_000_000
MOST_TRAFFIC_RANKS: Final = 4096
LARGEST: Final = 2**53
"""Counts are smaller."""
COLUMNS: Final = ("source", "target", "messages", "bytes")
FURTHER: Final = "collective"
WHOLE: Final = "all"
"""Name for traffic of a table without the column `collective`."""
PROFILE_KINDS: Final = {"E": "point-to-point", "I": "collectives"}
"""Marks of lines in the profiles of Open MPI with pml_monitoring_enable 2."""


@dataclass(frozen=True)
class TrafficTable:
    """Messages of each pair of ranks for each collective, by the names that the file has."""

    ranks: int
    tables: Mapping[str, PairCounts]

    @property
    def total(self) -> PairCounts:
        """The messages of all collectives together."""
        found: dict[tuple[int, int], PairCount] = {}
        for counts in self.tables.values():
            for pair, count in counts.items():
                before = found.get(pair, PairCount(0, 0))
                found[pair] = PairCount(before.messages + count.messages, before.bytes + count.bytes)
        return found

    def csv(self) -> Iterator[str]:
        """Yield the lines of the table in CSV."""
        yield f"{','.join((*COLUMNS, FURTHER))}\n"
        for name, counts in self.tables.items():
            for (source, target), count in sorted(counts.items()):
                text = StringIO()
                csv.writer(text, lineterminator="\n").writerow((source, target, count.messages, count.bytes, name))
                yield text.getvalue()


def read_traffic(path: Path, ranks: int | None = None) -> TrafficTable:
    """Read a table in CSV; ScenarioError names the line and the value of the first fault.

    `ranks` is the number of ranks, by default the smallest that has every rank of the table.
    """
    try:
        text = read_text(path, MOST_TEXT)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ScenarioError("traffic", str(path), f"the file cannot be read: {reason}") from None
    tables: dict[str, dict[tuple[int, int], PairCount]] = {}
    try:
        for number, values, name in _rows(path, text):
            source, target, messages, size = values
            if size and not messages:
                raise ScenarioError("traffic", f"line {number}", f"{size} bytes in no message")
            table = tables.setdefault(name, {})
            before = table.get((source, target), PairCount(0, 0))
            table[source, target] = PairCount(before.messages + messages, before.bytes + size)
    except csv.Error as error:
        raise ScenarioError("traffic", str(path), f"it is no table in CSV: {error}") from None
    return _checked(path, tables, ranks)


def _checked(path: Path, tables: Mapping[str, Mapping[tuple[int, int], PairCount]], ranks: int | None) -> TrafficTable:
    highest = max((rank for table in tables.values() for pair in table for rank in pair), default=-1)
    count = max(2, highest + 1) if ranks is None else ranks
    if highest >= count:
        raise ScenarioError("ranks", ranks, f"above {highest}, the highest rank of {path.name}")
    if not 2 <= count <= MOST_TRAFFIC_RANKS:
        raise ScenarioError("ranks", count, f"from 2 to {MOST_TRAFFIC_RANKS}")
    used = {name: {pair: each for pair, each in table.items() if each.messages} for name, table in tables.items()}
    return TrafficTable(count, used)


def _rows(path: Path, text: str) -> Iterator[tuple[int, list[int], str]]:
    reader = csv.reader(StringIO(text, newline=""), strict=True)
    header = [name.strip().lower() for name in next(reader, [])]
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise ScenarioError("traffic", str(path), f"its first line has no column {', '.join(missing)}")
    places = [header.index(name) for name in COLUMNS]
    named = header.index(FURTHER) if FURTHER in header else None
    for row in reader:
        number = reader.line_num
        if not row:
            continue
        if number > MOST_ROWS:
            raise ScenarioError("traffic", str(path), f"at most {MOST_ROWS:,} lines")
        if len(row) != len(header):
            raise ScenarioError("traffic", f"line {number}", f"{len(row)} values, expected {len(header)}")
        values = [_number(row[place], number, name) for place, name in zip(places, COLUMNS, strict=True)]
        if values[0] == values[1]:
            raise ScenarioError("traffic", f"line {number}", f"rank {values[0]} sends to itself")
        yield number, values, (row[named].strip() or WHOLE) if named is not None else WHOLE


def _number(text: str, line: int, name: str) -> int:
    stripped = text.strip()
    most = MOST_TRAFFIC_RANKS - 1 if name in ("source", "target") else LARGEST
    if not (stripped.isascii() and stripped.isdigit()) or len(stripped) > 16 or int(stripped) > most:
        raise ScenarioError(
            "traffic", f"line {line}", f"{name} {stripped[:40]!r}, expected a whole number up to {most:,}"
        )
    return int(stripped)


def read_profiles(files: Sequence[Path]) -> TrafficTable:
    """Read the profiles of all ranks; ValueError for content that Open MPI does not write, OSError for a missing file."""
    ranks = len(files)
    tables: dict[str, dict[tuple[int, int], PairCount]] = {}
    for rank, file in enumerate(files):
        for line in read_lines(file, follow=False):
            fields = line.decode("ascii", errors="replace").split("\t")
            kind = PROFILE_KINDS.get(fields[0])
            if kind is not None:
                source, target, count = _profile_line(fields, file.name)
                if source != rank or target >= ranks:
                    raise ValueError(f"{file.name}: messages from {source} to {target} of {ranks} ranks")
                tables.setdefault(kind, {})[source, target] = count
    return TrafficTable(ranks, {kind: tables.get(kind, {}) for kind in PROFILE_KINDS.values()})


def _profile_line(fields: Sequence[str], name: str) -> tuple[int, int, PairCount]:
    """Return source, target and counts of a line such as `E 0 1 8 bytes 1 msgs sent ..`, separated by tabs."""
    try:
        source, target = int(fields[1]), int(fields[2])
        size, messages = int(fields[3].removesuffix(" bytes")), int(fields[4].removesuffix(" msgs sent"))
    except (IndexError, ValueError):
        raise ValueError(f"{name}: a line that monitoring does not write: {' '.join(fields)[:60]}") from None
    if min(source, target, size, messages) < 0 or max(size, messages) > LARGEST:
        raise ValueError(f"{name}: numbers out of range")
    return source, target, PairCount(messages, size)


def summary_rows(table: TrafficTable) -> Iterable[Mapping[str, object]]:
    """Yield a row for each collective: pairs, messages, bytes, and the pair with the most bytes."""
    for name, counts in table.tables.items():
        row: dict[str, object] = {
            "collective": name,
            "pairs": len(counts),
            "messages": sum(count.messages for count in counts.values()),
            "bytes": sum(count.bytes for count in counts.values()),
            "heaviest pair": "",
        }
        if counts:
            source, target = min(counts, key=lambda pair: (-counts[pair].bytes, -counts[pair].messages, pair))
            row["heaviest pair"] = f"{source} to {target}: {counts[source, target].bytes:,} bytes"
        yield row
