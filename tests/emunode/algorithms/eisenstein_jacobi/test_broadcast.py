"""One-to-all broadcasts of Eisenstein-Jacobi networks: runs against the paper's tables, and what the printed rules do."""

from functools import partial
from pathlib import Path

import polars as pl
import pytest

from emunode.algorithms.eisenstein_jacobi import counts as ej_counts
from emunode.topologies.eisenstein_jacobi import EisensteinJacobi
from tests.helpers.support import failures, golden_rows, run_journal, run_scenario

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
