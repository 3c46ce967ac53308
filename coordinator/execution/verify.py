"""Verification of stored runs: everything in a run directory that follows from scenario and journal is computed again.

The journal is hashed, measured and judged like the journal of a new run, and replayed in memory if it is short enough.
Files are not trusted: sizes, schemas, row counts and ranges of values are checked before a file is read as a whole, so
that time and memory are bounded for any content.
"""

import json
import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from math import isclose
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import polars as pl

from coordinator.batch.derived import derived_claims
from coordinator.history.journal import COLUMNS, OUTCOMES, RECORD, SORT_KEY, table
from coordinator.history.lateness import TIME_RECORD
from coordinator.history.prediction import completed, prediction
from coordinator.history.stored_run import (
    KNOWN,
    MOST_STEPS,
    read_records,
    read_scenario_file,
    read_summary,
    unknown_keys,
)
from coordinator.history.timetable import PredictionInputs, Timetable, make_timetable
from coordinator.placements.base import place
from coordinator.planning.plan import Plan, make_plan
from coordinator.results.claims import Verdict
from coordinator.results.conclude import Conclusion, History, conclude
from coordinator.results.cut_off import faults_without_effect
from coordinator.results.differential import REPLAYED_ROWS, Replay, replay
from coordinator.results.explain import hop_words
from coordinator.results.host_traffic import HOST_TRAFFIC, host_traffic
from coordinator.results.run_metrics import RUN_METRICS
from coordinator.scenario.model import OPTIONS, Scenario, costs_of, make_scenario
from coordinator.scenario.networks import network_of, with_absolute_network
from coordinator.scenario.plugins import altered_files
from coordinator.scenario.programs import command_of, is_allowed
from coordinator.stored.reading import RefusedError, exists
from coordinator.stored.tables import damage_as_value_error, require_regular
from coordinator.stored.version import VersionError
from emunode.engine.rank_set import results_of
from emunode.errors import ScenarioError
from emunode.model import ROOTLESS
from emunode.timed.cost_model import NANO

if TYPE_CHECKING:
    from coordinator.additions.results import ResultArray

MOST_TABLE_BYTES = 2 * 2**30
MOST_ROWS = 5_000_000
"""Most rows of a journal that is verified."""
MOST_NODES = 500_000
MOST_MESSAGES = 20_000_000
"""Most messages, times their pieces and trees, of a run that is verified."""
MOST_FAULTS = 10_000
SLICE_ROWS = 500_000
MOST_FINDINGS = 50
LARGEST_NUMBER = 1e300
"""A bound on the numbers in a summary."""

JOURNAL_SCHEMA = {name: pl.Int16 if name == "port" else OUTCOMES if name == "outcome" else pl.Int32 for name in COLUMNS}
TIMELINE_SCHEMA = {
    "step": pl.Int32, "sender": pl.Int32, "port": pl.Int16, "receiver": pl.Int32, "bytes": pl.Int64,
    "start": pl.Float64, "started": pl.Float64, "end": pl.Float64, "ended": pl.Float64,
}  # fmt: skip


class UnreadableError(Exception):
    """A file that is missing or malformed."""


class TooLargeError(UnreadableError):
    """A run, or a certificate, whose verification would take too long: nothing is wrong with it, and nothing is checked."""


@dataclass
class Verification:
    """The result of verifying one run."""

    path: Path
    findings: list[str] = field(default_factory=list)
    """Contradictions, one line each; empty for a run that verifies."""
    unchecked: list[str] = field(default_factory=list)
    """Parts that could not be checked, with the reason."""
    statement: str = ""
    """The verified statement in words: of a certificate its claim, of a campaign or a sweep its extent."""
    undecided: bool = False
    """Whether the result depends on a part that could not be checked."""

    @property
    def verified(self) -> bool:
        """Whether there are no contradictions."""
        return not self.findings

    def record(self) -> dict[str, object]:
        """Return the verification as JSON values."""
        return {
            "run": str(self.path), "verified": self.verified and not self.undecided, "findings": self.findings,
            "unchecked": self.unchecked, "statement": self.statement,
        }  # fmt: skip

    def warning(self) -> str | None:
        """Return a warning for commands that use a run that does not verify, or None."""
        if self.verified:
            return None
        more = f" (and {len(self.findings) - 1} more)" if len(self.findings) > 1 else ""
        return f"{self.path} does not verify: {self.findings[0]}{more}; see `coordinator verify`"


