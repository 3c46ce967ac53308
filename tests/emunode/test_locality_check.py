"""`check_locality` on rules that cheat in every way that it is meant to find."""

import gc
import os
import random
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

import psutil
import pytest

from emunode.algorithms.base import LocalView, Need, Rule
from emunode.algorithms.flooding import Flood, FloodRule
from emunode.errors import ContractError, RunError
from emunode.faults.injector import Faults
from emunode.faults.kinds import Down
from emunode.locality import sample_ranks
from emunode.model import ALL_RANKS, Port, PortPacket, Rank, ScheduledSend, Step
from emunode.runtime import in_child
from emunode.testing import check_locality
from emunode.topologies.star import StarGraph


def test_every_sampled_rank_runs_alone() -> None:
    star = StarGraph(4)
    check_locality(Flood, star)
    assert len(sample_ranks(star, 5)) == 8
    assert sample_ranks(star, 5)[0] == 5
    assert sample_ranks(StarGraph(3), 0) == [0, 1, 2, 3, 4, 5]


# --- rules that cheat ------------------------------------------------------------------------------------------------

BOARD: dict[Rank, int] = {}
"""A dictionary that all ranks of one process share."""
INSTANCES: list["Cheat"] = []
START = time.monotonic()
SOME = (0, 3, 9)
"""Ranks that run alone: the source, and a near and a far one."""


