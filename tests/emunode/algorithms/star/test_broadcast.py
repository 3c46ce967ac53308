"""Broadcast and reduce on the star graph: one tree, n-1 trees of congestion 2, n-1 arc-disjoint trees."""

import csv
from collections import Counter
from itertools import combinations
from math import factorial, sqrt
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emunode.algorithms.registry import find_algorithm, make_algorithm
from emunode.algorithms.star.bounds import MULTIPLE
from emunode.algorithms.star.multiple_trees import CongestionTwoBroadcast, GreedyBroadcast
from emunode.engine.memory import MemoryEngine
from emunode.errors import ScenarioError
from emunode.faults.kinds import Crash
from emunode.model import Collective, CollectiveSpec, HopOutcome, PortModel
from emunode.net.wire import ROW
from emunode.topologies.star import StarGraph
from tests.support import failures, run_journal, run_scenario

GOLDEN = Path(__file__).parents[3] / "golden" / "star"
NAMES = ("greedy-tree", "congestion2-trees", "edt")
SOURCES = {3: "213", 4: "3142", 5: "53142", 6: "261543", 7: "7162534"}


def golden(name: str) -> list[dict[str, str]]:
    """The rows of one file of expected numbers."""
    with (GOLDEN / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def broadcast(n: int, algorithm: str, **values: object) -> dict[str, object]:
    """Run a broadcast from a source that is not the identity; every claim must hold."""
    given_ = {"topology": f"star:{n}", "collective": "broadcast", "algorithm": algorithm, "source": SOURCES[n]}
    result = run_scenario(None, **{**given_, **values})
    assert not failures(result)
    return result.summary


# Algorithm 1 of Tseng and Sheu.


@pytest.mark.parametrize("row", golden("alg1_broadcast"), ids=lambda row: f"{row['n']}-{row['p']}-{row['model']}")
def test_algorithm_1_is_golden(row: dict[str, str]) -> None:
    n, p = int(row["n"]), int(row["p"])
    summary = broadcast(n, "congestion2-trees", segments=p, port_model=row["model"], message_bytes=(n - 1) * p * 2)
    assert summary["steps"] == int(row["steps_measured_last_used"]) <= int(row["steps_paper"])
    assert summary["segments"] == int(row["segment_tx_paper"]) == int(row["segment_tx_measured"])
    assert summary["max_link_segments_per_step"] in (1, 2)
    if row["model"] == "all-port":
        assert summary["packets"] == int(row["packets_measured"])


def test_algorithm_1_needs_two_segments_a_packet() -> None:
    assert broadcast(5, "congestion2-trees", segments=3)["max_link_segments_per_step"] == 2


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
    """T(p) as a run claims it and keeps it."""
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


def test_more_trees_move_a_long_message_faster() -> None:
    """Table 1: transmission O(mTc) by one tree, O(mTc/n) by n-1 of them."""
    costs: dict[str, object] = {"message_bytes": 100_000, "startup": "100us", "segments": "auto"}
    one = broadcast(5, "greedy-tree", **costs)["virtual_seconds"]
    many = broadcast(5, "congestion2-trees", **costs)["virtual_seconds"]
    whole = broadcast(5, "greedy-tree", message_bytes=100_000, startup="100us")["virtual_seconds"]
    assert isinstance(one, float)
    assert isinstance(many, float)
    assert isinstance(whole, float)
    assert many < 0.7 * one < 0.5 * whole


# One greedy tree.


@pytest.mark.parametrize("n", range(3, 8))
def test_greedy_tree_takes_the_diameter(n: int) -> None:
    summary = broadcast(n, "greedy-tree")
    assert summary["steps"] == StarGraph(n).diameter
    assert summary["segments"] == StarGraph(n).order - 1


@pytest.mark.parametrize("duplex", ["full", "half"])
@pytest.mark.parametrize("port_model", ["all-port", "one-port"])
def test_greedy_tree_pipelined(port_model: str, duplex: str) -> None:
    summary = broadcast(4, "greedy-tree", segments=5, messages=2, port_model=port_model, duplex=duplex)
    assert summary["segments"] == 2 * 5 * 23
    if port_model == "all-port":
        assert summary["steps"] == 4 + 10 - 1


# Arc-disjoint trees.


EDT_ROWS = {
    f"{row['n']}-{row['M']}-{row['degree_x']}": row
    for row in golden("edt_algorithms")
    if row["algorithm"] in ("SNB", "FT-SNB")
}


@pytest.mark.parametrize("row", EDT_ROWS.values(), ids=EDT_ROWS)
def test_edt_broadcast_is_golden(row: dict[str, str]) -> None:
    summary = broadcast(int(row["n"]), "edt", messages=int(row["M"]), redundancy=int(row["degree_x"]))
    assert summary["steps"] == int(row["steps_measured"])
    assert summary["segments"] == int(row["tx_measured"])
    assert summary["max_link_segments_per_step"] == 1


def test_edt_copies_of_a_message_take_different_trees(tmp_path: Path) -> None:
    _, journal = run_journal(
        tmp_path / "run", topology="star:4", collective="broadcast", algorithm="edt", redundancy=2, messages=3
    )
    trees = Counter(journal.select("segment", "tree").unique().iter_rows())
    assert sorted(trees) == [(0, 0), (0, 1), (1, 0), (1, 2), (2, 1), (2, 2)]


# Reduce.


@pytest.mark.parametrize("n", [3, 4, 5, 6])
@pytest.mark.parametrize("algorithm", NAMES)
@pytest.mark.parametrize("messages", [1, 3])
def test_reduce_is_the_broadcast_backwards(algorithm: str, n: int, messages: int) -> None:
    forth = broadcast(n, algorithm, messages=messages)
    back = broadcast(n, algorithm, messages=messages, collective="reduce")
    for metric in ("steps", "packets", "segments", "bytes", "max_link_segments_per_step"):
        assert forth[metric] == back[metric]
    assert back["intact_deliveries"] == messages


@pytest.mark.parametrize("algorithm", ["greedy-tree", "congestion2-trees"])
def test_reduce_over_one_port(algorithm: str) -> None:
    summary = broadcast(4, algorithm, segments=2, port_model="one-port", collective="reduce")
    assert summary["steps"] == broadcast(4, algorithm, segments=2, port_model="one-port")["steps"]


# Real sockets.


@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
@pytest.mark.parametrize("algorithm", NAMES)
def test_sockets_make_the_same_history(algorithm: str, collective: str) -> None:
    values: dict[str, object] = {"messages": 2, "collective": collective}
    in_memory = broadcast(4, algorithm, **values)
    assert in_memory["journal_hash"] == broadcast(4, algorithm, driver="local", **values)["journal_hash"]


# Faults.


def healthy_reached(n: int, redundancy: int, crashed: tuple[int, ...]) -> int:
    """Healthy ranks that a broadcast by edt from rank 0 reaches, in memory, all of `crashed` dead from the start."""
    spec = CollectiveSpec(f"star:{n}", Collective.BROADCAST, "edt", 0, redundancy=redundancy, message_bytes=8)
    network = MemoryEngine(make_algorithm(StarGraph(n), spec))
    step, reached = 0, set()
    while network.busy:
        step += 1
        rows = network.step(step, [Crash(1, rank) for rank in crashed] if step == 1 else ())
        for row in ROW.iter_unpack(rows):
            if row[-1] == HopOutcome.FIRST:
                reached.add(row[2])
    assert not reached & set(crashed)
    return len(reached)


def test_every_pair_of_faulty_nodes_of_s4_loses_nobody() -> None:
    """n-2 faults, all 253 sets of them."""
    for crashed in combinations(range(1, 24), 2):
        assert healthy_reached(4, 3, crashed) == 23 - 2, crashed


def test_every_faulty_node_of_s3_loses_nobody() -> None:
    assert [healthy_reached(3, 2, (rank,)) for rank in range(1, 6)] == [4] * 5


def test_redundancy_2_survives_any_single_fault_of_s5() -> None:
    assert all(healthy_reached(5, 2, (rank,)) == 118 for rank in range(1, 120))


def test_one_fault_more_than_redundancy_bears_can_cut_off() -> None:
    """The three neighbours of 4321 between it and the source."""
    star = StarGraph(4)
    around = star.neighbours(star.rank("4321"))
    assert healthy_reached(4, 3, around) == 23 - 3 - 1


@pytest.mark.parametrize("faults", [["crash:2134@2"], ["crash:2134@1", "crash:1432@4"]])
def test_edt_claims_what_it_survives(faults: list[str]) -> None:
    result = run_scenario(
        topology="star:4", collective="broadcast", algorithm="edt", redundancy=3, messages=3, fault=faults
    )
    assert not failures(result)
    assert result.summary["delivery_ratio"] == 1.0
    assert any(judgement.claim.name == "delivery_ratio" for judgement in result.judgements)


@given(data=st.data())
@settings(max_examples=25, derandomize=True, deadline=None, database=None)
def test_any_faults_within_the_redundancy_lose_nobody(data: st.DataObject) -> None:
    n = data.draw(st.sampled_from([4, 5]))
    redundancy = data.draw(st.integers(2, n - 1))
    ranks = st.integers(1, StarGraph(n).order - 1)
    crashed = data.draw(st.lists(ranks, min_size=redundancy - 1, max_size=redundancy - 1, unique=True))
    assert healthy_reached(n, redundancy, tuple(crashed)) == StarGraph(n).order - 1 - len(crashed)


# Recursion over substars (Qiu, in the words of Tseng and Sheu, section 6.1).


@pytest.mark.parametrize("n", [3, 4, 5, 6])
def test_substar_segments_in_closed_form(n: int) -> None:
    """The recursion written down anew: at level i, i - 1 packets of a block down and up; one piece at the base."""
    pieces = StarGraph(n).order // 2
    summary = broadcast(n, "substar-segments", port_model="one-port", message_bytes=2 * pieces)
    blocks = [1]  # pieces of S_2, S_3, ..
    blocks += [blocks[0] * factorial(i) // 2 for i in range(3, n + 1)]
    moved = 1 + sum(2 * (i - 1) * blocks[i - 3] for i in range(3, n + 1))
    assert summary["transfer_bytes"] == 2 * moved == 2 * (2 * pieces - 1)
    assert summary["steps"] == summary["startups"] == 1 + sum(2 * (i - 1) for i in range(3, n + 1)) == n * n - n - 1


@pytest.mark.parametrize("n", [3, 4, 5])
def test_substars_hold_their_blocks_before_they_combine(n: int, tmp_path: Path) -> None:
    """At the base every pair of nodes that differ in positions 1 and 2 has its own piece, and nobody else's at level 3."""
    _, journal = run_journal(
        tmp_path / "run",
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


@pytest.mark.parametrize("values", [{"messages": 3}, {"message_bytes": 61}, {"messages": 2, "message_bytes": 100}])
def test_substar_segments_of_any_messages(values: dict[str, object]) -> None:
    sizes = {"message_bytes": 60, "port_model": "one-port", **values}
    assert broadcast(4, "substar-segments", **sizes)["steps"] == 11
    in_memory = broadcast(4, "substar-segments", **sizes)["journal_hash"]
    assert broadcast(4, "substar-segments", driver="local", **sizes)["journal_hash"] == in_memory


# Bad input.


@pytest.mark.parametrize(
    ("values", "field", "message"),
    [
        ({"topology": "star:2"}, "topology", "n >= 3"),
        ({"algorithm": "edt", "redundancy": 4}, "redundancy", r"1\.\.3"),
        ({"algorithm": "congestion2-trees", "redundancy": 2}, "redundancy", r"on one tree"),
        ({"algorithm": "edt", "port_model": "one-port"}, "port_model", "all-port"),
        ({"algorithm": "greedy-tree", "port_model": "exchange"}, "port_model", "all-port, one-port"),
        ({"algorithm": "edt", "duplex": "half"}, "duplex", "full"),
        ({"algorithm": "congestion2-trees", "message_bytes": 2}, "message_bytes", "at least 3 bytes"),
        ({"algorithm": "edt", "segments": "auto"}, "segments", "give a number"),
        ({"algorithm": "substar-segments", "port_model": "one-port", "segments": 2}, "segments", "n!/2 pieces itself"),
        (
            {"algorithm": "substar-segments", "port_model": "one-port", "message_bytes": 11},
            "message_bytes",
            "12 pieces",
        ),
        ({"algorithm": "substar-segments"}, "port_model", "one-port"),
        ({"algorithm": "substar-segments", "port_model": "one-port", "duplex": "half"}, "duplex", "full"),
        ({"algorithm": "mbst"}, "algorithm", "allgather on star"),
        ({"algorithm": "edt", "collective": "reduce", "redundancy": 2}, "redundancy", r"on one tree"),
    ],
)
def test_bad_input(values: dict[str, object], field: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message) as caught:
        run_scenario(None, **{"topology": "star:4", "collective": "broadcast", "algorithm": "greedy-tree", **values})
    assert caught.value.field == field


def test_every_claim_of_algorithm_1_names_its_source() -> None:
    spec = CollectiveSpec(
        "star:5", Collective.BROADCAST, "congestion2-trees", 0, port_model=PortModel.ONE_PORT, segments=2
    )
    algorithm = make_algorithm(StarGraph(5), spec)
    claims = [*algorithm.claims(), *algorithm.cost_claims(1e-3, 1e-6)]
    assert all(MULTIPLE in claim.source for claim in claims)
    assert {"steps", "segments", "max_link_segments", "transfer_bytes", "virtual_seconds"} <= {c.name for c in claims}
