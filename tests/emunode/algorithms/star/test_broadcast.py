"""Broadcast and reduce on the star graph: numbers of segments, copies on arc-disjoint trees, and recursion over substars."""

from functools import partial
from math import sqrt

import polars as pl
import pytest

from emunode.algorithms.registry import find_algorithm, make_algorithm
from emunode.algorithms.star.bounds import MULTIPLE
from emunode.algorithms.star.multiple_trees import CongestionTwoBroadcast, GreedyBroadcast
from emunode.model import Collective, CollectiveSpec, PortModel
from emunode.topologies.star import StarGraph
from tests.helpers.support import failures, golden_rows, run_journal, run_scenario

golden = partial(golden_rows, "star")
SOURCES = {3: "213", 4: "3142", 5: "53142", 6: "261543", 7: "7162534"}


def broadcast(n: int, algorithm: str, **values: object) -> dict[str, object]:
    """Run a broadcast from a source that is not the identity; every claim must hold."""
    given_ = {"topology": f"star:{n}", "collective": "broadcast", "algorithm": algorithm, "source": SOURCES[n]}
    result = run_scenario(None, **{**given_, **values})
    assert not failures(result)
    return result.summary


# Algorithm 1 of Tseng and Sheu.


@pytest.mark.parametrize("row", golden("alg1_time_formula"), ids=lambda row: f"{row['n']}-{row['m']}-{row['Ts']}")
def test_best_number_of_segments(row: dict[str, str]) -> None:
    n, m, startup, per_byte = int(row["n"]), int(row["m"]), float(row["Ts"]), float(row["Tc"])
    star = StarGraph(n)
    spec = CollectiveSpec(star.name, Collective.BROADCAST, "congestion2-trees", 0, message_bytes=m)
    p = CongestionTwoBroadcast.auto_segments(star, spec, startup, per_byte)
    assert p == int(row["p_best_integer"])
    h = int(row["h"])
    time = (h + p - 1) * (startup + 2 * m * per_byte / (p * (n - 1)))
    assert time == pytest.approx(float(row["T_at_integer_p"]), abs=1e-5)
    best = (sqrt((h - 1) * startup) + sqrt(2 * m * per_byte / (n - 1))) ** 2
    assert best == pytest.approx(float(row["T_opt_allport"]), abs=1e-5)
    assert best * (n - 1) == pytest.approx(float(row["T_opt_oneport"]), abs=1e-4)
    bound = max(star.diameter * startup, m * per_byte / (n - 1))
    assert bound == pytest.approx(float(row["lower_bound_allport"]))
    assert bound <= best <= time + 1e-9


def test_segments_auto_without_costs() -> None:
    star = StarGraph(4)
    spec = CollectiveSpec(star.name, Collective.BROADCAST, "congestion2-trees", 0, message_bytes=100)
    assert CongestionTwoBroadcast.auto_segments(star, spec, 1.0, 0.0) == 1, "bytes cost nothing"
    assert CongestionTwoBroadcast.auto_segments(star, spec, 0.0, 1.0) == 33, "start-ups cost nothing"
    assert CongestionTwoBroadcast.auto_segments(star, spec._replace(message_bytes=2), 0.0, 1.0) == 1
    assert GreedyBroadcast.auto_segments(star, spec, 0.0, 1.0) == 100
    assert GreedyBroadcast.auto_segments(star, spec, 3.0, 1.0) == 10, "sqrt(3 * 100 / 3)"


@pytest.mark.parametrize("algorithm", ["greedy-tree", "congestion2-trees"])
def test_segments_auto_beats_its_neighbours(algorithm: str) -> None:
    best = predicted_seconds(algorithm, "auto")
    star = StarGraph(4)
    spec = CollectiveSpec(star.name, Collective.BROADCAST, algorithm, 0, message_bytes=6000)
    segments = find_algorithm(star, spec).auto_segments(star, spec, 500e-6, 1e-6)
    assert segments > 2
    assert best == predicted_seconds(algorithm, segments)
    assert best < min(predicted_seconds(algorithm, other) for other in (1, segments - 1, segments + 1))


def predicted_seconds(algorithm: str, segments: int | str) -> float:
    """Return t(p) as a run claims it and keeps it."""
    result = run_scenario(
        topology="star:4",
        collective="broadcast",
        algorithm=algorithm,
        segments=segments,
        message_bytes=6000,
        startup="500us",
        per_byte="1us",
    )
    assert not failures(result)
    (claim,) = (
        judgement.claim
        for judgement in result.judgements
        if judgement.claim.name == "virtual_seconds" and judgement.claim.relation != ">="
    )
    assert isinstance(claim.predicted, float)
    return claim.predicted


# Arc-disjoint trees.


# Recursion over substars (Qiu, in the words of Tseng and Sheu, section 6.1).


@pytest.mark.parametrize("n", [3, 4, 5])
def test_substars_hold_their_own_pieces_before_combining(n: int) -> None:
    """At the base every pair of nodes that differ in positions 1 and 2 has its own piece, and no other node's at level 3."""
    _, journal = run_journal(
        topology=f"star:{n}",
        collective="broadcast",
        algorithm="substar-segments",
        port_model="one-port",
        message_bytes=360,
    )
    star, base = StarGraph(n), n * (n - 1) // 2
    last = journal.filter(pl.col("step") == base)
    assert len(last) == star.order // 2
    for sender, receiver, segment in last.select("sender", "receiver", "segment").rows():
        assert sender // 2 == receiver // 2 == segment
    later = journal.filter(pl.col("step") > base).group_by("step").agg(pl.col("port").n_unique(), packets=pl.len())
    assert set(later["port"]) == {1}, "all nodes exchange over one type of link"


# Bad input.


def test_every_claim_of_algorithm_1_names_its_source() -> None:
    spec = CollectiveSpec(
        "star:5", Collective.BROADCAST, "congestion2-trees", 0, port_model=PortModel.ONE_PORT, segments=2
    )
    algorithm = make_algorithm(StarGraph(5), spec)
    claims = [*algorithm.claims(), *algorithm.cost_claims(1e-3, 1e-6)]
    assert all(MULTIPLE in claim.source for claim in claims)
    assert {"steps", "segments", "max_link_segments", "transfer_bytes", "virtual_seconds"} <= {c.name for c in claims}