class Cheat(FloodRule):
    """Floods, but asks `quiet` before it forwards; subclasses let that depend on what they must not know."""

    __slots__ = ("received",)

    def __init__(self, algorithm: Flood, view: LocalView) -> None:
        super().__init__(algorithm, view)
        self.received = 0

    def quiet(self, port: Port) -> bool:
        raise NotImplementedError

    @property
    def rank(self) -> Rank:
        return self._view.rank

    def peer(self, port: Port) -> Rank:
        return self._algorithm.topology.neighbour(self.rank, port)

    def receive(self, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        self.received += 1
        return [send for send in super().receive(step, packets) if not self.quiet(send[1])]


class SharedDictionary(Cheat):
    """Leaves out neighbours that have written into a dictionary of the module."""

    __slots__ = ()

    def quiet(self, port: Port) -> bool:
        BOARD[self.rank] = 1
        return self.peer(port) in BOARD


class SharedPayload(Cheat):
    """Sends only after the source has written into a dictionary of the module: always, when the source is there."""

    __slots__ = ()

    def start(self) -> Iterator[ScheduledSend]:
        for send in super().start():
            BOARD[ALL_RANKS] = 1
            yield send

    def quiet(self, port: Port) -> bool:
        return ALL_RANKS not in BOARD


class OnAlgorithm(Cheat):
    """Keeps what it has received in the algorithm object, where others read it."""

    __slots__ = ()

    def quiet(self, port: Port) -> bool:
        board = vars(self._algorithm).setdefault("board", set())
        board.add(self.rank)
        return self.peer(port) in board


class OtherRules(Cheat):
    """Looks into the rules of other ranks through a list of all of them."""

    __slots__ = ()

    def __init__(self, algorithm: Flood, view: LocalView) -> None:
        super().__init__(algorithm, view)
        INSTANCES.append(self)

    def quiet(self, port: Port) -> bool:
        return any(other.received for other in INSTANCES if other.rank == self.peer(port))


def closure() -> type[Cheat]:
    """Return a rule whose instances share a variable of the function that made their class."""
    heard: set[Rank] = set()

    class Closure(Cheat):
        __slots__ = ()

        def quiet(self, port: Port) -> bool:
            heard.add(self.rank)
            return self.peer(port) in heard

    return Closure


class Collector(Cheat):
    """Finds the rules of other ranks with the garbage collector."""

    __slots__ = ()

    def quiet(self, port: Port) -> bool:
        # Once is enough, and a search through all objects of a test process takes long.
        if self.rank != 3 or port != 2:
            return False
        return any(each.rank == self.peer(port) for each in gc.get_objects() if isinstance(each, Collector))


class FaultSet(Cheat):
    """Finds the faults of the engine with the garbage collector, and leaves out links that are down."""

    __slots__ = ()

    def quiet(self, port: Port) -> bool:
        if self.rank != 3 or port != 2:
            return False
        return any(port not in each.live_ports(1, self.rank) for each in gc.get_objects() if isinstance(each, Faults))


class CallerFrames(Cheat):
    """Finds the faults of the engine in the local variables of its callers, without a call of the interpreter."""

    __slots__ = ()

    def quiet(self, port: Port) -> bool:
        try:
            raise KeyError
        except KeyError as error:
            trace = error.__traceback__
        frame = trace.tb_frame.f_back if trace else None
        while frame is not None:
            faults = getattr(frame.f_locals.get("self"), "_faults", None)
            if isinstance(faults, Faults):
                return port not in faults.live_ports(1, self.rank)
            frame = frame.f_back
        return False


def asks(question: Callable[[Cheat], object]) -> type[Cheat]:
    """Return a rule that asks the outside world something and does nothing with the answer."""

    class Asking(Cheat):
        __slots__ = ()

        def quiet(self, port: Port) -> bool:
            question(self)
            return False

    return Asking


def flood_with(rule: type[Cheat]) -> type[Flood]:
    """Return the flooding algorithm with another rule."""

    def made(self: Flood, view: LocalView) -> Rule:
        return rule(self, view)

    return type("Cheating", (Flood,), {"name": "cheating", "rule": made})


DIFFERENT = "is not local: in step"
CHEATS = [
    pytest.param(SharedDictionary, DIFFERENT, id="module dictionary"),
    pytest.param(SharedPayload, DIFFERENT, id="module dictionary of the source"),
    pytest.param(OnAlgorithm, DIFFERENT, id="algorithm object"),
    pytest.param(OtherRules, DIFFERENT, id="list of rules"),
    pytest.param(closure(), DIFFERENT, id="closure"),
    pytest.param(CallerFrames, DIFFERENT, id="frames of callers"),
    pytest.param(Collector, "it calls gc.get_objects", id="garbage collector"),
    pytest.param(FaultSet, "it calls gc.get_objects", id="fault set"),
    pytest.param(asks(lambda _: time.monotonic() - START), "it calls time.monotonic", id="clock"),
    pytest.param(asks(lambda _: datetime.now()), "it calls datetime.now", id="date"),  # noqa: DTZ005  # any clock
    pytest.param(asks(lambda _: random.random()), "it calls random.random", id="random"),
    pytest.param(asks(lambda _: random.randrange(9)), "it calls random.getrandbits", id="random integer"),
    pytest.param(asks(lambda _: random.Random().random()), "it calls random.Random without a seed", id="unseeded"),
    pytest.param(asks(lambda _: random.SystemRandom().random()), "it calls posix.urandom", id="system random"),
    pytest.param(asks(lambda _: os.getpid()), "it calls posix.getpid", id="process id"),
    pytest.param(asks(lambda _: socket.gethostname()), "it calls _socket.gethostname", id="socket"),
    pytest.param(asks(lambda _: Path("/etc/hostname").exists()), "it calls posix.stat", id="file status"),
    pytest.param(asks(lambda _: Path(os.devnull).open().close()), "it calls _?io.open", id="file"),
    pytest.param(asks(lambda _: tempfile.mkdtemp()), "posix.mkdir", id="folder"),
    pytest.param(asks(lambda _: sys._getframe()), "it calls sys._getframe", id="frame"),
]  # fmt: skip


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(("rule", "message"), CHEATS)
def test_rules_that_cheat_are_found(rule: type[Cheat], message: str) -> None:
    # A link of rank 3, which knows nothing of it, is down from the first step on.
    star = StarGraph(4)
    port = 1
    far, its_port = star.end(3, port)
    down = {1: [Down(1, 3, port), Down(1, far, its_port)]}
    with pytest.raises(ContractError, match=message):
        check_locality(flood_with(rule), star, faults=down, ranks=SOME)


def test_what_depends_on_arrivals_and_address_is_local() -> None:
    class Own(Cheat):
        """Uses all that a rule may use, and a seeded generator."""

        __slots__ = ()

        def quiet(self, port: Port) -> bool:
            spec = self._algorithm.spec
            return random.Random(f"{spec.seed}/{self.rank}/{port}/{self.received}").random() < 0.3

    check_locality(flood_with(Own), StarGraph(4), ranks=SOME)


def test_an_undeclared_table_is_found() -> None:
    class Table(Cheat):
        """Asks for the neighbours of every rank."""

        __slots__ = ()

        def quiet(self, port: Port) -> bool:
            topology = self._algorithm.topology
            return sum(map(len, map(topology.neighbours, topology.ranks()))) == 0

    table = flood_with(Table)
    with pytest.raises(ContractError, match=r"asks the topology about all 24 ranks.*Need.TABLE"):
        check_locality(table, StarGraph(4), ranks=SOME)
    table.needs = frozenset({Need.TABLE})
    check_locality(table, StarGraph(4), ranks=SOME)


def test_errors_of_a_rule_name_it() -> None:
    class Broken(Cheat):
        __slots__ = ()

        def quiet(self, port: Port) -> bool:
            raise KeyError(port)

    with pytest.raises(ContractError, match=r"cheating at rank \d+, step 2, .*KeyError"):
        check_locality(flood_with(Broken), StarGraph(4))


def test_the_check_leaves_nothing_behind() -> None:
    BOARD.clear()
    INSTANCES.clear()
    star = StarGraph(4)
    with pytest.raises(ContractError):
        check_locality(flood_with(SharedDictionary), star, ranks=(0, 12))
    with pytest.raises(ContractError):
        check_locality(flood_with(OtherRules), star, ranks=(0, 12))
    assert (BOARD, INSTANCES, type(star)) == ({}, [], StarGraph)


# --- a child process -------------------------------------------------------------------------------------------------


def test_child_returns_its_result() -> None:
    assert in_child(lambda: b"x" * 200_000, 60) == b"x" * 200_000


@pytest.mark.parametrize(
    ("work", "seconds", "message"),
    [
        (lambda: os._exit(3), 60, "ended without an answer"),
        (lambda: bytes([256]), 60, "failed:\n.*ValueError"),
        (lambda: time.sleep(60), 0.1, "did not answer in time"),
    ],
)
def test_child_that_fails_is_an_error(work: Callable[[], bytes], seconds: float, message: str) -> None:
    with pytest.raises(RunError, match=f"(?s){message}"):
        in_child(work, seconds)
    assert psutil.Process().children() == []