def verify(path: Path) -> Verification:
    """Check a run directory.

    Raises only VersionError, for a run of another minor version, and ScenarioError (field `plugin`) for a plug-in that is
    not loaded: any other exception is an error of this software, whatever the files contain.
    """
    verification = Verification(path)
    with errors_as_findings(verification):
        _verify(path, verification)
    del verification.findings[MOST_FINDINGS:]
    return verification


@contextmanager
def errors_as_findings(verification: Verification, settings: str = "") -> Iterator[None]:
    """Add errors about the content of files within the block to the findings; a check that is too large stays open.

    `settings` is the file that an invalid scenario comes from. Without it, for a plug-in that is not loaded, and for
    another minor version, a ScenarioError is raised.
    """
    try:
        yield
    except TooLargeError as error:
        verification.unchecked.append(str(error))
        verification.undecided = True
    except (UnreadableError, RefusedError) as error:
        verification.findings.append(str(error))
    except ScenarioError as error:
        if error.field == "plugin" or not settings or isinstance(error, VersionError):
            raise
        verification.findings.append(f"{settings}: {error}")
    except OSError as error:
        name = Path(error.filename or verification.path).name
        verification.findings.append(f"{name}: it cannot be read: {error.strerror}")


class Recomputed(NamedTuple):
    """A stored run, and what follows from its scenario and its journal."""

    scenario: Scenario
    plan: Plan
    records: np.ndarray
    """The rows of the journal."""
    summary: Mapping[str, Any]
    """As it is stored."""
    history: History
    replayed: Replay | None
    """The replay in memory; None if the journal is too long."""
    conclusion: Conclusion
    cut_short: bool
    """Whether the run ended early, for a reason that does not follow from the journal."""


def recompute(path: Path, verification: Verification) -> Recomputed:
    """Read a run directory and judge its journal; contradictions in what is read are added to the findings.

    UnreadableError if a file is missing or malformed, or checking takes too long; OSError if one cannot be read.
    """
    verification.findings += [f"{name}: it is a symbolic link" for name in links_in(path)]
    # First, for the version: another one may write other files.
    summary = _read(path / "summary.json", lambda file: read_summary(file.parent))
    scenario = _read_scenario(path, verification)
    verification.findings += altered_files(scenario.plugin, path)
    plan = plan_of(scenario)
    records = _read_journal(path / "journal.parquet", plan)
    verification.findings += _check_hash(records, summary)
    # A run that was cut short may lack packets; the timetable has them nevertheless.
    whole = summary.get("verdict") != Verdict.UNDECIDED
    timetable = _timetable(plan, records, whole=whole) if scenario.clock == "timed" else None
    replayed = _replay(plan, records, timetable.inputs if timetable else None)
    if replayed is None and plan.scenario.program is not None:
        verification.unchecked.append(
            f"journal.parquet: the hops of a program are not replayed unless it is named: {_program_flag(plan.scenario)}"
        )
    elif replayed is None:
        verification.unchecked.append(
            f"journal.parquet: {len(records)} rows are too many to replay (at most {REPLAYED_ROWS})"
        )
    history = _history(path, plan, records, replayed, timetable, verification)
    conclusion = conclude(plan, history, replay=False, derived=derived_claims)
    reason = summary.get("undecided_because")
    cut_short = summary.get("verdict") == Verdict.UNDECIDED and reason != conclusion.ruling.undecided
    if cut_short and isinstance(reason, str):
        verification.unchecked.append(
            f"summary.json: the reason of its early end ({_short(reason)}) does not follow from the journal"
        )
        history = replace(history, ended=reason)
        conclusion = conclude(plan, history, replay=False, derived=derived_claims)
    return Recomputed(scenario, plan, records, summary, history, replayed, conclusion, cut_short)


