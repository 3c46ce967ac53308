"""The program in the process of a submission: loads the file, makes rules, passes them arrivals, reports their sends.

Nothing here judges. Requests and answers are plain values; `worker` carries them.
"""

import linecache
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext, suppress
from operator import index
from types import ModuleType
from typing import Any, Final

# The built-in algorithms and networks: a submission must not clash with them.
import emunode.algorithms.registry  # noqa: F401
from emunode.algorithms.base import ALGORITHMS, Algorithm, LocalView, Rule
from emunode.algorithms.claims import Claim
from emunode.errors import ScenarioError
from emunode.locality import CallWatch
from emunode.model import Collective, CollectiveSpec, Duplex, Port, PortModel, Rank, ScheduledSend, Segment, Step
from emunode.topologies.base import FAMILIES, Topology
from emunode.topologies.registry import parse_topology
from emunode.trees.base import Trees

MODULE: Final = "submission"
JsonValue = Any
"""A value of JSON."""


class SubmissionSession:
    """One submission in one process, and the run that it takes part in."""

    def __init__(self, denied: list[str]) -> None:
        self._denied = denied
        self._module = ModuleType(MODULE)
        self._name = MODULE
        self._watch: CallWatch | None = None
        self._topology: Topology
        self._label: Callable[[Rank], str]
        """Names a rank, for messages."""
        self._rules: dict[Rank, Rule] = {}
        self._at: Rank | None = None
        """The rank whose rule is called, for messages."""
        self._agenda: dict[Step, list[tuple[Rank, Port, Segment | Callable[[], Segment]]]] = {}

    def answer(self, request: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """Carry out a request; an exception of the submission is an answer too."""
        work = getattr(self, f"do_{request['do']}")
        self._at = None
        try:
            found: dict[str, JsonValue] = {"result": work(**request["with"])}
        except ScenarioError as error:
            found = {"refused": [printable(str(error.field)), printable(str(error))]}
        except MemoryError:
            found = {"failed": "MemoryError: it needs more memory than it is allowed"}
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit too: a submission does not end its judge
            found = {"failed": self._describe(error)}
        if self._denied:
            found["denied"] = [printable(each) for each in dict.fromkeys(self._denied)]
            self._denied.clear()
        if self._watch is not None:
            found["forbidden"] = list(dict.fromkeys(self._watch.forbidden))[:10]
        return found

    def _describe(self, error: BaseException) -> str:
        """Describe an exception, with the last line of the submission that it passed through."""
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == self._name]
        at = "" if self._at is None else f"{self._label(self._at)}: "
        at += f"line {lines[-1]}: " if lines else ""
        if isinstance(error, SyntaxError) and error.filename == self._name:
            return f"line {error.lineno}: {type(error).__name__}: {error.msg}"
        try:
            text = str(error)
        except BaseException:  # its `__str__` is the submission's
            text = "its text cannot be read"
        return printable(f"{at}{type(error).__name__}: {text}"[:1000])

    # --- loading -----------------------------------------------------------------------------------------------------

    def do_load(self, name: str, text: str) -> dict[str, JsonValue]:
        """Execute the file; return the entries that it registered, and the trees that it defines."""
        before, families = set(ALGORITHMS), set(FAMILIES)
        self._name = self._module.__file__ = name
        sys.modules[MODULE] = self._module
        # For tracebacks and `inspect`: the process cannot read the file.
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        exec(compile(text, name, "exec", dont_inherit=True), self._module.__dict__)
        trees = [
            key
            for key, value in vars(self._module).items()
            if isinstance(value, type) and issubclass(value, Trees) and value.__module__ == MODULE
        ]
        if callable(vars(self._module).get("parent")):
            trees.append("parent")
        algorithms = [_described(ALGORITHMS[key]) for key in ALGORITHMS if key not in before]
        networks = {name: list(FAMILIES[name].small_examples) for name in FAMILIES if name not in families}
        # The trees of an algorithm are graded by its runs.
        return {"algorithms": algorithms, "families": networks, "trees": [] if algorithms or networks else trees}

    def do_network(self, topology: str) -> dict[str, JsonValue]:
        """Return a network of the submission as a table."""
        network = parse_topology(topology)
        return {
            "title": network.title,
            "degree": network.degree,
            "labels": [network.label(rank) for rank in network.ranks()],
            "neighbours": [list(network.neighbours(rank)) for rank in network.ranks()],
        }

    def do_parents(self, topology: str, source: str, labels: list[str]) -> dict[str, JsonValue]:
        """Return the answer of a parent function, or of a class of trees, for every tree and node.

        A function `parent(label, tree)` returns a label, a port, or None for the root; `TREES` of its module is how many
        trees there are. A class answers as `emunode.trees.base.Trees`.
        """
        defined, self._label = getattr(self._module, source), labels.__getitem__
        if source == "parent":
            count, ask = getattr(self._module, "TREES", 1), lambda rank, tree: defined(labels[rank], tree)
        else:
            trees = defined(parse_topology(topology))
            count, ask = trees.count, lambda rank, tree: trees.parent(rank, tree) if rank else None
        return {"trees": [[self._parent(ask, rank, tree) for rank in range(len(labels))] for tree in range(count)]}

    def _parent(self, ask: Callable[[Rank, int], JsonValue], rank: Rank, tree: int) -> JsonValue:
        self._at = rank
        answer = ask(rank, tree)
        if answer is not None and (not isinstance(answer, str | int) or isinstance(answer, bool)):
            raise TypeError(f"tree {tree}: expected a label, a port, or None for the root, found {answer!r:.60}")
        return answer

    # --- a run -------------------------------------------------------------------------------------------------------

    def do_open(
        self, algorithm: list[str], spec: Mapping[str, JsonValue], ranks: list[Rank], *, watch: bool
    ) -> dict[str, JsonValue]:
        """Begin a run of these ranks, asked in this order; `watch` notes calls that no local rule needs."""
        family, collective, name = algorithm
        job = CollectiveSpec(**{**spec, **_enums(spec)})
        self._topology = parse_topology(job.topology)
        self._label = self._topology.label
        self._watch = CallWatch() if watch else None
        with self._watch or nullcontext():
            entry = ALGORITHMS[family, collective, name](self._topology, job)
            self._agenda, self._rules, late = {}, {}, []
            for rank in ranks:
                self._at = rank
                self._rules[rank] = entry.rule(LocalView(self._topology, rank))
            for rank, rule in self._rules.items():
                self._at = rank
                late += self._plan(rank, rule.start(), 1)
            self._at = None
            claims = [] if watch else own_claims(entry)
        return {
            **{name: _whole(name, getattr(entry, name)) for name in WHOLE_NUMBERS},
            "ack_bytes": _whole("ack_bytes", entry.traits.ack_bytes),
            "link_capacity": None if entry.link_capacity is None else _whole("link_capacity", entry.link_capacity),
            "claims": [[claim.name, claim.predicted, claim.relation, claim.source] for claim in claims],
            "late": late,
            "due": min(self._agenda, default=None),
        }

    def do_step(self, step: Step, inbox: list[list[JsonValue]]) -> dict[str, JsonValue]:
        """Pass the arrivals of the step before to their ranks; return the sends of this step, and sends that are too
        late.
        """
        late, leaving = [], []
        with self._watch or nullcontext():
            for rank, packets in inbox:
                self._at = rank
                arrived = [(port, tuple(map(_segment, segments))) for port, segments in packets]
                late += self._plan(rank, self._rules[rank].receive(step - 1, arrived), step)
            for rank, port, made in self._agenda.pop(step, ()):
                self._at = rank
                leaving.append([rank, port, _plain(made() if callable(made) else made)])
        return {"sends": leaving, "late": late, "due": min(self._agenda, default=None)}

    def _plan(self, rank: Rank, sends: Iterable[ScheduledSend], earliest: Step) -> list[list[JsonValue]]:
        """Keep the sends of a rank for their steps; returns (rank, step) of sends before step `earliest`."""
        late: list[list[JsonValue]] = []
        if not isinstance(sends, Iterable):
            raise TypeError(f"expected sends (step, port, segment), found {sends!r:.100}")
        for number, send in enumerate(sends):
            if number >= MOST_SENDS:
                raise RuntimeError(f"more than {MOST_SENDS:,} sends are planned at once")
            try:
                step, port, made = send
                step, port = index(step), index(port)
            except (TypeError, ValueError):
                raise TypeError(f"a send is (step, port, segment) with whole numbers, not {send!r:.100}") from None
            if step < earliest:
                late.append([rank, step])
            else:
                self._agenda.setdefault(step, []).append((rank, port, made))
        return late


