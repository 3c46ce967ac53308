"""Locality check: a rule depends on its own rank, the network, the job and its own arrivals, and on nothing else.

A run of the whole network is recorded: every call that the engine makes to a node, with the packets that arrived, and what
the node sent. Then one rank at a time runs alone, in a process in which no other rank has ever existed, and receives exactly
its recorded arrivals. A rule that uses a variable shared by ranks, the state of another rank, or the faults in force sends
something else there. Two runs are recorded, one without and one with faults that no rank knows.

While a rank runs alone its calls are watched: a clock, unseeded random numbers, files, sockets, the garbage collector and
frames of callers are no inputs of a rule, whether they change what it sends or not. A topology that records the ranks it is
asked about shows which rules need a table of the whole network; such an algorithm declares `precomputed`.

What an algorithm computes from the network and the job before the first step is allowed, because every rank computes the
same. The check looks for mistakes and for simple attempts to cheat. It is not a sandbox, and it cannot see state that was
left in a module before it began: `coordinator check` starts from a fresh interpreter.
"""

import pickle
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import product
from types import CodeType, FrameType, ModuleType
from typing import Any, Final, NamedTuple

from emunode.algorithms.base import Algorithm, LocalView
from emunode.engine.memory import MemoryEngine
from emunode.engine.node import Node
from emunode.engine.rank_set import RankSet
from emunode.errors import ContractError, EmulatorError, ScenarioError
from emunode.faults.kinds import Crash, Down, Fault
from emunode.model import Collective, CollectiveSpec, Hop, Port, PortPacket, Rank, Step
from emunode.runtime import in_child
from emunode.topologies.base import Topology

STEP_LIMIT: Final = 10_000
"""Most steps of a recorded run."""
SAMPLE: Final = 8
"""How many ranks run alone, unless the caller names them; spread over the network, the source among them."""
SECONDS: Final = 120.0
"""Deadline of one recorded run, and of one rank alone."""
ENUMERATION: Final = 16
"""The smallest network on which questions about every rank count as a table of the network."""

PERSONAL: Final = (Collective.ALLTOALL, Collective.REDUCE_SCATTER, Collective.ALLREDUCE)
"""Collectives in which every rank has messages of its own, or contributions, for every other one."""

Answer = tuple[tuple[PortPacket, ...], Step | None]
"""What a node did in a call: the packets that it sent, and the step in which it is due next."""


class Call(NamedTuple):
    """One call of a node by its engine."""

    method: str
    step: Step
    inbox: tuple[PortPacket, ...]
    live_ports: tuple[Port, ...]
    """The ports that the rank knew to work."""


Life = list[tuple[Call, Answer]]
"""Everything that happened to one node from its creation on."""
Lives = dict[Rank, list[Life]]
"""The lives of every rank; a rank has another one if it recovers from a crash."""


class Remark(NamedTuple):
    """What a rank that ran alone did."""

    answers: list[Answer]
    forbidden: list[str]
    """Calls that a rule must not make, each with its place in the source."""
    asked: int
    """Most ranks that the topology was asked about in one call."""


def check_locality(
    entry: type[Algorithm],
    topology: Topology,
    spec: CollectiveSpec | None = None,
    *,
    faults: Mapping[Step, Sequence[Fault]] | None = None,
    ranks: Collection[Rank] | None = None,
) -> None:
    """Check the rules of an algorithm on a small network; raises ContractError, which names the rank and the step.

    `spec` defaults to the first job that the algorithm accepts, `faults` to a crash and a link that goes down, `ranks` to
    `SAMPLE` ranks.
    """
    spec = spec or accepted_job(entry, topology)
    for broken in ({}, _some_faults(topology) if faults is None else faults):
        lives = _call_child(lambda broken=broken: record(entry(topology, spec), broken))  # type: ignore[misc]
        for rank in sample(topology, spec.source) if ranks is None else ranks:
            for life in lives.get(rank, ()):
                remark = _call_child(lambda rank=rank, life=life: alone(entry, topology, spec, rank, life))  # type: ignore[misc]
                judge(entry, topology, spec, rank, life, remark)


