"""Verification of stored runs: everything in a run directory that follows from scenario and journal is computed again.

The journal is hashed, measured and judged like the journal of a new run, and replayed in memory if it is short enough.
"""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import isclose
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from coordinator.annexes import annex_function
from coordinator.execution.branch import compare_with_origin
from coordinator.execution.stored_pages import check_rest
from coordinator.execution.untrusted import (
    MOST_ROWS,
    TIMELINE_SCHEMA,
    plan_of,
    read_file,
    read_journal,
    read_scenario,
    read_table,
    shortened,
)
from coordinator.execution.verification import (
    MOST_FINDINGS,
    TooLargeError,
    UnreadableError,
    Verification,
    errors_as_findings,
    links_in,
)
from coordinator.history.journal import hash_of, sorting, table
from coordinator.history.lateness import TIME_RECORD
from coordinator.history.prediction import completed, prediction
from coordinator.history.result_array import ResultArray
from coordinator.history.run_directory import CONTRIBUTIONS
from coordinator.history.stored.reading import exists, read_bytes, read_json
from coordinator.history.stored_run import Summary, read_summary, unknown_keys, why_unproven
from coordinator.history.timetable import PredictionInputs, Timetable, make_timetable
from coordinator.planning.placements.base import place
from coordinator.planning.plan import Plan
from coordinator.results.claims import Verdict, judge
from coordinator.results.conclude import Conclusion, History, conclude
from coordinator.results.cut_off import faults_without_effect
from coordinator.results.differential import REPLAYED_ROWS, Replay, replay
from coordinator.results.explain import hop_words
from coordinator.results.run_metrics import RUN_METRICS
from coordinator.results.tables import HOST_TRAFFIC, host_traffic
from coordinator.scenario.model import Scenario, costs_of
from coordinator.scenario.networks import NETWORK, PREFIX
from coordinator.scenario.plugins import FOLDER as PLUGINS
from coordinator.scenario.plugins import altered_files
from coordinator.scenario.programs import ProgramOptions, command_of, is_allowed
from coordinator.scenario.schedule_text import readable_copies
from emunode.algorithms.claims import Claim
from emunode.engine.rank_set import results_of
from emunode.errors import ScenarioError
from emunode.model import HopOutcome
from emunode.timed.cost_model import NANO

VOTED = ("elections", "nodes", "steps")
"""The tables that depend on votes."""
ADDED = ("settling_steps", "waiting_nodes")
"""The metrics that runs of 0.3.0 lack."""
READ_PLAIN = partial(read_json, follow=False)
LARGEST_NUMBER = 1e300
"""A bound on the numbers in a summary."""


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
    open_votes: bool
    """Whether the results of votes are unknown, because altered copies were made and the run is not replayed."""


