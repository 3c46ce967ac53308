"""`coordinator judge`: what other software sent, held against rules."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter
from rich.markup import escape

from coordinator.annexes.mpi.api import save_calls
from coordinator.annexes.mpi.judge import MOST_RANKS, ROOTED, JudgeSettings, MpiJudgement, judge
from coordinator.annexes.mpi.library import dropped_settings
from coordinator.annexes.mpi.orders import OrderVerdict
from coordinator.annexes.mpi.program_run import measure_program
from coordinator.annexes.mpi.relations import relation_of
from coordinator.annexes.mpi.rules.base import ELEMENT_BYTES
from coordinator.annexes.mpi.traffic import summary_rows
from coordinator.annexes.mpi.traffic_command import (
    CALLS,
    TrafficOutput,
    collectives_of,
    cost_on,
    names_of,
    save_traffic,
    show_placed,
    show_traffic,
)
from coordinator.annexes.mpi.verdicts import OWN_CHOICE, CallVerdict, Ruled, count_verdicts
from coordinator.api.console import on_stderr
from coordinator.cli import render
from coordinator.cli.given import seconds_from
from coordinator.cli.output import PluginCommand, as_command
from emunode.errors import ScenarioError
from emunode.terminal import plural, print_json, say
from emunode.topologies.base import Topology

PROGRAM = Group("Traffic of a program", sort_key=2)
LIBRARY = Group("Library", sort_key=4)
DEFAULT_RANKS = "5,8"
NUMBERS = re.compile(r"(\d{1,9})(?:(?:\.\.|-)(\d{1,9}))?", re.ASCII)


@as_command
@dataclass(kw_only=True)
class MpiCommand(TrafficOutput, PluginCommand):
    """Judge the collectives of the MPI library on this machine: who sent how much to whom.

    The library runs here, by mpirun, with its messages counted. Pairs, messages and bytes of each call are compared with
    the rule of the algorithm, and the results with arithmetic. A fallback or a refusal that the rule states counts as
    holds. Needs the extra `mpi`, or --mpirun.

    Examples:
      coordinator judge mpi --collective allreduce --algorithm ring --ranks 2..12
      coordinator judge mpi --collective all --ranks 5,8 --bytes 8,1000
    """

    collective: Annotated[
        str,
        Parameter(group=CALLS, help="collectives, separated by commas, such as allreduce; all: every one with rules"),
    ] = "allreduce"
    algorithm: Annotated[
        str, Parameter(group=CALLS, help="names or numbers of the library, separated by commas; auto: its own choice")
    ] = "all"
    ranks: Annotated[str, Parameter(group=CALLS, help=f"numbers of ranks up to {MOST_RANKS}, such as 5,8 or 2..12")] = (
        DEFAULT_RANKS
    )
    bytes: Annotated[
        str,
        Parameter(
            group=CALLS,
            help="sizes, separated by commas: of the vector (bcast, reduce, allreduce, reduce-scatter), else of a block",
        ),
    ] = "1000"
    root: Annotated[str, Parameter(group=CALLS, help="ranks where rooted collectives begin or end")] = "0"
    segment: Annotated[str, Parameter(group=CALLS, help="segment sizes in bytes; 0: none")] = "0"
    order: Annotated[
        bool,
        Parameter(
            group=CALLS,
            help="also judge the order of operations: the same bits on all ranks, and rank order of operations that do not "
            "commute",
        ),
    ] = False
    program: Annotated[
        str | None,
        Parameter(
            group=PROGRAM,
            help="run this MPI program in place of calls, such as 'python train.py', and show its traffic",
        ),
    ] = None
    mpirun: Annotated[
        Path | None,
        Parameter(group=LIBRARY, help="the mpirun of another Open MPI or MPICH; default: beside this Python"),
    ] = None
    open_ports: Annotated[
        bool,
        Parameter(
            group=LIBRARY,
            help="where no network namespace is allowed, run in the network of this machine, where mpirun listens on all "
            "addresses",
        ),
    ] = False
    time_limit: Annotated[
        str,
        Parameter(
            group=LIBRARY,
            help="time without progress before a start of the library is ended; of --program, its whole time",
        ),
    ] = "60s"

    def __call__(self) -> int:
        network = self.network()
        if self.program is not None:
            return self._show_program(self.program, network)
        settings = JudgeSettings(
            collectives=collectives_of(self.collective),
            algorithms=[] if self.algorithm == "all" else names_of("algorithm", self.algorithm),
            ranks=_numbers("ranks", self.ranks),
            sizes=_numbers("bytes", self.bytes),
            roots=_numbers("root", self.root),
            segments=_numbers("segment", self.segment),
            order=self.order,
            mpirun=self.mpirun,
            open_ports=self.open_ports,
            time_limit=seconds_from("time-limit", self.time_limit),
        )
        with on_stderr("judge", "nothing is kept; the same command begins again") as progress:
            judgement = judge(settings, lambda done, total: progress("numbers of ranks", done, total))
        placed = [] if network is None else _placed(judgement.verdicts, network, self.placement)
        saved = [] if self.out is None else save_calls(judgement, self.out)
        if self.json:
            print_json({**judgement.record(), "placed": placed, "runs": [str(path) for path in saved]})
        else:
            _show(judgement, placed, saved)
        return judgement.exit_status

    def _show_program(self, program: str, network: Topology | None) -> int:
        """Print the traffic of a program. Nothing is judged; without traffic the status is 3."""
        numbers = _numbers("ranks", self.ranks)[: 1 if self.ranks == DEFAULT_RANKS else None]
        if len(numbers) != 1:
            raise ScenarioError("ranks", self.ranks, "one number of ranks for --program")
        found = measure_program(
            program,
            numbers[0],
            self.mpirun,
            open_ports=self.open_ports,
            time_limit=seconds_from("time-limit", self.time_limit),
            echo=lambda text: say(text, err=True, end="", flush=True),
        )
        _say_dropped(dropped_settings())
        table = found.table
        if table is None:
            if self.json:
                print_json({"program": found.program, "verdict": "undecided", "reason": found.reason})
            else:
                say(f"undecided: {found.reason}")
            return 3
        placed = self.placed(network, table)
        origin = f"the program {found.program!r}, by pml_monitoring"
        saved = None if self.out is None else save_traffic(table, origin, None, self.out)
        if self.json:
            rows = list(summary_rows(table))
            print_json({"program": found.program, "ranks": table.ranks, "traffic": rows, "placed": placed})
        else:
            show_traffic(table, placed, saved)
        return 0


def _say_dropped(settings: Sequence[str]) -> None:
    if settings:
        say(f"note: settings of the environment do not reach the library: {', '.join(settings)}", err=True)


def _placed(verdicts: Sequence[CallVerdict], network: Topology, placement: str) -> list[Mapping[str, object]]:
    """Return the cost of each measured call on a network."""
    return [
        {
            "collective": each.call.collective,
            "algorithm": each.algorithm,
            "ranks": each.call.ranks,
            **cost_on(network, each.call.ranks, each.counts, placement),
        }
        for each in verdicts
        if each.counts is not None
    ]


def _numbers(field: str, text: str) -> list[int]:
    """Return the numbers of a text such as `5,8..10`, without repetition."""
    found: dict[int, None] = {}
    for part in text.split(","):
        match = NUMBERS.fullmatch(part.strip())
        if match is None:
            raise ScenarioError(field, text, "whole numbers and ranges, separated by commas, such as 5,8..12")
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last <= first + 1000:
            raise ScenarioError(field, text, "a range begins with its smallest number, and has at most 1000")
        found |= dict.fromkeys(range(first, last + 1))
    return list(found)


def _show(judgement: MpiJudgement, placed: Sequence[Mapping[str, object]], saved: Sequence[Path]) -> None:
    """Print one line for each call, what the verdicts do not cover, and the verdict on all."""
    out = render.console()
    place = "in a network namespace of its own" if judgement.network == "own" else "with open ports"
    say(f"{judgement.library_name}, {place}")
    _say_dropped(judgement.dropped)
    if judgement.network != "own":
        say("warning: mpirun listened on all addresses of this machine", err=True)
    notes: dict[str, int] = {}
    tables: dict[str, list[CallVerdict]] = {}
    for each in judgement.verdicts:
        tables.setdefault(_title(each), []).append(each)
    for title, verdicts in tables.items():
        render.show_rows(title, [_row(each, notes) for each in verdicts])
    show_placed(placed)
    render.show_rows("order of operations", [_order_row(each, notes) for each in judgement.orders])
    for note, number in notes.items():
        out.print(escape(f"{number:>3}  {note}"), wrap=True)
    for line in _relations(judgement.verdicts):
        out.print(escape(line), wrap=True)
    for collective, names in judgement.unknown.items():
        out.print(escape(f"no rule, not judged: {collective} {', '.join(names)}"), wrap=True)
    for path in saved:
        say(f"saved: {path}")
    ruled: list[Ruled] = [*judgement.verdicts, *judgement.orders]
    counts = ", ".join(f"{verdict} {count}" for verdict, count in count_verdicts(ruled).items() if count)
    out.print(f"verdict: {render.verdict_text(judgement.verdict)}   ({counts})")


def _title(verdict: CallVerdict) -> str:
    """Return the parameters that all rows of a table share."""
    call = verdict.call
    parts = [call.collective]
    if call.collective != "barrier":
        parts.append(plural(call.elements * ELEMENT_BYTES, "byte"))
    if call.collective in ROOTED:
        parts.append(f"root {call.root}")
    if call.segment:
        parts.append(f"segments of {plural(call.segment, 'byte')}")
    return ", ".join(parts)


def _row(verdict: CallVerdict, notes: dict[str, int]) -> Mapping[str, object]:
    """Return the columns of a call; `notes` numbers the remarks: they are too long for a column."""
    texts = filter(
        None, [verdict.reason, f"ran {verdict.ran}" if verdict.algorithm == OWN_CHOICE and verdict.ran else ""]
    )
    numbers = [str(notes.setdefault(text, len(notes) + 1)) for text in texts]
    return {
        "algorithm": verdict.algorithm,
        "ranks": verdict.call.ranks,
        "verdict": verdict.verdict,
        "messages": verdict.messages,
        "bytes": verdict.bytes,
        "note": ", ".join(numbers),
    }


def _order_row(verdict: OrderVerdict, notes: dict[str, int]) -> Mapping[str, object]:
    """Return the columns of an order of operations; its trees are notes."""
    trees = list(verdict.trees)
    texts = [f"{name.replace('_', ' ')}: {reason}" for name, reason in verdict.reasons.items()]
    if len(trees) == 1:
        texts.append(f"all elements are reduced as {trees[0]}")
    elif trees:
        texts.append(f"elements are reduced in {len(trees)} orders, the first {trees[0]}, the last {trees[-1]}")
    return {
        "collective": verdict.collective,
        "algorithm": verdict.algorithm,
        "ranks": verdict.ranks,
        "same bits": verdict.same_bits,
        "rank order": verdict.rank_order,
        "note": ", ".join(str(notes.setdefault(text, len(notes) + 1)) for text in texts),
    }


def _relations(verdicts: Sequence[CallVerdict]) -> Iterator[str]:
    """Yield how the algorithms of this bench stand to the judged ones."""
    for collective, algorithm in dict.fromkeys((each.call.collective, each.algorithm) for each in verdicts):
        relation = relation_of(collective, algorithm)
        if relation:
            yield f"{collective} {algorithm} against this bench: {relation}"
