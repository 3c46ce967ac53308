"""One-to-all broadcasts of Eisenstein-Jacobi networks: runs against the paper's tables, and what the printed rules do."""

from collections import Counter, deque
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from emunode.algorithms.eisenstein_jacobi import counts as ej_counts
from emunode.model import Rank, Step
from emunode.topologies.eisenstein_jacobi import EisensteinJacobi
from tests.support import failures, golden_rows, run_journal, run_scenario

golden = partial(golden_rows, "ej")
NAMES = ("iterative", "improved")


COUNTED = {
    *((2, 3, 2), (3, 4, 1), (3, 4, 2), (3, 4, 3), (6, 7, 2)),
    *(
        (int(line["a"]), int(line["b"]), int(line["n"]))
        for line in golden("average_steps_and_savings")
        if int(line["nodes"]) < 2000
    ),
}
"""Networks of the paper's tables and figures, whose counts `test_counts` compares with the printed numbers."""


@pytest.mark.exhaustive(one_in=8)
@pytest.mark.parametrize("network", sorted(COUNTED), ids=str)
@pytest.mark.parametrize("algorithm", NAMES)
def test_every_step_has_the_counted_senders_and_receivers(
    algorithm: str, network: tuple[int, int, int], tmp_path: Path
) -> None:
    """Free, sending, receiving and active nodes of each step, over half-duplex links as in the paper."""
    name = EisensteinJacobi(*network).name
    result = run_scenario(tmp_path / "run", topology=name, collective="broadcast", algorithm=algorithm, duplex="half")
    assert not failures(result)
    counts = {"iterative": ej_counts.iterative, "improved": ej_counts.improved}[algorithm](EisensteinJacobi(*network))
    steps = pl.read_parquet(result.path / "steps.parquet")
    expected = zip(counts.free, counts.senders, counts.receivers, counts.active, strict=True)
    assert steps.select("free", "sending", "receiving", "active").rows() == list(expected)
    assert result.summary["senders_per_step"] == counts.senders
    assert result.summary["receivers_per_step"] == counts.receivers
    assert result.summary["average_receive_step"] == pytest.approx(float(counts.average_receive_step))


@pytest.mark.parametrize("algorithm", NAMES)
def test_first_receipt_is_in_the_predicted_step(algorithm: str) -> None:
    """Improved: the distance. Iterative: (n-e) D + the weight in e, the lowest dimension that is not zero."""
    network = EisensteinJacobi(2, 4, 2)
    result, _ = run_journal(topology=network.name, collective="broadcast", algorithm=algorithm, source="1,0/-1,2")
    source = network.rank("1,0/-1,2")
    nodes = result.conclusion.measurement.nodes
    for rank, first in nodes.select("rank", "first_step").rows():
        delta = network.relative(rank, source)
        if rank == source:
            assert first is None
        elif algorithm == "improved":
            assert first == network.weight(delta)
        else:
            low, high = network.digits(delta)
            assert first == (network.weight(low) + 3 if low else network.weight(high))


# What the printed rules do.

PortPacket = tuple[int, int, int, int, int]
"""(dimension, major unit, minor unit, x, y)."""


def printed(network: EisensteinJacobi, misprint: bool) -> Iterator[tuple[Step, Rank]]:
    """Yield (step, receiver) of every packet of Algorithms 1 and 2 with their counters; `misprint`: line 6 as it stands."""
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