def recompute(path: Path, verification: Verification) -> Recomputed:
    """Read a run directory and judge its journal.

    Contradictions in the files are added to the findings. Raises UnreadableError if a file is missing or malformed or
    takes too long to check, and OSError if one cannot be read.
    """
    verification.findings += [f"{name}: it is a symbolic link" for name in links_in(path)]
    # The summary first: it names the version, and another version may have written other files.
    summary = read_file(path / "summary.json", lambda file: read_summary(file.parent))
    scenario = read_scenario(path, verification)
    verification.findings += altered_files(scenario.plugin, path)
    plan = plan_of(scenario)
    if reason := why_unproven(path, plan.topology.order):
        raise UnreadableError(reason)
    records = read_journal(path / "journal.parquet", plan)
    verification.findings += _check_hash(records, summary)
    # A run that was cut short may lack packets, so its timetable is predicted, not read from the journal.
    whole = summary.get("verdict") != Verdict.UNDECIDED
    timetable = _timetable(plan, records, whole=whole) if scenario.clock == "timed" else None
    replayed = _replay(plan, records, timetable.inputs if timetable else None)
    if replayed is None and ProgramOptions.of(plan.scenario).program is not None:
        verification.unchecked.append(
            f"journal.parquet: the hops of a program are not replayed unless it is named: {_program_flag(plan.scenario)}"
        )
    elif replayed is None:
        verification.unchecked.append(
            f"journal.parquet: whether its hops are those of {plan.spec.algorithm}: {len(records):,} rows are too many to "
            f"replay (at most {REPLAYED_ROWS:,})"
        )
    altered = (records["outcome"] == HopOutcome.CORRUPT).any()
    open_votes = bool(replayed is None and plan.spec.redundancy > 1 and altered)
    if open_votes:
        verification.unchecked.append(
            f"{', '.join(VOTED)} .parquet, values and claims of summary.json: votes decide them, and altered copies are "
            "not stored"
        )
    history = _history(path, plan, records, replayed, timetable, verification)
    conclusion = conclude(plan, history, replay=False, derive=True)
    reason = summary.get("undecided_because")
    cut_short = summary.get("verdict") == Verdict.UNDECIDED and reason != conclusion.ruling.undecided
    cut_short = cut_short and not left_open(summary, conclusion)
    if cut_short and isinstance(reason, str):
        verification.unchecked.append(
            f"summary.json: the reason of its early end ({shortened(reason)}) does not follow from the journal"
        )
        # The rest of the reason follows from the journal.
        history = replace(history, ended=reason.removesuffix(f"; {conclusion.ruling.undecided}"))
        conclusion = conclude(plan, history, replay=False, derive=True)
    return Recomputed(scenario, plan, records, summary, history, replayed, conclusion, cut_short, open_votes)


def compared_files(run: Recomputed) -> set[str]:
    """Return the names in a run directory whose content is compared."""
    scenario, conclusion = run.scenario, run.conclusion
    frames = {"timeline": conclusion.timeline, **conclusion.measurement.tables}
    return {
        "scenario.toml", "journal.parquet", "summary.json", "faults.json",
        *(f"{name}.parquet" for name, frame in frames.items() if frame is not None),
        *(f"{name}.parquet" for name in VOTED if run.open_votes),
        *(f"{name}.json" for name in conclusion.records),
        *(["results.npy"] if conclusion.results is not None else []),
        *([CONTRIBUTIONS] if dict(scenario).get("data") else []),
        *([NETWORK] if scenario.topology.startswith(PREFIX) else []),
        *([PLUGINS] if scenario.plugin else []),
    }  # fmt: skip


def _verify(path: Path, verification: Verification) -> None:
    run = recompute(path, verification)
    plan, replayed, conclusion = run.plan, run.replayed, run.conclusion
    compare_with_origin(path, plan, run.summary, verification)
    # Of a run that was cut short, missing hops are no finding.
    wrong_hops = 0 if replayed is None else replayed.surplus if run.cut_short else replayed.differences
    if wrong_hops:
        verification.findings.append(
            f"journal.parquet: {wrong_hops} hops differ from what the algorithm does{_first_in(replayed, plan)}"
        )
    _check_tables(path, run, verification)
    faults = read_file(path / "faults.json", READ_PLAIN)
    if json.loads(json.dumps(conclusion.measurement.faults)) != faults:
        verification.findings.append("faults.json: differs from the scenario and the journal")
    for name, entries in conclusion.records.items():
        if read_file(path / f"{name}.json", READ_PLAIN) != list(entries):
            verification.findings.append(f"{name}.json: differs from the scenario and the journal")
    _check_summary(run, verification)
    _check_claims(run, verification)
    if conclusion.metrics["illegal_hops"]:
        verification.findings.append(
            f"journal.parquet: {conclusion.metrics['illegal_hops']} hops that the model, the network or the faults rule out"
        )
    copies = readable_copies(dict(plan.scenario))
    for name, text in copies.items():
        if (path / name).exists() and read_bytes(path / name, len(text.encode()) + 1, follow=False) != text.encode():
            verification.findings.append(f"{name}: differs from the scenario")
    check_rest(path, {*compared_files(run), *copies}, verification)


