"""The recorded hashes of 300 scenarios with every Python from 3.11 to 3.14 here, and in other surroundings.

Surroundings: two seeds of hash randomisation, another locale, another time zone, another user. Every other Python gets an
environment with the packages of requirements.lock, which needs a package registry. Pythons are found on the PATH, among the
versions of pyenv, and in TESTBENCH_PYTHONS, separated by colons.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from stress_tests.common import DEADLINE_SECONDS, PYTHONPATH, ROOT, Budget, Row

SCENARIOS = 300
OVER_SOCKETS = 20
"""One in this number of scenarios is run over hosts as well, with one process per rank and with three ranks in each."""
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
OTHER_USER = 65534


class Surroundings(NamedTuple):
    """Environment variables of a program, and the number of the user that it becomes."""

    name: str
    variables: Mapping[str, str] = {}
    user: int | None = None


def surroundings() -> list[Surroundings]:
    """Return the surroundings in which this machine can run programs."""
    listed = subprocess.run(["locale", "-a"], capture_output=True, text=True, check=False).stdout.split()
    # One with another alphabet or another order of letters, if there is one.
    other = next((name for name in listed if name not in ("C", "POSIX", "C.utf8", "en_US.utf8")), "POSIX")
    found = [
        Surroundings("hash seed 1", {"PYTHONHASHSEED": "1"}),
        Surroundings("hash seed 4242", {"PYTHONHASHSEED": "4242"}),
        Surroundings(f"locale {other}", {"LC_ALL": other, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
        Surroundings("time zone of Kathmandu", {"TZ": "Asia/Kathmandu"}),
    ]
    return [*found, *([Surroundings(f"user {OTHER_USER}", {}, OTHER_USER)] if os.getuid() == 0 else [])]


def pythons() -> dict[str, Path]:
    """Return the interpreters of this machine, by version."""
    named = [Path(name) for name in os.environ.get("TESTBENCH_PYTHONS", "").split(":") if name]
    on_path = [Path(place) for version in VERSIONS if (place := shutil.which(f"python{version}"))]
    of_pyenv = sorted(Path.home().glob(".pyenv/versions/3.1*/bin/python"))
    found: dict[str, Path] = {}
    for program in (*named, *on_path, *of_pyenv):
        asked = [str(program), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        version = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
        if version in VERSIONS:
            found.setdefault(version, program)
    return {**found, "{}.{}".format(*sys.version_info[:2]): Path(sys.executable)}


def prepared(program: Path, version: str, folder: Path) -> Path | str:
    """Return an interpreter that has the packages of the lock, or the reason why it cannot be had."""
    if program == Path(sys.executable):
        return program
    place = folder / f"python{version}"
    for command in (
        (program, "-m", "venv", place),
        (place / "bin" / "python", "-m", "pip", "install", "-q", "-r", ROOT / "requirements.lock"),
    ):
        done = subprocess.run(
            [str(word) for word in command], capture_output=True, text=True, check=False, timeout=4 * DEADLINE_SECONDS
        )
        if done.returncode:
            return f"Python {version}: {(done.stderr.strip().splitlines() or ['no message'])[-1][:200]}"
    return place / "bin" / "python"


def hashes(
    program: Path, cases: Sequence[tuple[str, Mapping[str, Any]]], there: Surroundings, home: Path
) -> list[str] | str:
    """Return the hashes of scenarios that a program of its own has run, or its error."""
    home.mkdir(exist_ok=True)
    home.chmod(0o777)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": PYTHONPATH, "HOME": str(home), "TMPDIR": str(home)}
    try:
        done = subprocess.run(
            [str(program), "-m", "stress_tests.recorded_hashes", *([] if there.user is None else [str(there.user)])],
            input=json.dumps(cases),
            cwd=home,
            env={**environment, **there.variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=4 * DEADLINE_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    found: list[str] = json.loads(done.stdout) if not done.returncode else []
    return found or (done.stderr.strip().splitlines() or ["no message"])[-1]


def chosen(count: int) -> list[tuple[str, dict[str, Any], str]]:
    """Return scenarios from all parts of the recorded runs, some of them over sockets too, each with its hash."""
    from tests.recorded_runs import recorded

    records = recorded()
    found: list[tuple[str, dict[str, Any], str]] = []
    for number, record in enumerate(records[:: len(records) // count][:count]):
        line, expected = record["scenario"], record["journal_hash"]
        found.append((line, {}, expected))
        # Under the timed clock a busy machine may be late, which ends some runs early.
        if number % OVER_SOCKETS == 0 and "clock=timed" not in line:
            found += [(line, {"driver": "local", "ranks_per_host": ranks}, expected) for ranks in (1, 3)]
    return found


def compare(
    row: Row, program: Path, there: Surroundings, cases: Sequence[tuple[str, dict[str, Any], str]], home: Path
) -> None:
    """Run scenarios in these surroundings, and compare their hashes with the recorded ones."""
    if there.user is not None:
        # A host is a process of its own, which the other user may not be allowed to start.
        cases = [case for case in cases if not case[1]]
    found = hashes(program, [(line, more) for line, more, _ in cases], there, home)
    if isinstance(found, str):
        row.add([f"{there.name}: {found}"])
        return
    wrong = [
        f"{there.name}: {line} {more or ''}: {digest}, recorded is {before}"
        for (line, more, before), digest in zip(cases, found, strict=True)
        if digest != before
    ]
    row.add(wrong, len(cases))
    row.show(f"{there.name}: {len(cases) - len(wrong)} of {len(cases)}")


def run_section(budget: Budget) -> Iterator[Row]:
    """Compare with this Python in all surroundings, then with each other one in the first surroundings."""
    row = Row("recorded hashes in other surroundings")
    cases = chosen(budget.times(SCENARIOS, 20))
    for there in surroundings():
        compare(row, Path(sys.executable), there, cases, budget.scratch / "home")
    row.note = f"{len(cases)} runs of {budget.times(SCENARIOS, 20)} scenarios in {len(surroundings())} surroundings"
    yield row
    if budget.sample:
        return
    row = Row("recorded hashes with every Python")
    versions = []
    for version, program in sorted(pythons().items()):
        ready = prepared(program, version, budget.scratch)
        if isinstance(ready, str):
            row.add([], len(cases), [ready] * len(cases))
            continue
        versions.append(version)
        compare(row, ready, Surroundings(f"Python {version}"), cases, budget.scratch / "home")
    absent = [version for version in VERSIONS if version not in versions]
    row.note = f"Python {', '.join(versions)}" + (f"; {', '.join(absent)} could not be had" if absent else "")
    yield row
