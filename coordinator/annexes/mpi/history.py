"""Judged calls and measured traffic as run directories for reports, comparisons, exports and `verify`."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

from coordinator.annexes.mpi.judge import MOST_RANKS
from coordinator.annexes.mpi.rules.base import (
    ELEMENT_BYTES,
    MPI_ALGORITHMS,
    MpiCall,
    PairCount,
    PairCounts,
    RefusedCall,
    known_names,
)
from coordinator.annexes.mpi.verdicts import OWN_CHOICE, CallVerdict, pair_rows
from coordinator.execution.stored_pages import check_rest
from coordinator.execution.verification import UnreadableError, Verification, errors_as_findings, links_in
from coordinator.history.foreign import (
    FOREIGN,
    FOREIGN_FILE,
    NOT_MEASURED,
    ForeignOrigin,
    MeasuredCall,
    read_foreign_links,
    read_origin,
)
from coordinator.history.run_directory import RunDirectory
from coordinator.history.stored.version import VERSION_KEY
from coordinator.history.stored_run import read_summary
from coordinator.reports.run_report import write_report
from coordinator.results.claims import Verdict
from emunode import __version__

SCHEMA: Final = {
    "sender": pl.Int32, "port": pl.Int32, "receiver": pl.Int32, "packets": pl.Int64, "bytes": pl.Int64,
}  # fmt: skip


def network_name(ranks: int) -> str:
    """Return the network with a link between every two of the ranks."""
    return "hypercube:1" if ranks == 2 else f"complete:{ranks}"


def links_of(counts: PairCounts, ranks: int) -> pl.DataFrame:
    """Return the table of links on the complete network, whose port p leads to the rank p + 1 behind."""
    rows = [
        (source, (target - source) % ranks - 1, target, *count) for (source, target), count in sorted(counts.items())
    ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def save_call(verdict: CallVerdict, origin: str, out: Path | None, table: Iterable[str] = ()) -> Path:
    """Write the history of a judged call with measured messages, and return its folder; `table` is CSV."""
    assert verdict.counts is not None
    call = verdict.call
    more = {
        "call": {
            "collective": call.collective,
            "algorithm": verdict.algorithm,
            "ranks": call.ranks,
            "root": call.root,
            "elements": call.elements,
            "segment": call.segment,
        },
        "rule": None if verdict.expected is None else pair_rows(verdict.expected),
        "parts": [pair_rows(part) for part in verdict.parts],
        "wrong_result": verdict.wrong_result,
    }
    source = _source(call.collective, verdict.algorithm)
    summary = {
        "collective": call.collective,
        "algorithm": verdict.algorithm,
        "source": str(call.root),
        "message_bytes": call.elements * ELEMENT_BYTES,
        "verdict": str(verdict.verdict),
        "undecided_because": verdict.reason if verdict.verdict is Verdict.UNDECIDED else None,
        "claims": claims_of(verdict.counts, verdict.expected, source, verdict.wrong_result),
    }
    name = f"mpi-{call.collective}-{verdict.algorithm}-{call.ranks}".replace("_", "-")
    return save_history(name, call.ranks, verdict.counts, summary, {"origin": origin, **more}, out, table)


def save_history(
    name: str,
    ranks: int,
    counts: PairCounts,
    summary: Mapping[str, Any],
    origin: Mapping[str, Any],
    out: Path | None,
    table: Iterable[str] = (),
) -> Path:
    """Write a run directory of measured traffic, with a table in CSV; ScenarioError if the folder cannot be made."""
    directory = RunDirectory(name, 0, out)
    links = links_of(counts, ranks)
    try:
        directory.make()
        links.write_parquet(directory.path / "links.parquet")
        if text := "".join(table):
            directory.write_text("traffic.csv", text)
        directory.write_json(FOREIGN_FILE, {**origin, "not_measured": list(NOT_MEASURED)})
        directory.write_json(
            "summary.json",
            {
                VERSION_KEY: __version__,
                "topology": network_name(ranks),
                "order": ranks,
                "driver": FOREIGN,
                **totals_of(links),
                **{key: value for key, value in summary.items() if value is not None},
            },
        )
        write_report(directory.path, name=directory.final.name)
        directory.finish()
    finally:
        directory.discard()
    return directory.final


def totals_of(links: pl.DataFrame) -> dict[str, int]:
    """Return the measured totals of a table of links."""
    packets, sizes = (int(links[name].sum()) for name in ("packets", "bytes"))
    return {"packets": packets, "bytes": sizes, "links_used": len(links)}


def _source(collective: object, algorithm: object) -> str:
    return f"rule of {collective} {algorithm} of Open MPI 5"


def claims_of(
    counts: PairCounts, expected: PairCounts | None, source: str, wrong_result: str
) -> list[dict[str, object]]:
    """Return the claims of a rule and of arithmetic with measurements; none without a rule."""
    if expected is None:
        return []

    def claim(name: str, predicted: int, measured: int, source: str) -> dict[str, object]:
        verdict = Verdict.HOLDS if predicted == measured else Verdict.VIOLATED
        return {
            "name": name, "predicted": predicted, "measured": measured, "relation": "==", "verdict": str(verdict),
            "source": source, "ratio": None, "derived": False,
        }  # fmt: skip

    differing = sum(counts.get(pair) != expected.get(pair) for pair in {*counts, *expected})
    sums = [[sum(each[at] for each in table.values()) for at in (0, 1)] for table in (expected, counts)]
    return [
        claim("packets", sums[0][0], sums[1][0], source),
        claim("bytes", sums[0][1], sums[1][1], source),
        claim("links_used", len(expected), len(counts), source),
        claim("differing_pairs", 0, differing, source),
        claim("wrong_results", 0, int(bool(wrong_result)), "results by arithmetic"),
    ]


# --- verification ----------------------------------------------------------------------------------------------------


def verify_history(path: Path) -> Verification:
    """Check a stored foreign history: totals, rule, claims and verdict are computed again from its table of pairs."""
    verification = Verification(path)
    verification.unchecked.append("the measurement itself: it was made elsewhere, and its results are not stored")
    with errors_as_findings(verification):
        try:
            _verify(path, verification)
            check_rest(path, {"summary.json", "links.parquet", "traffic.csv", FOREIGN_FILE}, verification)
        except ValueError as error:
            raise UnreadableError(str(error)[:200]) from None
    return verification


def _verify(path: Path, verification: Verification) -> None:
    findings = verification.findings
    findings += [f"{name}: it is a symbolic link" for name in links_in(path)]
    summary, origin, links = read_summary(path), read_origin(path), read_foreign_links(path)
    ranks = summary.get("order")
    if not isinstance(ranks, int) or ranks < 2 or summary.get("topology") != network_name(ranks):
        findings.append("summary.json: no complete network of at least two ranks")
        return
    counts = {(row[0], row[2]): PairCount(row[3], row[4]) for row in links.select(*SCHEMA).iter_rows()}
    if not links_of(counts, ranks).equals(links.select(*SCHEMA)):
        findings.append("links.parquet: repeated pairs, wrong ports or another order")
    for name, value in totals_of(links).items():
        if summary.get(name) != value:
            findings.append(f"summary.json: {name} is {summary.get(name)}, by links.parquet {value}")
    rule = _rule_of(origin, ranks, findings)
    source = _source(origin.call.collective, origin.call.algorithm) if origin.call else ""
    claims = claims_of(counts, rule, source, origin.wrong_result)
    if summary.get("claims", []) != claims:
        findings.append("summary.json: its claims differ from the rule and links.parquet")
    expected = _verdict_of(claims, origin, counts, ranks)
    # Without claims a call may be undecided for a reason that no table shows.
    if summary.get("verdict") not in ((expected,) if claims else (expected, Verdict.UNDECIDED)):
        findings.append(f"summary.json: verdict {summary.get('verdict')}, by its claims {expected}")


def _verdict_of(
    claims: Sequence[Mapping[str, object]], origin: ForeignOrigin, counts: PairCounts, ranks: int
) -> Verdict:
    """Return the verdict of claims; without any, the verdict on the library's own choice, or undecided."""
    if claims:
        return Verdict.VIOLATED if any(claim["verdict"] == Verdict.VIOLATED for claim in claims) else Verdict.HOLDS
    if origin.wrong_result:
        return Verdict.VIOLATED
    call = origin.call
    if call is None or call.algorithm != OWN_CHOICE or not _are_sizes(call, ranks) or ranks > MOST_RANKS:
        return Verdict.UNDECIDED
    return Verdict.HOLDS if known_names(_call_of(call), counts) else Verdict.UNDECIDED