def _first_in(replayed: Replay | None, plan: Plan) -> str:
    """Return the first hop that only the journal or only the replay has, to follow the number of such hops."""
    if replayed is None or replayed.first is None:
        return ""
    place = "journal" if replayed.first["times"] > 0 else "replay"
    return f"; the first, only in the {place}: {hop_words(replayed.first, plan.topology.label)}"


# --- computing again ---------------------------------------------------------------------------------------------------


def _check_hash(records: np.ndarray, summary: Mapping[str, Any]) -> Iterator[str]:
    digest = hash_of(records)
    if summary.get("journal_hash") != digest:
        stored = shortened(summary.get("journal_hash"))
        yield f"summary.json: journal_hash is {stored}, but the journal hashes to {digest}"
    if summary.get("journal_rows", len(records)) != len(records):
        yield f"summary.json: journal_rows is {shortened(summary.get('journal_rows'))}, and the journal has {len(records)}"
    if not np.array_equal(records, records[sorting(records)]):
        yield "journal.parquet: its rows are not sorted"


def _program_flag(scenario: Scenario) -> str:
    return f"--program {shlex.quote(command_of(ProgramOptions.of(scenario).program or ''))}"


def _is_foreseen(plan: Plan) -> bool:
    """Return whether the nodes can be played here: by rules, or by a program that the user allows."""
    program = ProgramOptions.of(plan.scenario).program
    return not program or is_allowed(program)


def _replay(plan: Plan, records: np.ndarray, inputs: PredictionInputs | None) -> Replay | None:
    """Return the differences between the journal and a replay in memory; None if the journal is too long."""
    if len(records) > REPLAYED_ROWS or not _is_foreseen(plan):
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
    times = b""
    if timetable is not None:
        times = _times(read_table(path / "timeline.parquet", TIMELINE_SCHEMA, MOST_ROWS))
    altered = replayed.altered if replayed else ()
    results = None if plan.spec.numbers is None else _results(path, plan, verification, replayed is not None)
    return History(frame.lazy(), len(records), None, altered, timetable, [times], results)


def _results(path: Path, plan: Plan, verification: Verification, replayed: bool) -> "ResultArray | None":
    """Return the results of the run; findings if they are not what the algorithm makes in the replay."""
    assert plan.spec.numbers is not None
    array = read_file(path / "results.npy", annex_function("read results"))
    replays = plan.surviving(results_of(plan.algorithm) if replayed else ())
    expected: ResultArray = annex_function("gather results")(plan.algorithm, replays)
    if array.shape != expected.numbers.shape or array.dtype != expected.numbers.dtype:
        verification.findings.append(
            f"results.npy: an array of {array.dtype} of shape {array.shape}, expected {expected.numbers.dtype} of shape "
            f"{expected.numbers.shape}"
        )
        return None
    results = ResultArray(array, plan.spec.numbers.type)
    if not replayed:
        program = ProgramOptions.of(plan.scenario).program
        reason = "the run is too long to replay" if program is None else "it comes from a program"
        verification.unchecked.append(f"results.npy: {reason}")
    elif results.hash != expected.hash:
        verification.findings.append("results.npy: differs from what the algorithm does")
    return results


def _timetable(plan: Plan, records: np.ndarray, *, whole: bool) -> Timetable:
    costs = costs_of(plan.scenario)
    if plan.faults or plan.spec.has_control or (_is_foreseen(plan) and not whole):
        # Neither the time of a loss nor the missing packets follow from the journal alone.
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


def _check_tables(path: Path, run: Recomputed, verification: Verification) -> None:
    for name, expected in run.conclusion.measurement.tables.items():
        file = path / f"{name}.parquet"
        if run.open_votes and name in VOTED:
            continue
        if expected is None:
            if exists(file):
                verification.findings.append(f"{file.name}: the journal has no pieces to vote on")
            continue
        try:
            stored = read_table(file, dict(expected.schema), len(expected))
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


