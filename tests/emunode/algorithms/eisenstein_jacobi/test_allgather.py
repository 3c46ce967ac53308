"""All-to-all broadcasts of Eisenstein-Jacobi networks: complete, free of half-duplex conflicts, and the printed one."""

from collections import Counter
from functools import partial
from random import Random

import polars as pl
import pytest

from coordinator.execution.sinks import FinishedRun
from emunode.algorithms.base import LocalView
from emunode.algorithms.eisenstein_jacobi.allgather import PhasedAllgather, PhaseRule
from emunode.algorithms.registry import make_algorithm
from emunode.algorithms.tree_collective import ForwardRule, TreeCollective
from emunode.engine.memory import MemoryEngine
from emunode.model import ALL_RANKS, Collective, CollectiveSpec, Duplex, Port, Rank, Segment
from emunode.net.wire import ROW
from emunode.topologies.eisenstein_jacobi import EisensteinJacobi
from tests.helpers.support import golden_rows, run_journal, run_scenario

golden = partial(golden_rows, "ej")
COMPLETE = ("three-phase", "two-phase", "dimension-wise")


def allgather(topology: str, algorithm: str, **values: object) -> FinishedRun:
    duplex = "full" if algorithm == "improved" else "half"
    return run_scenario(
        None, **{"topology": topology, "collective": "allgather", "algorithm": algorithm, "duplex": duplex, **values}
    )


def allgather_on(topology: str, algorithm: str, duplex: Duplex = Duplex.HALF) -> PhasedAllgather:
    network = EisensteinJacobi.parse(topology.removeprefix("ej:"))
    made = make_algorithm(network, CollectiveSpec(topology, Collective.ALLGATHER, algorithm, 0, duplex=duplex))
    assert isinstance(made, PhasedAllgather)
    return made


# The paper's network, and the measured table.


def test_printed_phases_are_incomplete_on_the_papers_network() -> None:
    """144 of 360 for every source; the run is violated, and shows who misses what."""
    values = {"topology": "ej:2+3^2", "collective": "allgather", "algorithm": "three-phase-printed", "duplex": "half"}
    result, journal = run_journal(**values)
    assert result.verdict == "violated"
    assert result.exit_status == 1
    [failed] = [judgement for judgement in result.judgements if judgement.verdict != "holds"]
    assert (failed.claim.name, failed.claim.predicted, failed.measured) == ("intact_deliveries", 129_960, 51_984)
    assert "216 nodes" in failed.claim.source
    nodes = result.conclusion.measurement.nodes
    assert set(nodes.select("received", "expected").rows()) == {(144, 360)}
    network = EisensteinJacobi(2, 3, 2)
    source = network.rank("1,0/0,1")
    reached = set(journal.filter(pl.col("origin") == source)["receiver"].to_list())
    phases = [{network.sector(index)[0] % 6 // 2 for index in network.digits(delta) if index} for delta in range(361)]
    missed = {network.absolute(delta, source) for delta in range(361) if len(phases[delta]) > 1}
    assert reached == set(network.ranks()) - missed - {source}
    example = network.rank(failed.claim.source.rpartition(" ")[2])
    assert network.absolute(example, source) in missed


# Phases without a clock.


@pytest.mark.parametrize("algorithm", [*COMPLETE, "three-phase-printed"])
@pytest.mark.parametrize("topology", ["ej:2+3", "ej:0+3^2", "ej:2+2", "ej:1+2^2"])
def test_counting_rule_and_clocked_rule_give_the_same_history(topology: str, algorithm: str) -> None:
    """The rule that counts and the rule that has a clock and the timetable make the same history, row by row."""

    class Clocked(type(allgather_on(topology, algorithm))):  # type: ignore[misc]  # a base known when the test runs
        def rule(self, view: LocalView) -> ForwardRule:
            return ForwardRule(self, view)

    counted = allgather_on(topology, algorithm)
    assert isinstance(counted, TreeCollective)
    clocked = Clocked(counted.topology, counted.spec)
    networks = MemoryEngine(counted), MemoryEngine(clocked)
    for step in range(1, counted.last_step + 3):
        rows = [network.step(step) for network in networks]
        one, other = (sorted(row[at : at + ROW.size] for at in range(0, len(row), ROW.size)) for row in rows)
        assert one == other
    assert not any(network.busy for network in networks)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("algorithm", COMPLETE)
@pytest.mark.parametrize("topology", ["ej:2+3", "ej:0+4", "ej:2+4", "ej:1+2^2", "ej:0+3^2"])
def test_without_a_clock_no_link_is_used_both_ways(topology: str, algorithm: str, seed: int) -> None:
    """Packets cross their links in any time and any order: exactly once still, and never two in opposite directions."""
    made = allgather_on(topology, algorithm)
    network, order = made.topology, made.topology.order
    rules = [made.rule(LocalView(network, rank)) for rank in network.ranks()]
    flying: list[tuple[Rank, Port, Segment]] = []
    on_link: Counter[tuple[Rank, Port]] = Counter()
    received: Counter[tuple[Rank, Rank]] = Counter()
    random = Random(seed)

    def launch(rank: Rank, port: Port, segment: object) -> None:
        assert isinstance(segment, tuple)
        assert not on_link[network.end(rank, port)]
        on_link[rank, port] += 1
        flying.append((rank, port, segment))

    for rank, rule in enumerate(rules):
        for _, port, segment in rule.start():
            launch(rank, port, segment)
    while flying:
        at = random.randrange(len(flying))
        flying[at], flying[-1] = flying[-1], flying[at]
        sender, port, segment = flying.pop()
        on_link[sender, port] -= 1
        there, its_port = network.end(sender, port)
        received[segment[0], there] += 1
        for _, child_delays, what in rules[there].receive(1, [(its_port, (segment,))]):
            launch(there, child_delays, what)
    assert len(received) == order * (order - 1)
    assert set(received.values()) == {1}


def test_repeated_message_is_counted_once() -> None:
    made = allgather_on("ej:2+3", "three-phase")
    rule = made.rule(LocalView(made.topology, 0))
    assert isinstance(rule, PhaseRule)
    list(rule.start())
    segment = (made.topology.neighbour(0, 3), ALL_RANKS, 0, 0, b"")
    first = list(rule.receive(1, [(3, (segment,))]))
    assert first
    assert not list(rule.receive(2, [(3, (segment,))]))


# What the printed rules do when taken at their word.
