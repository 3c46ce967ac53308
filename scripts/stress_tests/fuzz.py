"""Bytes at every decoder and handshake: coverage-guided, every target in a process of its own, memory and time bounded.

Needs atheris, which nothing else does: `pip install atheris` in the environment of the scripts. A target is over when
it has had its inputs, eleven million for all of them in a quarter of an hour; a crash, an input that takes longer than
a few seconds or memory above the bound ends it and is a finding. The inputs that reach something new are kept in
tests/corpus, small, and begin the next run.
"""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from stress_tests.common import ROOT, Budget, Row
from stress_tests.fuzzing.targets import TARGETS

SAMPLE_SHARE = 1000
STALL_SECONDS = 20
MEMORY_MIB = 1024
LONGEST = 4096
CORPUS = ROOT / "tests" / "corpus"
CORPUS_FILES = 40
"""Inputs kept of each target."""
LARGEST_KEPT = 2048


def run_section(budget: Budget) -> list[Row]:
    """Every target, one after the other."""
    if importlib.util.find_spec("atheris") is None:
        row = Row("fuzz", "bytes at every decoder")
        if budget.sample:
            row.note = "left out: atheris is not installed"
        else:
            row.wrong.append("atheris is not installed: pip install atheris, in the environment of the scripts")
        return [row]
    return [fuzz(budget, name, budget.times(one.inputs, one.inputs // SAMPLE_SHARE)) for name, one in TARGETS.items()]


def fuzz(budget: Budget, name: str, inputs: int) -> Row:
    """One target."""
    row, began = Row("fuzz", name), time.monotonic()
    work = budget.scratch / f"fuzz-{name}"
    kept = CORPUS / name
    (work / "corpus").mkdir(parents=True)
    if kept.is_dir():
        shutil.copytree(kept, work / "corpus", dirs_exist_ok=True)
    program = [sys.executable, "-m", "stress_tests.fuzzing", name]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'scripts'}"}
    options = [
        f"-seeds={work / 'corpus'}",
        f"-runs={inputs}",
        f"-seed={budget.seed}",
        f"-timeout={STALL_SECONDS}",
        f"-rss_limit_mb={MEMORY_MIB}",
        f"-max_len={LONGEST}",
        f"-artifact_prefix={work}/",
        "-print_final_stats=1",
    ]
    done = subprocess.run(
        [*program, *options, str(work / "corpus")], env=environment, capture_output=True, text=True, check=False
    )
    row.tried = _figure(done.stderr, "number_of_executed_units")
    row.note = f"{_last_coverage(done.stderr)}, peak {_figure(done.stderr, 'peak_rss_mb')} MiB"
    if done.returncode:
        log = work / "log"
        log.write_text(done.stdout + done.stderr)
        row.wrong.append(f"status {done.returncode}, see {log}: {_reason(done.stdout + done.stderr)}")
    elif not budget.sample:
        _keep(work / "corpus", kept)
    row.seconds = round(time.monotonic() - began, 1)
    return row


def _keep(found: Path, kept: Path) -> None:
    """Instead of what was kept, some of the inputs that reached something new: from the smallest to the largest of them."""
    if kept.is_dir():
        shutil.rmtree(kept)
    kept.mkdir(parents=True)
    paths = sorted(found.iterdir(), key=lambda path: (path.stat().st_size, path.name))
    paths = [path for path in paths if path.stat().st_size <= LARGEST_KEPT]
    for number in range(min(CORPUS_FILES, len(paths))):
        path = paths[number * len(paths) // min(CORPUS_FILES, len(paths))]
        shutil.copyfile(path, kept / hashlib.sha256(path.read_bytes()).hexdigest()[:12])


def _figure(text: str, name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+)", text)
    return int(found[1]) if found else 0


def _last_coverage(text: str) -> str:
    found = re.findall(r"cov: (\d+) ft: (\d+)", text)
    return "{} edges, {} features".format(*found[-1]) if found else "nothing reached"


def _reason(text: str) -> str:
    found = re.findall(r"^(?:\w*Error|\w*Exception|==\d+== ERROR).*$", text, re.MULTILINE)
    return "; ".join(found[:2])
