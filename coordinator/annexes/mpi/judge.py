"""The judge of an MPI library: the measured calls, the number of starts, and the verdict on each call."""

import json
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from coordinator.annexes.mpi.installed import find_library
from coordinator.annexes.mpi.launch import network_of, run_mpi
from coordinator.annexes.mpi.library import MpiLibrary, dropped_settings
from coordinator.annexes.mpi.orders import (
    MOST_PROBED_RANKS,
    OPERATIONS,
    REDUCTIONS,
    OrderVerdict,
    judge_order,
    order_call,
)
from coordinator.annexes.mpi.records import CallReport, JobReport, MalformedReport, read_job_report
from coordinator.annexes.mpi.rules.base import ELEMENT_BYTES, MPI_ALGORITHMS, MpiAlgorithm, MpiCall
from coordinator.annexes.mpi.verdicts import (
    OWN_CHOICE,
    CallVerdict,
    count_verdicts,
    judge_call,
    judge_own_choice,
    judge_without_rules,
    overall,
)
from coordinator.history.run_directory import temporary_folder
from coordinator.results.claims import EXIT_STATUS, Verdict
from emunode.errors import ScenarioError

PROGRAM: Final = Path(__file__).with_name("program.py")
MOST_RANKS: Final = 64
MOST_BYTES: Final = 16 << 20
"""The largest vector or block, in bytes."""
MOST_TOTAL: Final = 1 << 30
"""Most bytes of all buffers of one call."""
MOST_CALLS: Final = 20_000
ATTEMPTS: Final = 2
"""How often a start is tried that fails before any call."""
ROOTED: Final = frozenset({"bcast", "reduce", "gather", "scatter"})
SEGMENTED: Final = frozenset({"allreduce", "bcast", "reduce", "gather"})
WITHOUT_RULES: Final = ("allgatherv", "alltoallv", "scan", "exscan")
"""Collectives that are measured without a declared rule."""


class MeasuredKey(NamedTuple):
    """A call that is measured: an algorithm by its name in the library, None for the library's own choice."""

    algorithm: str | None
    call: MpiCall
    operation: str = "sum"


@dataclass(frozen=True)
class JudgeSettings:
    """Calls to judge. Sizes are bytes of a vector or a block; `algorithms` empty: all that are known of a collective."""

    collectives: Sequence[str]
    algorithms: Sequence[str] = ()
    ranks: Sequence[int] = (5, 8)
    sizes: Sequence[int] = (1000,)
    roots: Sequence[int] = (0,)
    segments: Sequence[int] = (0,)
    mpirun: Path | None = None
    order: bool = False
    """Whether the order of operations of reductions is judged too."""
    open_ports: bool = False
    time_limit: float = 60.0
    """Seconds without progress before a start of the library is ended."""


@dataclass
class MpiJudgement:
    """The verdicts on all calls, with the library that made them."""

    library: str = ""
    network: str = "own"
    verdicts: list[CallVerdict] = field(default_factory=list)
    orders: list[OrderVerdict] = field(default_factory=list)
    unknown: dict[str, list[str]] = field(default_factory=dict)
    """Algorithms that the library offers without a declared rule, by collective."""
    dropped: list[str] = field(default_factory=list)
    """Settings of the environment that did not reach the library."""

    @property
    def library_name(self) -> str:
        """Name and version of the library, without the details of its build."""
        return re.split(r", package| MPICH Release", self.library)[0] or "the library"

    @property
    def verdict(self) -> Verdict:
        """Violated if any call is, else undecided if any is."""
        return overall([*self.verdicts, *self.orders])

    @property
    def exit_status(self) -> int:
        """0 holds, 1 violated, 3 undecided."""
        return EXIT_STATUS[self.verdict]

    def record(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "library": self.library,
            "network": self.network,
            "verdict": str(self.verdict),
            "counts": count_verdicts(self.verdicts),
            "without_rule": self.unknown,
            "dropped_settings": self.dropped,
            "calls": [each.record() for each in self.verdicts],
            "orders": [each.record() for each in self.orders],
        }


def judged_collectives() -> list[str]:
    """Return the collectives that have rules, and those that are only measured."""
    return [*dict.fromkeys(collective for collective, _ in MPI_ALGORITHMS), *WITHOUT_RULES]