def _verify(path: Path, verification: Verification) -> None:
    scenario, plan, _, summary, _, replayed, conclusion, cut_short = recompute(path, verification)
    strange = 0 if replayed is None else replayed.surplus if cut_short else replayed.differences
    if strange:
        verification.findings.append(
            f"journal.parquet: {strange} hops differ from what the algorithm does{_first_in(replayed, plan)}"
        )
    _check_tables(path, conclusion, verification)
    faults = _read(path / "faults.json", _list)
    if json.loads(json.dumps(conclusion.measurement.faults)) != faults:
        verification.findings.append("faults.json: differs from the scenario and the journal")
    for name, entries in conclusion.records.items():
        if _read(path / f"{name}.json", _list) != list(entries):
            verification.findings.append(f"{name}.json: differs from the scenario and the journal")
    _check_summary(scenario, plan, conclusion, summary, verification)
    _check_claims(conclusion, summary, verification)
    if conclusion.metrics["illegal_hops"]:
        verification.findings.append(
            f"journal.parquet: {conclusion.metrics['illegal_hops']} hops that the model, the network or the faults rule out"
        )


def _first_in(replayed: Replay | None, plan: Plan) -> str:
    """Return the first hop that only the journal or only the replay has, to follow the number of such hops."""
    if replayed is None or replayed.first is None:
        return ""
    place = "journal" if replayed.first["times"] > 0 else "replay"
    return f"; the first, only in the {place}: {hop_words(replayed.first, plan.topology.label)}"


def links_in(folder: Path) -> list[str]:
    """Return the symbolic links in a folder and the folders in it, which no run, campaign or sweep leaves there."""
    inside = [Path(place) / name for place, folders, files in os.walk(folder) for name in (*folders, *files)]
    return sorted(str(path.relative_to(folder)) for path in inside if path.is_symlink())


# --- reading untrusted files -------------------------------------------------------------------------------------------


Value = TypeVar("Value")


def _read(path: Path, read: Callable[[Path], Value]) -> Value:
    try:
        return read(path)
    except FileNotFoundError:
        raise UnreadableError(f"{path.name}: no such file") from None
    except RefusedError as error:
        raise UnreadableError(f"{path.name}: {_short(error)}") from None
    except ValueError as error:
        raise UnreadableError(f"{path.name}: it cannot be read: {_short(error)}") from None


def _list(path: Path) -> Any:
    return read_records(path, list)


def _read_scenario(path: Path, verification: Verification) -> Scenario:
    """Return the scenario of a run directory."""
    values = _read(path / "scenario.toml", lambda file: read_scenario_file(file.parent))
    verification.unchecked += unknown_keys("scenario.toml", values, OPTIONS)
    values = {name: value for name, value in values.items() if name in OPTIONS}
    try:
        return make_scenario(with_absolute_network(values, path))
    except ScenarioError as error:
        raise UnreadableError(f"scenario.toml: {_short(error)}") from None


def plan_of(scenario: Scenario) -> Plan:
    """Return the plan of a stored scenario, on the memory driver; UnreadableError without a valid one, or if checking
    takes too long.
    """
    try:
        return _bounded_plan(scenario)
    except ScenarioError as error:
        raise UnreadableError(f"scenario: {_short(error)}") from None


def require_verifiable(scenario: Scenario) -> None:
    """Refuse a scenario of which a run would take too long to check: TooLargeError."""
    topology = network_of(scenario)
    if topology.order > MOST_NODES:
        raise TooLargeError(f"scenario: a network of {topology.order} nodes; at most {MOST_NODES} are verified")
    pairs = topology.order**2 if scenario.collective in ROOTLESS else topology.order
    pieces = 1 if scenario.segments == "auto" else scenario.segments
    messages = pairs * scenario.messages * pieces * scenario.redundancy
    if messages > MOST_MESSAGES:
        raise TooLargeError(f"scenario: {messages} pieces are due; runs with at most {MOST_MESSAGES} are verified")
    if len(scenario.fault) > MOST_FAULTS:
        raise TooLargeError(f"scenario: {len(scenario.fault)} faults; at most {MOST_FAULTS} are verified")


