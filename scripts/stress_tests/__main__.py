"""Run the stress tests, section by section, and print one table of attempts and problems.

    oracle_mutation  change one row of a history: the claims, the audit or the replay must notice
    fuzz             feed random bytes to every decoder and handshake (needs atheris: pip install atheris)
    kill             send signals to every process in every phase of a run
    random_kills     kill a node at a random time, planned as a fault or not, and compare with memory
    soak             execute thousands of short runs in one process
    trials           execute thousands of trials over TCP, under faults of every kind
    determinism      run 100 scenarios twice on every driver, with events reordered and delayed
    everywhere       run 300 recorded scenarios with every Python, in other locales, time zones, as another user
    disk             run on full, read-only and vanished file systems, and set the clock
    mutants          change the code of the core in one place: its tests must fail
    small_graphs     run every algorithm for any network on every connected graph of at most six nodes
    sizes            plan, run and sweep every algorithm on the largest networks, within 10 s and 2 GB
    supply_chain     check the hashes of the lock, licences, and known vulnerabilities

All sections take three quarters of an hour on two cores; `--sample` runs a small part of each, for CI, in two to four
minutes.
The exit status is 1 if anything was wrong or left behind.
"""

import argparse
import gc
import importlib
import json
import re
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from stress_tests.common import Budget, Row, in_fork, preload

SECTIONS = tuple(re.findall(r"^    (\w+)", __doc__ or "", re.MULTILINE))


def main() -> int:
    """Run the requested sections; the exit status."""
    # A shell starts background jobs with this signal ignored, which every process below would inherit.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
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
    budget = Budget(options.sample, options.seed, Path(tempfile.mkdtemp(prefix="stress-")))
    rows: list[Row] = []
    preload()
    gc.freeze()
    for name in options.sections or SECTIONS:
        found = in_fork(run_section, name, budget)
        rows += found
        if not options.json:
            print(table(found), flush=True)
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    elif len(rows) > 1:
        print("\n" + table(rows))
    if any(row.wrong for row in rows):
        print(f"files of the failed experiments are kept in {budget.scratch}", file=sys.stderr)
        return 1
    shutil.rmtree(budget.scratch)
    return 0


def run_section(name: str, budget: Budget) -> list[Row]:
    """Return the rows of one section, with their durations."""
    rows, began = [], time.monotonic()
    for row in importlib.import_module(f"stress_tests.{name}").run_section(budget):
        row.section, row.seconds = name, round(time.monotonic() - began, 1)
        began = time.monotonic()
        rows.append(row)
    return rows


def table(rows: list[Row]) -> str:
    """Format the rows, each followed by at most 20 of the problems found."""
    lines = []
    for row in rows:
        late = f" {len(row.not_reached)} not reached" if row.not_reached else ""
        figures = f"{row.tried:>12,} tried {len(row.wrong):>4} wrong{late:<16}  {row.seconds:>8.1f} s"
        lines.append(f"{row.section:<15} {row.what:<48} {figures}  {row.note}")
        lines += [f"    {problem}" for problem in (*row.wrong, *row.not_reached)[:20]]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
