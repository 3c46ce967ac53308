"""The isolation of ranks in every algorithm: a rule leads to no other rank, and a process per rank changes nothing."""

import gc
from collections.abc import Callable, Iterator
from itertools import chain
from types import FunctionType, ModuleType

from emunode.algorithms.base import Algorithm, LocalView, Rule
from emunode.engine.memory import MemoryEngine
from emunode.engine.node import Node
from emunode.engine.rank_set import RankSet
from emunode.errors import ScenarioError
from emunode.faults.injector import Faults
from emunode.faults.kinds import Crash
from emunode.model import CollectiveSpec
from emunode.play import play
from emunode.testing import check_locality
from emunode.topologies.registry import parse_topology
from tests.contract.cases import ONCE, AlgorithmCase
from tests.contract.walk import check

FAULTS = {2: [Crash(step=2, rank=5)]}


def algorithm_of(case: AlgorithmCase) -> Algorithm:
    """Return a new algorithm of a case, under the paper's own port model."""
    topology, entry = parse_topology(case.network), case.entry
    spec = CollectiveSpec(topology.name, entry.collective, entry.name, 0, entry.port_models[0])
    try:
        return entry(topology, spec)
    except ScenarioError:  # some want messages for several trees at once
        return entry(topology, spec._replace(messages=topology.degree))


def live(network: MemoryEngine, limit: int = 10_000) -> list[bytes]:
    """Run a network to its end, with a crash on the way; return the journal rows of each step."""
    rows = list(map(bytes, play(network, chain.from_iterable(FAULTS.values()), limit=limit)))
    assert not network.busy
    return rows


def referents(thing: object) -> Iterator[object]:
    """Yield the objects that a rule could reach through `thing`, without modules and types, which lead to everything."""
    if isinstance(thing, ModuleType | type):
        return
    if isinstance(thing, FunctionType):
        yield from (thing.__closure__, thing.__defaults__, thing.__kwdefaults__, thing.__dict__)
        return
    yield from gc.get_referents(thing)


def reachable(*things: object) -> list[object]:
    """Return everything that can be reached from `things`, themselves included."""
    seen: dict[int, object] = {}
    waiting = list(things)
    while waiting:
        thing = waiting.pop()
        if id(thing) not in seen:
            seen[id(thing)] = thing
            waiting += referents(thing)
    return list(seen.values())


@check(one_in=6)
def a_rule_reaches_no_other_rank(case: AlgorithmCase) -> None:
    """No reference leads from a rule to the rule of another rank, to a node, an engine or a fault."""
    algorithm = algorithm_of(case)
    network = MemoryEngine(algorithm)
    for step in range(1, 4):  # in the middle of things, with packets on their way and a crash in force
        network.step(step, FAULTS.get(step, ()))
    nodes = list(network._runner.rank_set.nodes.values())
    assert len(nodes) > 1
    for node in (nodes[0], nodes[-1]):
        mine = reachable(node._rule)
        assert [view.rank for view in mine if isinstance(view, LocalView)] in ([], [node.rank])
        # An allreduce has a rule for each phase; no other rank leads to them.
        rules = [thing for thing in mine if isinstance(thing, Rule)]
        theirs = reachable(next(other._rule for other in nodes if other is not node))
        assert node._rule in rules
        assert not [rule for rule in rules if any(rule is thing for thing in theirs)]
        assert not [thing for thing in mine if isinstance(thing, Node | MemoryEngine | RankSet | Faults | Crash)]


@check(one_in=8)
def a_shared_algorithm_gives_the_same_history(case: AlgorithmCase) -> None:
    """Nodes that share an algorithm and nodes that have one each send the same."""
    algorithm = algorithm_of(case)
    shared = live(MemoryEngine(algorithm))
    alone = live(MemoryEngine(algorithm, AlgorithmPerRank(algorithm, lambda: algorithm_of(case))))
    assert shared == alone


class AlgorithmPerRank(RankSet):
    """Nodes that have an algorithm each, as with a process per rank."""

    def __init__(self, algorithm: Algorithm, make: Callable[[], Algorithm]) -> None:
        super().__init__(algorithm, algorithm.topology.ranks())
        self._make = make

    def create_node(self, view: LocalView) -> Node:
        its = self._make()
        return Node(view.rank, its, its.rule(LocalView(its.topology, view.rank)))


@check(one_in=6)
def a_rule_has_no_instance_dictionary(case: AlgorithmCase) -> None:
    """Rules have slots alone: a network has a rule for each rank."""
    algorithm = case.plan.algorithm
    rule = algorithm.rule(LocalView(algorithm.topology, 0))
    assert not hasattr(rule, "__dict__")


@check(one_in=20, cases=ONCE)
def a_rule_is_local(case: AlgorithmCase) -> None:
    """Two ranks send the same in a process of their own: the source, whose schedule is the longest, and a forwarder."""
    topology = parse_topology(case.network)
    check_locality(case.entry, topology, ranks=(0, topology.order // 2))