def _bounded_plan(scenario: Scenario) -> Plan:
    require_verifiable(scenario)
    return make_plan(scenario.on_driver("memory"))


def _read_table(path: Path, schema: Mapping[str, Any], most: int) -> pl.DataFrame:
    """Return a table with exactly these columns and types, and at most `most` rows."""
    return _read(path, lambda file: _table(file, schema, most))


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


def _read_journal(path: Path, plan: Plan) -> np.ndarray:
    """Return the rows of the journal as records, every value checked against its range."""
    frame = _read_table(path, JOURNAL_SCHEMA, MOST_ROWS)
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


# --- computing again ---------------------------------------------------------------------------------------------------


def _check_hash(records: np.ndarray, summary: Mapping[str, Any]) -> Iterator[str]:
    digest = blake2b(digest_size=16)
    for start in range(0, len(records), SLICE_ROWS):
        digest.update(records[start : start + SLICE_ROWS].tobytes())
    if summary.get("journal_hash") != digest.hexdigest():
        stored = _short(summary.get("journal_hash"))
        yield f"summary.json: journal_hash is {stored}, but the journal hashes to {digest.hexdigest()}"
    if summary.get("journal_rows", len(records)) != len(records):
        yield f"summary.json: journal_rows is {_short(summary.get('journal_rows'))}, and the journal has {len(records)}"
    order = np.lexsort([records[name] for name in ("bytes", "outcome", *reversed(SORT_KEY))])
    if not np.array_equal(records, records[order]):
        yield "journal.parquet: its rows are not sorted"


def _program_flag(scenario: Scenario) -> str:
    return f"--program {shlex.quote(command_of(scenario.program or ''))}"


def _replay(plan: Plan, records: np.ndarray, inputs: PredictionInputs | None) -> Replay | None:
    """Return the differences between the journal and a replay in memory; None if the journal is too long."""
    if len(records) > REPLAYED_ROWS or (plan.scenario.program and not is_allowed(plan.scenario.program)):
        return None
    last = int(records["step"].max(initial=0))
    return replay(plan, table(records).lazy(), last, most_rows=2 * REPLAYED_ROWS, inputs=inputs)


def _history(
    path: Path,
    plan: Plan,
    records: np.ndarray,
    replayed: Replay | None,
    timetable: Timetable | None,
    verification: Verification,
) -> History:
    """Return the history of the run, as far as its directory contains it."""
    frame = table(records)
    if replayed is None and plan.spec.redundancy > 1 and (frame["outcome"] == "corrupt").any():
        verification.unchecked.append("elections.parquet: the values of altered copies are not stored")
    times = b""
    if timetable is not None:
        times = _times(_read_table(path / "timeline.parquet", TIMELINE_SCHEMA, MOST_ROWS))
    altered = replayed.altered if replayed else ()
    results = None if plan.spec.numbers is None else _results(path, plan, verification, replayed is not None)
    return History(frame.lazy(), len(records), None, altered, timetable, [times], results)


def _results(path: Path, plan: Plan, verification: Verification, replayed: bool) -> "ResultArray | None":
    """Return the results of the run; findings if they are not what the algorithm makes in the replay."""
    from coordinator.additions.results import ResultArray, gather  # noqa: PLC0415  # few runs have numbers
    from coordinator.scenario.number_files import read_results  # noqa: PLC0415

    assert plan.spec.numbers is not None
    array = _read(path / "results.npy", read_results)
    expected = gather(plan.algorithm, plan.surviving(results_of(plan.algorithm) if replayed else ()))
    if array.shape != expected.numbers.shape or array.dtype != expected.numbers.dtype:
        verification.findings.append(
            f"results.npy: an array of {array.dtype} of shape {array.shape}, expected {expected.numbers.dtype} of shape "
            f"{expected.numbers.shape}"
        )
        return None
    results = ResultArray(array, plan.spec.numbers.type)
    if not replayed:
        verification.unchecked.append("results.npy: the run is too long to replay")
    elif results.hash != expected.hash:
        verification.findings.append("results.npy: differs from what the algorithm does")
    return results