def _call_of(call: MeasuredCall) -> MpiCall:
    return MpiCall(call.collective, call.ranks, call.root, call.elements, call.segment)


def _rule_of(origin: ForeignOrigin, ranks: int, findings: list[str]) -> PairCounts | None:
    """Return the traffic that the rule states; stored traffic that differs from the rule is a finding."""
    if origin.rule is None:
        return None
    call = origin.call
    algorithm = MPI_ALGORITHMS.get((call.collective, call.algorithm)) if call else None
    if call is None or algorithm is None or not _are_sizes(call, ranks):
        findings.append(f"{FOREIGN_FILE}: no call of a known algorithm")
        return None
    parts = [_counts(rows) for rows in origin.parts]
    try:
        expected = algorithm.counts(_call_of(call), parts)
    except RefusedCall:
        expected = {}
    if pair_rows(expected) != [list(row) for row in origin.rule]:
        findings.append(
            f"{FOREIGN_FILE}: the stored rule differs from the rule of {algorithm.collective} {algorithm.name}"
        )
    return expected


def _are_sizes(call: MeasuredCall, ranks: int) -> bool:
    """Return whether the numbers of a stored call are small enough to compute its rule."""
    fit = call.root < ranks == call.ranks <= 4096 and max(call.elements, call.segment) <= 2**26
    # A segment of a few bytes of a long vector would be millions of messages.
    return fit and (not call.segment or call.elements * ELEMENT_BYTES // max(4, call.segment) <= 1_000_000)


def _counts(rows: Sequence[Sequence[int]]) -> PairCounts:
    return {(row[0], row[1]): PairCount(row[2], row[3]) for row in rows}
