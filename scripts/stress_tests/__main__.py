"""Run the stress tests, section by section, and print one table of attempts and problems.

    oracle_mutation  change one row of a history: the claims, the audit or the replay must notice
    fuzz             feed random bytes to every decoder and handshake (needs atheris: pip install atheris)
    kill             send signals to every process in every phase of a run
    random_kills     kill a node at a random time, planned as a fault or not, and compare with memory
    soak             execute thousands of short runs in one process
    trials           execute thousands of trials over TCP, under faults of every kind
    live             click faults on watched runs whose page has clients that leave, stall and send noise
    liveness         end all faults of random runs: everything due must finish within its bound
    determinism      run 100 recorded scenarios twice on every driver, with events reordered and delayed
    everywhere       run 300 recorded scenarios with every Python, in other locales, time zones, as another user
    disk             run on full, read-only and vanished file systems, and set the clock
    mutants          change the code of the core in one place: its tests must fail
    small_graphs     run every algorithm for any network on every connected graph of at most six nodes
    sizes            plan, run and sweep every algorithm on the largest networks, within 10 s and 2 GB
    supply_chain     check the hashes of the lock, licences, and known vulnerabilities

All sections take an hour and a half on two cores; `--sample` runs a small part of each, for CI,
in less than three minutes.
With `--parts FOLDER` each section that has ended is kept there, and so is each attempt of most sections: the same command
goes on where it was interrupted. `--minutes N` adds rounds with the next seeds until the sections have taken so long.
The exit status is 1 if anything was wrong or left behind.
"""

import argparse
import gc
import importlib
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import asdict
from itertools import count
from pathlib import Path

from coordinator.campaigns.statistics import findings_per_hour
from stress_tests.common import ROOT, Attempts, Budget, Row, in_fork, preload

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
    parser.add_argument(
        "--parts", type=Path, metavar="FOLDER", help="keep the sections that have ended, and go on there"
    )
    parser.add_argument(
        "--minutes", type=float, default=0.0, help="with --parts: add rounds until so much time is spent"
    )
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    options = parser.parse_args()
    if options.minutes and not options.parts:
        parser.error("--minutes needs --parts FOLDER")
    unknown = [name for name in options.sections if name not in SECTIONS]
    if unknown:
        parser.error(f"unknown section {unknown[0]!r}; available: {', '.join(SECTIONS)}")
    scratch = Path(tempfile.mkdtemp(prefix="stress-"))
    parts = Parts(options.parts, sample=options.sample) if options.parts else None
    rows: list[Row] = []
    preload()
    gc.freeze()
    for seed in count(options.seed):
        for name in options.sections or SECTIONS:
            found = parts.rows(name, seed) if parts else None
            if found is None:
                found = in_fork(run_section, name, Budget(options.sample, seed, scratch), parts)
                if parts:
                    parts.keep(name, seed, found)
            rows += found
            if not options.json:
                print(table(found), flush=True)
        if sum(row.seconds for row in rows) >= options.minutes * 60:
            break
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    elif len(rows) > 1:
        print("\n" + table(rows))
        print(findings_per_hour(sum(len(row.wrong) for row in rows), sum(row.seconds for row in rows)))
    if any(row.wrong for row in rows):
        print(f"files of the failed experiments are kept in {scratch}", file=sys.stderr)
        return 1
    shutil.rmtree(scratch)
    return 0


class Parts:
    """Sections that have ended, in a folder: each with the rows that it gave. SystemExit if the folder is of another run."""

    def __init__(self, folder: Path, *, sample: bool) -> None:
        self.folder = folder
        self.commit = subprocess.run(
            ["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
        ).stdout.strip()
        folder.mkdir(parents=True, exist_ok=True)
        about = folder / "about.json"
        extent = {"sample": sample}
        if about.exists() and json.loads(about.read_text()) != extent:
            raise SystemExit(f"scripts/stress: {folder} holds parts with and without --sample; name another folder")
        about.write_text(json.dumps(extent))

    def rows(self, name: str, seed: int) -> list[Row] | None:
        """Return the rows of a section that has ended with this seed, or None."""
        file = self.folder / f"{name}-{seed}.json"
        return [Row(**values) for values in json.loads(file.read_text())] if file.exists() else None

    def keep(self, name: str, seed: int, rows: list[Row]) -> None:
        """Write the rows of a section at once, so that an interrupted write leaves none."""
        for row in rows:
            row.note = f"{row.note}; seed {seed} at {self.commit}".removeprefix("; ")
        unfinished = self.folder / f".{name}-{seed}.json"
        unfinished.write_text(json.dumps([asdict(row) for row in rows], indent=2))
        unfinished.replace(self.folder / f"{name}-{seed}.json")

    def attempts(self, name: str, seed: int) -> Attempts:
        """Return the attempts of a section that has not ended; attempts of another commit do not count."""
        return Attempts(self.folder / f"{name}-{seed}-{self.commit}.attempts")


def run_section(name: str, budget: Budget, parts: Parts | None = None) -> list[Row]:
    """Return the rows of one section, with their durations; an error of the section is one of its problems."""
    rows, began = [], time.monotonic()
    if parts:
        Attempts.current = parts.attempts(name, budget.seed)
    try:
        for row in importlib.import_module(f"stress_tests.{name}").run_section(budget):
            row.section, row.seconds = name, round(time.monotonic() - began, 1)
            began = time.monotonic()
            rows.append(row)
    except Exception:  # any error of a section
        traceback.print_exc()
        ended = Row("the section itself", wrong=[traceback.format_exc().strip().splitlines()[-1]])
        ended.section, ended.seconds = name, round(time.monotonic() - began, 1)
        rows.append(ended)
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
