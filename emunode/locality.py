"""Locality check: a rule depends on its own rank, the network, the job and its own arrivals, and on nothing else.

A run of the whole network is recorded: every call that the engine makes to a node, with the packets that arrived, and
what the node sent. Then one rank at a time runs alone, in a process that has never had another rank, and receives
exactly its recorded arrivals. A rule that uses a variable shared by ranks, the state of another rank, or the faults in
force sends something else there. Two runs are recorded, one without faults and one with faults that no rank knows.

The calls of an isolated rank are watched. A rule must not use a clock, unseeded random numbers, files, sockets, the
garbage collector or frames of callers, even if they do not change what it sends. The topology records the ranks whose
links are queried. So a rule that needs a table of the whole network is noticed. Such an algorithm declares `Need.TABLE`.

Tables that an algorithm computes from the network and the job before the first step are allowed, because every rank
computes the same. The check looks for mistakes and for simple attempts to cheat. It is not a sandbox. It cannot see
state that was left in a module before it began, so `coordinator check` starts from a fresh interpreter.
"""

import gc
import pickle
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, product
from types import CodeType, FrameType, ModuleType
from typing import Any, Final, NamedTuple

from emunode.algorithms.base import Algorithm, LocalView, Need
from emunode.engine.memory import MemoryEngine
from emunode.engine.node import Node
from emunode.engine.rank_set import RankSet
from emunode.errors import ContractError, EmulatorError, ScenarioError
from emunode.faults.kinds import FOREVER, Fault, from_record
from emunode.model import Collective, CollectiveSpec, Hop, Port, PortPacket, Rank, Step
from emunode.play import play
from emunode.runtime import in_child
from emunode.topologies.base import Topology

STEP_LIMIT: Final = 10_000
"""Most steps of a recorded run."""
SAMPLED_RANKS: Final = 8
"""How many ranks run alone, unless the caller names them.

They are spread over the network, and the source is among them.
"""
SECONDS: Final = 120.0
"""Deadline of one recorded run, and of one isolated rank."""
TABLE_ORDER: Final = 16
"""The smallest network where queries for the links of all ranks count as a table of the network."""

ALL_TARGETS: Final = (Collective.ALLTOALL, Collective.REDUCE_SCATTER, Collective.ALLREDUCE)
"""Collectives with a message or a contribution from every rank for every other rank."""

Output = tuple[tuple[PortPacket, ...], Step | None]
"""The result of a call: the packets that the node sent, and the step when it is due next."""


class Call(NamedTuple):
    """One call of a node by its engine."""

    method: str
    step: Step
    inbox: tuple[PortPacket, ...]
    live_ports: tuple[Port, ...]
    """The ports that the rank knew to work."""


NodeHistory = list[tuple[Call, Output]]
"""The calls of one node from its creation on, with their outputs."""
Histories = dict[Rank, list[NodeHistory]]
"""By rank, the histories of its nodes. A rank that recovers from a crash gets another node."""


class IsolatedRun(NamedTuple):
    """The run of one rank alone."""

    outputs: list[Output]
    forbidden: list[str]
    """Calls that a rule must not make, each with its place in the source."""
    queried: int
    """Most ranks whose links were queried in one call."""


def check_locality(
    entry: type[Algorithm],
    topology: Topology,
    spec: CollectiveSpec | None = None,
    *,
    faults: Mapping[Step, Sequence[Fault]] | None = None,
    ranks: Collection[Rank] | None = None,
) -> None:
    """Check the rules of an algorithm on a small network.

    Raises a ContractError that names the rank and the step. `spec` defaults to the first job that the algorithm accepts,
    `faults` to a crash and a link that goes down, and `ranks` to `SAMPLED_RANKS` ranks.
    """
    spec = spec or accepted_job(entry, topology)
    for injected in ({}, _default_faults(topology) if faults is None else faults):
        histories: Histories = _call_in_child(partial(_record_fresh, entry, topology, spec, injected))
        for rank in sample_ranks(topology, spec.source) if ranks is None else ranks:
            for history in histories.get(rank, ()):
                isolated = _call_in_child(partial(run_isolated, entry, topology, spec, rank, history))
                compare(entry, topology, spec, rank, history, isolated)


