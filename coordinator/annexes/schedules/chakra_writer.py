"""Writes a chunk program as Chakra execution traces, one for each rank, whose nodes name their cells.

The attributes for simulators are the usual ones. Those of `contents` = `cells-1` bring the program back with its cells.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from coordinator.annexes.exports.protobuf import part, varint
from coordinator.annexes.schedules.chakra_cells import CELLS, NODES_OF
from coordinator.annexes.schedules.chakra_traces import COMP, RECEIVE, SEND
from coordinator.annexes.schedules.chunk_program import ChunkOperation, ChunkProgram, ThreadBlock
from emunode.model import Rank

VERSION: Final = "1.0.0"
NAMES: Final = {COMP: "COMP", SEND: "COMM_SEND", RECEIVE: "COMM_RECV"}
INT32, INT64, BOOL, STRING = 7, 9, 27, 29
"""Fields of an attribute by the kind of its value."""
INT64_NAMES: Final = frozenset({"comm_size"})


def chakra_traces(program: ChunkProgram, chunk_bytes: int) -> Iterator[bytes]:
    """Yield the trace of every rank, for chunks of this size."""
    for gpu in program.gpus:
        nodes = list(_nodes(program, gpu.number, chunk_bytes))
        cells = {f"{buffer}_chunks": count for buffer, count in gpu.cells.items()}
        metadata: dict[str, int | str] = {
            "collective": program.collective, "num_ranks": len(program.gpus), "rank": gpu.number,
            "num_nodes": len(nodes), "contents": CELLS, "nchunksperloop": program.chunks,
            "inplace": int(program.in_place), "root": program.root, **cells,
        }  # fmt: skip
        head = part(1, VERSION.encode()) + b"".join(
            part(2, _attribute(name, value)) for name, value in metadata.items()
        )
        yield b"".join(varint(len(message)) + message for message in (head, *nodes))


def _nodes(program: ChunkProgram, rank: Rank, chunk_bytes: int) -> Iterator[bytes]:
    blocks = {block.number: block for block in program.gpus[rank].blocks}
    numbers: dict[tuple[int, int], range] = {}
    following = 0
    for block in blocks.values():
        for step, operation in enumerate(block.operations):
            count = len(NODES_OF.get(operation.type, ()))
            numbers[block.number, step] = range(following, following + count)
            following += count

    def last(block: int, step: int) -> set[int]:
        """Return the nodes that end a step: of a step without an effect, the nodes that it waits for."""
        found: set[int] = set()
        waiting = [(block, step)]
        while waiting:
            here = waiting.pop()
            if own := numbers[here]:
                found.add(own[-1])
                continue
            waits = blocks[here[0]].operations[here[1]].waits
            waiting += [waits] if waits else []
            waiting += [(here[0], here[1] - 1)] if here[1] else []
        return found

    for block in blocks.values():
        for step, operation in enumerate(block.operations):
            depends = last(block.number, step - 1) if step else set()
            if operation.waits is not None:
                depends |= last(*operation.waits)
            kinds = NODES_OF.get(operation.type, ())
            for number, kind in zip(numbers[block.number, step], kinds, strict=True):
                yield _node(
                    number, kind, sorted(depends), _attributes(program, block, step, operation, kind, chunk_bytes)
                )
                depends = {number}


def _attributes(
    program: ChunkProgram, block: ThreadBlock, step: int, operation: ChunkOperation, kind: int, chunk_bytes: int
) -> dict[str, int | str | bool]:
    found: dict[str, int | str | bool] = {"is_cpu_op": False}
    if kind != COMP:
        peer = {"comm_dst": block.send} if kind == SEND else {"comm_src": block.receive}
        found |= {"comm_size": operation.size * chunk_bytes, **peer, "comm_tag": block.channel}
        offset = operation.source[1] if kind == SEND else operation.destination[1]
        found |= {"msg_chunk_cnt": operation.size, "chunk_offset": offset, "total_chunk_cnt": program.chunks}
    (source, first), (destination, target) = operation.source, operation.destination
    return found | {
        "is_rrc": operation.type == "rrc", "tb_id": block.number, "local_time_step": step, "step_type": operation.type,
        "srcbuf": source, "srcoff": first, "dstbuf": destination, "dstoff": target, "cnt": operation.size,
    }  # fmt: skip


def _node(number: int, kind: int, depends: list[int], attributes: dict[str, int | str | bool]) -> bytes:
    # A field with the value 0 is absent, so node 0 has no number.
    message = (varint(1 << 3) + varint(number)) if number else b""
    message += part(2, f"{NAMES[kind]}_{number}".encode()) + varint(3 << 3) + varint(kind)
    if depends:
        message += part(5, b"".join(map(varint, depends)))
    return message + b"".join(part(10, _attribute(name, value)) for name, value in attributes.items())


# Nodes share most attributes: half of the time of writing a trace.
@lru_cache(4096, typed=True)
def _attribute(name: str, value: int | str | bool) -> bytes:  # the value of an attribute
    message = part(1, name.encode())
    if isinstance(value, str):
        return message + part(STRING, value.encode())
    key = BOOL if isinstance(value, bool) else INT64 if name in INT64_NAMES else INT32
    return message + varint(key << 3) + varint(int(value))
