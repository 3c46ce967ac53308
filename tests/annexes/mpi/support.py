"""An MPI library that is played by a script, for tests of the judge, and programs that run on the real one."""

import sys
from collections.abc import Iterator
from csv import DictReader
from functools import cache
from pathlib import Path

import pytest

from coordinator.annexes.mpi.installed import find_library
from coordinator.annexes.mpi.judge import PROGRAM
from coordinator.annexes.mpi.rules.base import ELEMENT_BYTES, MpiCall, PairCount, PairCounts
from coordinator.planning.namespace import unavailable_reason
from emunode.errors import RunError
from tests.helpers.command_line import ROOT
from tests.helpers.support import GOLDEN
from tests.helpers.warm_programs import make_shim

PLAYED = '''#!{python}
"""Plays mpirun: writes the reports of all ranks by the rules, with one flaw."""
import json, os, sys, time
from pathlib import Path
sys.path.insert(0, {root!r})
from coordinator.annexes.mpi.arithmetic import digest_of, expected_results
from coordinator.annexes.mpi.rules.base import MpiCall, RefusedCall
from coordinator.annexes.mpi.rules.base import MPI_ALGORITHMS

flaw, folder = {flaw!r}, Path(sys.argv[-1])
job = json.loads((folder / "job.json").read_text())
ranks = job["ranks"]
if flaw == "crash at start":
    sys.exit("--------\\nthe library is not in the mood")
if flaw == "print for ever":
    while True:
        print("nonsense " * 1000)
declared = MPI_ALGORITHMS
names = {{call["collective"]: {{"ignore": 0}} for call in job["calls"]}}
for (collective, name), each in declared.items():
    if collective in names and not (flaw == "old" and name == "ring"):
        names[collective][name] = each.number
if flaw == "new":
    names["allreduce"]["allgather_reduce"] = 7
files = [(folder / f"rank-{{rank}}.jsonl").open("w") for rank in range(ranks)]

def write(rank, line):
    files[rank].write((line if isinstance(line, str) else json.dumps(line)) + "\\n")
    files[rank].flush()

for rank in range(ranks):
    write(rank, {{
        "nonce": "forged" if flaw == "other run" and rank == 1 else job["nonce"], "rank": rank,
        "ranks": 1 if flaw == "world of one" else ranks, "library": "Played MPI 1\\0", "names": names,
        "dynamic": int(flaw != "static"), "counted": not flaw.startswith("uncounted"),
    }})
    counts = [[value * (target == (rank + 1) % ranks) for target in range(ranks)] for value in (2, 12)]
    counts = [[0] * ranks, [0] * ranks] if flaw == "counts nothing" else counts
    write(rank, {{"calibration": [] if flaw.startswith("uncounted") else counts}})
for number in range(job["first"], len(job["calls"])):
    asked = job["calls"][number]
    call = MpiCall(asked["collective"], ranks, asked["root"], asked["elements"], asked["segment"])
    own = next(each for each in declared.values() if each.collective == call.collective and each.parts is None)
    chosen = declared.get((call.collective, asked["algorithm"]), own)
    if flaw.startswith("ignores"):
        chosen = own
    for rank in range(ranks):
        write(rank, {{"call": number}})
    if flaw == "hang" and asked["algorithm"] == "ring":
        time.sleep(3600)
    if flaw == "crash" and asked["algorithm"] == "ring":
        sys.exit(7)
    if flaw == "nonsense":
        write(0, "[[[")
    try:
        table = chosen.counts(call)
        for part in chosen.parts(call) if chosen.parts else ():
            table = chosen.counts(call, [next(
                each for each in declared.values() if each.collective == other.collective and each.parts is None
            ).counts(other) for other in chosen.parts(call)])
        error = "refused: always" if flaw == "refuses" and asked["algorithm"] == "ring" else ""
    except RefusedCall:
        error = "" if flaw == "never refuses" else "refused: MPI_ERR_UNSUPPORTED_OPERATION"
        table = {{}}
    results = expected_results(call)
    for rank in range(ranks):
        if flaw == "one rank hangs" and asked["algorithm"] == "ring" and rank:
            # The others go on to the next call.
            if number + 1 < len(job["calls"]):
                write(0, {{"call": number + 1}})
            time.sleep(3600)
        if error:
            write(rank, {{"call": number, "error": error}})
            continue
        line = {{"call": number, "result": None}}
        for at, name in enumerate(("messages", "bytes")):
            line[name] = [table.get((rank, target), (0, 0))[at] for target in range(ranks)]
        if results[rank] is not None:
            line["result"], line["begin"] = digest_of(results[rank]), results[rank][:16].tolist()
        if flaw.startswith("uncounted"):
            line["messages"] = line["bytes"] = None
        if flaw == "to itself":
            line["messages"][rank] = 1
        if flaw == "negative":
            line["bytes"][0] = -1
        if flaw == "bytes without messages":
            line["messages"] = [0] * ranks
        if flaw.endswith("one more") and rank == 2:
            line["messages"][0] += 1
        if flaw.endswith("wrong sum") and line["result"]:
            line["result"], line["begin"][3] = "0" * 64, line["begin"][3] + 1
        write(rank, line)
        if flaw == "twice":
            write(rank, line)
for rank in range(ranks):
    write(rank, {{"end": job["nonce"]}})
if flaw == "linked":
    (folder / "rank-1.jsonl").rename(folder / "other")
    (folder / "rank-1.jsonl").symlink_to("other")
'''

WITHOUT_END = ("hang", "one rank hangs", "print for ever")
"""Flaws whose processes the judge has to kill."""


def played_library(folder: Path, flaw: str = "") -> Path:
    """Return the path of an mpirun that plays a library with a flaw."""
    path = folder / "mpirun"
    program = PLAYED.format(python=sys.executable, root=str(ROOT), flaw=flaw)
    if flaw in WITHOUT_END:
        path.write_text(program)
        path.chmod(0o755)
    else:
        make_shim(path, "-c", program)
    return path


def wrong_program(folder: Path, body: str) -> Path:
    """Return a measuring program whose method `perform` has this body, for the real library."""
    path = folder / "wrong.py"
    path.write_text(
        f"import sys\nsys.path.insert(0, {str(PROGRAM.parent)!r})\nfrom program import Calls, main\n\n"
        f"class Wrong(Calls):\n    def perform(self, call):\n{body}\n\nmain(Wrong)\n"
    )
    return path


@cache
def missing_library() -> str:
    """Return why no real library can be judged here; empty if one can."""
    try:
        find_library()
    except RunError as error:
        return str(error)
    return unavailable_reason() or ""


needs_library = pytest.mark.skipif(bool(missing_library()), reason=missing_library() or "a library is installed")


def golden_tables(collective: str) -> Iterator[tuple[int, MpiCall, PairCounts]]:
    """Yield number of the algorithm, call and measured messages of every case of the golden file of a collective."""
    cases: dict[tuple[int, MpiCall], dict[tuple[int, int], PairCount]] = {}
    with (GOLDEN / "mpi" / f"openmpi-{collective.replace('_', '-')}.csv").open() as file:
        for row in DictReader(file):
            ranks, root, size, segment = (int(row[name]) for name in ("P", "root", "size", "segment"))
            call = MpiCall(collective, ranks, root, size // ELEMENT_BYTES, segment)
            table = cases.setdefault((int(row["algorithm"]), call), {})
            table[int(row["source"]), int(row["target"])] = PairCount(int(row["messages"]), int(row["bytes"]))
    for (number, call), counts in cases.items():
        yield number, call, counts