def _record_fresh(
    entry: type[Algorithm], topology: Topology, spec: CollectiveSpec, faults: Mapping[Step, Sequence[Fault]]
) -> Histories:
    return record(entry(topology, spec), faults)


def accepted_job(entry: type[Algorithm], topology: Topology) -> CollectiveSpec:
    """Return the first job that the algorithm accepts on `topology`.

    Raises ContractError if it refuses all.
    """
    for port_model, duplex, messages in product(entry.port_models, entry.duplexes, (1, topology.degree)):
        spec = CollectiveSpec(topology.name, entry.collective, entry.name, 0, port_model, duplex, 720, messages)
        try:
            entry(topology, spec)
        except ScenarioError:
            continue
        return spec
    raise ContractError(f"{entry.name} refuses every job on {topology.name}")


def sample_ranks(topology: Topology, source: Rank) -> list[Rank]:
    """Return up to `SAMPLED_RANKS` ranks spread over the network.

    The source comes first.
    """
    stride = -(-topology.order // SAMPLED_RANKS)
    return list(dict.fromkeys((source, *topology.ranks()[::stride], topology.order - 1)))[:SAMPLED_RANKS]


def _default_faults(topology: Topology) -> dict[Step, list[Fault]]:
    """Return the default faults.

    From step 1 on a link of the middle rank is down. From step 2 on the last rank is crashed.
    """
    middle = topology.order // 2
    port = topology.ports(middle)[0]
    down = [("down", 1, sender, its_port, FOREVER) for sender, its_port in ((middle, port), topology.end(middle, port))]
    crash = ("crash", 2, topology.order - 1)
    return {1: [from_record(record, topology) for record in down], 2: [from_record(crash, topology)]}


# --- the recorded run ------------------------------------------------------------------------------------------------


class RecordedNode(Node):
    """A node that records the calls of its engine, and their outputs."""

    __slots__ = ("_history", "_view")

    def __init__(self, algorithm: Algorithm, view: LocalView, history: NodeHistory) -> None:
        self._history = history
        self._view = view
        ports = tuple(view.live_ports)
        super().__init__(view.rank, algorithm, algorithm.rule(view))
        self._record(Call("create", 0, (), ports), ())

    def _record(self, call: Call, outbox: Sequence[PortPacket]) -> None:
        self._history.append((call, (tuple(outbox), self.due)))

    def step(self, step: Step, inbox: list[PortPacket]) -> tuple[list[PortPacket], list[Hop]]:
        call = Call("step", step, tuple(inbox), tuple(self._view.live_ports))
        outbox, hops = super().step(step, inbox)
        self._record(call, outbox)
        return outbox, hops

    def resume(self, step: Step) -> None:
        call = Call("resume", step, (), tuple(self._view.live_ports))
        super().resume(step)
        self._record(call, ())

    def enable_queueing(self) -> None:
        super().enable_queueing()
        self._record(Call("enable_queueing", 0, (), tuple(self._view.live_ports)), ())


class RecordedRanks(RankSet):
    """Ranks whose nodes are recorded."""

    def __init__(self, algorithm: Algorithm) -> None:
        super().__init__(algorithm, algorithm.topology.ranks())
        self.histories: Histories = {}

    def create_node(self, view: LocalView) -> Node:
        history: NodeHistory = []
        self.histories.setdefault(view.rank, []).append(history)
        return RecordedNode(self._algorithm, view, history)


def record(algorithm: Algorithm, faults: Mapping[Step, Sequence[Fault]]) -> Histories:
    """Run a whole network in memory.

    Raises ContractError if it does not end.
    """
    ranks = RecordedRanks(algorithm)
    engine = MemoryEngine(algorithm, ranks)
    for _ in play(engine, chain.from_iterable(faults.values()), limit=STEP_LIMIT):
        pass
    if engine.busy:
        raise ContractError(f"{algorithm.name} on {algorithm.topology.name} does not end in {STEP_LIMIT} steps")
    return ranks.histories


# --- the isolated run ------------------------------------------------------------------------------------------------


def run_isolated(
    entry: type[Algorithm], topology: Topology, spec: CollectiveSpec, rank: Rank, history: NodeHistory
) -> IsolatedRun:
    """Run one rank on its recorded arrivals.

    Call it in a process of its own, because it replaces the class of `topology`.
    """
    # A collection would run finalizers of what the parent has left. These close files and sockets, and would do so
    # under the watch.
    gc.disable()
    queried = _record_queries(topology)
    watch = CallWatch()
    outputs: list[Output] = []
    most = 0
    node: Node | None = None
    view = LocalView(topology, rank)
    with watch:
        algorithm = entry(topology, spec)
        for call, _ in history:
            queried.clear()
            view.live_ports = call.live_ports
            if node is None:
                node = Node(rank, algorithm, algorithm.rule(view))
            outputs.append((_repeat(node, call), node.due))
            most = max(most, len(queried))
    return IsolatedRun(outputs, watch.forbidden, most)


def _repeat(node: Node, call: Call) -> tuple[PortPacket, ...]:
    match call.method:
        case "step":
            return tuple(node.step(call.step, list(call.inbox))[0])
        case "resume":
            node.resume(call.step)
        case "enable_queueing":
            node.enable_queueing()
    return ()


def compare(
    entry: type[Algorithm],
    topology: Topology,
    spec: CollectiveSpec,
    rank: Rank,
    history: NodeHistory,
    isolated: IsolatedRun,
) -> None:
    """Compare an isolated rank with its history in the network.

    Raises ContractError where they differ.
    """
    who = f"{entry.name} on {topology.name} at {topology.label(rank)} (rank {rank})"
    if isolated.forbidden:
        raise ContractError(f"{who} is not local: it calls {', '.join(dict.fromkeys(isolated.forbidden))}")
    for (call, expected), output in zip(history, isolated.outputs, strict=True):
        if output != expected:
            raise ContractError(
                f"{who} is not local: in step {call.step} it {_describe(expected)}; alone, with the same arrivals, it "
                f"{_describe(output)}"
            )
    # A rank with a message for every other rank has to name all of them.
    names_all = spec.collective in ALL_TARGETS or (spec.collective is Collective.SCATTER and rank == spec.source)
    if isolated.queried >= topology.order >= TABLE_ORDER and not (Need.TABLE in entry.needs or names_all):
        raise ContractError(
            f"{who} asks the topology about all {topology.order} ranks, but the algorithm does not declare a "
            "precomputed schedule: set `needs = frozenset({Need.TABLE})`"
        )


def _describe(output: Output) -> str:
    outbox, due = output
    sent = ", ".join(f"{[segment[:4] for segment in packet]} on port {port}" for port, packet in outbox)
    later = "" if due is None else f" and plans to send in step {due}"
    return (f"sends {sent}" if sent else "sends nothing") + later


def _call_in_child(work: Callable[[], Any]) -> Any:
    """Return the result of `work` in a process of its own.

    Raises ContractError for an error of the algorithm there.
    """

    def pickled() -> bytes:
        try:
            return pickle.dumps((True, work()))
        except EmulatorError as error:
            return pickle.dumps((False, str(error)))

    # Pickles of this program's own child: as trustworthy as the algorithm that the caller has imported.
    worked, result = pickle.loads(in_child(pickled, SECONDS))
    if not worked:
        raise ContractError(result)
    return result


# --- queries of the topology -----------------------------------------------------------------------------------------

LINK_QUERIES: Final = ("neighbour", "neighbours", "end", "ends", "adjacent", "reverse_ports")
"""Methods of a topology that return links of a rank."""


def _record_queries(topology: Topology) -> set[Rank]:
    """Make `topology` add each rank whose links are queried to a set, and return the set."""
    queried: set[Rank] = set()
    kind = type(topology)
    searching = [False]

    def recorded(name: str) -> Callable[..., Any]:
        original = getattr(kind, name)

        def query(self: Topology, rank: Rank, *others: object) -> Any:
            if not searching[0]:
                queried.add(rank)
            return original(self, rank, *others)

        return query

    def distances_from(self: Topology, root: Rank) -> Any:
        # Distances without a formula are searched: that is the network's arithmetic, not a query of the rule.
        before, searching[0] = searching[0], True
        try:
            return kind.distances_from(self, root)
        finally:
            searching[0] = before

    members = {**{name: recorded(name) for name in LINK_QUERIES}, "distances_from": distances_from}
    # A subclass of the same class, since algorithms ask for the class of their network.
    topology.__class__ = type(kind.__name__, (kind,), members)
    return queried


# --- forbidden calls -------------------------------------------------------------------------------------------------

FORBIDDEN_MODULES: Final = frozenset({
    "_ctypes", "_posixsubprocess", "_socket", "fcntl", "gc", "mmap", "posix", "resource", "select", "signal", "time",
})  # fmt: skip
"""Modules in C that no rule may call, except for `HARMLESS`."""
FORBIDDEN_FUNCTIONS: Final = frozenset({
    # The module of `open` calls itself `io` or `_io`, depending on the version of Python.
    ("io", "open"), ("io", "open_code"), ("_io", "open"), ("_io", "open_code"),
    ("_thread", "start_new_thread"), ("_thread", "start_joinable_thread"),
    ("sys", "_getframe"), ("sys", "_current_frames"), ("sys", "setprofile"), ("sys", "settrace"),
})  # fmt: skip
HARMLESS: Final = frozenset({"fspath"})
CLOCKS: Final = frozenset({"now", "today", "utcnow"})
"""Methods of `datetime` that read the clock."""


class CallWatch:
    """Records forbidden calls of C functions while it is entered.

    Imports may make such calls.
    """

    def __init__(self) -> None:
        self.forbidden: list[str] = []

    def __enter__(self) -> None:
        self._before = sys.getprofile()
        sys.setprofile(self._profile)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._before)

    def _profile(self, frame: FrameType, event: str, function: Any) -> None:
        if frame.f_code is _EXIT:
            return
        if event == "c_call":
            name = _forbidden_name(function)
        elif event == "call" and _unseeded(frame.f_code, frame):
            name = "random.Random without a seed"
        else:
            return
        if name is not None and not any(map(_imports, _stack(frame))):
            place = next((each for each in _stack(frame) if not _is_library(each)), frame)
            self.forbidden.append(f"{name} (line {place.f_lineno} of {place.f_code.co_filename})")


