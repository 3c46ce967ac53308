"""Print the branch coverage of each package from a report of coverage.py in JSON: `coverage_table.py FILE`."""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

COUNTS = ("num_statements", "covered_lines", "num_branches", "covered_branches")


def package_of(file: str) -> str:
    """Return the package that a file is counted in: its first two folders."""
    return ".".join(Path(file).parent.parts[:2])


def percentage(counts: Mapping[str, int]) -> float:
    """Return the percentage of lines and branches that were reached; 100 without any."""
    total = counts["num_statements"] + counts["num_branches"]
    return 100 * (counts["covered_lines"] + counts["covered_branches"]) / total if total else 100.0


def table(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield one line for each package, and one for all of them."""
    packages: dict[str, Counter[str]] = {}
    for file, found in report["files"].items():
        counts = Counter({name: found["summary"][name] for name in COUNTS})
        for package in (package_of(file), "total"):
            packages.setdefault(package, Counter()).update(counts)
    total = packages.pop("total", Counter())
    yield f"{'package':32} {'lines':>7} {'branches':>9} {'reached':>8}"
    for name, counts in [*sorted(packages.items()), ("total", total)]:
        yield f"{name:32} {counts['num_statements']:7} {counts['num_branches']:9} {percentage(counts):7.1f}%"


if __name__ == "__main__":
    print("\n".join(table(json.loads(Path(sys.argv[1]).read_text()))))
