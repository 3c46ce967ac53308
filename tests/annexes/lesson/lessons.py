"""A lesson of a scenario, its data as the page has them, and the journals of its branches from these data."""

import gzip
import json
import re
from base64 import b64decode
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from coordinator.annexes.lesson.branches import lesson_of
from coordinator.annexes.lesson.page import render
from coordinator.history.journal import RECORD, Records, hash_of, sorting
from coordinator.reports.data import read_run
from tests.helpers.command_line import fields
from tests.helpers.support import run_scenario


class Made:
    """The page of a run."""

    def __init__(self, folder: Path, scenario: str) -> None:
        self.scenario = scenario
        self.run = run_scenario(folder / "run", **fields(scenario)).path
        data = read_run(self.run)
        self.lesson = lesson_of(data)
        self.page = folder / "lesson.html"
        self.page.write_text(render(data, self.lesson))

    @cached_property
    def data(self) -> dict[str, Any]:
        """The data that the script of the page unpacks."""
        return data_of(self.page)

    def fault(self, branch: dict[str, Any]) -> str:
        """Return the fault of a branch."""
        return f"{self.data['places'][branch['place']][0]}@{branch['step']}"

    def journals(self) -> Iterator[tuple[str, dict[str, Any], str]]:
        """Yield the fault, the judgement and the journal hash of every branch."""
        rows = _rows(self.data["run"])
        for branch in self.data["branches"]:
            kept = {number: list(row) for number, row in enumerate(rows)}
            number = -1
            for gap, outcome in zip(branch["changes"][::2], branch["changes"][1::2], strict=True):
                number += gap
                kept[number][-1] = outcome
            branched = [row for row in kept.values() if row[-1] >= 0] + _rows(branch["added"])
            yield self.fault(branch), branch["judged"], hash_of(self._records(branched))

    def _records(self, rows: list[list[int]]) -> Records:
        records = np.zeros(len(rows), RECORD)
        for name, column in zip(self.data["fields"], zip(*rows, strict=True), strict=False):
            records[name] = column
        return np.asarray(records[sorting(records)])


def data_of(page: Path) -> dict[str, Any]:
    """Return the data in a page."""
    text = re.search(r'<script type="text/plain" id="data">([^<]*)</script>', page.read_text())
    assert text is not None
    data: dict[str, Any] = json.loads(gzip.decompress(b64decode(text[1])))
    return data


def _rows(columns: list[list[int]]) -> list[list[int]]:
    return [list(row) for row in zip(*columns, strict=True)]
