"""An order of events in a file: it is run again with the scenario that it belongs to."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from coordinator.annexes.orders.result import EVERYWHERE, EventOrder, EveryOrder
from coordinator.history.stored.reading import read_json
from coordinator.history.stored.records import Items, read_record
from coordinator.history.stored.version import VERSION_KEY, require_version
from coordinator.history.stored.writing import replace_file
from coordinator.planning.bounds import copies_due, require_small
from coordinator.scenario.model import Scenario, make_scenario
from coordinator.scenario.named import values_of_file
from coordinator.scenario.networks import network_of
from emunode import __version__
from emunode.errors import ScenarioError

FIELD: Final = "order"
MOST_COPIES: Final = 1000
"""Most copies of segments of a stored order: each step of its run repeats all steps before it."""


@dataclass(frozen=True)
class OrderFile:
    """The values of a stored order."""

    scenario: dict[str, Any]
    place: Annotated[int, Field(ge=EVERYWHERE)]
    time: int
    events: Items[Items[tuple[Literal["order", "turn", "packet", "report", "rank"], int]]]


def write_order(search: EveryOrder, scenario: Scenario, path: Path) -> bool:
    """Write the order that deviates, with its scenario; ScenarioError (field `order`).

    Returns False without an order, and for one of more copies than `read_order` accepts.
    """
    order = None if search.deviation is None else search.deviation.order
    if order is None or copies_due(scenario, search.plan.topology.order) > MOST_COPIES:
        return False
    values = {
        "scenario": scenario.model_dump(mode="json", exclude_defaults=True),
        "place": order.place,
        "time": order.time,
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({VERSION_KEY: __version__, **values, "events": order.events}, indent=1) + "\n"
        replace_file(path, text, named=True)
    except OSError as error:
        raise ScenarioError(FIELD, str(path), f"it cannot be written: {error.strerror}") from None
    return True


def read_order(path: Path) -> tuple[Scenario, EventOrder]:
    """Return the scenario and the order in a file; ScenarioError (field `order`) for anything else."""
    try:
        values = read_json(path)
        require_version(read_record(dict[str, Any], values), FIELD, path)
        file = read_record(OrderFile, values)
    except OSError as error:
        raise ScenarioError(FIELD, str(path), f"it cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ScenarioError(
            FIELD, str(path), f"it is no order that `certify --every-order` has written: {error}"
        ) from None
    scenario = make_scenario(values_of_file(file.scenario, path.parent))
    require_small(scenario, FIELD, path)
    if (copies := copies_due(scenario, network_of(scenario).order)) > MOST_COPIES:
        allowed = (
            f"its scenario asks for {copies} copies of segments; an order of events with at most {MOST_COPIES} is run"
        )
        raise ScenarioError(FIELD, str(path), allowed)
    return scenario, EventOrder(file.place, list(file.events), file.time)
