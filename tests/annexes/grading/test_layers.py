"""Layers: escapes that succeed without them are refused by each layer that is to stop them, alone and with all."""

from pathlib import Path
from typing import Final

import pytest

from coordinator.annexes.grading.layers import Layer, Protection, failure
from tests.annexes.grading.confinement_support import ANOTHER_USER, IS_ROOT, tried
from tests.annexes.grading.escapes import ESCAPES, Escape

USERS: Final = {"root": None, "another user": ANOTHER_USER} if IS_ROOT else {"this user": 0}


LAYERS: Final = [layer for layer in Layer if layer is not Layer.HOOK]
"""Without the audit hook: a submission can get around it, and the escapes act as if they had."""


def possible(user: int | None) -> list[Escape]:
    """Return escapes that succeed for this user on this machine when nothing confines them."""
    results = tried(user, ())["results"]
    return [each for each in ESCAPES if results[each.name] == "succeeded"]


def test_there_are_many_escapes_with_names_of_their_own() -> None:
    assert len({each.name for each in ESCAPES}) == len(ESCAPES) >= 130


@pytest.mark.parametrize("user", USERS.values(), ids=USERS)
def test_escapes_succeed_without_confinement(user: int | None) -> None:
    """Otherwise a refusal would prove nothing."""
    found = {each.name for each in possible(user)}
    rights = IS_ROOT and user is None
    expected = {each.name for each in ESCAPES if not each.optional and (rights or not each.root_only)}
    assert expected - found == set()
    assert len(found) >= 60


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("user", USERS.values(), ids=USERS)
@pytest.mark.parametrize("layer", [each for each in LAYERS if any(each in escape.stopped_by for escape in ESCAPES)])
def test_each_layer_stops_its_escapes_alone(user: int | None, layer: Layer) -> None:
    feasible = possible(user)
    meant = tuple(each.name for each in feasible if layer in each.stopped_by)
    # One escape is enough to learn whether the layer holds.
    found = tried(user, (layer,), meant or (feasible[0].name,))
    if layer not in found["protection"]:
        pytest.skip(f"{layer} is for root only")
    if found["protection"][layer] is not None:
        pytest.skip(f"this machine has no {layer}: {found['protection'][layer]}")
    if not meant and user is not None:
        pytest.skip(f"{layer} changes nothing for a user without rights")
    assert meant
    assert [name for name in meant if found["results"][name] == "succeeded"] == []


@pytest.mark.parametrize("user", USERS.values(), ids=USERS)
@pytest.mark.parametrize("without", [None, Layer.FILTER], ids=["all", "all but the filter"])
def test_layers_together_stop_what_each_stops(user: int | None, without: Layer | None) -> None:
    found = tried(user, tuple(layer for layer in LAYERS if layer is not without))
    held = {layer for layer, reason in found["protection"].items() if reason is None}
    meant = [each.name for each in ESCAPES if held & each.stopped_by]
    assert [name for name in meant if found["results"][name] == "succeeded"] == []
    if Layer.FILTER in held and Layer.ROOT in held and Layer.DESCRIPTORS in held:
        # Nothing is left over.
        assert len(meant) == len(ESCAPES)


def test_protection_is_told_in_the_order_of_the_layers() -> None:
    found = Protection({Layer.HOOK: None, Layer.ROOT: "unshare: Operation not permitted", Layer.LIMITS: None})
    assert found.held == ["resource limits", "audit hook"]
    assert found.missing == {"sealed root": "unshare: Operation not permitted"}
    assert [found.holds(layer) for layer in (Layer.HOOK, Layer.ROOT, Layer.FILTER)] == [True, False, False]


def test_the_reason_of_a_failure_names_what_was_refused() -> None:
    assert failure(lambda: None) is None
    assert failure(lambda: Path("/no/such/file").read_text()) == "/no/such/file: No such file or directory"
