"""MSCCL XML in both spellings: `step` with source and destination (RCCL, MSCCL), and `op` with one cell."""

from collections.abc import Iterator
from typing import Final

from coordinator.annexes.schedules.base import (
    MOST_OPERATIONS,
    MOST_RANKS,
    FileClaim,
    RefusedScheduleError,
    ScheduleFormat,
    ScheduleSource,
)
from coordinator.annexes.schedules.chunk_file import ChunkFile
from coordinator.annexes.schedules.chunk_program import (
    BUFFERS,
    COLLECTIVES,
    OPERATIONS,
    Cell,
    ChunkOperation,
    ChunkProgram,
    ProgramGpu,
    ThreadBlock,
)
from coordinator.annexes.schedules.xml_elements import XmlElement, begins_with, parse_xml
from emunode.registry import register

WANTED_BY_RCCL: Final = ("nchunksperloop", "nchannels", "proto", "minBytes", "maxBytes", "inplace", "outofplace")
"""Attributes of the whole program without which RCCL reads no file; those that this reader needs too are not listed."""
LIMITS: Final = {"thread blocks of a gpu": 64, "steps of a thread block": 64, "chunks of a step": 71}
"""The largest numbers that RCCL takes."""


@register
class MscclFormat(ScheduleFormat):
    """The XML that MSCCL, RCCL and TACCL read."""

    name = "msccl"
    suffixes = (".xml",)

    def recognises(self, source: ScheduleSource) -> bool:
        # Documents with another root are refused here too, by the name of the root, if no other format wants them.
        return begins_with(source.data, "algo")

    def read(self, source: ScheduleSource) -> ChunkFile:
        return msccl_file(source.data, source.root)


def msccl_file(data: bytes, root: int = 0) -> ChunkFile:
    """Return the program in the text of an MSCCL file. Raises RefusedScheduleError."""
    algo = parse_xml(data)
    if algo.tag != "algo":
        raise RefusedScheduleError(f"<algo> expected, found <{algo.tag:.40}>")
    program = _program(algo, root)
    program.require_sound()
    return ChunkFile(MscclFormat.name, program, tuple(_notes(algo, program)), tuple(_claims(algo, program)))


def _program(algo: XmlElement, root: int) -> ChunkProgram:
    named = algo.text("algo", "coll")
    if named not in COLLECTIVES:
        raise RefusedScheduleError(f"algo: collective {named!r:.40} is not known")
    count = algo.whole("algo", "ngpus", 2, MOST_RANKS)
    elements = list(algo.named("gpu"))
    numbers = [element.whole("gpu", "id") for element in elements]
    if sorted(numbers) != list(range(count)):
        shown = str(sorted(numbers)[:16])
        raise RefusedScheduleError(f"algo: {count} gpus are declared, the file has {shown}")
    gpus = [
        _gpu(element, number) for number, element in sorted(zip(numbers, elements, strict=True), key=lambda at: at[0])
    ]
    if "nchunksperloop" in algo.attributes:
        chunks = algo.whole("algo", "nchunksperloop", 1, MOST_OPERATIONS)
    else:
        chunks = max(max(gpu.cells["i"], gpu.cells["o"]) for gpu in gpus)
    if not 1 <= chunks <= MOST_OPERATIONS:
        raise RefusedScheduleError(f"algo: nchunksperloop={chunks}; expected 1 to {MOST_OPERATIONS}")
    in_place = "inplace" in algo.attributes and algo.whole("algo", "inplace") == 1
    return ChunkProgram(algo.attributes.get("name", ""), COLLECTIVES[named], in_place, chunks, gpus, root)


