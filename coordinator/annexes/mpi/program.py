"""The program that mpirun starts on every rank: makes the calls of a job, and reports what each rank sent.

It needs mpi4py alone and imports nothing of this project, so that any Python that has mpi4py can run it. Each rank writes
one line of JSON for each call, flushed at once: a call that hangs or crashes loses nothing of the calls before it.
Messages are read from the counters of the library around the call itself: each rank knows its own sends. The counters count
from the start of the library on and are never stopped, since a stop would switch counting off.
"""

import ctypes
import hashlib
import json
import os
import sys
from array import array
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG, SIGKILL = 1, 9
PVAR_SIZE = 2
"""Class of the counters of messages and bytes in Open MPI 5."""
SHOWN = 16
"""Number of elements of a result that are written beside its digest."""
LARGE = 2.0**60
"""Number that swallows a few ones in double precision."""
CALIBRATION_BYTES = (5, 7)
"""Sizes of the two messages to the next rank that show whether counting is on."""


class Tools:
    """The tools interface of the library: counters of messages, and the variables that choose algorithms."""

    def __init__(self, world: Any, address: int) -> None:
        self.library = ctypes.CDLL(None)
        if not hasattr(self.library, "MPI_T_init_thread"):
            self.library = ctypes.CDLL("libmpi.so.40")
        self.ranks = world.size
        self.call("init_thread", 0, ctypes.byref(ctypes.c_int()))
        self.session = ctypes.c_void_p()
        self.call("pvar_session_create", ctypes.byref(self.session))
        self.world = ctypes.c_void_p(address)
        try:
            self.counters = [self.counter(b"pml_monitoring_messages_" + kind) for kind in (b"count", b"size")]
        except RuntimeError:
            # Some builds have no counters: results are judged all the same.
            self.counters = []

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function; RuntimeError with its name if it fails."""
        status = getattr(self.library, f"MPI_T_{name}")(*arguments)
        if status:
            raise RuntimeError(f"MPI_T_{name} failed with status {status}")

    def counter(self, name: bytes) -> Any:
        """Return a started handle of a counter with one value for each rank of the world."""
        index, handle, count = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_int()
        self.call("pvar_get_index", name, PVAR_SIZE, ctypes.byref(index))
        # The library takes the address of the handle of a communicator, and accepts the world alone.
        self.call("pvar_handle_alloc", self.session, index, self.world, ctypes.byref(handle), ctypes.byref(count))
        if count.value != self.ranks:
            raise RuntimeError(f"{name.decode()} has {count.value} values, expected {self.ranks}")
        self.call("pvar_start", self.session, handle)
        return handle

    def counts(self) -> list[list[int]]:
        """Return messages and bytes to each rank since the start of the library; nothing if it has no counters."""
        found = []
        for handle in self.counters:
            values = (ctypes.c_ulonglong * self.ranks)()
            self.call("pvar_read", self.session, handle, values)
            found.append(list(values))
        return found

    def _variable(self, name: str) -> "tuple[ctypes.c_int, ctypes.c_void_p]":
        index, handle, count = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_int()
        self.call("cvar_get_index", name.encode(), ctypes.byref(index))
        self.call("cvar_handle_alloc", index, None, ctypes.byref(handle), ctypes.byref(count))
        return index, handle

    def read(self, name: str) -> int:
        """Return the value of a variable."""
        value = ctypes.c_int()
        self.call("cvar_read", self._variable(name)[1], ctypes.byref(value))
        return value.value

    def write(self, name: str, value: int) -> None:
        """Set a variable, and check that it holds the value."""
        # Some variables, such as the one of allgatherv, cannot be written; their default needs no write.
        if self.read(name) == value:
            return
        self.call("cvar_write", self._variable(name)[1], ctypes.byref(ctypes.c_int(value)))
        if self.read(name) != value:
            raise RuntimeError(f"{name} does not accept {value}")

    def names(self, variable: str) -> "dict[str, int]":
        """Return the values that a variable may have, by name."""
        index, _ = self._variable(variable)
        kind, length = ctypes.c_void_p(), ctypes.c_int(0)
        number = ctypes.c_int()
        self.call(
            "cvar_get_info", index, None, ctypes.byref(length), ctypes.byref(number), ctypes.byref(number),
            ctypes.byref(kind), None, ctypes.byref(ctypes.c_int(0)), ctypes.byref(number), ctypes.byref(number),
        )  # fmt: skip
        count = ctypes.c_int()
        self.call("enum_get_info", kind, ctypes.byref(count), None, ctypes.byref(ctypes.c_int(0)))
        found = {}
        for position in range(count.value):
            text, size = ctypes.create_string_buffer(200), ctypes.c_int(200)
            self.call("enum_get_item", kind, position, ctypes.byref(number), text, ctypes.byref(size))
            found[text.value.decode(errors="replace")] = number.value
        return found

    def communicator(self, mpi: Any, call: "dict[str, Any]") -> Any:
        """Return a communicator that makes a call use its algorithm; RuntimeError if the library cannot choose it."""
        variable = f"coll_tuned_{call['collective']}_algorithm"
        known = self.names(variable)
        if call["algorithm"] is not None and call["algorithm"] not in known:
            raise RuntimeError("unknown algorithm")
        segments = call["segment"] > 0
        if segments:
            self.write(f"{variable}_segmentsize", call["segment"])
        self.write(variable, known[call["algorithm"]] if call["algorithm"] is not None else 0)
        # The choice is fixed when a communicator is made.
        comm = mpi.COMM_WORLD.Dup()
        self.write(variable, 0)
        if segments:
            self.write(f"{variable}_segmentsize", 0)
        return comm


class Spied:
    """Counters of a library that was preloaded: messages of each endpoint; one endpoint leads to each rank."""

    ENDPOINTS = 256

    def __init__(self, world: Any) -> None:
        self.library = ctypes.CDLL(None)
        ctypes.CDLL("libmpi.so.12").MPI_T_init_thread(0, ctypes.byref(ctypes.c_int()))
        self.ranks = world.size
        self.endpoints: list[int | None] = [None] * world.size
        for distance in range(1, world.size):
            right, left = (world.rank + distance) % world.size, (world.rank - distance) % world.size
            before = self.read_endpoints()[0]
            world.Sendrecv(bytearray(1), right, 1, bytearray(1), left, 1)
            after = self.read_endpoints()[0]
            moved = [at for at in range(self.ENDPOINTS) if after[at] != before[at]]
            self.endpoints[right] = moved[0] if moved else None

    def read_endpoints(self) -> list[list[int]]:
        """Return messages and bytes of each endpoint."""
        values = [(ctypes.c_ulonglong * self.ENDPOINTS)() for _ in range(2)]
        self.library.spy_read(*values)
        return [list(each) for each in values]

    def counts(self) -> list[list[int]]:
        """Return messages and bytes to each rank since the start of the library."""
        return [[0 if at is None else row[at] for at in self.endpoints] for row in self.read_endpoints()]

    def names(self, variable: str) -> "dict[str, int]":
        """Return the algorithms that the library describes, `NAME - what it is` in a line each, by name."""
        collective = variable.removeprefix("coll_tuned_").removesuffix("_algorithm")
        mpi, index = ctypes.CDLL("libmpi.so.12"), ctypes.c_int()
        if mpi.MPI_T_cvar_get_index(f"MPIR_CVAR_{collective.upper()}_INTRA_ALGORITHM".encode(), ctypes.byref(index)):
            return {}
        number, text, size = ctypes.c_int(), ctypes.create_string_buffer(1 << 14), ctypes.c_int(1 << 14)
        none, ignored = ctypes.byref(ctypes.c_int(0)), ctypes.byref(number)
        mpi.MPI_T_cvar_get_info(
            index,
            None,
            none,
            ignored,
            ignored,
            ctypes.byref(ctypes.c_void_p()),
            text,
            ctypes.byref(size),
            ignored,
            ignored,
        )
        lines = text.value.decode(errors="replace").splitlines()
        found = [line.partition(" - ")[0].strip() for line in lines if " - " in line]
        return {name: at for at, name in enumerate(found) if name != "auto"}

    def read(self, name: str) -> int:
        """Return 1: the choice is in force."""
        return 1

    def communicator(self, mpi: Any, call: "dict[str, Any]") -> Any:
        """Return a communicator for a call."""
        return mpi.COMM_WORLD.Dup()


def value_of(rank: int, index: int) -> int:
    """Return the contribution of a rank for an element: small enough for exact sums, different for all nearby ones."""
    return (rank * 1_000_003 + index * 7_919 + 12_345) % 65_521


def values_of(rank: int, elements: int, first: int = 0) -> Any:
    """Return consecutive contributions of a rank."""
    return array("i", [value_of(rank, index) for index in range(first, first + elements)])


def probe_numbers(rank: int, ranks: int) -> "list[float]":
    """Return the contribution of a rank to a probe: for each pair a < b, M from a, -M from b, and 1 from all others.

    Ones that are added to M are swallowed: a sum tells how many ranks are added after a and b have met.
    """
    pairs = [(low, high) for low in range(ranks) for high in range(low + 1, ranks)]
    return [LARGE if rank == low else -LARGE if rank == high else 1.0 for low, high in pairs]


def lengths(elements: int, ranks: int) -> list[int]:
    """Return the blocks of a vector, the first ones longer."""
    return [elements // ranks + (rank < elements % ranks) for rank in range(ranks)]


class Calls:
    """The collectives, each as the program of one rank calls it. A method returns the result of this rank.

    A call has an operation: the sum of integers, for results that arithmetic predicts; texts, commuting or not, that
    write down the order of operations; or the sum of the numbers of a probe, to reveal this order too.
    """

    def __init__(self, mpi: Any, comm: Any, call: "dict[str, Any]") -> None:
        self.mpi, self.comm, self.rank, self.ranks = mpi, comm, comm.rank, comm.size
        self.kind, self.operation = mpi.INT, mpi.SUM
        self.width = 0
        """Size of an element in bytes if it is a text."""
        if call["operation"].startswith("texts"):
            # Ranks have at most 3 digits; a text has one "(", "+" and ")" for each operation.
            self.width = 6 * self.ranks
            self.kind = mpi.BYTE.Create_contiguous(self.width).Commit()
            self.operation = mpi.Op.Create(self._combine, commute=call["operation"] == "texts-commuting")
        elif call["operation"] == "probe":
            self.kind = mpi.DOUBLE
        self.own: Any = array("i")
        self.room: Any = array("i")

    def _combine(self, incoming: Any, own: Any, _kind: Any) -> None:
        for first in range(0, len(own), self.width):
            item = slice(first, first + self.width)
            left, right = (bytes(each[item]).rstrip(b"\0") for each in (incoming, own))
            own[item] = (b"(" + left + b"+" + right + b")").ljust(self.width, b"\0")

    def contribution(self, call: "dict[str, Any]", elements: int) -> Any:
        """Return the contribution of this rank."""
        if self.width:
            return bytearray(str(self.rank).encode().ljust(self.width, b"\0") * elements)
        if call["operation"] == "probe":
            # A probe has an element for each pair of ranks.
            pairs = self.ranks * (self.ranks - 1) // 2
            return array("d", probe_numbers(self.rank, self.ranks) * (elements // pairs))
        return values_of(self.rank, elements)

    def zeros(self, elements: int) -> Any:
        """Return a buffer for a result."""
        if self.width:
            return bytearray(self.width * elements)
        kind = "d" if self.kind == self.mpi.DOUBLE else "i"
        return array(kind, bytes(array(kind).itemsize * elements))

    def prepare(self, call: "dict[str, Any]") -> None:
        """Make the buffers of a call, before anything is counted."""
        elements, ranks = call["elements"], self.ranks
        many = {"alltoall", "alltoallv", "reduce_scatter_block"}
        is_scatter = call["collective"] == "scatter"
        whole = elements * ranks if call["collective"] in many or is_scatter else elements
        if not is_scatter or self.rank == call["root"]:
            self.own = self.contribution(call, whole)
        gathers = {"allgather", "allgatherv", "alltoall", "alltoallv", "gather"}
        room = elements * (ranks if call["collective"] in gathers else 1)
        if call["collective"] == "reduce_scatter":
            room = lengths(elements, ranks)[self.rank]
        self.room = self.zeros(room)
        if call["collective"] == "bcast" and self.rank == call["root"]:
            self.room = self.contribution(call, elements)

    def shown(self, result: Any) -> "list[Any]":
        """Return the elements of a result that the report has beside the digest: of orders of operations all."""
        if self.width:
            items = range(0, len(result), self.width)
            return [bytes(result[first : first + self.width]).rstrip(b"\0").decode("ascii") for first in items]
        return list(result if self.kind == self.mpi.DOUBLE else result[:SHOWN])

    def perform(self, call: "dict[str, Any]") -> Any:
        """Make the call; returns the result of this rank, None where it has none."""
        return getattr(self, f"_{call['collective']}")(call)

    def _barrier(self, call: "dict[str, Any]") -> None:
        self.comm.Barrier()

    def _bcast(self, call: "dict[str, Any]") -> Any:
        self.comm.Bcast([self.room, self.kind], root=call["root"])
        return self.room

    def _allreduce(self, call: "dict[str, Any]") -> Any:
        self.comm.Allreduce([self.own, self.kind], [self.room, self.kind], op=self.operation)
        return self.room

    def _reduce(self, call: "dict[str, Any]") -> Any:
        is_root = self.rank == call["root"]
        room = [self.room, self.kind] if is_root else None
        self.comm.Reduce([self.own, self.kind], room, op=self.operation, root=call["root"])
        return self.room if is_root else None

    def _scan(self, call: "dict[str, Any]") -> Any:
        self.comm.Scan([self.own, self.kind], [self.room, self.kind], op=self.operation)
        return self.room

    def _exscan(self, call: "dict[str, Any]") -> Any:
        self.comm.Exscan([self.own, self.kind], [self.room, self.kind], op=self.operation)
        return self.room if self.rank else None

    def _reduce_scatter(self, call: "dict[str, Any]") -> Any:
        counts = lengths(call["elements"], self.ranks)
        self.comm.Reduce_scatter([self.own, self.kind], [self.room, self.kind], counts, op=self.operation)
        return self.room

    def _reduce_scatter_block(self, call: "dict[str, Any]") -> Any:
        self.comm.Reduce_scatter_block([self.own, self.kind], [self.room, self.kind], op=self.operation)
        return self.room

    def _allgather(self, call: "dict[str, Any]") -> Any:
        self.comm.Allgather([self.own, self.kind], [self.room, self.kind])
        return self.room

    def _allgatherv(self, call: "dict[str, Any]") -> Any:
        self.comm.Allgatherv([self.own, self.kind], [self.room, [call["elements"]] * self.ranks, self.kind])
        return self.room

    def _alltoall(self, call: "dict[str, Any]") -> Any:
        self.comm.Alltoall([self.own, self.kind], [self.room, self.kind])
        return self.room

    def _alltoallv(self, call: "dict[str, Any]") -> Any:
        counts = [call["elements"]] * self.ranks
        self.comm.Alltoallv([self.own, counts, self.kind], [self.room, counts, self.kind])
        return self.room

    def _gather(self, call: "dict[str, Any]") -> Any:
        is_root = self.rank == call["root"]
        room = [self.room, self.kind] if is_root else None
        self.comm.Gather([self.own, self.kind], room, root=call["root"])
        return self.room if is_root else None

    def _scatter(self, call: "dict[str, Any]") -> Any:
        own = [self.own, self.kind] if self.rank == call["root"] else None
        self.comm.Scatter(own, [self.room, self.kind], root=call["root"])
        return self.room


def measure(calls: "type[Calls]", job: "dict[str, Any]", write: Any) -> None:
    """Make all calls of a job on this rank, and report each by `write`."""
    from mpi4py import MPI  # noqa: PLC0415  # starts the library, and is absent where the judge runs without it

    world = MPI.COMM_WORLD
    heading = {"nonce": job["nonce"], "rank": world.rank, "ranks": world.size, "library": MPI.Get_library_version()}
    if world.size != job["ranks"]:
        write(heading)
        return
    spied = hasattr(ctypes.CDLL(None), "spy_read")
    tools: Any = Spied(world) if spied else Tools(world, MPI._addressof(world))
    collectives = sorted({call["collective"] for call in job["calls"]})
    names = {name: tools.names(f"coll_tuned_{name}_algorithm") for name in collectives}
    counted = bool(tools.counts())
    write({**heading, "names": names, "dynamic": tools.read("coll_tuned_use_dynamic_rules"), "counted": counted})
    write({"calibration": calibrate(world, tools)})
    for number, call in enumerate(job["calls"]):
        if number >= job["first"]:
            write({"call": number})
            write({"call": number, **report(calls, MPI, tools, call)})
    write({"end": job["nonce"]})


def calibrate(world: Any, tools: Any) -> list[list[int]]:
    """Send two messages to the next rank, and return what was counted."""
    before = tools.counts()
    for size in CALIBRATION_BYTES:
        right, left = (world.rank + 1) % world.size, (world.rank - 1) % world.size
        world.Sendrecv(bytearray(size), right, 1, bytearray(size), left, 1)
    return differences(before, tools.counts())


def differences(before: list[list[int]], after: list[list[int]]) -> list[list[int]]:
    """Return by how much each counter grew."""
    return [[b - a for a, b in zip(*rows, strict=True)] for rows in zip(before, after, strict=True)]


def report(calls: "type[Calls]", mpi: Any, tools: Any, call: "dict[str, Any]") -> "dict[str, Any]":
    """Make one call on a communicator made for it, and return its counts and its result."""
    try:
        comm = tools.communicator(mpi, call)
    except RuntimeError as error:
        return {"error": str(error)}
    program = calls(mpi, comm, call)
    program.prepare(call)
    before = tools.counts()
    try:
        result = program.perform(call)
    except mpi.Exception as error:
        # The same on all ranks. The communicator is left, since messages of the call may still be on their way.
        return {"error": f"refused: {error.Get_error_string()}"}
    messages, sizes = differences(before, tools.counts()) or (None, None)
    comm.Free()
    answer: dict[str, Any] = {"messages": messages, "bytes": sizes, "result": None}
    if result is not None:
        answer["result"] = hashlib.sha256(bytes(result)).hexdigest()
        answer["begin"] = program.shown(result)
    return answer


def main(calls: "type[Calls]" = Calls) -> None:
    """Read the job that the first argument names, and write the report of this rank beside it."""
    # A rank is a child of the daemon of mpirun: it must not outlive a daemon that was killed.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL)
    folder = Path(sys.argv[1])
    job = json.loads((folder / "job.json").read_text())
    rank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("PMI_RANK", "0")
    with (folder / f"rank-{rank}.jsonl").open("w") as file:

        def write(line: "dict[str, Any]") -> None:
            file.write(json.dumps(line) + "\n")
            file.flush()

        measure(calls, job, write)


if __name__ == "__main__":
    main()
