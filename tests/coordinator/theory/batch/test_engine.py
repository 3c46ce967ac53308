"""The batch engine against brute force of the literature's values, and where it is exact."""

from itertools import combinations
from math import comb
from random import Random

import numpy as np
import pytest

from coordinator.scenario.fault_draws import FaultSites
from coordinator.scenario.fault_syntax import parse_faults
from coordinator.theory.batch.engine import BatchEngine, batch_engine_of
from coordinator.theory.batch.exactness import why_inexact
from coordinator.theory.batch.fault_batch import Episode, FaultBatch
from coordinator.theory.dependence.bit_rows import unpacked
from emunode.faults.byzantine import Byzantine
from emunode.faults.effects import Alters, Interval, Stops
from emunode.faults.kinds import FOREVER, Crash, Delay, Down
from tests.coordinator.theory.test_reliability import golden
from tests.helpers.batch_support import batch_of, compare, run
from tests.helpers.scenarios import Case
from tests.helpers.support import golden_rows

ALWAYS = Interval(1, FOREVER + 1)

# --- values by brute force ---------------------------------------------------------------------------------------------

SETS = [
    (case, int(failed))
    for case, counts in golden().items()
    for failed, (survived, *_, places) in counts.items()
    if 1 < failed < places and survived and comb(places, failed) < 9000
]


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize(("case", "size"), SETS)
def test_all_sets_lose_what_brute_force_counts(case: tuple[str, str, str, str], size: int) -> None:
    network, algorithm, trees, kind = case
    given = Case(f"{network} broadcast {algorithm} x={trees}").plan
    engine, sites = batch_engine_of(given), FaultSites(given.algorithm)
    places = sites.nodes() if kind == "node" else sites.links
    sets = np.array(list(combinations(range(len(places)), size)))
    outcome = engine.evaluate(struck(engine, kind, places, sets))
    assert (int(outcome.served.sum()), int(outcome.unserved.sum())) == golden()[case][size][:2]


def struck(engine: BatchEngine, kind: str, places: object, sets: np.ndarray) -> FaultBatch:
    """Return a batch with the places of each set broken from step 1 on."""
    batch = FaultBatch(engine.arcs, len(sets))
    chosen = np.array(places)[sets]
    trials = np.arange(len(sets))
    if kind != "link":
        effect = Stops() if kind == "node" else Alters(alike=True)
        batch.strike_nodes(Episode(effect, ALWAYS), chosen, np.broadcast_to(trials[:, None], chosen.shape))
        return batch
    topology = engine.plan.topology
    ports = np.full((topology.order, topology.order), -1)
    for rank in topology.ranks():
        for port, peer in topology.adjacent(rank):
            ports[rank, peer] = port
    for one, other in ((0, 1), (1, 0)):
        senders, receivers = chosen[..., one], chosen[..., other]
        arcs = engine.arcs.numbers(senders, ports[senders, receivers])
        batch.strike_arcs(Episode(Stops(), ALWAYS, on_links=True), arcs, np.broadcast_to(trials[:, None], arcs.shape))
    return batch


@pytest.mark.parametrize("row", golden_rows("reliability", "byzantine_votes"), ids=lambda row: " ".join(row.values()))
def test_votes_under_byzantine_nodes_are_those_of_brute_force(row: dict[str, str]) -> None:
    given = Case(row["scenario"]).plan
    engine = batch_engine_of(given)
    sets = np.array(list(combinations(range(1, given.topology.order), int(row["byzantine"]))))
    outcome = engine.evaluate(struck(engine, "byzantine", range(given.topology.order), sets), copies=True)
    assert outcome.elected.sum(axis=1).tolist() == [int(row[name]) for name in ("right", "wrong", "none")]


# --- against messages --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("network", "collective", "algorithm"),
    [
        ("hypercube:3", "allreduce", "recursive-doubling"),
        ("complete:6", "allreduce", "recursive-doubling"),
        ("ring:6", "allreduce", "ring"),
        ("complete:6", "allgather", "bruck"),
        ("circulant:13:1,2,4,6", "broadcast", "circulant"),
    ],
)
def test_classical_schedules_agree_with_messages(network: str, collective: str, algorithm: str) -> None:
    compare(Case(f"{network} {collective} {algorithm}").plan, Random(f"{network}/{collective}"), 25)


def test_steps_in_which_ranks_are_informed() -> None:
    given = Case("star:4 broadcast edt", redundancy=3).plan
    engine = batch_engine_of(given)
    faults = parse_faults(["crash:2134@1"], given.topology)
    batch = batch_of(engine.arcs, [(), faults])
    informed = [(step, *unpacked(rows)[:, :2].sum(axis=0).tolist()) for step, rows in engine.informed(batch)]
    counts, _ = run(given, faults, 0)
    assert counts.unserved == ()
    assert informed[-1][1:] == (23, 22)
    # Without faults the first copies arrive along shortest ways, or later over the disjoint trees.
    assert [row[1] for row in informed] == sorted(row[1] for row in informed)
    assert informed[0] == (1, 3, 2)


# --- where it is not exact ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("collective", "algorithm", "more", "words"),
    [
        ("broadcast", "flood", {}, "decides during the run"),
        ("allgather", "edt-dfs-ack", {}, "decides during the run"),
        ("broadcast", "edt", {"fault_knowledge": "neighbours"}, "nodes that know faults"),
        ("broadcast", "edt", {"reliable": True}, "reliable links"),
        ("broadcast", "edt", {"fault": ("duplicate:1234~2134:0.5",)}, "duplicate is followed by messages only"),
        ("reduce", "greedy-tree", {"message_bytes": 4}, "at least 8 are needed"),
        ("broadcast", "edt", {"fault": ("loss:1234~2134:0.5@99",)}, "after the last step"),
    ],
)
def test_why_inexact(collective: str, algorithm: str, more: dict[str, object], words: str) -> None:
    assert words in str(why_inexact(Case(f"star:4 {collective} {algorithm}", **more).plan))


@pytest.mark.parametrize(
    ("faults", "names"),
    [
        (["loss:1234~2134:0.5", "heal:1234~2134@3"], ""),
        (["silent-ports:2134:1", "silent-segments:3214:1", "selective:4231:1"], ""),
        (["duplicate:1234~2134:0", "corrupt:1234~2134:0"], ""),
        (["silent-ports:2134:0.5", "selective:3214:0.5", "silent-ports:4231:0"], "selective, silent-ports"),
        (["crash:2134@1", "recover:2134@3"], "recover"),
        (["corrupt:1234~2134:1", "drop:1234~2134:2"], "corrupt, drop"),
        (["collude:2134", "silent-segments:3214:0.9"], "collude, silent-segments"),
    ],
)
def test_effects_that_are_followed(faults: list[str], names: str) -> None:
    reason = why_inexact(Case("star:4 broadcast edt", redundancy=3, fault=faults).plan)
    assert reason == (f"{names} is followed by messages only" if names else None)


def test_why_inexact_for_drawn_faults() -> None:
    given = Case("star:4 broadcast edt").plan
    assert why_inexact(given, [Crash(1, 0), Down(1000, 0, 0)]) is None
    assert "delay is followed by messages only" in str(why_inexact(given, [Delay(1, 0, 0, 2)]))
    assert why_inexact(given, [Byzantine(1, 0)]) is None
    assert "after the last step" in str(why_inexact(given, [Byzantine(1000, 0)]))
    assert why_inexact(Case("ej:2+3 allgather three-phase").plan) is not None
