"""Chakra execution traces: one file for each rank, NAME.0.et, NAME.1.et, .., a graph of sends, receipts and computations.

The public attributes say who sends how many bytes to whom, and what depends on what. They do not say what a message
contains, so contents are judged only where the nodes name their cells (`contents` is `cells-1`).
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import Final

from coordinator.annexes.schedules.base import (
    FileClaim,
    FileJudgement,
    FileVerdict,
    HopTimetable,
    RefusedScheduleError,
    ScheduleFile,
    ScheduleFormat,
    ScheduleSource,
    TimedOperation,
)
from coordinator.annexes.schedules.chakra_cells import CELLS, CellProgram
from coordinator.annexes.schedules.chakra_traces import (
    COLLECTIVE,
    COMP,
    RECEIVE,
    SEND,
    TYPES,
    RankTrace,
    TraceNode,
    read_traces,
)
from coordinator.annexes.schedules.chunk_file import ChunkFile
from coordinator.annexes.schedules.chunk_program import COLLECTIVES, SENDING
from coordinator.annexes.schedules.formats.msccl import msccl_file
from coordinator.annexes.schedules.message_file import UNJUDGED, MessageFile
from coordinator.annexes.schedules.message_run import GoalVerb, MessageExecution, RankOperation
from coordinator.annexes.schedules.outages import StalledRun, StepOutages
from emunode.model import Rank
from emunode.registry import register
from emunode.topologies.base import Topology

CHUNK_BYTES: Final = 64
"""Bytes of a chunk in a run, where the traces count messages in chunks."""


@register
class ChakraFormat(ScheduleFormat):
    """The traces of Chakra; any file of a set stands for all."""

    name = "chakra"
    suffixes = (".et",)

    def recognises(self, source: ScheduleSource) -> bool:
        return source.path.suffix.lower() == ".et"

    def read(self, source: ScheduleSource) -> ScheduleFile:
        return ChakraFile(read_traces(source.path), source.root)


class ChakraFile(MessageFile):
    """The traces of all ranks."""

    format = ChakraFormat.name
    word = "node"

    def __init__(self, traces: Sequence[RankTrace], root: Rank) -> None:
        self.traces = traces
        self.ranks = len(traces)
        self.operations: list[RankOperation] = []
        for trace in traces:
            self._read_trace(trace)
        self.require_sends()
        named = str(traces[0].metadata.get("collective", ""))
        self.collective = COLLECTIVES.get(named.replace("reduce_scatter", "reducescatter"), "")
        self.program: ChunkFile | None = None
        self._node_of: Mapping[tuple[Rank, int, int], int] = {}
        if traces[0].metadata.get("contents") == CELLS:
            cells = CellProgram(traces, self.collective, root)
            self.program, self._node_of = ChunkFile(self.format, cells.program), cells.node_of
        self.embedded = self._embedded(root)

    def _read_trace(self, trace: RankTrace) -> None:
        first = len(self.operations)
        # The order of nodes in a file means nothing.
        place = {number: first + at for at, number in enumerate(sorted(trace.nodes))}
        for number in sorted(trace.nodes):
            node = trace.nodes[number]
            for other in node.depends:
                if other not in place:
                    raise RefusedScheduleError(f"{node.name}: depends on node {other}, which does not exist")
            operation = self._operation(node)
            operation.after = [place[other] for other in node.depends]
            self.operations.append(operation)

    def _operation(self, node: TraceNode) -> RankOperation:
        if node.type == COMP:
            return RankOperation(node.rank, "calc", name=str(node.number))
        if node.type not in (SEND, RECEIVE):
            kind = TYPES[node.type] if node.type < len(TYPES) else str(node.type)
            reason = "names a collective, it is no schedule" if node.type == COLLECTIVE else "is not run"
            raise RefusedScheduleError(f"{node.name}: {kind}_NODE {reason}")
        own, other = ("comm_src", "comm_dst") if node.type == SEND else ("comm_dst", "comm_src")
        if own in node.attributes and node.whole(own) != node.rank:
            raise RefusedScheduleError(f"{node.name}: {own} is {node.whole(own)}, the file is of rank {node.rank}")
        peer = node.whole(other)
        if not 0 <= peer < len(self.traces):
            raise RefusedScheduleError(f"{node.name}: {other} is {peer}, there are ranks 0..{len(self.traces) - 1}")
        if peer == node.rank:
            raise RefusedScheduleError(f"{node.name}: its peer is itself")
        tag = node.whole("comm_tag") if "comm_tag" in node.attributes else 0
        named = next((name for name in ("comm_size", "msg_chunk_cnt") if name in node.attributes), None)
        if named is None:
            raise RefusedScheduleError(f"{node.name}: neither comm_size nor msg_chunk_cnt")
        if (size := node.whole(named)) <= 0 or tag < 0:
            wrong = f"{named} is {size}" if size <= 0 else f"comm_tag is {tag}"
            raise RefusedScheduleError(f"{node.name}: {wrong}")
        unit = 1 if named == "comm_size" else CHUNK_BYTES
        way: GoalVerb = "send" if node.type == SEND else "recv"
        return RankOperation(node.rank, way, peer, tag, size, unit, name=str(node.number))

    def require_network(self, topology: Topology) -> None:
        try:
            super().require_network(topology)
        except RefusedScheduleError as error:
            # The number of links is not part of the message of this format.
            raise RefusedScheduleError(re.sub(r"( sends), \d+ links\)", r"\1)", error.allowed)) from None

    # --- judgement

    def judge(self, capacity: int | None = None) -> FileJudgement:
        cycle = self._cycle()
        if cycle:
            return FileJudgement(FileVerdict.VIOLATED, cycle, ranks=len(self.traces))
        run = self.execution(capacity)
        found = replace(self.counted(run), claims=tuple(self._claims()))
        found = self._matched(run, found)
        if self.program is not None and found.verdict is FileVerdict.HOLDS:
            cells = self.program.judge(capacity)
            if nothing := self.program.read_of_nothing(capacity):
                # Where a node reads too early, that is named, and not the race that it comes from.
                cells = replace(cells, verdict=FileVerdict.VIOLATED, reason=nothing)
            if cells.verdict is not FileVerdict.HOLDS:
                return replace(found, verdict=cells.verdict, reason=self._renamed(cells.reason))
            found = replace(found, redundant=cells.redundant, reason=self._renamed(cells.reason))
        if self.embedded is not None:
            found = self._of_embedded(found, self.embedded, capacity)
        if self.program is None and found.verdict is FileVerdict.HOLDS:
            found = replace(found, reason=UNJUDGED)
        return found

    def _matched(self, run: MessageExecution, found: FileJudgement) -> FileJudgement:
        taken: Counter[tuple[Rank, Rank, int]] = Counter()
        for number, message in sorted(run.received.items()):
            key = message.sender, message.receiver, message.tag
            if (takes := self.operations[number].size) != message.size:
                reason = f"message {taken[key]} has {message.size}, its receiver takes {takes}"
                found = found.violated(f"{key[0]} to {key[1]}, tag {key[2]}: {reason}")
            taken[key] += 1
        unended = run.unended()
        if unended:
            waits = next((each for each in unended if self.operations[each].kind == "recv"), unended[0])
            first = self.operations[waits]
            number = taken[first.peer, first.rank, first.tag]
            found = found.violated(
                f"deadlock: {len(unended)} nodes do not complete; rank {first.rank}, node {first.name} waits for message "
                f"{number} from {first.peer} with tag {first.tag}"
            )
        for sender, receiver, tag, count in run.unreceived():
            found = found.violated(f"{sender} to {receiver}, tag {tag}: {count} messages are never received")
        return found

    def _claims(self) -> Iterator[FileClaim]:
        """Yield the numbers that the metadata states."""
        for name, total, measured in (
            ("num_ranks", max, self.ranks),
            ("num_nodes", sum, sum(len(trace.nodes) for trace in self.traces)),
        ):
            stated = [each for trace in self.traces if isinstance(each := trace.metadata.get(name), int)]
            if len(stated) == self.ranks:
                yield FileClaim(name, total(stated), measured)

    def _cycle(self) -> str:
        """Return the first cycle of dependencies inside a rank, in words; empty if there is no cycle."""
        for rank, trace in enumerate(self.traces):
            try:
                TopologicalSorter({number: node.depends for number, node in trace.nodes.items()}).prepare()
            except CycleError as error:
                nodes = sorted(set(error.args[1]))
                return f"deadlock: rank {rank}, nodes {nodes[:16]} wait for each other"
        return ""

    def _renamed(self, reason: str) -> str:
        """Return a reason about a program in the words of traces."""
        words = re.sub(
            r"gpu (\d+), tb (\d+), step (\d+)",
            lambda at: f"rank {at[1]}, node {self._node_of.get((int(at[1]), int(at[2]), int(at[3])), '?')}",
            reason,
        )
        return words.replace("gpu ", "rank ")

    # --- an MSCCL text in the metadata

    def _embedded(self, root: Rank) -> ChunkFile | None:
        text = self.traces[0].metadata.get("input_file")
        if not isinstance(text, str) or "<algo" not in text:
            return None
        return msccl_file(text.encode(), root)

    def _of_embedded(self, found: FileJudgement, embedded: ChunkFile, capacity: int | None) -> FileJudgement:
        theirs = Counter(
            (block.gpu, block.send, block.channel)
            for block in embedded.program.blocks
            for operation in block.operations
            if operation.type in SENDING
        )
        if theirs != Counter((each.rank, each.peer, each.tag) for each in self.operations if each.kind == "send"):
            return found.violated("the nodes are not those of input_file")
        judged = embedded.judge(capacity)
        return (
            found
            if judged.verdict is FileVerdict.HOLDS
            else found.violated(f"input_file: {judged.reason}", judged.line)
        )

    # --- runs

    def stalled(
        self, outages: StepOutages, faulty: Collection[Rank] = (), capacity: int | None = None
    ) -> StalledRun | None:
        program = self.program or self.embedded
        return None if program is None else program.stalled(outages, faulty, capacity)

    def timetable(self, capacity: int | None = None) -> HopTimetable:
        return super().timetable(capacity) if self.program is None else self.program.timetable(capacity)

    def operations_in_steps(self, capacity: int | None = None) -> Sequence[TimedOperation] | None:
        return super().operations_in_steps(capacity) if self.program is None else None
