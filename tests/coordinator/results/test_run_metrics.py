"""Metrics of one's own: where they appear, the runs that have them, and what is refused."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

import coordinator as tb
from coordinator.planning.plan import Plan
from coordinator.results.run_metrics import RUN_METRICS, RunMetric
from emunode.errors import RegistrationError, RunError, ScenarioError
from emunode.registry import register
from tests.helpers.command_line import Call

PLUGIN = """
import polars as pl
from coordinator.results.run_metrics import RunMetric
from emunode.registry import register


def distinct_senders(plan, journal):
    return journal.select(pl.col("sender").n_unique()).collect().item()


register(RunMetric("distinct_senders", "nodes that send at all", distinct_senders))
"""

CLAIMED = """
from emunode.algorithms.claims import Claim
from emunode.algorithms.flooding import Flood


@register
class Counted(Flood):
    name = "counted"

    def claims(self):
        return [*super().claims(), Claim("busy_senders", PREDICTED, "==", "the ring of six nodes")]
"""


def senders(_plan: Plan, journal: pl.LazyFrame) -> int:
    return int(journal.select(pl.col("sender").n_unique()).collect().item())


@pytest.fixture
def registered() -> Iterator[RunMetric]:
    metric = register(RunMetric("sending_nodes", "nodes that send at all", senders))
    yield metric
    RUN_METRICS.remove(metric)


@pytest.mark.usefixtures("registered")
def test_a_registered_metric_is_in_summary_row_sweep_and_report() -> None:
    run = tb.network("star:3").broadcast("greedy-tree")
    # S_3 is a ring of 6 nodes. A broadcast along a tree: all but the leaves send.
    children = set(run.journal["receiver"])
    senders_in_journal = set(run.journal["sender"])
    assert len(children) == 5
    assert run.summary["sending_nodes"] == len(senders_in_journal) == run.row()["sending_nodes"]
    assert "sending nodes" in run.report().html
    sweep = tb.sweep("star:3..4", "broadcast", "flood", metric="sending_nodes")
    assert sweep.results["measured"].to_list() == [
        len(set(tb.network(name).broadcast("flood").journal["sender"])) for name in ("star:3", "star:4")
    ]


def test_a_plug_in_adds_its_metric_to_runs_that_name_it(call: Call) -> None:
    Path("mine.py").write_text(PLUGIN)
    run = "run --topology star:3 --collective broadcast --algorithm flood --driver memory"
    # A ring of 6 nodes: the node opposite to the source hears from both neighbours at once, and sends nothing.
    with_it = call(f"{run} --plugin mine.py --out with --json").data
    assert with_it["distinct_senders"] == 5
    assert "distinct_senders" not in call(f"{run} --out without --json").data
    assert call("verify with --plugin mine.py").status == 0
    stored = Path("with/summary.json")
    stored.write_text(stored.read_text().replace('"distinct_senders": 5', '"distinct_senders": 6'))
    refused = call("verify with --plugin mine.py")
    assert refused.status == 1
    assert "distinct_senders is 6, and the journal says 5" in refused.out + refused.err
    assert (
        tb.network("star:3", plugin=str(Path("mine.py").absolute())).broadcast("flood").row()["distinct_senders"] == 5
    )


@pytest.mark.parametrize("driver", ["memory", "local"])
@pytest.mark.parametrize(("predicted", "verdict"), [(5, "holds"), (6, "violated")])
def test_a_metric_of_ones_own_can_be_claimed(predicted: int, verdict: str, driver: str, call: Call) -> None:
    """A ring of 6 nodes: only the node opposite to the source sends nothing."""
    Path("claimed.py").write_text(PLUGIN.replace("distinct", "busy") + CLAIMED.replace("PREDICTED", str(predicted)))
    run = "run --topology star:3 --collective broadcast --algorithm counted --plugin claimed.py"
    found = call(f"{run} --driver {driver} --out own --json")
    (claim,) = [each for each in found.data["claims"] if each["name"] == "busy_senders"]
    assert (claim["measured"], claim["verdict"], found.data["verdict"]) == (5, verdict, verdict)
    assert call("verify own --plugin claimed.py").status == 0


@pytest.mark.parametrize("name", ["steps", "topology", "verdict", "Two Words", "violated"])
def test_names_that_are_taken_or_no_keys_are_refused(name: str) -> None:
    with pytest.raises(RegistrationError, match=name):
        register(RunMetric(name, "something", senders))
    assert name not in RUN_METRICS


@pytest.mark.parametrize(
    ("returned", "reason"),
    [(float("nan"), "returned nan"), (None, "returned None"), (True, "expected a finite number")],
)
def test_a_metric_returns_one_finite_number(returned: object, reason: str) -> None:
    metric = register(RunMetric("odd_metric", "something", lambda *_: returned))  # type: ignore[arg-type]
    try:
        with pytest.raises(RunError, match=reason):
            tb.network("star:3").broadcast("flood")
    finally:
        RUN_METRICS.remove(metric)


def test_a_metric_that_fails_is_named_with_its_line(call: Call) -> None:
    Path("bad.py").write_text(PLUGIN.replace("return journal", "return 1 / 0 #").replace("distinct", "zero"))
    run = "run --topology star:3 --collective broadcast --algorithm flood --driver memory --plugin bad.py --out bad"
    failed = call(run)
    assert failed.status == 4
    assert "metric zero_senders failed: ZeroDivisionError" in failed.err
    assert "bad.py, line 8" in failed.err
    assert not Path("bad").exists()


def test_an_unknown_metric_of_a_sweep_is_refused(registered: RunMetric) -> None:
    with pytest.raises(ScenarioError, match=registered.name):
        tb.sweep("star:3", "broadcast", "flood", metric="nodes_that_send")
