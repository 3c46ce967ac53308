"""The size of reports: a megabyte for S_6, with everything that the page answers."""

from pathlib import Path

import pytest

from tests.helpers.command_line import fields
from tests.helpers.support import run_and_draw

LARGEST = 1_000_000


@pytest.mark.parametrize(
    ("scenario", "largest"),
    [
        ("star:6 broadcast edt segments=5", LARGEST // 2),
        pytest.param("star:6 broadcast edt segments=5 messages=40", LARGEST, marks=pytest.mark.slow),
        pytest.param("star:6 allgather edt-dfs", LARGEST, marks=pytest.mark.slow),
        pytest.param("star:6 allgather bfb", LARGEST, marks=pytest.mark.slow),
        ("star:7 broadcast greedy-tree", LARGEST),
    ],
)
def test_report_is_small(scenario: str, largest: int, tmp_path: Path) -> None:
    path = run_and_draw(tmp_path / "run", **fields(scenario)).path
    assert (path / "report.html").stat().st_size < largest
