"""Placements that a user lists: in a file of labels, or as the host of each rank in order.

A file is CSV with a label and the number of a host in each row, and perhaps a first row `node,host`. Stored scenarios have
the other form, so that they do not depend on the file.
"""

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from coordinator.history.stored.reading import read_text
from coordinator.planning.placements.base import FIELD, RankPlacement
from emunode.errors import ScenarioError
from emunode.registry import register
from emunode.topologies.base import Topology

MOST_FILE_BYTES: Final = 2**25
DIGITS: Final = 9
"""Digits of the largest number in a list."""


class _Listed(RankPlacement):
    """A host for each rank, as the user names them."""

    def __init__(self, parameter: str) -> None:
        self._parameter = parameter
        if not parameter:
            raise ScenarioError(FIELD, self.name, f"write {self.form}")

    def host_of_each(self, topology: Topology, hosts: int) -> Sequence[int] | None:
        listed = self._listed(topology)
        if max(listed) + 1 != hosts:
            raise ScenarioError(
                FIELD, self._text, f"it places nodes on {max(listed) + 1} hosts, and the run has {hosts}"
            )
        return listed

    def host_count(self, topology: Topology) -> int | None:
        return max(self._listed(topology)) + 1

    def resolved(self, topology: Topology) -> str | None:
        runs = ((host, len(list(ranks))) for host, ranks in groupby(self._listed(topology)))
        return "table:" + ",".join(f"{host}*{count}" if count > 1 else f"{host}" for host, count in runs)

    @property
    def _text(self) -> str:
        return f"{self.name}:{self._parameter}"[:80]

    def _listed(self, topology: Topology) -> list[int]:
        """Return the host of each rank; ScenarioError unless the hosts are 0, 1, .. without a gap."""
        listed = self._read(topology)
        used = set(listed)
        if len(used) != max(used) + 1:
            missing = next(host for host in range(max(used)) if host not in used)
            raise ScenarioError(
                FIELD, self._text, f"hosts are numbered from 0 without a gap; host {missing} has no node"
            )
        return listed

    def _read(self, topology: Topology) -> list[int]:
        raise NotImplementedError

    def _number(self, word: str, what: str) -> int:
        if not (word.isascii() and word.isdigit() and len(word) <= DIGITS):
            raise ScenarioError(FIELD, f"{self.name}: {word}"[:80], f"{what} is a whole number from 0 on")
        return int(word)


@register
class FilePlacement(_Listed):
    """The host of each node, listed in a CSV file."""

    name = "file"
    form = "file:FILE"
    meaning = "a CSV file has a row for each node: its label and the number of its host, from 0"

    @classmethod
    def with_absolute_path(cls, parameter: str, folder: Path) -> str:
        return str(folder.absolute() / parameter) if parameter else ""

    def _read(self, topology: Topology) -> list[int]:
        listed = [-1] * topology.order
        for row in self._rows():
            text = ",".join(row)[:80]
            if len(row) != 2:
                raise ScenarioError(FIELD, text, "write a label and the number of a host in each row; quote commas")
            try:
                rank = topology.rank(row[0])
            except ScenarioError as error:
                raise ScenarioError(FIELD, text, error.allowed) from None
            if listed[rank] >= 0:
                raise ScenarioError(FIELD, text, "each node is on one host; this one is listed twice")
            listed[rank] = self._number(row[1], "the host of a node")
        if -1 in listed:
            label = topology.label(listed.index(-1))
            raise ScenarioError(FIELD, self._text, f"each node is on a host; {label} is not listed")
        return listed

    def _rows(self) -> Iterator[list[str]]:
        """Yield the rows of the file, without empty ones and without a first row `node,host`."""
        try:
            lines = io.StringIO(read_text(Path(self._parameter), MOST_FILE_BYTES), newline="")
            rows = [[word.strip() for word in row] for row in csv.reader(lines) if row]
        except (OSError, ValueError, csv.Error) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise ScenarioError(FIELD, self._text, f"the file cannot be read: {reason}") from None
        yield from rows[1:] if rows and rows[0] == ["node", "host"] else rows


@register
class TablePlacement(_Listed):
    """The host of each rank in order, equal ones counted: `0*12,1*12`."""

    name = "table"
    form = "table:HOSTS"
    meaning = "the host of each node in order of rank, repetitions counted: table:0*12,1*12"

    def _read(self, topology: Topology) -> list[int]:
        listed: list[int] = []
        for entry in self._parameter.split(","):
            word, _, times = entry.strip().partition("*")
            host, count = self._number(word, "a host"), self._number(times or "1", "a repetition")
            # Before anything is built: a repetition is as large as its digits say.
            if len(listed) + count > topology.order:
                break
            listed += [host] * count
        else:
            if len(listed) == topology.order:
                return listed
        raise ScenarioError(FIELD, self._text, f"it has to place exactly the {topology.order} nodes of {topology.name}")
