"""Networks that are too large, and settings that a driver or a clock does not support."""

import pytest

from emunode.errors import ScenarioError
from tests.helpers.annex_support import needs_annex
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


# --- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "field", "reason"),
    [
        ("clock=timed startup=0s per_byte=0s", "startup", "give --startup or --per-byte"),
        ("clock=timed duplex=half", "duplex", "full-duplex links only"),
        ("hang_by=disconnect", "hang_by", "only the docker driver supports it, not memory"),
        ("netns=always", "netns", "only the local driver supports it, not memory"),
        ("ranks_per_host=2", "ranks_per_host", "the memory driver has no hosts"),
        pytest.param("window=2", "window", "reliable", marks=needs_annex("reliable")),
    ],
)
def test_settings_without_support_name_their_field(given: str, field: str, reason: str) -> None:
    with pytest.raises(ScenarioError, match=reason) as error:
        _ = Case(f"star:4 broadcast greedy-tree {given}").plan
    assert error.value.field == field