def _timetable(plan: Plan, records: np.ndarray, *, whole: bool) -> Timetable:
    costs = costs_of(plan.scenario)
    foreseen = plan.scenario.program is None or is_allowed(plan.scenario.program)
    if plan.faults or plan.spec.has_control or (foreseen and not whole):
        # When a packet was lost, or which ones are missing, does not follow from the journal alone.
        return completed(prediction(plan.algorithm, plan.faults, costs, plan.scenario.step_limit))
    return make_timetable([records.tobytes()], plan.spec.port_model, plan.topology.degree, costs, complete=True)


def _times(timeline: pl.DataFrame) -> bytes:
    """Return the times in a timeline as hosts report them."""
    parts = []
    for ended, (intended, achieved) in enumerate((("start", "started"), ("end", "ended"))):
        stored = timeline.filter(pl.col(achieved).is_finite() & pl.col(intended).is_finite())
        part = np.zeros(len(stored), dtype=TIME_RECORD)
        for name in ("step", "sender", "port"):
            part[name] = stored[name].to_numpy()
        part["ended"] = ended
        for name, column in (("intended", intended), ("achieved", achieved)):
            part[name] = (stored[column].clip(-1e9, 1e9) * NANO).round().cast(pl.Int64).to_numpy()
        parts.append(part.tobytes())
    return b"".join(parts)


# --- comparing ---------------------------------------------------------------------------------------------------------


def _check_tables(path: Path, conclusion: Conclusion, verification: Verification) -> None:
    unsure = any(text.startswith("elections") for text in verification.unchecked)
    for name, expected in conclusion.measurement.tables.items():
        file = path / f"{name}.parquet"
        if unsure and name in ("elections", "nodes", "steps"):
            continue
        if expected is None:
            if exists(file):
                verification.findings.append(f"{file.name}: the journal has no pieces to vote on")
            continue
        try:
            stored = _read_table(file, dict(expected.schema), len(expected))
        except TooLargeError:
            verification.findings.append(f"{file.name}: it has more than {len(expected)} rows")
            continue
        except UnreadableError as error:
            verification.findings.append(str(error))
            continue
        if not _same_table(stored, expected):
            verification.findings.append(f"{file.name}: differs from the journal")


def _same_table(stored: pl.DataFrame, expected: pl.DataFrame) -> bool:
    if len(stored) != len(expected):
        return False
    floats = [name for name, kind in expected.schema.items() if kind.is_float()]
    if not stored.drop(floats).equals(expected.drop(floats)):
        return False
    return all(np.allclose(stored[name], expected[name], rtol=1e-9, atol=1e-12) for name in floats)


def _check_summary(
    scenario: Scenario, plan: Plan, conclusion: Conclusion, summary: Mapping[str, Any], verification: Verification
) -> None:
    topology = plan.topology
    expected: dict[str, object] = {
        "topology": topology.name, "order": topology.order, "degree": topology.degree, "diameter": topology.known_diameter,
        "collective": str(scenario.collective), "algorithm": scenario.algorithm, "driver": scenario.driver,
        "source": topology.label(plan.spec.source), "port_model": str(scenario.port_model), "clock": scenario.clock,
        "seed": scenario.seed, "messages": scenario.messages, "message_bytes": plan.spec.contributed_bytes,
        **plan.vector,
        "segments_per_tree": scenario.segments, "redundancy": scenario.redundancy, "faults": list(scenario.fault),
        **plan.targets, **conclusion.metrics, **conclusion.cut_off.record(),
        "without_effect": faults_without_effect(conclusion.plan), **conclusion.stated(),
        **_host_traffic(scenario, plan, conclusion, summary, verification),
    }  # fmt: skip
    unsure = any(text.startswith("elections") for text in verification.unchecked)
    verification.unchecked += unknown_keys("summary.json", summary, KNOWN | expected.keys())
    for name, value in expected.items():
        if name not in summary and name in RUN_METRICS:
            continue  # the program that ran it had not registered that metric
        if name not in summary:
            verification.findings.append(f"summary.json: {name} is missing")
        elif not (unsure or _same(summary[name], value)):
            verification.findings.append(
                f"summary.json: {name} is {_short(summary[name])}, and the journal says {_short(value)}"
            )


