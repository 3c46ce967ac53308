"""The recorded hashes of 300 scenarios with every Python from 3.11 to 3.14 here, and in other surroundings.

So are scenarios in lock-step over hosts that join, and in containers where an engine answers and has the image;
`determinism` runs them over hosts on this machine. Surroundings: two seeds of hash randomisation, another locale, another
time zone, another user. Every other Python gets an environment with the packages of requirements.lock, from a package
registry. Pythons are found on the PATH, among the versions of pyenv, and in TESTBENCH_PYTHONS, separated by colons.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from stress_tests.common import (
    DEADLINE_SECONDS,
    PYTHONPATH,
    ROOT,
    TIMED_OUT,
    Attempt,
    Budget,
    Row,
    attempt_of,
    lock_step_runs,
    words_of,
)
from stress_tests.kill import no_containers
from tests.helpers.command_line import command, fields, free_port

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
    """Return the surroundings that this machine can run programs in."""
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
    for words in (
        (program, "-m", "venv", place),
        (place / "bin" / "python", "-m", "pip", "install", "-q", "-r", ROOT / "requirements.lock"),
    ):
        done = subprocess.run(
            [str(word) for word in words], capture_output=True, text=True, check=False, timeout=4 * DEADLINE_SECONDS
        )
        if done.returncode:
            return f"Python {version}: {last_line(done.stderr)[:200]}"
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
    return found or last_line(done.stderr)


def chosen(count: int) -> list[tuple[str, dict[str, Any], str]]:
    """Return scenarios from all parts of the recorded runs, some of them over sockets too, each with its hash."""
    from tests.helpers.recorded_runs import recorded

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


def on_driver(budget: Budget, driver: str, cases: Sequence[tuple[str, str]], number: int) -> Attempt:
    """Run one scenario over hosts that join or in containers, and compare its hash with the recorded one."""
    line, expected = cases[number]
    folder = budget.scratch / f"driver-{driver}-{number}"
    folder.mkdir()
    words, endpoint = [*words_of(fields(line)), "--json", "--out", "out"], f"127.0.0.1:{free_port()}"
    host = command(f"emunode --token-file token --join-seconds 120 --coordinator {endpoint}")
    serve = command(f"coordinator serve --listen {endpoint} --hosts 2", *words)
    commands = [serve, host, host] if driver == "join" else [command(f"coordinator run --driver {driver}", *words)]
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH, "TMPDIR": str(folder)}
    running = [
        subprocess.Popen(each, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for each in commands
    ]
    try:
        out, problem = running[0].communicate(timeout=DEADLINE_SECONDS)
    except subprocess.TimeoutExpired:
        return attempt_of(f"{driver}: {line}", [f"no end within {DEADLINE_SECONDS:g} s"])
    finally:
        for each in running:
            each.kill()
            each.communicate()
    digest = json.loads(out)["journal_hash"] if out.startswith("{") else last_line(problem)
    # Containers start so slowly on a busy machine that hosts may be late.
    busy = driver == "docker" and TIMED_OUT in f"{out}{problem}"
    wrong = [] if digest == expected or busy else [f"{digest}, recorded is {expected}"]
    if not wrong:
        shutil.rmtree(folder)
    return attempt_of(f"{driver}: {line}", wrong, busy=busy)


def last_line(text: str) -> str:
    """Return the last line of the errors of a program."""
    return (text.strip().splitlines() or ["no message"])[-1]


def driver_rows(budget: Budget) -> Iterator[Row]:
    """Yield a row for hosts that join, and one for containers."""
    every = lock_step_runs()
    for driver, times in (("join", budget.times(100, 1)), ("docker", budget.times(30, 0))):
        row = Row(f"recorded hashes by the driver {driver}", note=no_containers() if driver == "docker" else "")
        cases = every[:: len(every) // max(times, 1)][: 0 if row.note else times]
        row.run_all(partial(on_driver, budget, driver, cases), range(len(cases)), processes=3)
        yield row


def run_section(budget: Budget) -> Iterator[Row]:
    """Compare with this Python in all surroundings, then with each other one in the first surroundings."""
    row = Row("recorded hashes in other surroundings")
    cases = chosen(budget.times(SCENARIOS, 14))
    for there in surroundings():
        compare(row, Path(sys.executable), there, cases, budget.scratch / "home")
    row.note = f"{len(cases)} runs of {budget.times(SCENARIOS, 14)} scenarios in {len(surroundings())} surroundings"
    yield row
    yield from driver_rows(budget)
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