_EXIT: Final = CallWatch.__exit__.__code__


def _forbidden_name(function: Any) -> str | None:
    """Return the name of a C function that no rule may call.

    None for any other function.
    """
    owner, name = getattr(function, "__self__", None), function.__name__
    if isinstance(owner, ModuleType):
        module = owner.__name__
        forbidden = module in FORBIDDEN_MODULES and name not in HARMLESS
        return f"{module}.{name}" if forbidden or (module, name) in FORBIDDEN_FUNCTIONS else None
    if isinstance(owner, type) and owner.__module__ == "datetime" and name in CLOCKS:
        return f"datetime.{name}"
    # The functions of `random` are methods of one hidden instance, seeded by the system.
    hidden = vars(sys.modules["random"]).get("_inst") if "random" in sys.modules else None
    return f"random.{name}" if owner is not None and owner is hidden else None


def _unseeded(code: CodeType, frame: FrameType) -> bool:
    named = code.co_qualname == "Random.seed" and frame.f_globals.get("__name__") == "random"
    return named and frame.f_locals.get("a") is None


def _imports(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith("<frozen importlib")


def _is_library(frame: FrameType) -> bool:
    return frame.f_globals.get("__name__", "").partition(".")[0] in sys.stdlib_module_names


def _stack(frame: FrameType) -> Iterator[FrameType]:
    caller: FrameType | None = frame
    while caller is not None:
        yield caller
        caller = caller.f_back
