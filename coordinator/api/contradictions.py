"""Stored runs whose files contradict each other: a message that names the contradiction in place of an internal error."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from polars.exceptions import PanicException

from coordinator.execution.verify import verify
from emunode.errors import EmulatorError, ScenarioError


@contextmanager
def contradictions_named(*runs: Path | None) -> Iterator[None]:
    """Turn an error within the block into a ScenarioError (field `run`) if one of these run directories does not verify.

    Reports and exports rely on tables that fit together. If all runs verify, the error is one of this program, and stays.
    """
    try:
        yield
    except (EmulatorError, OSError):
        raise
    except (Exception, PanicException) as error:
        for run in runs:
            finding = None if run is None else next(iter(verify(run).findings), None)
            if finding is not None:
                raise ScenarioError("run", str(run), f"its files contradict each other: {finding}") from error
        raise
