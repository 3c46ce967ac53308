"""Submissions to grade: a right flooding with room for mistakes, and what its grade says."""

from pathlib import Path
from textwrap import dedent
from typing import Any

import psutil

from coordinator.annexes.grading.confinement import MEBIBYTE, Limits
from coordinator.annexes.grading.grade import Grade, GradeOptions, grade
from coordinator.annexes.grading.marks import Mark
from emunode.topologies.registry import parse_topology

LIMITS = Limits(answer_seconds=120.0, memory_bytes=512 * MEBIBYTE)


FLOOD = """
    import os, random, socket, subprocess, sys, threading, time
    from emunode.algorithms.claims import Claim
    from emunode.algorithms.flooding import Flood, FloodRule
    from emunode.model import Collective, Duplex, PortModel
    from emunode.registry import register

    class R(FloodRule):
        __slots__ = ()
        {rule}

    @register
    class Mine(Flood):
        family, name = "star", "mine"
        duplexes = (Duplex.FULL,)
        tolerated_faults = 0
        {algorithm}
        def rule(self, view):
            return R(self, view)
    {after}
"""
"""A right flooding on the star graph, with room for mistakes."""


def flood(rule: str = "pass", algorithm: str = "", after: str = "") -> str:
    """Return a submission that floods, with these lines put in."""
    places = {"rule": (rule, 4), "algorithm": (algorithm, 4), "after": (after, 0)}
    filled = {name: dedent(text).strip().replace("\n", "\n" + " " * indent) for name, (text, indent) in places.items()}
    return dedent(FLOOD).format(**filled)


def receive(body: str) -> str:
    """Return a rule with this body of `receive`; `sends` is what flooding would send."""
    lines = dedent(body).strip().replace("\n", "\n    ")
    start = "def receive(self, step, packets):\n    sends = list(super().receive(step, packets))"
    return f"{start}\n    {lines}\n    return sends"


def graded(
    folder: Path, text: str, *networks: str, limits: Limits = LIMITS, name: str = "mine.py", **options: Any
) -> Grade:
    """Return the grade of a text on these networks; afterwards no process is left."""
    file = folder / name
    file.write_text(text)
    topologies = [parse_topology(network) for network in networks or ("star:3",)]
    found = grade(file, GradeOptions(topologies, limits=limits, **options), lambda *_: None)
    assert psutil.Process().children(recursive=True) == []
    return found


def marks(found: Grade) -> dict[str, Mark]:
    return {mark.requirement: mark for subject in found.subjects for mark in subject.marks}


def findings(found: Grade) -> str:
    return "\n".join(f"{name}: {each}" for name, mark in marks(found).items() for each in mark.findings)
