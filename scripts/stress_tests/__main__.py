"""Attack every part of the project, section by section, and print one table of what was tried and what was wrong.

    oracle_mutation  change one row of a history: the claims, the audit or the replay must notice
    fuzz             feed random bytes to every decoder and handshake (needs atheris: pip install atheris)
    kill             send signals to every process in every phase of a run
    soak             execute thousands of short runs in one process
    trials           execute thousands of trials over TCP, under faults of every kind
    determinism      run 100 scenarios twice on every driver, with events reordered and delayed
    disk             run on full, read-only and vanished file systems, and set the clock
    mutants          change the code of the core in one place: its tests must fail
    supply_chain     check the hashes of the lock, licences, and known vulnerabilities

All sections take three quarters of an hour on two cores; `--sample` runs a small part of each in a minute or two, for CI.
The exit status is 1 if anything was wrong or left behind.
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
    """Run the requested sections; the exit status."""
    parser = argparse.ArgumentParser(
        prog="scripts/stress", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"one of: {', '.join(SECTIONS)} (default: all)")
    parser.add_argument("--sample", action="store_true", help="run a small part of each section")
    parser.add_argument("--seed", type=int, default=1, help="seed of every random choice (default: 1)")
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    options = parser.parse_args()
    unknown = [name for name in options.sections if name not in SECTIONS]
    if unknown:
        parser.error(f"unknown section {unknown[0]!r}; available: {', '.join(SECTIONS)}")
    scratch = Path(tempfile.mkdtemp(prefix="stress-"))
    rows: list[Row] = []
    gc.freeze()
    for name in options.sections or SECTIONS:
        began = time.monotonic()
        found = run_in_process(name, Budget(options.sample, options.seed, scratch))
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
        print(f"files of the failed experiments are kept in {scratch}", file=sys.stderr)
    else:
        shutil.rmtree(scratch)
    return 1 if wrong else 0


def run_in_process(name: str, budget: Budget) -> list[Row]:
    """Run one section in a fork, so that its threads and leftovers do not affect the sections that follow."""

    def section() -> list[dict[str, Any]]:
        return [row.record() for row in importlib.import_module(f"stress_tests.{name}").run_section(budget)]

    return [Row(**record) for record in in_fork(section)]


def table(rows: list[Row]) -> str:
    """Format the rows, each followed by at most 20 of the problems found."""
    lines = []
    for row in rows:
        figures = f"{row.tried:>12,} tried {len(row.wrong):>4} wrong  {row.seconds:>8.1f} s"
        lines.append(f"{row.section:<15} {row.what:<48} {figures}  {row.note}")
        lines += [f"    {one}" for one in row.wrong[:20]]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