def _check_summary(run: Recomputed, verification: Verification) -> None:
    scenario, plan, conclusion, summary = run.scenario, run.plan, run.conclusion, run.summary
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
        **_host_traffic(run, verification),
    }  # fmt: skip
    if is_of_0_3_0(summary) and summary.get("cut_off") != expected["cut_off"]:
        verification.unchecked.append("summary.json: its version names other causes in cut_off")
        del expected["cut_off"]
    verification.unchecked += unknown_keys("summary.json", summary, {*Summary.__match_args__, *expected})
    if is_of_0_3_0(summary) and summary.get("dropped_claims") != expected.get("dropped_claims"):
        # Wordings and lower bounds have changed; a claim that is dropped decides nothing.
        verification.unchecked.append("summary.json: its version drops other claims")
        expected.pop("dropped_claims", None)
    for name, value in expected.items():
        if name not in summary and name in RUN_METRICS:
            continue  # the program that ran it had not registered that metric
        if name not in summary and name in ADDED and is_of_0_3_0(summary):
            verification.unchecked.append(f"summary.json: its version does not measure {name}")
        elif name not in summary:
            verification.findings.append(f"summary.json: {name} is missing")
        elif not (run.open_votes or _same(summary[name], value)):
            verification.findings.append(
                f"summary.json: {name} is {shortened(summary[name])}, and the journal says {shortened(value)}"
            )


def _host_traffic(run: Recomputed, verification: Verification) -> Mapping[str, int]:
    """Count the links and packets within hosts and across hosts again, for a run that states them."""
    plan, hosts = run.plan, run.summary.get("hosts")
    if not any(name in run.summary for name in HOST_TRAFFIC):
        return {}
    if not isinstance(hosts, int) or not 1 <= hosts <= plan.topology.order:
        verification.findings.append(f"summary.json: {shortened(hosts)} hosts for {plan.topology.order} nodes")
        return {}
    try:
        placement = place(run.scenario.placement, plan.topology, hosts)
    except ScenarioError as error:
        verification.findings.append(f"scenario.toml: {shortened(error)}")
        return {}
    return host_traffic(plan.topology, placement, run.conclusion.measurement.links)


def is_of_0_3_0(summary: Mapping[str, Any]) -> bool:
    """Return whether version 0.3.0 or an earlier one wrote a summary: they state no reason."""
    return "reason" not in summary


def left_open(summary: Mapping[str, Any], conclusion: Conclusion) -> bool:
    """Return whether a run of an earlier version is undecided because nothing was delivered, as theory predicts."""
    empty = is_of_0_3_0(summary) and str(summary.get("undecided_because")).startswith("nothing was delivered")
    return empty and conclusion.ruling.verdict is Verdict.HOLDS


def _check_claims(run: Recomputed, verification: Verification) -> None:
    """Check claims and verdict."""
    conclusion, summary = run.conclusion, run.summary
    stored = summary.get("claims")
    if not isinstance(stored, list) or not all(isinstance(claim, dict) for claim in stored):
        verification.findings.append("summary.json: malformed claims")
        return
    if run.open_votes:
        return
    earlier = is_of_0_3_0(summary)
    expected = {_key(judgement.record()): judgement.record() for judgement in conclusion.ruling.judgements}
    if left_open(summary, conclusion):
        # Its claims are compared, their verdicts are not.
        judged = {key: {"verdict": each["verdict"]} for key, each in expected.items()}
        stored = [claim | judged.get(_key(claim), {}) for claim in stored]
    for claim in stored:
        ours = expected.get(_key(claim))
        what = f"{shortened(claim.get('name'))} {shortened(claim.get('relation'))} {shortened(claim.get('predicted'))}"
        if ours is not None:
            if claim.get("verdict") != ours["verdict"] or not _same(claim.get("measured"), ours["measured"]):
                verification.findings.append(
                    f"summary.json: the claim {what} is {ours['verdict']}, measured {shortened(ours['measured'])}, and "
                    f"the summary says {shortened(claim.get('verdict'))}, measured {shortened(claim.get('measured'))}"
                )
        elif claim.get("name") != "replay_mismatches":
            if earlier and _holds_by_itself(claim, conclusion):
                verification.unchecked.append(f"summary.json: its version also claims {what}")
            else:
                verification.findings.append(f"summary.json: the algorithm does not claim {what} under these faults")
        elif (claim.get("measured"), claim.get("verdict")) != (0, "holds"):
            verification.findings.append("summary.json: a replay in memory had other hops")
    _check_missing(run, verification, stored, expected)


