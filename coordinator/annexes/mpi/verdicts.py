"""Verdicts on calls of an MPI library: messages against the rule of the algorithm, results against arithmetic."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Protocol

from coordinator.annexes.mpi.arithmetic import digest_of, expected_results
from coordinator.annexes.mpi.records import CallReport, RankResult
from coordinator.annexes.mpi.relations import relation_of
from coordinator.annexes.mpi.rules.base import (
    CHECKED_RANKS,
    ELEMENT_BYTES,
    MPI_ALGORITHMS,
    MpiAlgorithm,
    MpiCall,
    PairCount,
    PairCounts,
    RefusedCall,
    known_names,
    same_counts,
)
from coordinator.results.claims import Verdict

NONE: Final = PairCount(0, 0)
OWN_CHOICE: Final = "auto"
"""Name for the library's own choice of algorithm, its number 0."""
REFUSED: Final = "refused"
"""Beginning of the error of a call that the library refused on all ranks."""


@dataclass(frozen=True)
class CallVerdict:
    """The verdict on one call. `ran` names the algorithm that the library ran, as far as the messages tell."""

    call: MpiCall
    algorithm: str
    verdict: Verdict
    ran: str = ""
    reason: str = ""
    counts: PairCounts | None = field(default=None, repr=False)
    expected: PairCounts | None = field(default=None, repr=False)
    parts: Sequence[PairCounts] = field(default=(), repr=False)
    """Measured messages of the calls that a composed algorithm makes; the expected ones contain them."""
    wrong_result: str = ""
    """The first result that differs from arithmetic; empty if all are right, or none was measured."""

    @property
    def messages(self) -> int | None:
        """Messages of all ranks; None if nothing was measured."""
        return None if self.counts is None else sum(count.messages for count in self.counts.values())

    @property
    def bytes(self) -> int | None:
        """Bytes of all messages; None if nothing was measured."""
        return None if self.counts is None else sum(count.bytes for count in self.counts.values())

    def record(self) -> dict[str, Any]:
        """Return plain values; pairs are rows of source, target, messages and bytes."""
        return {
            "collective": self.call.collective,
            "algorithm": self.algorithm,
            "ranks": self.call.ranks,
            "root": self.call.root,
            "vector_or_block_bytes": self.call.elements * ELEMENT_BYTES,
            "segment": self.call.segment,
            "verdict": str(self.verdict),
            "ran": self.ran,
            "reason": self.reason,
            "messages": self.messages,
            "bytes": self.bytes,
            "bench": relation_of(self.call.collective, self.algorithm),
            "pairs": None if self.counts is None else pair_rows(self.counts),
        }


def pair_rows(counts: PairCounts) -> list[list[int]]:
    """Return source, target, messages and bytes of each pair, sorted."""
    return [[*pair, *count] for pair, count in sorted(counts.items())]


