"""The features of the nodes. To add one, write its module and add its line here."""

from typing import Final

from coordinator.annexes import merged
from coordinator.features.base import FEATURES as FEATURES  # noqa: PLC0414  # complete once this is imported
from coordinator.features.base import Feature
from coordinator.features.detection import DetectionFeature
from coordinator.features.liveness import LivenessFeature
from emunode.annexes import load
from emunode.model import CollectiveSpec

_of_annexes: Final = {name: load(target)() for name, target in merged("features").items()}
_first: Final = [_of_annexes.pop(name) for name in ("agreement", "repair", "reliable") if name in _of_annexes]

# Agreement first: where the collective runs again, the deliveries of its first run decide nothing. Repair and reliable
# links come before detection, because they deliver segments that the claims of detection count as withheld.
for _feature in (
    *_first,
    DetectionFeature(),
    *_of_annexes.values(),
    LivenessFeature(),
):
    FEATURES.add(_feature)


def why_unpredictable(spec: CollectiveSpec) -> str | None:
    """Return why the sends of a run without faults do not determine its sends under faults, if a feature is the reason."""
    return next((feature.unpredictable for feature in active_features(spec) if feature.unpredictable), None)


def active_features(spec: CollectiveSpec) -> tuple[Feature, ...]:
    """Return the features of a run, in the order of the registry."""
    return tuple(feature for feature in FEATURES.values() if feature.is_active(spec))
