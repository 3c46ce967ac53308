"""Networks that are too large, and settings that a driver or a clock does not support."""

import pytest

from emunode.errors import ScenarioError
from tests.helpers.any_network_support import hub
from tests.helpers.scenarios import Case

# --- size ------------------------------------------------------------------------------------------------------------


def test_a_network_with_too_many_ports_is_refused() -> None:
    with pytest.raises(ScenarioError, match="a node has 39999 ports; a journal row can name 32767"):
        _ = Case("complete:40000 broadcast flood").plan


def test_a_hub_of_many_leaves_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.planning.plan.network_of", lambda _: hub(6000))
    with pytest.raises(ScenarioError, match=r"6001 nodes of up to 6000 ports.* = 36006000 entries; at most 33554432"):
        _ = Case("file:hub broadcast flood").plan
