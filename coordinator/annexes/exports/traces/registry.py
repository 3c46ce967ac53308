"""The formats of traces by the ending of their files. To add one, write a function like these and list it here."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from coordinator.annexes.exports.traces.chrome import chrome_trace
from coordinator.annexes.exports.traces.events import TraceEvents
from coordinator.annexes.exports.traces.perfetto import perfetto_trace
from coordinator.history.stored.writing import replace_file
from coordinator.reports.data import RunData
from emunode.errors import ScenarioError

TRACES: Final[Mapping[str, Callable[[TraceEvents], Iterator[bytes]]]] = {
    ".json": chrome_trace,
    ".pftrace": perfetto_trace,
    ".perfetto-trace": perfetto_trace,
}


def write_trace(data: RunData, path: Path) -> Path:
    """Write the trace of a run in the format of the file's ending, and return its path.

    A file without an ending, such as a pipe, has the first format. Raises ScenarioError (field `trace`) for another ending,
    and if the file cannot be written; (field `run`) if the network or the journal is not available.
    """
    writer = TRACES.get(path.suffix or ".json")
    if writer is None:
        raise ScenarioError("trace", str(path), f"expected a file name that ends in {', '.join(TRACES)}")
    content = b"".join(writer(TraceEvents(data)))
    try:
        replace_file(path, content, named=True)
        return path
    except OSError as error:
        raise ScenarioError("trace", str(path), f"cannot be written: {error.strerror}") from None