def judge_call(  # noqa: PLR0911  # one return for each reason
    call: MpiCall,
    algorithm: MpiAlgorithm,
    measured: CallReport,
    own_choice: CallReport | None,
    parts: Sequence[CallReport | None],
    others: Mapping[str, CallReport] = MappingProxyType({}),
) -> CallVerdict:
    """Judge one call of a declared algorithm.

    Measured in the same run: `own_choice` is the same call with the library's own choice, `parts` are the calls that a
    composed algorithm makes, and `others` are the same call by other algorithms.
    """

    def found(verdict: Verdict, reason: str = "", ran: str = "", expected: PairCounts | None = None) -> CallVerdict:
        counts = None if measured.error else measured.counts
        made = [part.counts for part in parts if part is not None]
        return CallVerdict(call, algorithm.name, verdict, ran, reason, counts, expected, made, wrong)

    wrong = ""

    lacking = [part for part in parts if part is None or part.error]
    if lacking:
        return found(Verdict.UNDECIDED, "the calls that it is composed of were not measured")
    try:
        expected = algorithm.counts(call, [part.counts for part in parts if part is not None])
        ran = "nothing" if call.is_empty else algorithm.runs(call)
    except RefusedCall:
        if measured.error.startswith(REFUSED):
            return found(Verdict.HOLDS, f"refused, as the rule states for {call.ranks} ranks", "nothing")
        if measured.error:
            return found(Verdict.UNDECIDED, f"unexpectedly {measured.error}")
        return found(Verdict.VIOLATED, f"the rule states that {call.ranks} ranks are refused; it ran", expected={})
    if measured.error:
        return found(Verdict.UNDECIDED, f"unexpectedly {measured.error}")
    if wrong := wrong_result(call, measured.results):
        return found(Verdict.VIOLATED, wrong, ran, expected)
    difference = first_difference(measured.counts, expected)
    if difference:
        if own_choice is not None and own_choice.counts == measured.counts:
            # A wrong algorithm that is also the default is no other choice: that would be known, or made for all.
            chosen = ", ".join(known_names(call, measured.counts)) or _ignored(call, expected, measured.counts, others)
            if chosen:
                reason = f"the library made its own choice instead, {chosen}; {difference}"
                return found(Verdict.UNDECIDED, reason, chosen)
        return found(Verdict.VIOLATED, difference, expected=expected)
    return found(Verdict.HOLDS, remarks(call, algorithm, ran, expected), ran, expected)


def _ignored(call: MpiCall, expected: PairCounts, counts: PairCounts, others: Mapping[str, CallReport]) -> str:
    """Describe the choice of a library that sends the same for algorithms whose rules differ; empty if it does not."""
    for name, report in others.items():
        other = MPI_ALGORITHMS.get((call.collective, name))
        if other is None or other.parts is not None or report.error or report.counts != counts:
            continue
        with contextlib.suppress(RefusedCall):
            if other.counts(call) != expected:
                return f"no known algorithm, the same for {name}"
    return ""


def judge_counts(call: MpiCall, algorithm: MpiAlgorithm, counts: PairCounts) -> CallVerdict:
    """Judge messages that were measured elsewhere, without results."""
    if algorithm.parts is not None:
        reason = "it is composed of other collectives, which were not measured"
        return CallVerdict(call, algorithm.name, Verdict.UNDECIDED, "", reason, counts)
    try:
        expected, ran = algorithm.counts(call), algorithm.runs(call)
    except RefusedCall:
        reason = f"the rule states that {call.ranks} ranks are refused"
        return CallVerdict(call, algorithm.name, Verdict.VIOLATED, "", reason, counts, {})
    if difference := first_difference(counts, expected):
        return CallVerdict(call, algorithm.name, Verdict.VIOLATED, "", difference, counts, expected)
    reason = remarks(call, algorithm, ran, expected)
    return CallVerdict(call, algorithm.name, Verdict.HOLDS, ran, reason, counts, expected)


def judge_own_choice(call: MpiCall, measured: CallReport) -> CallVerdict:
    """Judge a call with the library's choice of algorithm: it holds if a known algorithm sends the same messages."""
    if measured.error:
        return CallVerdict(call, OWN_CHOICE, Verdict.UNDECIDED, "", f"unexpectedly {measured.error}")
    if wrong := wrong_result(call, measured.results):
        return CallVerdict(call, OWN_CHOICE, Verdict.VIOLATED, "", wrong, measured.counts, wrong_result=wrong)
    known = known_names(call, measured.counts)
    if not known:
        reason = "the messages are those of no known algorithm"
        return CallVerdict(call, OWN_CHOICE, Verdict.UNDECIDED, "", reason, measured.counts)
    return CallVerdict(call, OWN_CHOICE, Verdict.HOLDS, " or ".join(known), _size_remark(call), measured.counts)


