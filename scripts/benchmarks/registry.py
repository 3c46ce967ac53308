"""The ways beside the floor, as measures for a race."""

from collections.abc import Iterator, Sequence
from functools import partial

from benchmarks.interleaved import Measure
from benchmarks.record import Note
from benchmarks.subprocesses import HOW_TO_INSTALL, ask, python_with

OTHERS = {"uvloop, protocol a port": ("uvloops", "uvloop"), "SocketStream and task a port": ("streams", "trio")}
"""Way -> its module in `ways`, and the package that it needs."""


def measure(
    way: str, question: str, *, python: str | None = None, fds: Sequence[int] = (), **arguments: object
) -> float:
    """What a way of `ways` answers, in a process of its own that inherits `fds`."""
    more = {"python": python} if python else {}
    answer = ask(f"benchmarks.implementations.{way}", question, pass_fds=fds, **more, **arguments)  # type: ignore[arg-type]
    assert isinstance(answer, float | int)
    return float(answer)


def others(question: str, *, fds: Sequence[int] = (), **arguments: object) -> dict[str, Measure]:
    """The other ways that can run here, as measures of `question`."""
    return {
        name: partial(measure, way, question, python=python, fds=fds, **arguments)
        for name, (way, package) in OTHERS.items()
        if (python := python_with(package))
    }


def missing() -> Iterator[Note]:
    """A note on each way that cannot run here."""
    for name, (_, package) in OTHERS.items():
        if not python_with(package):
            yield Note(f"{name}: not measured, for {package} is not installed: {HOW_TO_INSTALL.format(package)}")
