"""Sweeps: networks from ranges, rows with bounds, and folders that go on where they stopped."""

import json
from math import inf
from pathlib import Path

import polars as pl
import pytest

from coordinator.campaigns.sweep import KINDS, ROWS, SweepPoint, networks_in, row_of, run_point, sweep
from emunode.errors import ScenarioError
from emunode.model import Collective, PortModel
from tests.helpers.command_line import Call
from tests.helpers.scenarios import every_algorithm
from tests.helpers.support import golden_rows

# --- networks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("star:3..5", [("star:3", 3), ("star:4", 4), ("star:5", 5)]),
        ("star:4", [("star:4", None)]),
        ("torus:2..3x4", [("torus:2x4", 2), ("torus:3x4", 3)]),
        ("ej:1..2+3..4", [("ej:1+3", None), ("ej:1+4", None), ("ej:2+3", None), ("ej:2+4", None)]),
        ("circulant:9..10:1,3", [("circulant:9:1,3", 9), ("circulant:10:1,3", 10)]),
        ("jellyfish:20,3,1..2", [("jellyfish:20,3,1", 1), ("jellyfish:20,3,2", 2)]),
    ],
)
def test_a_range_stands_for_all_its_numbers(text: str, expected: list[tuple[str, int | None]]) -> None:
    assert list(networks_in(text)) == expected


# --- rows ------------------------------------------------------------------------------------------------------------


def test_rows_have_the_metric_its_prediction_and_its_bound() -> None:
    result = sweep(["star:3..5"], "broadcast", ["greedy-tree", "flood"], "steps")
    assert result.results.schema == KINDS
    assert result.results.select("topology", "algorithm", "measured", "predicted", "bound", "ratio").rows() == [
        ("star:3", "greedy-tree", 3, 3, 3, 1), ("star:3", "flood", 3, 3, 3, 1),
        ("star:4", "greedy-tree", 4, 4, 4, 1), ("star:4", "flood", 4, 4, 4, 1),
        ("star:5", "greedy-tree", 6, 6, 6, 1), ("star:5", "flood", 6, 6, 6, 1),
    ]  # fmt: skip
    assert result.exit_status == 0