def _gpu(element: XmlElement, number: int) -> ProgramGpu:
    at = f"gpu {number}"
    cells = {buffer: element.whole(at, f"{buffer}_chunks", 0, MOST_OPERATIONS) for buffer in BUFFERS}
    copies = [
        (copy.whole(f"{at}, copy", "i_off"), copy.whole(f"{at}, copy", "o_off")) for copy in element.named("copy")
    ]
    gpu = ProgramGpu(number, cells, copies)
    for each in element.named("tb"):
        own, send, receive, channel = (each.whole(f"{at}, tb", name) for name in ("id", "send", "recv", "chan"))
        block = ThreadBlock(number, own, send, receive, channel, each.line)
        if any(block.number == other.number for other in gpu.blocks):
            raise RefusedScheduleError(f"{block.name}: two thread blocks have this number")
        for place, step in enumerate(each.named("step", "op")):
            block.operations.append(_operation(step, block.at(place), place))
        gpu.blocks.append(block)
    gpu.blocks.sort(key=lambda block: block.number)
    return gpu


def _operation(step: XmlElement, at: str, place: int) -> ChunkOperation:
    new = step.tag == "op"
    number = step.whole(at, "step" if new else "s")
    if number != place:
        raise RefusedScheduleError(f"{at}: its number is {number}")
    kind = step.text(at, "type")
    if kind not in OPERATIONS:
        raise RefusedScheduleError(f"{at}: type {kind!r:.40} is not known")
    attributes = step.attributes
    count = step.whole(at, "cnt") if not new or "cnt" in attributes else 1
    waits = None
    if not new or "depid" in attributes:
        other = step.whole(at, "depid")
        waits = (other, step.whole(at, "deps")) if other >= 0 else None
    if kind == "nop":
        return ChunkOperation(kind, ("i", 0), ("i", 0), 0, waits, step.line)
    if count < 1:
        raise RefusedScheduleError(f"{at}: cnt={count}; expected 1 or more")
    if new and kind in ("cpy", "re") and "srcbuf" not in attributes:
        raise RefusedScheduleError(f"{at}: type {kind!r} has no source in this spelling; expected srcbuf and srcoff")
    source = _cell(step, at, "src") if not new or "srcbuf" in attributes else _cell(step, at, "")
    destination = _cell(step, at, "dst") if not new or "dstbuf" in attributes else _cell(step, at, "")
    return ChunkOperation(kind, source, destination, count, waits, step.line)


def _cell(step: XmlElement, at: str, prefix: str) -> Cell:
    buffer = step.text(at, f"{prefix}buf")
    if buffer not in BUFFERS:
        raise RefusedScheduleError(f"{at}: there is no buffer {buffer!r:.40}")
    return buffer, step.whole(at, f"{prefix}off")


def _claims(algo: XmlElement, program: ChunkProgram) -> Iterator[FileClaim]:
    """Yield the numbers that the file states of the whole program."""
    if "nchannels" in algo.attributes:
        used = {block.channel for block in program.blocks if block.operations and max(block.send, block.receive) >= 0}
        yield FileClaim("channels", algo.whole("algo", "nchannels"), len(used))
    cells = max(max(gpu.cells["i"], gpu.cells["o"]) for gpu in program.gpus)
    yield FileClaim("chunks of a buffer", program.chunks, cells, "<=")


def _notes(algo: XmlElement, program: ChunkProgram) -> list[str]:
    """Return what RCCL would not accept, in words."""
    found = [f"RCCL refuses it: no attribute {name!r}" for name in WANTED_BY_RCCL if name not in algo.attributes]
    steps = (step for gpu in algo.named("gpu") for block in gpu.named("tb") for step in block.named("step"))
    if (step := next((step for step in steps if "hasdep" not in step.attributes), None)) is not None:
        found.append(f"RCCL refuses it: no attribute 'hasdep' of a step, line {step.line}")
    largest = (
        max(len(gpu.blocks) for gpu in program.gpus),
        max((len(block.operations) for block in program.blocks), default=0),
        max((each.size for block in program.blocks for each in block.operations), default=0),
    )
    found += [
        f"RCCL refuses it: {number} {what}, at most {most}"
        for number, (what, most) in zip(largest, LIMITS.items(), strict=True)
        if number > most
    ]
    return found
