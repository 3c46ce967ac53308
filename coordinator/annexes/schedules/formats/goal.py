"""GOAL text, the schedules of LogGOPSim: sends, receipts and computations of every rank, and what requires what."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from coordinator.annexes.schedules.base import (
    MOST_OPERATIONS,
    MOST_RANKS,
    FileJudgement,
    RefusedScheduleError,
    ScheduleFormat,
    ScheduleSource,
    refuse_large_numbers,
)
from coordinator.annexes.schedules.message_file import UNJUDGED, MessageFile
from coordinator.annexes.schedules.message_run import ANY, RankOperation
from emunode.model import Rank
from emunode.registry import register

LABEL: Final = r"[A-Za-z][A-Za-z0-9_]*"
STATEMENT: Final = re.compile(
    rf"(?:(?P<label>{LABEL})\s*:\s*)?"
    r"(?:(?P<way>send|recv)\s+(?P<size>[0-9]{1,18})b\s+(?P<to>to|from)\s+(?P<peer>-?[0-9]{1,9})(?:\s+tag\s+(?P<tag>-?[0-9]{1,9}))?"
    r"|calc\s+(?P<time>[0-9]{1,18}))"
    r"(?:\s+(?:cpu|nic)\s+[0-9]{1,9}){0,2}",
    re.ASCII,
)
REQUIRES: Final = re.compile(rf"(?P<one>{LABEL})\s+(?P<how>requires|irequires)\s+(?P<other>{LABEL})", re.ASCII)
HEAD: Final = re.compile(r"num_ranks\s+([0-9]{1,9})", re.ASCII)
RANK: Final = re.compile(r"rank\s+([0-9]{1,9})\s*\{", re.ASCII)
COMMENT: Final = re.compile(r"/\*|//")
MOST_LINES: Final = 8 * MOST_OPERATIONS


@register
class GoalFormat(ScheduleFormat):
    """The text that LogGOPSim and `coordinator export goal` write."""

    name = "goal"
    suffixes = (".goal",)

    def recognises(self, source: ScheduleSource) -> bool:
        start = source.data[:65536].decode("ascii", errors="replace")
        return HEAD.match(without_comments(start).lstrip()) is not None

    def read(self, source: ScheduleSource) -> "GoalFile":
        try:
            text = source.data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise RefusedScheduleError(f"it is no text: byte {error.start} is not UTF-8") from None
        return GoalFile(text)


class GoalFile(MessageFile):
    """The operations of a GOAL text. It does not say what messages contain."""

    format = GoalFormat.name

    def __init__(self, text: str) -> None:
        # Before anything is made of the lines.
        if (count := text.count("\n")) > MOST_LINES:
            raise RefusedScheduleError(f"it has {count:,} lines; at most {MOST_LINES:,} are read")
        text = without_comments(text)
        lines = [(number, line) for number, line in enumerate(map(str.strip, text.split("\n")), 1) if line]
        head = HEAD.fullmatch(lines[0][1]) if lines else None
        if head is None:
            refuse_large_numbers("line 1", lines[0][1] if lines else "", HEAD)
            raise RefusedScheduleError("line 1: num_ranks expected")
        self.ranks = int(head[1])
        if not 2 <= self.ranks <= MOST_RANKS:
            raise RefusedScheduleError(f"line {lines[0][0]}: num_ranks is {self.ranks}; expected 2 to {MOST_RANKS}")
        blocks = dict(_blocks(lines[1:], self.ranks))
        if len(blocks) < self.ranks:
            absent = next(rank for rank in range(self.ranks) if rank not in blocks)
            raise RefusedScheduleError(
                f"rank {absent} is missing: num_ranks is {self.ranks}, {len(blocks)} ranks exist"
            )
        self.operations: list[RankOperation] = []
        self.wildcards = 0
        for rank in range(self.ranks):
            self._read_rank(rank, blocks[rank])
        self.require_sends()

    def _read_rank(self, rank: Rank, lines: Iterable[tuple[int, str]]) -> None:
        named: dict[str, int] = {}
        relations = []
        for number, line in lines:
            relation = REQUIRES.fullmatch(line)
            if relation is not None:
                relations.append((number, relation))
                continue
            found = STATEMENT.fullmatch(line)
            if found is None:
                refuse_large_numbers(f"line {number}", line, STATEMENT)
                raise RefusedScheduleError(f"line {number}: {line[:60]!r} is no statement of GOAL")
            label = found["label"] or ""
            if label:
                if label in named:
                    raise RefusedScheduleError(f"line {number}: rank {rank} has {label} already")
                named[label] = len(self.operations)
            self.operations.append(self._operation(rank, number, found, label))
            if len(self.operations) > MOST_OPERATIONS:
                raise RefusedScheduleError(f"it has more than {MOST_OPERATIONS:,} operations")
        for number, relation in relations:
            for label in (relation["one"], relation["other"]):
                if label not in named:
                    raise RefusedScheduleError(f"line {number}: rank {rank} has no {label}")
            one, other = named[relation["one"]], named[relation["other"]]
            waiting = self.operations[one]
            (waiting.after if relation["how"] == "requires" else waiting.after_start).append(other)

    def _operation(self, rank: Rank, line: int, found: re.Match[str], label: str) -> RankOperation:
        if found["way"] is None:
            return RankOperation(rank, "calc", line=line, name=label)
        way = found["way"]
        if (way, found["to"]) not in (("send", "to"), ("recv", "from")):
            raise RefusedScheduleError(f"line {line}: {way} {found['to']} is no statement of GOAL")
        peer, tag = int(found["peer"]), int(found["tag"] or 0)
        if way == "send" and min(peer, tag) < 0:
            raise RefusedScheduleError(f"line {line}: only a recv may take any rank or tag")
        if not ANY <= peer < self.ranks or tag < ANY:
            raise RefusedScheduleError(f"line {line}: peer {peer}, tag {tag}: there are ranks 0..{self.ranks - 1}")
        if peer == rank:
            raise RefusedScheduleError(f"line {line}: the peer of rank {rank} is itself")
        self.wildcards += ANY in (peer, tag)
        return RankOperation(
            rank, "send" if way == "send" else "recv", peer, tag, int(found["size"]), line=line, name=label
        )

    def judge(self, capacity: int | None = None) -> FileJudgement:
        run = self.execution(capacity)
        notes = [UNJUDGED]
        if self.wildcards:
            notes.append(f"{self.wildcards} receipts take any rank or tag: which message they take depends on time")
        found = self.counted(run, notes)
        unended = run.unended()
        if unended:
            first = self.operations[unended[0]]
            name = f"{first.name} " if first.name else ""
            found = found.violated(
                f"deadlock: rank {first.rank}, {name}({first.kind}, line {first.line}) "
                f"and {len(unended) - 1} more never end",
                first.line,
            )
        for sender, receiver, tag, count in run.unreceived():
            found = found.violated(f"rank {sender} to rank {receiver}, tag {tag}: {count} messages are never received")
        for number, message in sorted(run.received.items()):
            receipt = self.operations[number]
            if receipt.size != message.size:
                reason = f"{message.size} bytes of {message.sender} meet a receive of {receipt.size}"
                found = found.violated(f"rank {receipt.rank}: {reason}", receipt.line)
        return found


def without_comments(text: str) -> str:
    """Return a text without its comments (one of them may lack its end); line breaks inside them stay."""
    kept, place = [], 0
    # One step for each comment: a pattern for whole comments would search for the end of one without end again and again.
    while (begins := COMMENT.search(text, place)) is not None:
        block = begins[0] == "/*"
        ends = text.find("*/" if block else "\n", begins.end())
        after = len(text) if ends < 0 else ends + 2 * block
        kept += [text[place : begins.start()], "\n" * text.count("\n", begins.start(), after)]
        place = after
    return "".join([*kept, text[place:]])


def _blocks(lines: Sequence[tuple[int, str]], ranks: int) -> Iterator[tuple[Rank, Sequence[tuple[int, str]]]]:
    """Yield the statements of every rank, with their lines."""
    seen: dict[Rank, int] = {}
    inside: list[tuple[int, str]] | None = None
    rank = 0
    for number, line in lines:
        if inside is None:
            found = RANK.fullmatch(line)
            if found is None:
                refuse_large_numbers(f"line {number}", line, RANK)
                raise RefusedScheduleError(f"line {number}: rank NUMBER {{ expected, found {line[:40]!r}")
            rank = int(found[1])
            if rank >= ranks:
                raise RefusedScheduleError(f"line {number}: rank {rank} of {ranks}")
            if rank in seen:
                raise RefusedScheduleError(f"line {number}: rank {rank} stands in line {seen[rank]} already")
            seen[rank], inside = number, []
        elif line == "}":
            yield rank, inside
            inside = None
        else:
            inside.append((number, line))
    if inside is not None:
        raise RefusedScheduleError(f"the file ends inside rank {rank}")
