"""Judgements of MPI libraries as objects: verdicts as tables, and histories as runs."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import polars as pl

from coordinator.annexes.mpi.history import save_call
from coordinator.annexes.mpi.judge import JudgeSettings, MpiJudgement
from coordinator.annexes.mpi.judge import judge as judge_calls
from coordinator.annexes.mpi.verdicts import CallVerdict
from coordinator.api.forks import require_usable
from coordinator.api.progress import ProgressOption, progress_display
from coordinator.api.runs import Run
from coordinator.results.claims import Verdict
from emunode.errors import ScenarioError

CALLS = {
    "collective": pl.String, "algorithm": pl.String, "ranks": pl.Int64, "root": pl.Int64,
    "vector_or_block_bytes": pl.Int64, "segment": pl.Int64, "verdict": pl.String, "ran": pl.String,
    "reason": pl.String, "messages": pl.Int64, "bytes": pl.Int64, "bench": pl.String,
}  # fmt: skip
PAIRS = {
    "call": pl.Int64, "source": pl.Int64, "target": pl.Int64, "messages": pl.Int64, "bytes": pl.Int64,
}  # fmt: skip


class LibraryJudgement:
    """The verdicts on the calls of an MPI library. Rows of `pairs` name their call by its row in `calls`."""

    def __init__(self, judgement: MpiJudgement) -> None:
        self._judgement = judgement

    @property
    def library(self) -> str:
        """Name and version of the library, in its own words."""
        return self._judgement.library

    @property
    def verdict(self) -> Verdict:
        """Violated if any call or order of operations is, else undecided if any is."""
        return self._judgement.verdict

    @property
    def calls(self) -> pl.DataFrame:
        """One row per call: collective, algorithm, ranks, root, sizes in bytes, verdict, reason, messages, bytes."""
        return pl.DataFrame([each.record() for each in self._judgement.verdicts], schema=CALLS)

    @property
    def pairs(self) -> pl.DataFrame:
        """One row per call and pair of ranks with messages: call, source, target, messages, bytes."""
        rows = [
            (number, *row)
            for number, each in enumerate(self._judgement.verdicts)
            for row in each.record()["pairs"] or ()
        ]
        return pl.DataFrame(rows, schema=PAIRS, orient="row")

    @property
    def orders(self) -> pl.DataFrame:
        """One row per algorithm and number of ranks whose order of operations was judged."""
        rows = [
            {**each.record(), "trees": list(each.trees), "reasons": "; ".join(each.reasons.values())}
            for each in self._judgement.orders
        ]
        return pl.DataFrame(rows)

    def save(self, folder: Path | str) -> list[Run]:
        """Write a run directory for each measured call into a folder, or in its place if it is one call.

        Raises ScenarioError (field `out`) if a folder exists and is not empty, or cannot be made.
        """
        return [Run.read(path) for path in save_calls(self._judgement, Path(folder))]

    def __repr__(self) -> str:
        return f"<judgement of {len(self._judgement.verdicts)} calls of {self.library[:40]}: {self.verdict}>"


def save_calls(judgement: MpiJudgement, folder: Path) -> list[Path]:
    """Write the histories of all measured calls and return their folders; ScenarioError as `LibraryJudgement.save`."""
    measured = [each for each in judgement.verdicts if each.counts is not None]
    if not measured:
        raise ScenarioError("out", str(folder), "nothing was measured that could be stored")
    paths = [folder] if len(measured) == 1 else [folder / _folder(each) for each in measured]
    origin = f"{judgement.library_name}, whose messages were counted on this machine"
    return [save_call(each, origin, path) for each, path in zip(measured, paths, strict=True)]


def _folder(verdict: CallVerdict) -> str:
    """Return the name of the folder of a call; the name says how the call differs from others."""
    call = verdict.call
    parts = [call.collective, verdict.algorithm, call.ranks, call.elements * 4, f"r{call.root}", f"s{call.segment}"]
    return "-".join(map(str, parts)).replace("_", "-")


def judge(  # noqa: PLR0913  # its options
    collective: str | Sequence[str],
    algorithms: str | Sequence[str] = (),
    *,
    ranks: int | Sequence[int] = (5, 8),
    message_bytes: int | Sequence[int] = (1000,),
    roots: int | Sequence[int] = (0,),
    segments: int | Sequence[int] = (0,),
    order: bool = False,
    mpirun: Path | str | None = None,
    open_ports: bool = False,
    time_limit: float = 60.0,
    progress: ProgressOption = None,
) -> LibraryJudgement:
    """Judge the collectives of the MPI library of this machine: messages by rule, results by arithmetic.

    Without `algorithms`, all known ones and the library's own choice are judged. `order` also judges the order of
    operations of reductions. Raises ScenarioError for values that are not possible, and RunError if no library can be
    started here.

    >>> import coordinator as tb
    >>> tb.judge("broadcast")
    Traceback (most recent call last):
        ...
    emunode.errors.ScenarioError: invalid collective 'broadcast': one of allgather, allreduce, alltoall, barrier, bcast, ...
    """
    require_usable()
    settings = JudgeSettings(
        collectives=_as_list(collective),
        algorithms=_as_list(algorithms),
        ranks=_as_list(ranks),
        sizes=_as_list(message_bytes),
        roots=_as_list(roots),
        segments=_as_list(segments),
        order=order,
        mpirun=None if mpirun is None else Path(mpirun),
        open_ports=open_ports,
        time_limit=time_limit,
    )
    with progress_display(progress, "judge") as show:
        return LibraryJudgement(judge_calls(settings, partial(show, "numbers of ranks")))


Item = TypeVar("Item", str, int)


def _as_list(values: Item | Sequence[Item]) -> list[Item]:
    return list(values) if isinstance(values, Sequence) and not isinstance(values, str) else [values]