def require_possible(settings: JudgeSettings) -> None:
    """Check every value before anything is started; ScenarioError names the first that is not possible."""
    known = judged_collectives()
    for collective in settings.collectives:
        if collective not in known:
            raise ScenarioError("collective", collective, f"one of {', '.join(known)}")
    _require_numbers("ranks", settings.ranks, 2, MOST_PROBED_RANKS if settings.order else MOST_RANKS)
    _require_numbers("bytes", settings.sizes, 0, MOST_BYTES)
    _require_numbers("segment", settings.segments, 0, MOST_BYTES)
    _require_numbers("root", settings.roots, 0, min(settings.ranks) - 1)
    for size in settings.sizes:
        if size % ELEMENT_BYTES:
            raise ScenarioError("bytes", size, f"a multiple of {ELEMENT_BYTES}: elements are 32-bit integers")
    total = max(settings.ranks) ** 2 * max(settings.sizes)
    if total > MOST_TOTAL:
        raise ScenarioError(
            "bytes",
            max(settings.sizes),
            f"at most {MOST_TOTAL // max(settings.ranks) ** 2} for {max(settings.ranks)} ranks",
        )
    if settings.time_limit <= 0:
        raise ScenarioError("time-limit", settings.time_limit, "a time above 0")


def _require_numbers(name: str, values: Sequence[int], least: int, most: int) -> None:
    if not values:
        raise ScenarioError(name, None, "give at least one number")
    for value in values:
        if not least <= value <= most:
            raise ScenarioError(name, value, f"a whole number from {least} to {most}")


