"""Verification of stored sweeps: table, chart and page from the records, and a sample of the runs again."""

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from math import prod
from pathlib import Path
from random import Random
from typing import Any, Final

from coordinator.campaigns.stored_records import TEXT, TEXTS, RecordCheck, read_records, require_row
from coordinator.campaigns.sweep import (
    ROWS,
    SETTINGS,
    Sweep,
    SweepPoint,
    known_metrics,
    points_of,
    read_settings,
    rows_of,
    run_point,
)
from coordinator.execution.untrusted import require_verifiable
from coordinator.execution.verification import (
    MOST_FINDINGS,
    TooLargeError,
    UnreadableError,
    Verification,
    errors_as_findings,
    links_in,
)
from coordinator.history.stored.reading import RefusedError, exists, read_bytes
from coordinator.history.stored.version import VERSION_KEY
from coordinator.history.stored_run import unknown_keys
from coordinator.theory.lower_bounds import GENERAL
from emunode import __version__
from emunode.errors import EmulatorError
from emunode.terminal import plural

MOST_POINTS: Final = 2_000
"""Most names of networks, times algorithms."""
SAMPLED_RUNS: Final = 20
LEAST_RUNS: Final = 3
"""Runs that are made again even if they have more packets."""
MOST_PACKETS: Final = 1_000_000
"""About the most packets of the runs that are made again."""
VALUES: Final[Mapping[str, tuple[str, RecordCheck]]] = {
    VERSION_KEY: TEXT, "topologies": TEXTS, "collective": TEXT, "algorithms": TEXTS,
    "metric": ("a metric", lambda value: value in known_metrics()),
    "scenario": ("a table", lambda value: isinstance(value, dict)),
}  # fmt: skip
"""The values of sweep.toml."""
VARY: Final = "vary"
"""The values of varied fields, in sweeps that have them."""


def verify_sweep(folder: Path) -> Verification:
    """Check the folder of a sweep.

    Raises only VersionError, for another minor version, and ScenarioError (field `plugin`) for a plug-in that is not loaded.
    """
    verification = Verification(folder)
    with errors_as_findings(verification, SETTINGS):
        verification.findings += [f"{name}: it is a symbolic link" for name in links_in(folder)]
        _verify(folder, verification)
    del verification.findings[MOST_FINDINGS:]
    return verification


def _verify(folder: Path, verification: Verification) -> None:
    settings = _settings(folder, verification)
    records = _read(folder / ROWS, _records)
    metric = settings["metric"]
    points, left_out = _points(settings)
    known = [point for point in points if point.key in records]
    others = records.keys() - {point.key for point in points}
    if others:
        verification.unchecked.append(f"{ROWS}: {plural(len(others), 'run')} of other sweeps in this folder")
    if len(known) < len(points):
        verification.unchecked.append(f"the sweep is not finished: {plural(len(points) - len(known), 'run')} left")
    for point in known:
        if metric not in records[point.key]["measured"]:
            raise UnreadableError(f"{ROWS}: {_name(point)}: it has no {metric}")
    if points and not known:
        # Nothing of this sweep is there to be verified.
        verification.undecided = True
    again = _run_again(known, records, verification, earlier=not exists(folder / "sweep.tex"))
    # An interrupted sweep shows the runs before the first missing one.
    shown = list(takewhile(lambda point: point.key in records, points))
    rows, without = rows_of([(point, records[point.key]) for point in shown], metric)
    left_out += without
    sweep = Sweep(settings["collective"], metric, rows, left_out, len(known) == len(points))
    _check_files(folder, sweep.files, settings[VERSION_KEY] == __version__, verification)
    verification.statement = (
        f"{plural(len(known), 'run')}, {again} of them made again; {plural(len(sweep.files), 'file')} made again"
    )


def _settings(folder: Path, verification: Verification) -> dict[str, Any]:
    settings: dict[str, Any] = _read(folder / SETTINGS, lambda file: read_settings(file.parent))
    verification.unchecked += unknown_keys(SETTINGS, settings, [*VALUES, VARY])
    if not _are_varied(settings.get(VARY, {})):
        raise UnreadableError(f"{SETTINGS}: {VARY} is malformed, expected lists of values")
    for name, (expected, fits) in VALUES.items():
        if name not in settings or not fits(settings[name]):
            raise UnreadableError(f"{SETTINGS}: {name} is missing or malformed, expected {expected}")
    return settings


