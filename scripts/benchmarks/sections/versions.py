"""Processor time of the same work in this checkout and in another one, usually an earlier version.

Two processes take turns, each in the environment of its own checkout. Processor time counts, not elapsed time, so other work
on the machine disturbs little. The ratio is the processor time of this checkout divided by that of the other one, the median
over all turns: 0.8 is a fifth less.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.record import Note, Options, Row, Section
from benchmarks.subprocesses import ROOT, SCRIPTS, ProgramError, run_program

WORKER = SCRIPTS / "benchmarks" / "versions_worker.py"
OLDEST = "0.1.0"


class Question(NamedTuple):
    """One piece of work."""

    name: str
    """The function of the worker."""
    title: str
    arguments: Mapping[str, object]
    unit: str
    most: float | None = None
    """Target for the ratio to version 0.1.0; for a flood, for the value."""


SCENARIO = ["--topology", "star:4", "--collective", "broadcast", "--algorithm", "flood"]
STARTS = (
    "emunode --help",
    "coordinator --help",
    "coordinator list topologies",
    "coordinator list algorithms",
    "coordinator plan --help",
    "coordinator plan",
    "coordinator run --driver memory",
    "coordinator run --driver local",
)
"""Commands whose start is measured; `plan` and `run` get a scenario."""


def words_of(start: str) -> list[str]:
    """Return the words of a command."""
    return [*start.split(), *(SCENARIO if re.search("plan$|run", start) else ())]


QUESTIONS = (
    Question("core", "I/O core, 70-byte packets", {"topology": "star:6", "rounds": 10}, "us/packet", 0.9),
    Question("stack", "whole stack, 86-byte packets", {"topology": "star:6", "steps": 8}, "us/packet", 0.8),
    Question("links", "links of a run", {"topology": "star:6"}, "us/link", 0.8),
    Question("idle", "idle step, 2 hosts", {"topology": "star:6", "hosts": 2, "steps": 800}, "us", 0.6),
    Question("idle", "idle step, 4 hosts", {"topology": "star:6", "hosts": 4, "steps": 500}, "us", 0.6),
    Question("idle", "idle step, 48 hosts", {"topology": "star:6", "hosts": 48, "steps": 50}, "us", 0.6),
    Question("broadcast", "broadcast", {"topology": "star:5", "rounds": 15}, "us", 1 / 1.8),
    Question("flood", "flood in memory", {"topology": "star:6", "rounds": 15}, "networkx loops", 5.0),
    *(Question("start", f"`{start}`", {"command": words_of(start), "rounds": 5}, "ms", 0.5) for start in STARTS),
)
QUICK: Mapping[str, object] = {"topology": "star:4", "rounds": 2, "steps": 3}


def rows(options: Options) -> Iterator[Row | Note]:
    """Yield three rows per question: the other checkout, this one, and the ratio."""
    if options.against is None:
        yield Note("versions: not measured: name another checkout, with its own .venv, by --against DIR")
        return
    other = options.against.resolve()
    name = run_program([_python(other), "-P", "-c", "import emunode; print(emunode.__version__)"], seconds=60).strip()
    for question in QUESTIONS:
        arguments = {
            key: QUICK.get(key, value) if options.quick else value for key, value in question.arguments.items()
        }
        before, now = [], []
        for turn in range(options.turns):
            # The second to run may find warmer caches, so the order alternates.
            order = (other, ROOT) if turn % 2 == 0 else (ROOT, other)
            answers = {checkout: _ask(checkout, question.name, arguments) for checkout in order}
            before.append(answers[other])
            now.append(answers[ROOT])
        subject = ": ".join(filter(None, (str(arguments.get("topology", "")), question.title)))
        ratio = median(new / old for new, old in zip(now, before, strict=True))
        # Targets are those of the project for its first version; beside another one the figures are information.
        most = question.most if name == OLDEST and not options.quick else None
        absolute = question.name == "flood"
        yield Row(subject, f"version {name}", median(before), question.unit)
        yield Row(subject, "this checkout", median(now), question.unit, at_most=most if absolute else None)
        yield Row(subject, "ratio", ratio, f"of version {name}", at_most=None if absolute else most)


def _ask(checkout: Path, question: str, arguments: Mapping[str, object]) -> float:
    answer = run_program(
        [_python(checkout), "-P", WORKER, question, json.dumps(arguments)],
        seconds=300,
        # The hosts that it starts must not find the packages of the working directory either.
        environment={"PYTHONPATH": str(checkout / "scripts"), "PYTHONSAFEPATH": "1"},
    )
    return float(answer.splitlines()[-1])


def _python(checkout: Path) -> Path:
    """Return the interpreter of a checkout; raises ProgramError if it has none, or is no checkout."""
    if checkout == ROOT:
        return Path(sys.executable)
    python = checkout / ".venv" / "bin" / "python"
    if not (python.exists() and (checkout / "scripts" / "benchmarks").is_dir()):
        raise ProgramError(f"--against {checkout}: expected a checkout of the project with its own .venv")
    return python


SECTION = Section("processor time beside another checkout (--against DIR)", rows, seconds=400, optional=True)
