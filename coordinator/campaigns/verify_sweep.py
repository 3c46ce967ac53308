"""Verification of stored sweeps: table, chart and page from the records, and a sample of the runs again."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from math import prod
from pathlib import Path
from random import Random
from typing import Final, TypeVar

from coordinator.campaigns.sweep import (
    ROWS,
    SETTINGS,
    RunRecord,
    Sweep,
    SweepFile,
    SweepPoint,
    known_metrics,
    points_of,
    read_rows,
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
from coordinator.history.stored.records import Finite, Items, read_record
from coordinator.history.stored_run import unknown_keys
from coordinator.theory.lower_bounds import GENERAL
from emunode import __version__
from emunode.errors import EmulatorError
from emunode.terminal import plural

Value = TypeVar("Value")
MOST_POINTS: Final = 2_000
"""Most names of networks, times algorithms."""
SAMPLED_RUNS: Final = 20
LEAST_RUNS: Final = 3
"""Runs that are made again even if they have more packets."""
MOST_PACKETS: Final = 1_000_000
"""About the most packets of the runs that are made again."""


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
    metric = settings.metric
    points, left_out = _points(settings)
    known = [point for point in points if point.key in records]
    others = records.keys() - {point.key for point in points}
    if others:
        verification.unchecked.append(f"{ROWS}: {plural(len(others), 'run')} of other sweeps in this folder")
    if len(known) < len(points):
        verification.unchecked.append(f"the sweep is not finished: {plural(len(points) - len(known), 'run')} left")
    for point in known:
        if metric not in records[point.key].measured:
            raise UnreadableError(f"{ROWS}: {_name(point)}: it has no {metric}")
    if points and not known:
        # Nothing of this sweep is there to be verified.
        verification.undecided = True
    again = _run_again(known, records, verification, earlier=not exists(folder / "sweep.tex"))
    # An interrupted sweep shows the runs before the first missing one.
    shown = list(takewhile(lambda point: point.key in records, points))
    rows, without = rows_of([(point, records[point.key]) for point in shown], metric)
    left_out += without
    sweep = Sweep(settings.collective, metric, rows, left_out, len(known) == len(points))
    _check_files(folder, sweep.files, settings.version == __version__, verification)
    verification.statement = (
        f"{plural(len(known), 'run')}, {again} of them made again; {plural(len(sweep.files), 'file')} made again"
    )


def _settings(folder: Path, verification: Verification) -> SweepFile:
    values = _read(folder / SETTINGS, lambda file: read_settings(file.parent))
    verification.unchecked += unknown_keys(SETTINGS, values, SweepFile.__match_args__)
    settings = _read(folder / SETTINGS, lambda _: read_record(SweepFile, values))
    if settings.metric not in known_metrics():
        raise UnreadableError(f"{SETTINGS}: metric is {settings.metric[:40]!r}, expected a metric")
    return settings


def _points(settings: SweepFile) -> tuple[list[SweepPoint], list[str]]:
    # The file has a bounded length, so the product has few factors.
    if len(settings.algorithms) * len(settings.topologies) * prod(map(len, settings.vary.values())) > MOST_POINTS:
        raise TooLargeError(f"{SETTINGS}: more than {MOST_POINTS:,} runs")
    named = settings.topologies, settings.collective, settings.algorithms
    return points_of(*named, settings.scenario, require_verifiable, vary=settings.vary)


def _read(path: Path, read: Callable[[Path], Value]) -> Value:
    try:
        return read(path)
    except ValueError as error:
        raise UnreadableError(f"{path.name}: {str(error)[:160]}") from None


def _records(path: Path) -> dict[str, RunRecord]:
    records: dict[str, RunRecord] = {}
    for number, (_, record) in enumerate(read_rows(path), 1):
        if record.key in records:
            raise RefusedError(f"line {number}: its run is recorded twice")
        records[record.key] = record
    return records


def _run_again(
    points: Sequence[SweepPoint],
    records: Mapping[str, RunRecord],
    verification: Verification,
    *,
    earlier: bool,
) -> int:
    """Make a sample of the runs again, in memory, and compare their records.

    With `earlier`, for records of 0.3.0, other lower bounds are no contradiction: that version knew fewer.
    """
    done, packets = 0, 0.0
    other_bounds = False
    for point in Random(secrets.randbits(64)).sample(points, min(SAMPLED_RUNS, len(points))):
        stored = records[point.key]
        try:
            # On any driver the history is the same.
            again = run_point(point, "memory")
        except EmulatorError as error:
            verification.findings.append(f"{ROWS}: {_name(point)}: it fails when it is run again: {str(error)[:160]}")
            continue
        if again is None:
            raise KeyboardInterrupt
        done, packets = done + 1, packets + (again.measured.get("packets") or 0)
        for name, value in vars(again).items():
            recorded = getattr(stored, name)
            if name == "claims" and earlier and without_bounds(recorded) == without_bounds(value):
                other_bounds |= recorded != value
            elif recorded != value:
                verification.findings.append(f"{ROWS}: {_name(point)}: {_difference(name, recorded, value)}")
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


def without_bounds(claims: Items[tuple[str, str, Finite, str]]) -> list[object]:
    """Return the claims in a record but for the lower bounds of every algorithm."""
    return [claim for claim in claims if not claim[-1].startswith(GENERAL)]


def _difference(name: str, stored: object, again: object) -> str:
    if isinstance(stored, dict) and isinstance(again, dict):
        for key, value in again.items():
            if stored.get(key) != value:
                return f"{key} is {stored.get(key)}, and a run gives {value}"
        return f"{name} has more values than a run gives"
    return f"{name} is {str(stored)[:100]}, and a run gives {str(again)[:100]}"


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
