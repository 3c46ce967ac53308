"""Runs of every algorithm: the conformance suite, its claims, one history in the engine and over sockets."""

from collections import Counter
from itertools import cycle, product
from zlib import crc32

from emunode.algorithms.base import ANY_FAMILY, Algorithm, Need
from emunode.algorithms.conformance import check_algorithm, execute
from emunode.algorithms.registry import registered
from emunode.engine.memory import MemoryEngine
from emunode.errors import ScenarioError
from emunode.model import ALL_RANKS, NUMBER_BYTES, VECTOR, CollectiveSpec, Duplex, HopOutcome
from emunode.net.wire import ROW
from emunode.play import play
from emunode.topologies.base import FAMILIES
from emunode.topologies.registry import parse_topology
from tests.contract.cases import CASES, ONCE, AlgorithmCase
from tests.contract.walk import check
from tests.helpers.scenarios import Case
from tests.helpers.support import failures, run_scenario

MORE = {"ej": ("ej:0+3", "ej:1+2^2")}
"""Networks beside the two smallest examples of a family: other kinds of alpha, and two dimensions."""
COUNTERS = ("improved-printed", "three-phase-restart", "three-phase-restart-own")
UNDEFINED = {("hypercube:2", "sbt-reflections"), *product(("ej:2+2", "ej:0+3"), COUNTERS)}
"""Combinations that a paper does not define: k < 2 reflections, and counters for other networks than b = a + 1."""
VARIANTS = (
    {"messages": 3, "message_bytes": 36},
    {"messages": 4, "message_bytes": 35, "redundancy": 2},
    {"segments": 2, "message_bytes": 37},
    {"messages": 6, "message_bytes": 36, "duplex": Duplex.HALF},
    {"messages": 6, "message_bytes": 31, "segments": 2, "packet_limit": 9},
)


def networks_for(family: str, entry: type[Algorithm]) -> tuple[str, ...]:
    """Return the networks of a family for the conformance suite; one is enough if the algorithm runs on every family."""
    if entry.family == ANY_FAMILY:
        return FAMILIES[family].small_examples[: 2 if family in ("star", "mesh") else 1]
    return (*FAMILIES[family].small_examples[:2], *MORE.get(family, ()))


CONFORMING = [
    AlgorithmCase(network, entry)
    for family, entry in registered()
    for network in networks_for(family, entry)
    if (network, entry.name) not in UNDEFINED and Need.SPECIAL_LINKS not in entry.needs
]


@check(one_in=40, cases=CONFORMING)
def conforms(case: AlgorithmCase) -> None:
    """Every combination of port model, duplex, messages, segments and redundancy keeps the contract, without an engine."""
    check_algorithm(case.entry, parse_topology(case.network))


@check(one_in=8)
def memory_engine_sends_the_same_segments(case: AlgorithmCase) -> None:
    """The memory engine and the interpreter of the conformance suite send the same segments in the same steps."""
    topology, entry = parse_topology(case.network), case.entry
    spec = CollectiveSpec(topology.name, entry.collective, entry.name, 0, entry.port_models[0])
    algorithm = entry(topology, spec._replace(messages=topology.degree))
    rows = b"".join(play(MemoryEngine(algorithm)))
    expected = sorted(
        (step, sender, port, receiver, (origin, target, tree, index, len(payload)))
        for step, sender, port, receiver, (origin, target, tree, index, payload) in execute(algorithm)
    )
    found = sorted(
        (step, sender, port, receiver, (origin, target, tree, index, size))
        for step, sender, receiver, origin, target, index, size, tree, port, outcome in ROW.iter_unpack(rows)
        if outcome != HopOutcome.LOST
    )
    assert found == expected


@check(
    one_in=12,
    cases=[
        AlgorithmCase(network, case.entry)
        for case in CASES
        for network in (case.network, *(["hypercube:4"] if case.network == "hypercube:3" else []))
        if not case.entry.traits.negative_control
    ],
)
def runs_keep_their_claims(case: AlgorithmCase) -> None:
    """A complete run for each port model keeps all claims, about structure and virtual time too; the variants alternate."""
    models = case.entry.port_models
    for number, port_model in enumerate(models, crc32(case.entry.name.encode())):
        ran = ran_with_its_claims(case.scenario.but(port_model=port_model), number)
        # An algorithm for any network may have its further port models on some networks only.
        assert ran or (case.entry.family == ANY_FAMILY and port_model != models[0])


