"""Orders in files: written, read and refused."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator.annexes.orders.every_order import every_order
from coordinator.annexes.orders.stored import MOST_COPIES, read_order, write_order
from coordinator.scenario.plugins import load_plugins
from emunode.errors import ScenarioError
from emunode.host.placement import Placement
from tests.helpers.command_line import ROOT
from tests.helpers.scenarios import Case
from tests.helpers.support import forget_plugins


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Path]:
    (plugin,) = load_plugins([str(ROOT / "tests" / "plugins" / "noted.py")])
    case = Case("hypercube:2 broadcast noted-module", plugin=(plugin,))
    found = every_order(case.plan, placement=Placement(4, 1))
    path = tmp_path / "made" / "order.json"
    assert write_order(found, case.scenario, path)
    assert found.deviation is not None
    assert read_order(path) == (case.scenario, found.deviation.order)
    yield path
    forget_plugins()


def test_an_order_is_run_again(written: Path) -> None:
    scenario, order = read_order(written)
    again = every_order(Case(scenario.model_dump(exclude_defaults=True)).plan, placement=Placement(4, 1), only=order)
    assert again.deviation is not None
    assert again.deviation.order == order
    assert again.executions < 14


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("events", [[["order", 0]], [["turn", "x"]]], "events.1.0.1 is 'x', expected a whole number"),
        ("events", [3], "events.0 is 3, expected a list"),
        ("events", 3, "events is 3, expected a list"),
        ("place", -2, "place is -2"),
        ("time", 0.5, "time is 0.5"),
        ("scenario", None, "certify --every-order"),
    ],
)
def test_a_malformed_file_is_refused(name: str, value: Any, reason: str, written: Path) -> None:
    written.write_text(json.dumps({**json.loads(written.read_text()), name: value}))
    with pytest.raises(ScenarioError, match=reason):
        read_order(written)


def test_too_many_pieces_are_refused(written: Path) -> None:
    values = json.loads(written.read_text())
    values["scenario"]["messages"] = MOST_COPIES // 4
    written.write_text(json.dumps(values))
    assert read_order(written)[0].messages == MOST_COPIES // 4
    values["scenario"]["messages"] += 1
    written.write_text(json.dumps(values))
    with pytest.raises(
        ScenarioError, match="asks for 1004 copies of segments; an order of events with at most 1000 is run"
    ):
        read_order(written)


def test_an_order_that_is_not_read_is_not_written(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario, _ = read_order(written)
    found = every_order(Case(scenario.model_dump(exclude_defaults=True)).plan, placement=Placement(4, 1))
    for most, is_written in ((3, False), (4, True)):
        monkeypatch.setattr("coordinator.annexes.orders.stored.MOST_COPIES", most)
        assert write_order(found, scenario, written) is is_written


def test_an_order_that_cannot_be_is_refused(written: Path) -> None:
    values = json.loads(written.read_text())
    values["events"][1].reverse()
    written.write_text(json.dumps(values))
    scenario, order = read_order(written)
    with pytest.raises(ScenarioError, match="cannot have its events in this order"):
        every_order(Case(scenario.model_dump(exclude_defaults=True)).plan, placement=Placement(4, 1), only=order)


def test_a_run_without_deviation_has_no_order(tmp_path: Path) -> None:
    case = Case("hypercube:2 broadcast sbt")
    assert not write_order(every_order(case.plan), case.scenario, tmp_path / "order.json")
    assert not (tmp_path / "order.json").exists()