def _host_traffic(
    scenario: Scenario, plan: Plan, conclusion: Conclusion, summary: Mapping[str, Any], verification: Verification
) -> Mapping[str, int]:
    """Count the links and packets within hosts and across hosts again, for a run that states them."""
    hosts = summary.get("hosts")
    if not any(name in summary for name in HOST_TRAFFIC):
        return {}
    if not isinstance(hosts, int) or not 1 <= hosts <= plan.topology.order:
        verification.findings.append(f"summary.json: {_short(hosts)} hosts for {plan.topology.order} nodes")
        return {}
    try:
        placement = place(scenario.placement, plan.topology, hosts)
    except ScenarioError as error:
        verification.findings.append(f"scenario.toml: {_short(error)}")
        return {}
    return host_traffic(plan.topology, placement, conclusion.measurement.links)


def _check_claims(conclusion: Conclusion, summary: Mapping[str, Any], verification: Verification) -> None:
    """Check claims and verdict."""
    stored = summary.get("claims")
    if not isinstance(stored, list) or not all(isinstance(claim, dict) for claim in stored):
        verification.findings.append("summary.json: malformed claims")
        return
    if any(text.startswith("elections") for text in verification.unchecked):
        return
    note = verification.findings.append
    expected = {_key(judgement.record()): judgement.record() for judgement in conclusion.ruling.judgements}
    for claim in stored:
        ours = expected.get(_key(claim))
        what = f"{_short(claim.get('name'))} {_short(claim.get('relation'))} {_short(claim.get('predicted'))}"
        if ours is not None:
            if claim.get("verdict") != ours["verdict"] or not _same(claim.get("measured"), ours["measured"]):
                verification.findings.append(
                    f"summary.json: the claim {what} is {ours['verdict']}, measured {_short(ours['measured'])}, and "
                    f"the summary says {_short(claim.get('verdict'))}, measured {_short(claim.get('measured'))}"
                )
        elif claim.get("name") != "replay_mismatches":
            note(f"summary.json: the algorithm does not claim {what} under these faults")
        elif (claim.get("measured"), claim.get("verdict")) != (0, "holds"):
            verification.findings.append("summary.json: a replay in memory had other hops")
    stored_keys = set(map(_key, stored))
    for missing in (claim for key, claim in expected.items() if key not in stored_keys):
        note(f"summary.json: the claim {missing['name']} {missing['relation']} {missing['predicted']} is missing")
    verdict = str(conclusion.ruling.verdict)
    if summary.get("verdict") != verdict:
        note(f"summary.json: verdict is {_short(summary.get('verdict'))}, and the claims say {verdict}")


def _key(claim: Mapping[str, Any]) -> str:
    """Return the identity of a claim; the wording of its source may change."""
    return json.dumps([claim.get("name"), claim.get("relation"), claim.get("predicted")], default=str)


def _same(stored: object, expected: object) -> bool:
    if isinstance(expected, float) and isinstance(stored, int | float):
        # A whole number in JSON may be too large for a float.
        return abs(stored) < LARGEST_NUMBER and isclose(stored, expected, rel_tol=1e-9, abs_tol=1e-9)
    plain: object = json.loads(json.dumps(expected))
    return type(stored) is type(plain) and stored == plain


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