def _points(settings: Mapping[str, Any]) -> tuple[list[SweepPoint], list[str]]:
    varied = settings.get(VARY, {})
    # `prod` of a few lists of a file of bounded length.
    if len(settings["algorithms"]) * len(settings["topologies"]) * prod(map(len, varied.values())) > MOST_POINTS:
        raise TooLargeError(f"{SETTINGS}: more than {MOST_POINTS:,} runs")
    named = settings["topologies"], settings["collective"], settings["algorithms"]
    return points_of(*named, settings["scenario"], require_verifiable, vary=varied)


def _are_varied(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(items, list) for items in value.values())


def _read(path: Path, read: Callable[[Path], Any]) -> Any:
    try:
        return read(path)
    except ValueError as error:
        raise UnreadableError(f"{path.name}: {str(error)[:160]}") from None


def _records(path: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for line, _, record in read_records(path):
        try:
            require_row(record)
            if record["key"] in found:
                raise RefusedError("its run is recorded twice")
        except RefusedError as error:
            raise RefusedError(f"line {line}: {error}") from None
        found[record["key"]] = record
    return found


def _run_again(
    points: Sequence[SweepPoint],
    records: Mapping[str, Mapping[str, Any]],
    verification: Verification,
    *,
    earlier: bool,
) -> int:
    """Make a sample of the runs again, in memory, and compare their records.

    With `earlier`, for records of 0.3.0, other lower bounds are no contradiction: that version knew fewer.
    """
    done = packets = 0
    other_bounds = False
    for point in Random(secrets.randbits(64)).sample(points, min(SAMPLED_RUNS, len(points))):
        stored = records[point.key]
        try:
            # On any driver the history is the same.
            found = run_point(point, "memory")
        except EmulatorError as error:
            verification.findings.append(f"{ROWS}: {_name(point)}: it fails when it is run again: {str(error)[:160]}")
            continue
        if found is None:
            raise KeyboardInterrupt
        done, packets = done + 1, packets + found["measured"].get("packets", 0)
        for name, value in json.loads(json.dumps(found)).items():
            if name == "claims" and earlier and without_bounds(stored.get(name)) == without_bounds(value):
                other_bounds |= stored[name] != value
            elif stored.get(name) != value:
                verification.findings.append(f"{ROWS}: {_name(point)}: {_difference(name, stored.get(name), value)}")
                break
        if packets > MOST_PACKETS and done >= LEAST_RUNS:
            break
    if other_bounds:
        verification.unchecked.append(f"{ROWS}: its version states other lower bounds")
    if done < len(points):
        verification.unchecked.append(
            f"{ROWS}: {len(points) - done} of {plural(len(points), 'run')} were not made again"
        )
    return done


def without_bounds(claims: Any) -> list[Any]:
    """Return the claims in a record but for the lower bounds of every algorithm."""
    return [claim for claim in claims or () if not str(claim[-1]).startswith(GENERAL)]


def _difference(name: str, stored: object, found: object) -> str:
    if isinstance(stored, dict) and isinstance(found, dict):
        for key, value in found.items():
            if stored.get(key) != value:
                return f"{key} is {stored.get(key)}, and a run gives {value}"
        return f"{name} has more values than a run gives"
    return f"{name} is {str(stored)[:100]}, and a run gives {str(found)[:100]}"


def _check_files(folder: Path, files: Mapping[str, str], ours: bool, verification: Verification) -> None:
    for name, text in files.items():
        data = text.encode()
        try:
            if read_bytes(folder / name, len(data), follow=False) == data:
                continue
        except FileNotFoundError:
            verification.unchecked.append(f"{name}: no such file")
            continue
        except RefusedError:  # a longer file
            pass
        if ours or name.endswith(".csv"):
            verification.findings.append(f"{name}: differs from the records")
        else:
            verification.unchecked.append(f"{name}: differs from the records, and another version drew it")


def _name(point: SweepPoint) -> str:
    return f"{point.plan.scenario.algorithm} on {point.plan.topology.name}"