MOST_SENDS: Final = 200_000
"""More than any rank of a network of a few hundred nodes can plan in one call."""


WHOLE_NUMBERS: Final = ("segments_per_message", "max_redundancy", "tolerated_faults")
"""Statements of an algorithm about a job."""


def _whole(name: str, value: object) -> int:
    try:
        return index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} is {value!r:.60}, expected a whole number") from None


def printable(text: str) -> str:
    """Return a text without halves of surrogate pairs, which no message can hold."""
    return text.encode(errors="backslashreplace").decode()


def _enums(spec: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return {
        "collective": Collective(spec["collective"]),
        "port_model": PortModel(spec["port_model"]),
        "duplex": Duplex(spec["duplex"]),
    }


def _described(entry: type[Algorithm]) -> dict[str, JsonValue]:
    return {
        "key": [entry.family, str(entry.collective), entry.name],
        "port_models": list(map(str, entry.port_models)),
        "duplexes": list(map(str, entry.duplexes)),
        "built_in": _built_in(entry),
    }


def _built_in(entry: type[Algorithm]) -> str | None:
    """Return the registered algorithm of this program that a class is or derives from."""
    mine = {key: each for key, each in ALGORITHMS.items() if each.__module__.startswith("emunode.")}
    derived = {each: " ".join(key) for key, each in mine.items()}
    return next((derived[base] for base in entry.__mro__ if base in derived), None)


def _segment(plain: list[JsonValue]) -> Segment:
    origin, target, tree, number, payload = plain
    return origin, target, tree, number, bytes.fromhex(payload)


def _plain(segment: Segment) -> list[JsonValue]:
    try:
        origin, target, tree, number, payload = segment
        return [index(origin), index(target), index(tree), index(number), memoryview(payload).hex()]
    except (TypeError, ValueError):
        raise TypeError(f"a segment is (origin, target, tree, number, payload), not {segment!r:.100}") from None


def own_claims(algorithm: Algorithm) -> list[Claim]:
    """Return the claims that an algorithm adds to its base class, or all claims if it adds none.

    Inherited claims hold by construction. Counted together, they would hide a false claim of the author.
    """
    claims = algorithm.claims()
    base: Any = next(each for each in type(algorithm).__mro__ if each.__module__.startswith("emunode."))
    inherited: list[Claim] = []
    if not getattr(base.claims, "__isabstractmethod__", False):
        with suppress(Exception):  # the base may count on what a subclass replaces
            inherited = base.claims(algorithm)
    return [claim for claim in claims if claim not in inherited] or claims
