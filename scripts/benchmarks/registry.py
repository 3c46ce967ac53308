"""The other implementations, as measures for interleaved comparisons."""

from collections.abc import Iterator, Sequence
from functools import partial

from benchmarks.interleaved import Measure
from benchmarks.record import Note
from benchmarks.subprocesses import HOW_TO_INSTALL, ask, python_with

OTHERS = {"uvloop, protocol a port": ("uvloops", "uvloop"), "SocketStream and task a port": ("streams", "trio")}
"""Title -> module in `implementations`, and the package that it needs."""


def measure(
    implementation: str, question: str, *, python: str | None = None, fds: Sequence[int] = (), **arguments: object
) -> float:
    """Return the answer of an implementation, run in its own process that inherits `fds`."""
    more = {"python": python} if python else {}
    answer = ask(f"benchmarks.implementations.{implementation}", question, pass_fds=fds, **more, **arguments)  # type: ignore[arg-type]
    assert isinstance(answer, float | int)
    return float(answer)


def others(question: str, *, fds: Sequence[int] = (), **arguments: object) -> dict[str, Measure]:
    """Return the other implementations whose packages are installed, as measures of `question`."""
    return {
        name: partial(measure, implementation, question, python=python, fds=fds, **arguments)
        for name, (implementation, package) in OTHERS.items()
        if (python := python_with(package))
    }


def missing() -> Iterator[Note]:
    """Yield a note per implementation whose package is missing."""
    for name, (_, package) in OTHERS.items():
        if not python_with(package):
            yield Note(f"{name}: not measured, because {package} is not installed: {HOW_TO_INSTALL.format(package)}")