def accepted_job(entry: type[Algorithm], topology: Topology) -> CollectiveSpec:
    """The first job that the algorithm accepts on `topology`; ContractError if it refuses all."""
    for port_model, duplex, messages in product(entry.port_models, entry.duplexes, (1, topology.degree)):
        spec = CollectiveSpec(topology.name, entry.collective, entry.name, 0, port_model, duplex, 720, messages)
        try:
            entry(topology, spec)
        except ScenarioError:
            continue
        return spec
    raise ContractError(f"{entry.name} refuses every job on {topology.name}")


def sample(topology: Topology, source: Rank) -> list[Rank]:
    """Up to `SAMPLE` ranks spread over the network; the source first."""
    stride = -(-topology.order // SAMPLE)
    return list(dict.fromkeys((source, *topology.ranks()[::stride], topology.order - 1)))[:SAMPLE]


def _some_faults(topology: Topology) -> dict[Step, list[Fault]]:
    """From step 1 on a link of the middle rank is down, and from step 2 on the last rank is crashed."""
    middle = topology.order // 2
    port = topology.ports(middle)[0]
    down = [Down(1, sender, its_port) for sender, its_port in ((middle, port), topology.end(middle, port))]
    return {1: list(down), 2: [Crash(2, topology.order - 1)]}


# --- the recorded run ------------------------------------------------------------------------------------------------


class RecordedNode(Node):
    """A node that writes down how its engine calls it."""

    __slots__ = ("_life", "_view")

    def __init__(self, algorithm: Algorithm, view: LocalView, life: Life) -> None:
        self._life = life
        self._view = view
        ports = tuple(view.live_ports)
        super().__init__(view.rank, algorithm, algorithm.rule(view))
        self._note(Call("create", 0, (), ports), ())

    def _note(self, call: Call, outbox: Sequence[PortPacket]) -> None:
        self._life.append((call, (tuple(outbox), self.due)))

    def step(self, step: Step, inbox: list[PortPacket]) -> tuple[list[PortPacket], list[Hop]]:
        call = Call("step", step, tuple(inbox), tuple(self._view.live_ports))
        outbox, hops = super().step(step, inbox)
        self._note(call, outbox)
        return outbox, hops

    def resume(self, step: Step) -> None:
        call = Call("resume", step, (), tuple(self._view.live_ports))
        super().resume(step)
        self._note(call, ())

    def enable_queueing(self) -> None:
        super().enable_queueing()
        self._note(Call("enable_queueing", 0, (), tuple(self._view.live_ports)), ())


class RecordedRanks(RankSet):
    """Ranks whose nodes are recorded."""

    def __init__(self, algorithm: Algorithm) -> None:
        super().__init__(algorithm, algorithm.topology.ranks())
        self.lives: Lives = {}

    def create_node(self, view: LocalView) -> Node:
        life: Life = []
        self.lives.setdefault(view.rank, []).append(life)
        return RecordedNode(self._algorithm, view, life)


def record(algorithm: Algorithm, faults: Mapping[Step, Sequence[Fault]]) -> Lives:
    """Run a whole network in memory; ContractError if it does not end."""
    ranks = RecordedRanks(algorithm)
    engine = MemoryEngine(algorithm, ranks)
    step = 0
    while engine.busy:
        step += 1
        if step > STEP_LIMIT:
            raise ContractError(f"{algorithm.name} on {algorithm.topology.name} does not end in {STEP_LIMIT} steps")
        engine.step(step, faults.get(step, ()))
    return ranks.lives


# --- one rank alone --------------------------------------------------------------------------------------------------


def alone(entry: type[Algorithm], topology: Topology, spec: CollectiveSpec, rank: Rank, life: Life) -> Remark:
    """Run one rank on the arrivals of `life`. Call it in a process of its own: it leaves a hook in the interpreter."""
    asked = _record_questions(topology)
    watch = Watch()
    answers: list[Answer] = []
    most = 0
    node: Node | None = None
    view = LocalView(topology, rank)
    with watch:
        algorithm = entry(topology, spec)
        for call, _ in life:
            asked.clear()
            view.live_ports = call.live_ports
            if node is None:
                node = Node(rank, algorithm, algorithm.rule(view))
            answers.append((_repeat(node, call), node.due))
            most = max(most, len(asked))
    return Remark(answers, watch.forbidden, most)


def _repeat(node: Node, call: Call) -> tuple[PortPacket, ...]:
    match call.method:
        case "step":
            return tuple(node.step(call.step, list(call.inbox))[0])
        case "resume":
            node.resume(call.step)
        case "enable_queueing":
            node.enable_queueing()
    return ()


def judge(
    entry: type[Algorithm], topology: Topology, spec: CollectiveSpec, rank: Rank, life: Life, remark: Remark
) -> None:
    """Compare a rank alone with the same rank in the network; raises ContractError for what differs."""
    who = f"{entry.name} on {topology.name} at {topology.label(rank)} (rank {rank})"
    if remark.forbidden:
        raise ContractError(f"{who} is not local: it calls {', '.join(dict.fromkeys(remark.forbidden))}")
    for (call, expected), found in zip(life, remark.answers, strict=True):
        if found != expected:
            raise ContractError(
                f"{who} is not local: in step {call.step} it {_told(expected)}; alone, with the same arrivals, it "
                f"{_told(found)}"
            )
    # A rank with messages of its own for every other one has to name all of them.
    personal = spec.collective in PERSONAL or (spec.collective is Collective.SCATTER and rank == spec.source)
    if remark.asked >= topology.order >= ENUMERATION and not (entry.precomputed or personal):
        raise ContractError(
            f"{who} asks the topology about all {topology.order} ranks, but the algorithm does not declare a "
            "precomputed schedule: set `precomputed = True`"
        )


def _told(answer: Answer) -> str:
    outbox, due = answer
    sent = ", ".join(f"{[segment[:4] for segment in packet]} on port {port}" for port, packet in outbox)
    later = "" if due is None else f" and plans to send in step {due}"
    return (f"sends {sent}" if sent else "sends nothing") + later


def _call_child(work: Callable[[], Any]) -> Any:
    """The result of `work` in a process of its own; ContractError for an error of the algorithm there."""

    def pickled() -> bytes:
        try:
            return pickle.dumps((True, work()))
        except EmulatorError as error:
            return pickle.dumps((False, str(error)))

    # Pickles of this program's own child: as trustworthy as the algorithm, which the caller has imported.
    worked, result = pickle.loads(in_child(pickled, SECONDS))
    if not worked:
        raise ContractError(result)
    return result


# --- what a rank asks ------------------------------------------------------------------------------------------------

QUESTIONS: Final = ("neighbour", "neighbours", "end", "ends", "adjacent", "reverse_ports")
"""Methods of a topology that tell the links of a rank."""


def _record_questions(topology: Topology) -> set[Rank]:
    """From now on `topology` keeps the ranks whose links it is asked for in the set that this returns."""
    asked: set[Rank] = set()
    kind = type(topology)
    searching = [False]

    def recorded(name: str) -> Callable[..., Any]:
        original = getattr(kind, name)

        def question(self: Topology, rank: Rank, *others: object) -> Any:
            if not searching[0]:
                asked.add(rank)
            return original(self, rank, *others)

        return question

    def distances_from(self: Topology, root: Rank) -> Any:
        # Distances without a formula are searched: that is the network's arithmetic, not a question of the rule.
        before, searching[0] = searching[0], True
        try:
            return kind.distances_from(self, root)
        finally:
            searching[0] = before

    members = {**{name: recorded(name) for name in QUESTIONS}, "distances_from": distances_from}
    # A subclass of the same class, since algorithms ask for the class of their network.
    topology.__class__ = type(kind.__name__, (kind,), members)
    return asked


# --- what a rule must not call ---------------------------------------------------------------------------------------

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


class Watch:
    """Notes calls of C functions that no rule may make, while it is entered; imports may make them."""

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


_EXIT: Final = Watch.__exit__.__code__


def _forbidden_name(function: Any) -> str | None:
    """The name of a C function that no rule may call; None for any other."""
    owner, name = getattr(function, "__self__", None), function.__name__
    if isinstance(owner, ModuleType):
        module = owner.__name__
        forbidden = module in FORBIDDEN_MODULES and name not in HARMLESS
        return f"{module}.{name}" if forbidden or (module, name) in FORBIDDEN_FUNCTIONS else None
    if isinstance(owner, type) and owner.__module__ == "datetime" and name in CLOCKS:
        return f"datetime.{name}"
    # The functions of `random` are methods of one hidden instance, which is seeded by the system.
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
    here: FrameType | None = frame
    while here is not None:
        yield here
        here = here.f_back
