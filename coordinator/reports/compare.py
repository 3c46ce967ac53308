"""Runs side by side: how their scenarios differ, and their results."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from coordinator.annexes import annex_function
from coordinator.history.journal import Difference, first_difference
from coordinator.reports.charts import grouped_bars
from coordinator.reports.data import RunData
from coordinator.reports.numbers import show
from coordinator.reports.pictures import Picture, picture_of
from coordinator.results.explain import parting
from coordinator.results.reasons import why_undecided
from coordinator.scenario.schedule_text import is_text

NOT_METRICS = {
    "bits", "claims", "dropped_claims", "faults", "journal_hash", "results_hash", "source", "tree_digests", "unjudged",
}  # fmt: skip
PLOTTED = (
    "steps", "packets", "segments", "bytes", "max_link_segments", "delivery_ratio", "virtual_seconds", "wall_seconds",
)  # fmt: skip
UNCOMPARED = {"setup_seconds", "version", "wall_seconds"}
"""Metrics that two runs of one scenario may have in two ways."""


def compare_data(runs: Mapping[str, RunData]) -> dict[str, Any]:
    """Return `differs`, `metrics` and `predictions`: name -> one value per run; `claims`: name -> one verdict per run;
    `missing`: run -> notes.
    """
    data = list(runs.values())
    scenarios = [run.scenario for run in data]
    summaries = [
        {**{key: value for key, value in run.measured.items() if key not in NOT_METRICS}, **_model_seconds(run)}
        for run in data
    ]
    scenario_keys = list(dict.fromkeys(key for scenario in scenarios for key in scenario))
    keys = dict.fromkeys(key for summary in summaries for key in summary)
    hashes = {run.measured.get("journal_hash") for run in data}
    foreseen = [predictions_of(run) for run in data]
    return {
        "runs": list(runs),
        "same_history": len(hashes) == 1 and None not in hashes,
        "differs": _columns(scenarios, [key for key in scenario_keys if _differs(scenarios, key)]),
        "metrics": _columns(summaries, list(keys)),
        "predictions": _columns(foreseen, list(dict.fromkeys(key for each in foreseen for key in each))),
        "claims": _claims(data),
        "bits": _bits(data),
        "undecided": {
            name: because
            for name, run in runs.items()
            if (because := why_undecided(run.summary.get("reason"), run.summary.get("undecided_because")))
        },
        "missing": {name: run.notes for name, run in runs.items() if run.notes},
        **({"parting": found} if len(data) == 2 and (found := _parting(*data)) else {}),
    }


def journals_part(one: RunData, other: RunData) -> tuple[Difference | None, str | None]:
    """Return the first difference of the journals, or the reason why it is not known."""
    if one.journal is None or other.journal is None:
        return None, "The journals cannot be compared: one of them is missing or damaged."
    try:
        return first_difference(one.journal, other.journal), None
    except (OSError, pl.exceptions.PolarsError) as error:
        return None, f"The journals cannot be compared: {(str(error).splitlines() or ['damaged'])[0][:200]}"


def _parting(one: RunData, other: RunData) -> dict[str, object] | None:
    """Return the first row where the journals of two runs on one network part, and what its nodes knew there."""
    topology = one.topology
    if topology is None or other.topology is None or topology.name != other.topology.name or one.journal is None:
        return None
    difference, _ = journals_part(one, other)
    if difference is None:
        return None

    def label(rank: int) -> str:
        return topology.label(rank) if 0 <= rank < topology.order else str(rank)

    return {"row": difference.number, **parting((difference.one, difference.other), one.journal, label)}


def _bits(runs: Sequence[RunData]) -> dict[str, Any] | None:
    """Return where the results of two runs of real numbers begin to differ, and why; None for other runs."""
    if len(runs) != 2 or any(run.results is None for run in runs):
        return None
    one, other = (run.results for run in runs)
    algorithms = [None if run.plan is None else run.plan.algorithm for run in runs]
    assert one is not None
    assert other is not None
    compared: dict[str, Any] = annex_function("compare results")(one, other, *algorithms)
    return compared


def _model_seconds(run: RunData) -> dict[str, Any]:
    """Return the time by the cost model: achieved under the timed clock, otherwise virtual."""
    seconds = run.summary.get("achieved_seconds", run.summary.get("virtual_seconds"))
    return {} if seconds is None else {"model_seconds": seconds}


def _columns(records: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> dict[str, list[Any]]:
    return {key: [record.get(key) for record in records] for key in keys}


def _differs(records: Sequence[Mapping[str, Any]], key: str) -> bool:
    return any(record.get(key) != records[0].get(key) for record in records)


def _claims(runs: Sequence[RunData]) -> dict[str, list[str | None]]:
    """Return the verdict of each claim in each run. A claim is identified by metric, relation and source."""
    found = [{key: str(claim.get("verdict")) for key, claim in claims_of(run).items()} for run in runs]
    return {
        key: [verdicts.get(key) for verdicts in found] for key in dict.fromkeys(key for run in found for key in run)
    }


def claims_of(run: RunData) -> dict[str, dict[str, Any]]:
    """Return the claims of a run by metric, relation and source."""
    claims = run.summary.get("claims")
    return {
        f"{claim.get('name')} {claim.get('relation')} by {claim.get('source')}": claim
        for claim in (claims if isinstance(claims, list) else [])
        if isinstance(claim, dict)
    }


def as_rows(comparison: Mapping[str, Any]) -> list[dict[str, object]]:
    """Return one row per difference, metric and claim, one column per run; for two runs also the ratio of second to
    first.
    """
    rows: list[dict[str, object]] = []
    names: list[str] = comparison["runs"]
    for part, what in (("differs", "scenario"), ("metrics", "metric"), ("claims", "claim")):
        for key, values in comparison[part].items():
            row: dict[str, object] = {"about": what, "name": key, **dict(zip(names, values, strict=True))}
            if len(names) == 2:
                row["ratio"] = _ratio(*values) if part == "metrics" else None
            rows.append({name: _labels(value) for name, value in row.items()})
    return rows


def compared_rows(comparison: Mapping[str, Any]) -> list[dict[str, object]]:
    """Return the differences of the scenarios, and one row for each metric that differs, with what each run predicts."""
    names, metrics, foreseen = comparison["runs"], comparison["metrics"], comparison["predictions"]
    nothing = [None] * len(names)
    rows = [
        {key: _brief(value) for key, value in row.items()} for row in as_rows(comparison) if row["about"] == "scenario"
    ]
    for key in dict.fromkeys([*metrics, *foreseen]):
        values, expected = metrics.get(key, nothing), foreseen.get(key, nothing)
        if key in UNCOMPARED or not (_are_different(values) or _are_different(expected)):
            continue
        cells = [
            f"{shown(value)} (predicted {text})" if text else shown(value)
            for value, text in zip(values, expected, strict=True)
        ]
        row: dict[str, object] = {"about": "metric", "name": key, **dict(zip(names, cells, strict=True))}
        rows.append({**row, **({"ratio": _ratio(*values)} if len(names) == 2 else {})})
    return rows


def _brief(value: object) -> object:
    """Return a value of a scenario, and of the text of a file its length."""
    return f"a text of {len(value):,} characters" if isinstance(value, str) and is_text(value) else value


def shown(value: object) -> str:
    """Write a measured value with four digits. Of a list of records, such as unreachable nodes, the number is enough."""
    return (
        str(len(value)) if isinstance(value, list) and any(isinstance(each, dict) for each in value) else show(value, 4)
    )


def predictions_of(run: RunData) -> dict[str, str]:
    """Return what the claims of a run predict of each metric, in words, and their verdict where they do not hold."""
    claims: dict[str, list[dict[str, Any]]] = {}
    for claim in claims_of(run).values():
        claims.setdefault(str(claim.get("name")), []).append(claim)
    return {name: _prediction(each) for name, each in claims.items()}


def _prediction(claims: Sequence[Mapping[str, Any]]) -> str:
    """Return the exact prediction, or else the sharpest bounds."""
    texts = []
    for relation, sharpest in (("==", max), ("<=", min), (">=", max)):
        values = [claim.get("predicted") for claim in claims if claim.get("relation") == relation]
        numbers = [value for value in values if isinstance(value, int | float)]
        if values and (relation == "==" or "==" not in {claim.get("relation") for claim in claims}):
            text = show(sharpest(numbers) if len(numbers) == len(values) else values[0], 4)
            texts.append(text if relation == "==" else f"{relation} {text}")
    verdicts = [str(claim.get("verdict")) for claim in claims]
    failed = next((verdict for verdict in ("violated", "undecided") if verdict in verdicts), None)
    return ", ".join(texts) + (f": {failed}" if failed else "")


def _are_different(values: Sequence[object]) -> bool:
    return any(value != values[0] for value in values)


def _labels(value: object) -> object:
    """Return the labels of a list of nodes as text; any other value unchanged."""
    if isinstance(value, list) and value and all(isinstance(node, dict) and "label" in node for node in value):
        return ", ".join(str(node["label"]) for node in value)
    return value


def _ratio(one: object, other: object) -> float | None:
    numbers = isinstance(one, int | float) and isinstance(other, int | float)
    return other / one if numbers and one else None  # type: ignore[operator]


def compare_figure(runs: Mapping[str, RunData]) -> Picture:
    """Draw the main metrics as bars."""
    groups: dict[str, list[float | None]] = {}
    for key in PLOTTED:
        values = [run.summary.get(key) for run in runs.values()]
        if any(isinstance(value, int | float) for value in values):
            groups[key.replace("_", " ")] = [value if isinstance(value, int | float) else None for value in values]
    return picture_of(grouped_bars("Compared", groups, list(runs)))