def judge_without_rules(call: MpiCall, algorithm: str, measured: CallReport) -> CallVerdict:
    """Judge only the results of a library call, and name the rules that fit its messages.

    For calls whose algorithm has no rule here, or whose messages were not counted.
    """
    counts = measured.counts if measured.counted else None
    if measured.error:
        return CallVerdict(call, algorithm, Verdict.UNDECIDED, "", measured.error)
    if wrong := wrong_result(call, measured.results):
        return CallVerdict(call, algorithm, Verdict.VIOLATED, "", wrong, counts, wrong_result=wrong)
    if not measured.counted:
        return CallVerdict(call, algorithm, Verdict.UNDECIDED, "", "right results; this library counts no messages")
    if call.is_empty:
        sent = "messages" if measured.counts else "no message"
        reason = f"experimental: no rules for this library; right results, and {sent} in an empty call"
        return CallVerdict(call, algorithm, Verdict.UNDECIDED, "", reason, counts)
    names = " or ".join(same_counts(call, measured.counts)) or "no algorithm"
    reason = f"experimental: no rules for this library; right results, and the messages of {names} of Open MPI 5"
    return CallVerdict(call, algorithm, Verdict.UNDECIDED, "", reason, measured.counts)


def first_difference(measured: PairCounts, expected: PairCounts) -> str:
    """Describe the first pair whose messages or bytes differ, with both numbers; empty if none does."""
    for pair in sorted({*measured, *expected}):
        ours, rule = measured.get(pair, NONE), expected.get(pair, NONE)
        if ours != rule:
            return f"rank {pair[0]} to {pair[1]}: {_described(ours)}, by the rule {_described(rule)}"
    return ""


def _described(count: PairCount) -> str:
    messages = "1 message" if count.messages == 1 else f"{count.messages:,} messages"
    return f"{messages} of {count.bytes:,} bytes" if count.messages else "nothing"


def wrong_result(call: MpiCall, results: Sequence[RankResult | None]) -> str:
    """Describe the first rank whose result differs from arithmetic; empty if all are right."""
    for rank, (result, expected) in enumerate(zip(results, expected_results(call), strict=True)):
        if (result is None) != (expected is None):
            return f"rank {rank} has {'no' if result is None else 'a'} result, unlike arithmetic"
        if result is None or expected is None or result.digest == digest_of(expected):
            continue
        for index, value in enumerate(result.begin[: len(expected)]):
            if value != int(expected[index]):
                return f"result of rank {rank}: element {index} is {value}, by arithmetic {int(expected[index])}"
        return f"result of rank {rank} differs from arithmetic"
    return ""


def remarks(call: MpiCall, algorithm: MpiAlgorithm, ran: str, expected: PairCounts) -> str:
    """Return what a reader must know beside the verdict: fallbacks, equal tables, sizes that were never checked."""
    if call.is_empty:
        return "an empty call: no algorithm sends a message, so it decides nothing between them"
    found = [f"falls back to {ran}"] if ran != algorithm.name else []
    if algorithm.parts is None:
        others = [name for name in same_counts(call, expected) if name not in (algorithm.name, ran)]
        if others:
            found.append(f"same messages as {', '.join(others)}: decides nothing between them")
    return "; ".join([*found, *filter(None, [_size_remark(call)])])


def _size_remark(call: MpiCall) -> str:
    return "" if call.is_empty or call.ranks in CHECKED_RANKS else f"the rule was not checked at {call.ranks} ranks"


class Ruled(Protocol):
    """Anything with a verdict."""

    @property
    def verdict(self) -> Verdict:
        """The verdict on it."""


def overall(verdicts: Sequence[Ruled]) -> Verdict:
    """Return violated if any call is, else undecided if any is; without calls, undecided."""
    found = {each.verdict for each in verdicts}
    for verdict in (Verdict.VIOLATED, Verdict.UNDECIDED, Verdict.HOLDS):
        if verdict in found:
            return verdict
    return Verdict.UNDECIDED


def count_verdicts(verdicts: Sequence[Ruled]) -> Mapping[str, int]:
    """Return how often each verdict was given."""
    return {str(verdict): sum(each.verdict is verdict for each in verdicts) for verdict in Verdict}
