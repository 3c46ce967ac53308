"""State that ranks of one process share: it is run anew for every order, and a note in it is found."""

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from coordinator.annexes.orders import shared_state
from coordinator.annexes.orders.every_order import every_order
from coordinator.annexes.orders.shared_state import PluginVariables, held_by
from coordinator.scenario.plugins import load_plugins
from emunode.host.placement import Placement
from tests.helpers.command_line import ROOT
from tests.helpers.scenarios import Case
from tests.helpers.support import forget_plugins

NOTED, CYCLE = (ROOT / "tests" / "plugins" / f"{name}.py" for name in ("noted", "cycle"))
PLACES = ("object", "module", "class")


@pytest.fixture(autouse=True)
def plugins() -> Iterator[None]:
    load_plugins([str(NOTED), str(CYCLE)])
    yield
    forget_plugins()


@pytest.mark.parametrize("place", PLACES)
def test_a_shared_note_is_found_by_one_order(place: str) -> None:
    """In Q_2 nodes 01 and 10 read in one turn; 11 hears of both only where the plain order of their turns is swapped."""
    case = Case(f"hypercube:2 broadcast noted-{place}")
    for _ in range(2):  # the second search begins as the first did
        found = every_order(case.plan, placement=Placement(4, 1)).deviation
        assert found is not None
        assert found.words() == (
            "step 2, 00: other packets in the order order, turn of 10, turn of 01, packet on port 1 of 11, report"
        )
    timed = every_order(case.but(clock="timed").plan).deviation
    assert timed is not None
    assert (timed.what, timed.names, timed.label) == ("another journal", ["10", "01"], "")


@pytest.mark.parametrize("place", PLACES)
def test_a_note_that_hosts_do_not_share_makes_memory_differ(place: str) -> None:
    """With a process for each node every node is the first of its process, in memory only one of two is."""
    found = every_order(Case(f"hypercube:2 broadcast noted-{place}").plan).deviation
    assert found is not None
    assert found.words() == "step 2, 10: hosts of 1 and the memory engine send other packets"


@pytest.mark.parametrize("hosts", [1, 2, 4])
@pytest.mark.parametrize("clock", ["steps", "timed"])
def test_a_clean_plug_in_holds(hosts: int, clock: str) -> None:
    case = Case("cycle:4 broadcast one-way", "drop-every:0~1:2", clock=clock)
    found = every_order(case.plan, placement=Placement(4, hosts))
    assert (found.verdict, found.journal_hash) == ("holds", case.summary["journal_hash"])


def test_variables_get_their_first_values(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("mine")
    kind: Any = type("Kind", (), {"__module__": "mine", "seen": [1], "method": lambda self: self})
    vars(module).update(note={"a": [1]}, number=3, Kind=kind, stream=(number for number in [1]))
    monkeypatch.setattr(shared_state, "loaded_modules", lambda: [module])
    variables = PluginVariables()
    assert variables.unknown == ["mine.stream"]
    before = variables.content()
    for change in (
        lambda: module.note["a"].append(2),
        lambda: kind.seen.append(2),
        lambda: setattr(module, "number", 4),
        lambda: setattr(module, "more", {}),
    ):
        change()
        assert variables.content() != before
        variables.reset()
        assert variables.content() == before
    assert (module.note, kind.seen, module.number, hasattr(module, "more")) == ({"a": [1]}, [1], 3, False)


def test_tables_of_built_in_code_are_no_state() -> None:
    built_in, noted = (Case(f"hypercube:2 broadcast {name}").plan.algorithm for name in ("sbt", "noted-object"))
    assert built_in.final_step
    before = set(held_by(built_in))
    assert built_in.sources
    assert set(held_by(built_in)) == before
    assert "note" not in held_by(noted)
    noted.note[1] = 2  # type: ignore[attr-defined]
    assert held_by(noted)["note"] == {1: 2}