def ran_with_its_claims(case: Case, number: int) -> bool:
    """Run the first variant from `number` on that the algorithm accepts, and check its claims."""
    for place in range(len(VARIANTS)):
        variant: dict[str, object] = dict(VARIANTS[(number + place) % len(VARIANTS)])
        size = variant.get("message_bytes")
        if case.values["collective"] in VECTOR and isinstance(size, int):
            # As many bytes for each block of the vector as elsewhere for a message.
            variant["message_bytes"] = size * len(parse_topology(str(case.values["topology"])).data_ranks)
        try:
            run = case.but(**variant).run
        except ScenarioError:
            continue
        assert not failures(run), variant
        return True
    return False


@check(one_in=80, cases=ONCE)
def sockets_give_the_history_of_the_memory_engine(case: AlgorithmCase) -> None:
    """Runs in memory and over sockets have the same verdict and journal."""
    degree = parse_topology(case.network).degree
    assert_one_history(case.scenario.but(messages=degree))


def assert_one_history(case: Case) -> None:
    """Run a case in memory and over sockets, and compare verdict and journal."""
    sockets = run_scenario(None, **case.values | {"driver": "local"})
    assert sockets.verdict == case.run.verdict
    assert sockets.summary["journal_hash"] == case.summary["journal_hash"]


CUT_NUMBERS: tuple[dict[str, object], ...] = (
    {"segments": 2}, {"segments": 3, "messages": 2}, {"packet_limit": 12}, {"segments": 2, "fixed_order": True},
    {"segments": "auto", "startup": 0},
)  # fmt: skip
"""Options of runs of real numbers whose elements the parts of a message do not divide."""


@check(
    one_in=16,
    cases=[each for each in CASES if each.entry.collective in VECTOR and not each.entry.traits.negative_control],
)
def numbers_are_cut_at_whole_elements(case: AlgorithmCase) -> None:
    """Packets have the bytes of whole elements, dealt out here, and all claims hold; kinds, sizes and cuts alternate."""
    ranks = len(parse_topology(case.network).data_ranks)
    kinds = cycle(zip(NUMBER_BYTES, (3, 7, 10, 13), strict=True))
    for (model, more), (kind, elements) in zip(product(case.entry.port_models, CUT_NUMBERS), kinds, strict=False):
        numbers = case.scenario.but(port_model=model, values=kind)
        for count in (elements, elements * ranks + 1):
            tried = numbers.but(message_bytes=count * NUMBER_BYTES[kind], **more)
            try:
                run = tried.run
            except ScenarioError:
                continue
            assert not failures(run), tried
            if "fixed_order" not in more:
                _have_sizes_of_dealt_elements(tried, count, NUMBER_BYTES[kind])


def _have_sizes_of_dealt_elements(tried: Case, elements: int, unit: int) -> None:
    """Deal out elements one by one, to blocks and then to segments, and compare the bytes of packets and of links."""
    plan = tried.plan
    ranks, blocks, parts = plan.topology.data_ranks, plan.spec.blocks, plan.algorithm.segments_per_message
    block = {rank: len(range(place % blocks, elements, blocks)) for place, rank in enumerate(ranks)}
    loads = Counter[tuple[int, int, int]]()
    for row in tried.journal.iter_rows(named=True):
        owner = row["origin"] if row["target"] == ALL_RANKS else row["target"]
        assert row["bytes"] == unit * len(range(row["segment"] % parts, block[owner], parts))
        loads[row["step"], row["sender"], row["receiver"]] += row["bytes"]
    heaviest = dict[int, int]()
    for (step, *_), size in loads.items():
        heaviest[step] = max(size, heaviest.get(step, 0))
    assert tried.run.conclusion.metrics["transfer_bytes"] == sum(heaviest.values())
