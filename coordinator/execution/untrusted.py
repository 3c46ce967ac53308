"""The files of a run directory that may hold anything: each is checked before it is read as a whole.

Sizes, schemas, row counts and ranges of values are bounded, so that time and memory are bounded for any content.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl

from coordinator.execution.verification import TooLargeError, UnreadableError, Verification
from coordinator.history.journal import COLUMNS, OUTCOMES, RECORD
from coordinator.history.stored.reading import RefusedError
from coordinator.history.stored.tables import damage_as_value_error, require_regular
from coordinator.history.stored_run import MOST_STEPS, read_scenario_file, unknown_keys
from coordinator.planning.bounds import MOST_MESSAGES, why_too_large
from coordinator.planning.plan import Plan, make_plan
from coordinator.scenario.model import OPTIONS, Scenario, make_scenario
from coordinator.scenario.named import values_of_file
from emunode.errors import ScenarioError

MOST_TABLE_BYTES = 2 * 2**30
MOST_ROWS = 5_000_000
"""Most rows of a journal that is verified."""
JOURNAL_SCHEMA = {name: pl.Int16 if name == "port" else OUTCOMES if name == "outcome" else pl.Int32 for name in COLUMNS}
TIMELINE_SCHEMA = {
    "step": pl.Int32, "sender": pl.Int32, "port": pl.Int16, "receiver": pl.Int32, "bytes": pl.Int64,
    "start": pl.Float64, "started": pl.Float64, "end": pl.Float64, "ended": pl.Float64,
}  # fmt: skip


Value = TypeVar("Value")


def read_file(path: Path, read: Callable[[Path], Value]) -> Value:
    """Return what `read` makes of a file; UnreadableError if the file is missing or malformed."""
    try:
        return read(path)
    except FileNotFoundError:
        raise UnreadableError(f"{path.name}: no such file") from None
    except RefusedError as error:
        raise UnreadableError(f"{path.name}: {shortened(error)}") from None
    except ValueError as error:
        raise UnreadableError(f"{path.name}: it cannot be read: {shortened(error)}") from None


def read_scenario(path: Path, verification: Verification) -> Scenario:
    """Return the scenario of a run directory."""
    values = read_file(path / "scenario.toml", lambda file: read_scenario_file(file.parent))
    verification.unchecked += unknown_keys("scenario.toml", values, OPTIONS)
    values = {name: value for name, value in values.items() if name in OPTIONS}
    try:
        return make_scenario(values_of_file(values, path))
    except ScenarioError as error:
        raise UnreadableError(f"scenario.toml: {shortened(error)}") from None


def plan_of(scenario: Scenario) -> Plan:
    """Return the plan of a stored scenario, on the memory driver; UnreadableError without a valid one, or if checking
    takes too long.
    """
    try:
        return _bounded_plan(scenario)
    except ScenarioError as error:
        raise UnreadableError(f"scenario: {shortened(error)}") from None


def require_verifiable(scenario: Scenario) -> None:
    """Refuse a scenario whose run would take too long to check: TooLargeError."""
    if reason := why_too_large(scenario):
        raise TooLargeError(f"scenario: {reason}")


def _bounded_plan(scenario: Scenario) -> Plan:
    require_verifiable(scenario)
    return make_plan(scenario.on_driver("memory"))


def read_table(path: Path, schema: Mapping[str, Any], most: int) -> pl.DataFrame:
    """Return a table with exactly these columns and types, and at most `most` rows."""
    return read_file(path, lambda file: _table(file, schema, most))


def _table(path: Path, schema: Mapping[str, Any], most: int) -> pl.DataFrame:
    require_regular(path)
    size = path.lstat().st_size
    if size > MOST_TABLE_BYTES:
        raise TooLargeError(f"{path.name}: {size} bytes, and at most {MOST_TABLE_BYTES} are verified")
    with damage_as_value_error():
        stored = pl.read_parquet_schema(path)
        if dict(stored) != dict(schema):
            raise UnreadableError(f"{path.name}: unexpected columns or types")
        scan = pl.scan_parquet(path, glob=False)
        rows = scan.select(pl.len()).collect().item()
        if rows > most:
            raise TooLargeError(f"{path.name}: {rows} rows, and at most {most} are verified")
        return scan.collect()


def read_journal(path: Path, plan: Plan) -> np.ndarray:
    """Return the rows of the journal as records, every value checked against its range."""
    frame = read_table(path, JOURNAL_SCHEMA, MOST_ROWS)
    if sum(frame.null_count().row(0)):
        raise UnreadableError(f"{path.name}: rows with missing values")
    order, algorithm = plan.topology.order, plan.algorithm
    numbers = plan.spec.messages * algorithm.segments_per_message
    if not plan.has_only_data:
        # In place of a number, control segments may have a step; a repetition may cut a message into a segment for each
        # node.
        numbers = max(numbers, order * plan.spec.messages * plan.spec.segments, MOST_STEPS)
    ranges: dict[str, tuple[int, int]] = {
        "step": (1, min(MOST_STEPS, plan.scenario.step_limit + 1)), "sender": (0, order - 1), "receiver": (0, order - 1),
        "port": (0, plan.topology.degree - 1), "origin": (0, order - 1), "target": (-1, order - 1),
        "tree": (0, 2**31 - 1), "segment": (0, numbers - 1), "bytes": (0, 2**31 - 1),
    }  # fmt: skip
    for name, (least, most) in ranges.items():
        if len(frame) and not (frame[name].min() >= least and frame[name].max() <= most):  # type: ignore[operator]
            raise UnreadableError(f"{path.name}: values of {name} that are not within {least}..{most}")
    last = int(frame["step"].max() or 0)  # type: ignore[arg-type]
    if last * max(1, len(plan.faults)) > MOST_MESSAGES:
        raise TooLargeError(f"{path.name}: {last} steps with {len(plan.faults)} faults are too many to audit")
    records = np.zeros(len(frame), dtype=RECORD)
    for name in COLUMNS:
        column = frame[name].to_physical() if name == "outcome" else frame[name]
        records[name] = column.to_numpy()
    return records


def shortened(value: object) -> str:
    """Return a value from a file as text of at most 120 characters."""
    text = str(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