def _check_missing(
    run: Recomputed,
    verification: Verification,
    stored: Sequence[Mapping[str, Any]],
    expected: Mapping[str, Mapping[str, Any]],
) -> None:
    """Check that all claims are stored, and the verdict; earlier versions make other claims."""
    summary, earlier, stored_keys = run.summary, is_of_0_3_0(run.summary), set(map(_key, stored))
    for missing in (claim for key, claim in expected.items() if key not in stored_keys):
        what = f"{missing['name']} {missing['relation']} {missing['predicted']}"
        # Versions since have added claims; a violated one would have been reported by any version.
        if earlier and missing["verdict"] != Verdict.VIOLATED:
            verification.unchecked.append(f"summary.json: its version does not claim {what}")
        else:
            verification.findings.append(f"summary.json: the claim {what} is missing")
    verdicts = {str(claim.get("verdict")) for claim in stored}
    if earlier and stored_keys != expected.keys() and Verdict.VIOLATED not in verdicts | {str(summary.get("verdict"))}:
        verification.unchecked.append("summary.json: its verdict follows from the claims of its version")
        return
    _check_verdict(run, verification)


def _holds_by_itself(claim: Mapping[str, Any], conclusion: Conclusion) -> bool:
    """Return whether a claim of 0.3.0 names a metric of this run, with its value and the verdict that follows."""
    name, predicted, relation, measured = (claim.get(key) for key in ("name", "predicted", "relation", "measured"))
    if not isinstance(name, str) or name not in conclusion.metrics or not _same(measured, conclusion.metrics[name]):
        return False
    if isinstance(predicted, bool) or not isinstance(predicted, int | float):
        return False
    try:
        (judgement,) = judge([Claim(name, predicted, relation, "")], conclusion.metrics, None)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return claim.get("verdict") == judgement.verdict


def _check_verdict(run: Recomputed, verification: Verification) -> None:
    """Check the verdict, and the reason of an undecided run; earlier runs have no reason."""
    summary, ruling = run.summary, run.conclusion.ruling
    if left_open(summary, run.conclusion):
        verification.unchecked.append("summary.json: its version leaves the verdict open if nothing was delivered")
        return
    expected: dict[str, str | None] = {"verdict": str(ruling.verdict)}
    if not is_of_0_3_0(summary):
        expected |= {"reason": ruling.reason and str(ruling.reason), "undecided_because": ruling.undecided}
    for name, value in expected.items():
        if summary.get(name) != value:
            verification.findings.append(
                f"summary.json: {name} is {shortened(summary.get(name))}, and the claims say {value}"
            )


def _key(claim: Mapping[str, Any]) -> str:
    """Return the identity of a claim; the wording of its source may change."""
    return json.dumps([claim.get("name"), claim.get("relation"), claim.get("predicted")], default=str)


def _same(stored: object, expected: object) -> bool:
    if isinstance(expected, float) and isinstance(stored, int | float):
        # A whole number in JSON may be too large for a float.
        return abs(stored) < LARGEST_NUMBER and isclose(stored, expected, rel_tol=1e-9, abs_tol=1e-9)
    plain: object = json.loads(json.dumps(expected))
    return type(stored) is type(plain) and stored == plain
