"""The table of `scripts/coverage`."""

import pytest

from coverage_table import package_of, percentage, table


def found(lines: int, covered: int, branches: int, reached: int) -> dict[str, dict[str, int]]:
    names = ("num_statements", "covered_lines", "num_branches", "covered_branches")
    return {"summary": dict(zip(names, (lines, covered, branches, reached), strict=True))}


@pytest.mark.parametrize(
    ("file", "package"),
    [
        ("coordinator/planning/plan.py", "coordinator.planning"),
        ("coordinator/networks/launchers/local.py", "coordinator.networks"),
        ("emunode/model.py", "emunode"),
    ],
)
def test_files_are_counted_in_the_first_two_folders(file: str, package: str) -> None:
    assert package_of(file) == package


def test_lines_and_branches_count_alike() -> None:
    assert percentage(found(6, 5, 4, 2)["summary"]) == 70
    assert percentage(found(0, 0, 0, 0)["summary"]) == 100


def test_the_table_adds_files_of_a_package() -> None:
    report = {
        "files": {
            "emunode/net/a.py": found(10, 10, 0, 0),
            "emunode/net/b.py": found(6, 4, 4, 1),
            "emunode/c.py": found(2, 0, 0, 0),
        }
    }
    rows = [line.split() for line in table(report)]
    assert rows == [
        ["package", "lines", "branches", "reached"],
        ["emunode", "2", "0", "0.0%"],
        ["emunode.net", "16", "4", "75.0%"],
        ["total", "18", "4", "68.2%"],
    ]