def test_the_bound_is_that_of_every_algorithm() -> None:
    """Breadth-first broadcast claims at least 8 blocks on P_4; 23/3 of these are due to any algorithm."""
    (row,) = sweep(["pancake:4"], "allgather", ["bfb-packed"], "transfer_bytes", message_bytes=48).rows
    assert (row["measured"], row["bound"], row["ratio"]) == (8 * 48, 23 * 48 // 3, 1.0435)


COSTS = ("steps", "segments", "startups", "transfer_bytes", "virtual_seconds")
BOUNDED = (
    "star:3", "star:4", "hypercube:2", "hypercube:3", "ej:1+2", "ej:2+3", "torus:3x4", "mesh:2x3", "ring:5", "complete:6",
    "ccc:3", "fat-tree:4",
)  # fmt: skip


@pytest.mark.exhaustive(one_in=8)
@pytest.mark.parametrize("ports", PortModel)
@pytest.mark.parametrize("collective", [each for each in Collective if each is not Collective.MESSAGES])
@pytest.mark.parametrize("network", BOUNDED)
def test_no_algorithm_goes_below_the_bound_of_another(network: str, collective: Collective, ports: PortModel) -> None:
    """The bounds of a sweep are those of its runs, and no algorithm beats them however it cuts messages into segments."""
    bounds = {metric: [0.0] for metric in COSTS}
    reached = {metric: [inf] for metric in COSTS}
    one, more = (
        every_algorithm(f"{network} {collective}", port_model=ports, segments=cut, message_bytes=72) for cut in (1, 3)
    )
    for case in (*one, *more):
        point, record = SweepPoint(case.plan, network, None), run_point(SweepPoint(case.plan, network, None))
        assert record is not None
        judged = [each for each in case.run.judgements if each.claim.bound is not None]
        for metric in COSTS:
            row = row_of(point, metric, record)
            of_run = [(each.claim.bound or 0, each.ratio) for each in judged if each.claim.name == metric]
            assert row["bound"] == max((bound for bound, _ in of_run), default=None), (case, metric)
            assert row["ratio"] == min((ratio for _, ratio in of_run if ratio is not None), default=None)
            bounds[metric] += [bound for bound, _ in of_run]
            reached[metric].append(record.measured[metric] or 0)
    assert all(max(bounds[metric]) <= min(reached[metric]) + 1e-12 for metric in COSTS), (bounds, reached)


def test_networks_without_the_algorithm_are_left_out() -> None:
    result = sweep(["star:3", "ring:5"], "broadcast", ["flood", "edt"])
    assert [(row["topology"], row["algorithm"]) for row in result.rows] == [
        ("star:3", "flood"), ("star:3", "edt"), ("ring:5", "flood"),
    ]  # fmt: skip
    assert [reason.partition(":5:")[0] for reason in result.left_out] == ["edt on ring"]


def test_a_key_that_no_scenario_has_is_refused() -> None:
    with pytest.raises(ScenarioError, match="colour"):
        sweep(["star:3"], "broadcast", ["flood"], colour="red")


# --- varied fields ---------------------------------------------------------------------------------------------------


RING = "sweep --topology ring:6 --collective allreduce --algorithm ring --port-model one-port --values float32 --seed 1"


def test_varied_sizes_change_the_recorded_share_of_bits(call: Call) -> None:
    (row,) = golden_rows("additions", "independence", algorithm="ring", P="6", values="float32")
    found = call(f"{RING} --vary message_bytes=960,1920 --metric distinct_results --json")
    one, two = found.data["rows"]
    assert (one["varied"], one["result"], one["changed_percent"]) == ("message_bytes=960", 1, 0)
    assert (two["varied"], two["result"]) == ("message_bytes=1920", 2)
    assert f"{two['changed_percent']:.1f}" == row["percent_changed_if_n_is_480"]
    assert two["difference"] == "element 51: ((0+(((2+3)+4)+5))+1) against (0+((((1+2)+3)+4)+5))"
    assert found.data["different_bits"] == ["ring on ring:6: 2 different results of 2 settings"]


def test_varied_segments_tell_which_algorithms_change_bits(call: Call) -> None:
    line = "sweep --topology star:4 --collective allreduce --algorithm edt,bfs-tree --values float32"
    found = call(f"{line} --vary segments=1..3 --metric distinct_results")
    assert "edt on star:4: 3 different results of 3 settings" in found.out
    assert "bfs-tree on star:4: 1 different result of 3 settings" in found.out
    fixed = call(f"{line} --fixed-order --vary segments=1,3 --vary values=float32,bfloat16 --json")
    by_type = {row["varied"]: row["result"] for row in fixed.data["rows"]}
    assert {by_type[f"segments={count} values=float32"] for count in (1, 3)} == {1}
    assert by_type["segments=1 values=bfloat16"] == 2


def test_varied_sweeps_are_resumed_and_verified(call: Call, tmp_path: Path) -> None:
    out = tmp_path / "sweep"
    call(f"{RING} --vary segments=1,2 --metric tree_depth --out {out}")
    assert call(f"{RING} --vary segments=1..3 --metric distinct_results --out {out}").status == 0
    assert len((out / ROWS).read_text().splitlines()) == 3
    assert pl.read_csv(out / "table.csv")["varied"].to_list() == [f"segments={count}" for count in (1, 2, 3)]
    assert "segments" in (out / "sweep.svg").read_text()
    assert call(f"verify {out}").status == 0
    rows = (out / ROWS).read_text()
    record = json.loads(rows.splitlines()[0])
    digit = "1" if record["bits"][0] == "0" else "0"
    (out / ROWS).write_text(rows.replace(record["bits"], digit + record["bits"][1:]))
    assert "bits is" in call(f"verify {out}").out


def test_fields_without_numbers_can_be_varied() -> None:
    result = sweep(["star:4"], "broadcast", ["edt"], "steps", vary={"messages": [1, 2, 3]})
    assert result.results["varied"].to_list() == ["messages=1", "messages=2", "messages=3"]
    assert result.results["measured"].is_sorted()
    assert result.results["result"].null_count() == 3
    assert result.different_bits == []
