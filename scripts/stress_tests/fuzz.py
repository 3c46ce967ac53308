"""Fuzz every decoder and handshake: coverage-guided, each target in its own process with bounded memory and time.

Needs atheris (nothing else uses it): `pip install atheris` in the environment of the scripts. A target ends after its
number of inputs, eleven million for all of them in a quarter of an hour. A crash, an input that takes longer than a few
seconds and excessive memory end it earlier and are problems. The inputs that reach new code are kept in tests/corpus,
if they are small, and begin the next run.
"""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from stress_tests.common import PYTHONPATH, ROOT, Budget, Row
from stress_tests.fuzzing.targets import TARGETS

SAMPLE_SHARE = 1000
STALL_SECONDS = 20
MEMORY_MIB = 1024
LONGEST = 4096
CORPUS = ROOT / "tests" / "corpus"
CORPUS_FILES = 40
"""Number of inputs kept per target."""
LARGEST_KEPT = 2048


def run_section(budget: Budget) -> Iterator[Row]:
    """Fuzz all targets in turn."""
    if importlib.util.find_spec("atheris"):
        for name, target in TARGETS.items():
            yield fuzz(budget, name, budget.times(target.inputs, target.inputs // SAMPLE_SHARE))
    elif budget.sample:
        yield Row("bytes at every decoder", note="left out: atheris is not installed")
    else:
        missing = "atheris is not installed: pip install atheris, in the environment of the scripts"
        yield Row("bytes at every decoder", wrong=[missing])


def fuzz(budget: Budget, name: str, inputs: int) -> Row:
    """Fuzz one target."""
    row = Row(name)
    work = budget.scratch / f"fuzz-{name}"
    kept = CORPUS / name
    (work / "corpus").mkdir(parents=True)
    if kept.is_dir():
        shutil.copytree(kept, work / "corpus", dirs_exist_ok=True)
    command = [
        *(sys.executable, "-m", "stress_tests.fuzzing", name),
        f"-seeds={work / 'corpus'}",
        f"-runs={inputs}",
        f"-seed={budget.seed}",
        f"-timeout={STALL_SECONDS}",
        f"-rss_limit_mb={MEMORY_MIB}",
        f"-max_len={LONGEST}",
        f"-artifact_prefix={work}/",
        "-print_final_stats=1",
        str(work / "corpus"),
    ]
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    row.tried = _figure(done.stderr, "number_of_executed_units")
    row.note = f"{_last_coverage(done.stderr)}, peak {_figure(done.stderr, 'peak_rss_mb')} MiB"
    if done.returncode:
        log = work / "log"
        log.write_text(done.stdout + done.stderr)
        row.wrong.append(f"status {done.returncode}, see {log}: {_reason(done.stdout + done.stderr)}")
    elif not budget.sample:
        _keep(work / "corpus", kept)
    return row


def _keep(found: Path, kept: Path) -> None:
    """Replace the kept inputs by a selection of those that reached new code, evenly spread over their sizes."""
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
