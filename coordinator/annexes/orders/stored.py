"""An order of events in a file: it is run again with the scenario that it belongs to."""

import json
from pathlib import Path
from typing import Final

from coordinator.annexes.orders.result import EVERYWHERE, EventOrder, EveryOrder, LocalEvent
from coordinator.history.stored.reading import RefusedError, read_json
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
EVENTS: Final = ("order", "turn", "packet", "report", "rank")


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
        if not isinstance(values, dict) or not isinstance(values.get("scenario"), dict):
            raise ScenarioError(FIELD, str(path), "expected a file that `certify --every-order` has written")
        require_version(values, FIELD, path)
    except (OSError, ValueError, RefusedError) as error:
        raise ScenarioError(FIELD, str(path), f"it cannot be read: {error}") from None
    place, time, events = (values.get(name) for name in ("place", "time", "events"))
    if type(place) is not int or place < EVERYWHERE or type(time) is not int or not isinstance(events, list):
        raise ScenarioError(FIELD, str(path), "expected place and time as whole numbers, and a list of events")
    scenario = make_scenario(values_of_file(values["scenario"], path.parent))
    require_small(scenario, FIELD, path)
    if (copies := copies_due(scenario, network_of(scenario).order)) > MOST_COPIES:
        allowed = (
            f"its scenario asks for {copies} copies of segments; an order of events with at most {MOST_COPIES} is run"
        )
        raise ScenarioError(FIELD, str(path), allowed)
    return scenario, EventOrder(place, [_events(step, path) for step in events], time)


def _events(step: object, path: Path) -> tuple[LocalEvent, ...]:
    if not isinstance(step, list):
        raise ScenarioError(FIELD, str(path), "expected the events of each step as a list")
    for event in step:
        if not isinstance(event, list) or len(event) != 2 or event[0] not in EVENTS or type(event[1]) is not int:
            raise ScenarioError(FIELD, f"{event!r:.80}", f"expected an event: one of {', '.join(EVENTS)}, and a number")
    return tuple((name, number) for name, number in step)
