"""One-to-all broadcasts of Eisenstein-Jacobi networks: runs against the paper's tables, and what the printed rules do."""

import csv
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.execution.run import RunResult
from emunode.algorithms.eisenstein_jacobi import counts as ej_counts
from emunode.errors import ScenarioError
from emunode.model import Rank, Step
from emunode.topologies.eisenstein_jacobi import EisensteinJacobi
from tests.support import failures, run_journal, run_scenario

GOLDEN = Path(__file__).parents[3] / "golden" / "ej"
NAMES = ("iterative", "improved")
GENERAL = [(0, 3, 2), (2, 2, 2), (1, 3, 2), (2, 4, 1), (2, 4, 2), (0, 5, 1), (3, 3, 1), (1, 4, 1), (2, 2, 3), (1, 2, 4)]


def golden(name: str) -> list[dict[str, str]]:
    """The rows of one file of expected numbers."""
    with (GOLDEN / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def name_of(a: int, b: int, n: int) -> str:
    return f"ej:{a}+{b}^{n}" if n > 1 else f"ej:{a}+{b}"


def broadcast(topology: str, algorithm: str, out: Path | None = None, **values: object) -> RunResult:
    return run_scenario(out, topology=topology, collective="broadcast", algorithm=algorithm, **values)


def measured_rows(result: RunResult) -> list[tuple[int, int, int, int, int]]:
    """(step, free, sending, receiving, active) of every step of a run that was given a folder."""
    steps = pl.read_parquet(result.path / "steps.parquet")
    return steps.select("step", "free", "sending", "receiving", "active").rows()


# The paper's example and tables.


def test_worked_example(tmp_path: Path) -> None:
    """Hussain, section 5: EJ_{2+3rho}^(2), receivers 12, 60, 144, 144 and senders 1, 12, 48, 72."""
    lines = [line for line in golden("worked_example_EJ2+3rho_2D") if line["provenance"] == "measured"]
    for name, label in (("improved", "improved"), ("iterative", "previous")):
        result = broadcast("ej:2+3^2", name, tmp_path / name)
        assert result.verdict == "holds", failures(result)
        expected = [
            tuple(int(line[column]) for column in ("step", "free", "sending", "receiving", "active"))
            for line in lines
            if line["algorithm"] == label
        ]
        assert measured_rows(result) == expected
    assert result.summary["senders_per_step"] == (1, 6, 19, 114)


@pytest.mark.parametrize(
    ("algorithm", "table", "step"),
    [("iterative", "table1_previous_EJ3+4rho_3D", "global_step"), ("improved", "table2_improved_EJ3+4rho_3D", "step")],
)
def test_tables_1_and_2_line_by_line(algorithm: str, table: str, step: str, tmp_path: Path) -> None:
    """EJ_{3+4rho}^(3): 50,653 nodes and 455,877 links, half-duplex as in the paper."""
    result = broadcast("ej:3+4^3", algorithm, tmp_path / "run", duplex="half")
    assert result.verdict == "holds", failures(result)
    rows = measured_rows(result)
    for provenance in ("paper", "measured"):
        expected = [
            tuple(int(line[column]) for column in (step, "free", "sending", "receiving", "active"))
            for line in golden(table)
            if line["provenance"] == provenance and line[step]
        ]
        assert rows == expected
    assert sum(row[2] for row in rows) == {"iterative": 26_733, "improved": 26_011}[algorithm]
    assert sum(row[3] for row in rows) == 50_652


@pytest.mark.parametrize("dimensions", [1, 2])
def test_table_3_of_what_was_run(dimensions: int) -> None:
    """Three dimensions: the test above; four to six are computed, not run."""
    [line] = [
        line
        for line in golden("table3_total_senders_EJ3+4rho")
        if (line["provenance"], line["n"]) == ("measured", str(dimensions))
    ]
    for algorithm, column in (("iterative", "previous_total_senders"), ("improved", "improved_total_senders")):
        senders = broadcast(name_of(3, 4, dimensions), algorithm).summary["senders_per_step"]
        assert isinstance(senders, tuple)
        assert sum(senders) == int(line[column])


def test_smallest_network_of_figures_19_to_21() -> None:
    """EJ_{6+7rho}^(2), 16,129 nodes; of the larger ones EJ_{4+5rho}^(3) was run when the table was made."""
    lines = [
        line
        for line in golden("fig19_21_twelve_step_networks")
        if (line["provenance"], line["alpha"], line["algorithm"]) == ("measured", "6+7rho", "improved")
    ]
    summary = broadcast("ej:6+7^2", "improved").summary
    assert summary["senders_per_step"] == tuple(int(line["senders_fig19"]) for line in lines)
    assert summary["receivers_per_step"] == tuple(int(line["receivers_fig20"]) for line in lines)


def test_averages_of_what_was_run() -> None:
    lines = [line for line in golden("average_steps_and_savings") if line["provenance"] == "measured"]
    small = [line for line in lines if int(line["nodes"]) < 2000]
    assert len(small) >= 10
    for line in small:
        name = name_of(int(line["a"]), int(line["b"]), int(line["n"]))
        for algorithm, column in (("iterative", "avg_step_previous"), ("improved", "avg_step_improved")):
            measured = broadcast(name, algorithm).summary["average_receive_step"]
            assert measured == pytest.approx(float(line[column]), abs=5.1e-7)


# Every alpha, every source.


@pytest.mark.parametrize(("a", "b", "n"), GENERAL)
@pytest.mark.parametrize("algorithm", NAMES)
@pytest.mark.parametrize("duplex", ["full", "half"])
def test_every_alpha(a: int, b: int, n: int, algorithm: str, duplex: str) -> None:
    """Exactly once, nothing at the source, nD steps: facts that the claims state, beyond b = a + 1."""
    network = EisensteinJacobi(a, b, n)
    source = network.label(network.order * 2 // 3)
    result = broadcast(network.name, algorithm, source=source, duplex=duplex)
    assert result.verdict == "holds", failures(result)
    assert result.summary["steps"] == network.diameter
    assert result.summary["packets"] == result.summary["deliveries"] == network.order - 1
    assert result.summary["duplicates"] == 0


@pytest.mark.parametrize("algorithm", NAMES)
def test_arrival_is_at_the_step_that_the_rule_says(algorithm: str, tmp_path: Path) -> None:
    """Improved: the distance. Iterative: (n-e) D + the weight in e, the lowest dimension that is not zero."""
    network = EisensteinJacobi(2, 4, 2)
    result, _ = run_journal(
        tmp_path / "run", topology=network.name, collective="broadcast", algorithm=algorithm, source="1,0/-1,2"
    )
    source = network.rank("1,0/-1,2")
    nodes = pl.read_parquet(result.path / "nodes.parquet")
    for rank, first in nodes.select("rank", "first_step").rows():
        delta = network.relative(rank, source)
        if rank == source:
            assert first is None
        elif algorithm == "improved":
            assert first == network.weight(delta)
        else:
            low, high = network.digits(delta)
            assert first == (network.weight(low) + 3 if low else network.weight(high))


@given(
    st.sampled_from([(1, 2, 2), (2, 3, 1), (0, 3, 1), (2, 2, 1), (1, 3, 1), (3, 4, 1)]),
    st.sampled_from([*NAMES, "independent-trees"]),
    st.integers(1, 3),
    st.integers(1, 4),
    st.data(),
)
@settings(max_examples=60)
def test_any_job_keeps_its_claims(
    alpha: tuple[int, int, int], algorithm: str, messages: int, segments: int, data: st.DataObject
) -> None:
    """Pieces follow each other, any source, with faults or without: what is claimed of the run holds."""
    network = EisensteinJacobi(*alpha)
    source = data.draw(st.integers(0, network.order - 1))
    others = st.integers(0, network.order - 1).filter(lambda rank: rank != source)
    crashes = data.draw(st.dictionaries(others, st.integers(1, 9), max_size=3))
    redundancy = data.draw(st.integers(1, network.degree)) if algorithm == "independent-trees" else 1
    result = broadcast(
        network.name,
        algorithm,
        source=network.label(source),
        messages=messages,
        segments=segments,
        redundancy=redundancy,
        message_bytes=64,
        fault=tuple(f"crash:{network.label(rank)}@{step}" for rank, step in sorted(crashes.items())),
    )
    if len(crashes) < redundancy:
        assert result.summary["delivery_ratio"] == 1.0
    if result.summary["intact_deliveries"]:
        assert result.verdict == "holds", failures(result)
    else:
        # in pieces over all trees, one crash may leave everybody with a piece missing
        assert result.verdict == "undecided"


def test_over_one_port_the_improved_broadcast_serves_its_children_in_turn() -> None:
    result = broadcast("ej:2+3", "improved", port_model="one-port", segments=2)
    assert result.verdict == "holds", failures(result)


def test_a_crash_cuts_off_the_subtree() -> None:
    result = broadcast("ej:3+4", "improved", fault=("crash:0,1@1",))
    assert result.verdict == "holds", failures(result)
    assert result.summary["expected_deliveries"] == 35
    assert result.summary["intact_deliveries"] == 36 - 6  # sector 1 has D(D+1)/2 nodes


# Sockets.


@pytest.mark.parametrize("algorithm", NAMES)
def test_the_same_history_over_sockets(algorithm: str) -> None:
    sockets, memory = (
        broadcast("ej:1+2^2", algorithm, driver=driver, source="1,0/0,1", segments=2, duplex="half")
        for driver in ("local", "memory")
    )
    assert sockets.verdict == "holds", failures(sockets)
    assert sockets.summary["journal_hash"] == memory.summary["journal_hash"]


# Bad input.


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"topology": "ej:4+3"}, "topology"),
        ({"topology": "ej:-1+3"}, "topology"),
        ({"topology": "ej:1+1"}, "topology"),
        ({"topology": "ej:2+3^0"}, "topology"),
        ({"topology": "ej:1+2^99"}, "topology"),
        ({"topology": "ej:1+2^12"}, "topology"),
        ({"source": "3"}, "source"),
        ({"source": "1,0"}, "source"),
        ({"source": "3,0/0,0"}, "source"),
        ({"redundancy": 2}, "redundancy"),
        ({"segments": 65}, "segments"),
        ({"algorithm": "iterative", "port_model": "one-port"}, "port_model"),
        ({"algorithm": "independent-trees", "redundancy": 13}, "redundancy"),
        ({"algorithm": "independent-trees", "duplex": "half"}, "duplex"),
        ({"algorithm": "independent-trees", "port_model": "exchange"}, "port_model"),
        ({"algorithm": "three-phase"}, "algorithm"),
    ],
)
def test_bad_input_is_named(values: dict[str, object], field: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        run_scenario(None, **{"topology": "ej:2+3^2", "collective": "broadcast", "algorithm": "improved", **values})
    assert caught.value.field == field


def test_a_label_that_is_not_canonical_is_told_its_canonical_one() -> None:
    """2 + 3 rho is 0."""
    with pytest.raises(ScenarioError, match="called 0,0/0,0"):
        broadcast("ej:2+3^2", "improved", source="2,3/0,0")


# What the printed rules do.

PortPacket = tuple[int, int, int, int, int]
"""(dimension, major unit, minor unit, x, y)."""


def printed(network: EisensteinJacobi, misprint: bool) -> Iterator[tuple[Step, Rank]]:
    """(step, receiver) of every packet of Algorithms 1 and 2 with their counters; `misprint`: line 6 as it stands."""
    length = network.diameter // network.dimensions - 1

    def one_to_all(dimension: int) -> list[tuple[int, PortPacket]]:
        sends = []
        for d in range(dimension, 0, -1):
            for j in range(1, 7):
                major = 5 if misprint and j == 4 else j % 6
                sends.append((j % 6, (d, major, j - 1, length, length)))
        return sends

    waiting = deque([(1, 0, one_to_all(network.dimensions))])
    while waiting:
        step, rank, sends = waiting.popleft()
        for unit, (d, major, minor, x, y) in sends:
            neighbour = network.neighbour(rank, 6 * (d - 1) + unit)
            yield step, neighbour
            child_delays = [(minor, (d, major, minor, x - 1, 0))] if x > 0 else []
            child_delays += [(major, (d, major, minor, x - 1, y - 1))] if y > 0 else []
            waiting.append((step + 1, neighbour, child_delays + one_to_all(d - 1)))


VARIANTS = [line for line in golden("o2a_variants") if int(line["nodes"]) >= 7]
"""Below 7 nodes two ports lead to the same neighbour."""


@pytest.mark.parametrize(
    "line", VARIANTS, ids=lambda line: f"{line['variant'][:7]}-{line['a']}+{line['b']}^{line['n']}"
)
def test_variants_of_the_one_to_all_rules(line: dict[str, str]) -> None:
    """Line 6 of Algorithm 1 as printed misses as many as it reaches twice; counters need b = a + 1; the rest is right."""
    a, b, n = int(line["a"]), int(line["b"]), int(line["n"])
    network = EisensteinJacobi(a, b, n)
    expected = [int(line[column]) for column in ("missing", "duplicates", "source_receipts", "packets", "steps")]
    if line["variant"] == "general rule":
        counts = ej_counts.improved(network)
        assert [0, 0, 0, sum(counts.receivers), counts.steps] == expected
        return
    events = list(printed(network, misprint="as printed" in line["variant"]))
    received = Counter(rank for _, rank in events)
    at_source = received.pop(0, 0)
    missing = network.order - 1 - len(received)
    duplicates = sum(received.values()) - len(received)
    assert [missing, duplicates, at_source, len(events), max(step for step, _ in events)] == expected
