"""Mininet: a hypercube of directly linked hosts, each a network namespace, up and down again."""

import os
import shutil
import time
from collections.abc import Iterator
from statistics import median

import trio

from benchmarks.networks import network_up, plan_of
from benchmarks.record import Note, Options, Row
from benchmarks.sections.links import link_rate
from benchmarks.subprocesses import ProgramError, ask, run_program
from coordinator.planning.plan import Plan

MININET = "Mininet"
PYTHON = "/usr/bin/python3"
"""Debian's interpreter: Debian's Mininet is installed for it."""
INSTALL = "apt-get install mininet"
NAMESPACES = ("unshare", "--net", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc")
"""It sees no interface but its own, and whatever it leaves is gone with it."""
WANTED = 300


def rows(options: Options) -> Iterator[Row | Note]:
    """Up and down in seconds, and links per second."""
    why = _unavailable()
    if why:
        yield Note(f"{MININET}: not measured, for {why}")
        return
    dimensions = 2 if options.quick else 5
    try:
        turns = [_up_and_down(dimensions) for _ in range(1 if options.quick else 3)]
    except ProgramError as error:
        yield Note(f"{MININET}: not measured: {error}")
        return
    hosts, links, down = (median(turn[at] for turn in turns) for at in range(3))
    name = f"hypercube:{dimensions}"
    plan = plan_of(topology=name)
    ready, closed = (median(times) for times in zip(*(trio.run(_our_up_and_down, plan) for _ in turns), strict=True))
    subject = f"{name}, {plan.topology.link_count} links"
    yield Row(subject, f"up, {MININET}", hosts + links, "s")
    yield Row(subject, "up", ready, "s", (hosts + links) / ready, MININET)
    yield Row(subject, f"down, {MININET}", down, "s")
    yield Row(subject, "down", closed, "s", down / closed, MININET)
    theirs = plan.topology.link_count / links
    large = "hypercube:4" if options.quick else "hypercube:10"
    ours = median(trio.run(link_rate, plan_of(topology=large)) for _ in turns)
    wanted = None if options.quick else WANTED
    yield Row(name, f"links once hosts are there, {MININET}", theirs, "links/s")
    yield Row(large, "links once hosts are there", ours, "links/s", ours / theirs, MININET, wanted)


def _unavailable() -> str:
    """Return why Mininet cannot run here; empty if it can."""
    try:
        run_program([PYTHON, "-c", "import mininet.net"], seconds=30)
    except ProgramError:
        return f"it is not installed: {INSTALL}"
    if os.geteuid():
        return "it needs root: sudo scripts/bench peers"
    if not shutil.which("unshare") or not _can_unshare():
        return "this machine allows no network namespaces (in a container: run it with --privileged)"
    return ""


def _can_unshare() -> bool:
    try:
        run_program([*NAMESPACES, "true"], seconds=30)
    except ProgramError:
        return False
    return True


def _up_and_down(dimensions: int) -> tuple[float, float, float]:
    """Return seconds for hosts, for links, and to take all down."""
    answer = ask(
        "benchmarks.baselines.hypercube_in_mininet",
        "up_and_down",
        python=PYTHON,
        within=NAMESPACES,
        dimensions=dimensions,
    )
    assert isinstance(answer, list)
    hosts, links, down = map(float, answer)
    return hosts, links, down


async def _our_up_and_down(plan: Plan) -> tuple[float, float]:
    began = time.perf_counter()
    async with network_up(plan) as network:
        up = time.perf_counter()
        assert network.links_opened
    return up - began, time.perf_counter() - up