def _calls(settings: JudgeSettings, collective: str, ranks: int) -> Iterator[MpiCall]:
    """Yield the calls of a collective; options without effect on it do not multiply them."""
    if collective == "barrier":
        yield MpiCall("barrier", ranks)
        return
    for size in dict.fromkeys(settings.sizes):
        for root in dict.fromkeys(settings.roots) if collective in ROOTED else (0,):
            for segment in dict.fromkeys(settings.segments) if collective in SEGMENTED else (0,):
                yield MpiCall(collective, ranks, root, size // ELEMENT_BYTES, segment)


def _names(settings: JudgeSettings, collective: str, offered: Sequence[str] | None = None) -> list[str]:
    """Return the algorithms of a collective that are judged, by name; numbers are those of Open MPI 5.

    Unless the settings name some, those that have rules, or `offered` ones of a library without rules.
    """
    if offered is not None and not settings.algorithms:
        return [*offered, OWN_CHOICE]
    known = [each for (of, _), each in MPI_ALGORITHMS.items() if of == collective]
    known.sort(key=lambda each: each.number)
    if not settings.algorithms:
        return [*(each.name for each in known), OWN_CHOICE]
    numbers = {str(each.number): each.name for each in known} | {"0": OWN_CHOICE, "ignore": OWN_CHOICE}
    # The bench writes hyphens where the library has underscores, but for a few of its names.
    plain = {_folded(each.name): each.name for each in known}
    given = [numbers.get(name) or plain.get(_folded(name)) or name for name in settings.algorithms]
    elsewhere = {_folded(name) for of, name in MPI_ALGORITHMS if of in settings.collectives and of != collective}
    names = {each.name for each in known}
    # Of several collectives, an algorithm is judged in those that have it; one that none has stays undecided in all.
    return [name for name in dict.fromkeys(given) if name in names or _folded(name) not in elsewhere]


def _folded(name: str) -> str:
    return name.replace("-", "_")


def rule_of(settings: JudgeSettings) -> tuple[MpiCall, MpiAlgorithm]:
    """Return the one call that the settings describe, and its algorithm; ScenarioError if none is declared."""
    require_possible(settings)
    (collective,), (ranks,) = settings.collectives, settings.ranks
    call = next(_calls(settings, collective, ranks))
    (name,) = _names(settings, collective)
    algorithm = MPI_ALGORITHMS.get((collective, name))
    if algorithm is None:
        known = ", ".join(each for of, each in MPI_ALGORITHMS if of == collective)
        raise ScenarioError("algorithm", name, f"one of {known}" if known else f"{collective} has no rules")
    return call, algorithm


def judge(
    settings: JudgeSettings,
    progress: Callable[[int, int], object] = lambda _done, _total: None,
    program: Path = PROGRAM,
) -> MpiJudgement:
    """Measure and judge all calls. ScenarioError for impossible values, RunError if no library can be started here.

    `program` is the measuring program; tests give wrong ones.
    """
    require_possible(settings)
    library = find_library(settings.mpirun)
    judgement = MpiJudgement(network=network_of(settings.open_ports), dropped=dropped_settings())
    for number, ranks in enumerate(dict.fromkeys(settings.ranks)):
        progress(number, len(settings.ranks))
        measured = Measurements(library, judgement.network, settings.time_limit, program)
        calls = {each: list(_calls(settings, each, ranks)) for each in dict.fromkeys(settings.collectives)}
        if not library.has_rules and not settings.algorithms:
            # Its own choice runs first: the library tells what else it offers.
            measured.measure([_own_choice(call) for together in calls.values() for call in together])
        names = {
            each: _names(settings, each, None if library.has_rules else measured.names.get(each, ())) for each in calls
        }
        judged = list(
            dict.fromkeys(
                _own_choice(call) if name == OWN_CHOICE else MeasuredKey(name, call)
                for collective, together in calls.items()
                for call in together
                for name in names[collective]
            )
        )
        orders = list(_order_keys(names, ranks)) if settings.order else []
        needed = list(_needed(judged)) if library.has_rules else judged
        measured.measure([*needed, *(key for key, _ in orders)])
        judgement.library = judgement.library or measured.library
        judgement.verdicts += [_verdict(key, measured) for key in judged]
        judgement.orders += _order_verdicts(orders, measured)
        for collective, offered in measured.names.items() if library.has_rules else ():
            _note_unknown(judgement, collective, offered, settings)
    return judgement


def _note_unknown(judgement: MpiJudgement, collective: str, names: Sequence[str], settings: JudgeSettings) -> None:
    unknown = [name for name in names if name != "ignore" and (collective, name) not in MPI_ALGORITHMS]
    if collective in settings.collectives and unknown:
        judgement.unknown[collective] = unknown


def _needed(judged: Sequence[MeasuredKey]) -> Iterator[MeasuredKey]:
    """Yield the calls to measure: also the library's own choice, and the parts of composed algorithms."""
    for key in judged:
        yield _own_choice(key.call)
        for part in _parts(key):
            yield MeasuredKey(None, part)
        yield key


def _order_keys(names: Mapping[str, Sequence[str]], ranks: int) -> Iterator[tuple[MeasuredKey, str]]:
    """Yield the calls that measure the order of operations, each with the name of the judged algorithm."""
    for collective, judged in names.items():
        for name in judged if collective in REDUCTIONS else ():
            for operation in OPERATIONS:
                algorithm = None if name == OWN_CHOICE else name
                yield MeasuredKey(algorithm, order_call(collective, ranks, operation), operation), name


def _order_verdicts(orders: Sequence[tuple[MeasuredKey, str]], measured: "Measurements") -> Iterator[OrderVerdict]:
    reports: dict[tuple[str, str], dict[str, CallReport]] = {}
    for key, name in orders:
        found = reports.setdefault((key.call.collective, name), {})
        if key in measured.reports:
            found[key.operation] = measured.reports[key]
    for (collective, name), found in reports.items():
        yield judge_order(collective, name, orders[0][0].call.ranks, found)


def _own_choice(call: MpiCall) -> MeasuredKey:
    """Return the same call with the choice of the library; the library chooses the segment size too."""
    return MeasuredKey(None, replace(call, segment=0))


def _parts(key: MeasuredKey) -> Sequence[MpiCall]:
    algorithm = _algorithm(key)
    return () if algorithm is None or algorithm.parts is None else algorithm.parts(key.call)


def _algorithm(key: MeasuredKey) -> MpiAlgorithm | None:
    return MPI_ALGORITHMS.get((key.call.collective, key.algorithm or ""))


class Measurements:
    """Calls that were measured with one number of ranks, and the reasons for those that were not."""

    def __init__(self, library: MpiLibrary, network: str, silent_seconds: float, program: Path) -> None:
        self.library = ""
        self.names: Mapping[str, Sequence[str]] = {}
        self.reports: dict[MeasuredKey, CallReport] = {}
        self.reasons: dict[MeasuredKey, str] = {}
        self.has_rules = library.has_rules
        self._installed, self._network, self._silent, self._program = library, network, silent_seconds, program

    def measure(self, keys: Sequence[MeasuredKey]) -> None:
        """Measure all calls, in one start if the library can change its algorithm, else in one for each algorithm."""
        order = [key for key in dict.fromkeys(keys) if key not in self.reports and key not in self.reasons]
        if len(order) > MOST_CALLS:
            raise ScenarioError("calls", len(order), f"at most {MOST_CALLS:,} for one number of ranks")
        groups: dict[tuple[str, str | None] | None, list[MeasuredKey]] = {}
        for key in order:
            group = None if self._installed.has_rules else (key.call.collective, key.algorithm)
            groups.setdefault(group, []).append(key)
        for together in groups.values():
            self._measure_together(together)

    def _measure_together(self, order: Sequence[MeasuredKey]) -> None:
        """Measure calls in one start; a call that hangs or crashes is tried again alone, and then left out.

        The call at fault is the first that some rank did not complete: other ranks may have begun the next ones.
        """
        first, failures, alone = 0, 0, False
        while first < len(order):
            report, reason = self._start(order[: first + 1] if alone else order, first)
            self.library, self.names = self.library or report.library, {**self.names, **report.names}
            for number, call in report.calls.items():
                self.reports[order[number]] = call
            if not reason and not alone:
                return
            if not reason:
                first, failures, alone = first + 1, 0, False
                continue
            if report.begun is None or report.problem:
                failures += 1
                # The whole start failed: no call of it is to blame.
                if failures < ATTEMPTS and not report.problem:
                    continue
                self.reasons |= dict.fromkeys(order[first:], reason)
                return
            if alone:
                self.reasons[order[first]] = reason
                first += 1
            else:
                first = next(number for number in range(first, len(order)) if number not in report.calls)
            failures, alone = 0, not alone

    def _start(self, order: Sequence[MeasuredKey], first: int) -> tuple[JobReport, str]:
        """Start the library once, for all calls from `first` on; returns also why it did not come to the end."""
        ranks, nonce = order[0].call.ranks, secrets.token_hex(16)
        with temporary_folder() as folder:
            job = {"nonce": nonce, "ranks": ranks, "first": first, "calls": [_line(key) for key in order]}
            (folder / "job.json").write_text(json.dumps(job))
            self._installed.prepare(folder)
            choice = self._installed.choice(order[0].call.collective, order[0].algorithm)
            command = [str(self._installed.python), "-P", str(self._program), str(folder)]
            files = [folder / f"rank-{rank}.jsonl" for rank in range(ranks)]
            ended = run_mpi(
                self._installed,
                self._installed.command(ranks, folder, command, choice),
                folder,
                self._network,
                self._silent,
                lambda: sum(file.stat().st_size for file in files if file.exists()),
            )
            try:
                report = read_job_report(folder, ranks, nonce)
            except MalformedReport as error:
                return JobReport(problem=f"malformed report: {error}"), f"malformed report: {error}"
        if report.problem and report.begun is None and ended.status:
            return JobReport(library=report.library), _reason(ended.timed_out, ended.reason, self._silent)
        if report.problem:
            return report, report.problem
        if report.ended and not ended.status and not ended.timed_out:
            return report, ""
        if report.ended:  # all calls are complete; the end of the library itself failed
            return report, ""
        return report, _reason(ended.timed_out, ended.reason, self._silent)


def _reason(timed_out: bool, reason: str, silent_seconds: float) -> str:
    return f"no progress for {silent_seconds:g} s" if timed_out else reason


def _line(key: MeasuredKey) -> dict[str, object]:
    call = key.call
    return {
        "collective": call.collective,
        "algorithm": key.algorithm,
        "root": call.root,
        "elements": call.elements,
        "segment": call.segment,
        "operation": key.operation,
    }


def _verdict(key: MeasuredKey, measured: Measurements) -> CallVerdict:
    name, report = key.algorithm or OWN_CHOICE, measured.reports.get(key)
    known = measured.names.get(key.call.collective)
    if report is None:
        reason = measured.reasons.get(key, "not measured")
        return CallVerdict(key.call, name, Verdict.UNDECIDED, "", reason)
    if not measured.has_rules or not report.counted:
        return judge_without_rules(key.call, name, report)
    if key.algorithm is None:
        return judge_own_choice(key.call, report)
    if known is not None and key.algorithm not in known:
        offered = ", ".join(each for each in known if each != "ignore")
        reason = f"the library has no algorithm of that name; it has {offered}"
        return CallVerdict(key.call, name, Verdict.UNDECIDED, "", reason)
    algorithm = _algorithm(key)
    if algorithm is None:
        reason = report.error or "no rule is declared for it"
        return CallVerdict(key.call, name, Verdict.UNDECIDED, "", reason, None if report.error else report.counts)
    parts = [measured.reports.get(MeasuredKey(None, part)) for part in _parts(key)]
    others = {
        each.algorithm: found for each, found in measured.reports.items() if each.algorithm and each.call == key.call
    }
    return judge_call(key.call, algorithm, report, measured.reports.get(_own_choice(key.call)), parts, others)
