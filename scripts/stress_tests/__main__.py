"""Everything under attack, by sections, in one table; exit status 1 when anything is left or wrong.

    judges        histories with one wrong row: every claim, the audit and the replay
    fuzz          bytes at every decoder and handshake (needs atheris: pip install atheris)
    kill          signals to every process at every phase
    soak          thousands of short runs in one process
    trials        thousands of trials over TCP, under faults of every kind
    determinism   scenarios x drivers x 2, in disorder
    disk          full, read-only, vanished; a clock that is set
    mutants       the rules of the core changed one by one
    supply        the lock, licences, advisories

Three quarters of an hour in all on two cores; `--sample` does a small part of each in a minute or two, for CI.
"""

import argparse
import gc
import importlib
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from stress_tests.common import Budget, Row, in_fork

SECTIONS = ("oracle_mutation", "fuzz", "kill", "soak", "trials", "determinism", "disk", "mutants", "supply_chain")


def main() -> int:
    """Run the sections that were asked for."""
    parser = argparse.ArgumentParser(
        prog="scripts/stress", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"of: {', '.join(SECTIONS)} (default: all)")
    parser.add_argument("--sample", action="store_true", help="a small part of each section: minutes instead of hours")
    parser.add_argument("--seed", type=int, default=1, help="of every choice (default: 1)")
    parser.add_argument("--json", action="store_true", help="the table as JSON")
    options = parser.parse_args()
    unknown = [name for name in options.sections if name not in SECTIONS]
    if unknown:
        parser.error(f"there is no section {unknown[0]!r}; known are {', '.join(SECTIONS)}")
    scratch = Path(tempfile.mkdtemp(prefix="torture-"))
    rows: list[Row] = []
    gc.freeze()
    for name in options.sections or SECTIONS:
        began = time.monotonic()
        found = torture(name, Budget(options.sample, options.seed, scratch))
        for row in found:
            row.seconds = row.seconds or round(time.monotonic() - began, 1)
        rows += found
        if not options.json:
            print(table(found), flush=True)
    wrong = [row for row in rows if row.wrong]
    if options.json:
        print(json.dumps([row.record() for row in rows], indent=2))
    elif len(rows) > 1:
        print("\n" + table(rows))
    if wrong:
        print(f"what was in hand when it went wrong is in {scratch}", file=sys.stderr)
    else:
        shutil.rmtree(scratch)
    return 1 if wrong else 0


def torture(name: str, budget: Budget) -> list[Row]:
    """One section, in a process of its own: what it leaves behind in a process, threads too, no other section meets."""

    def section() -> list[dict[str, Any]]:
        return [row.record() for row in importlib.import_module(f"stress_tests.{name}").torture(budget)]

    return [Row(**record) for record in in_fork(section)]


def table(rows: list[Row]) -> str:
    """The rows, and below each what is wrong."""
    lines = []
    for row in rows:
        figures = f"{row.tried:>12,} tried {len(row.wrong):>4} wrong  {row.seconds:>8.1f} s"
        lines.append(f"{row.section:<12} {row.what:<48} {figures}  {row.note}")
        lines += [f"    {one}" for one in row.wrong[:20]]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
