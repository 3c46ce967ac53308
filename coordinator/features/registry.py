"""The features of the nodes. To add one, write its module and add its line here."""

from typing import Final

from coordinator.features.agreement import AgreementFeature
from coordinator.features.base import Feature
from coordinator.features.detection import DetectionFeature
from coordinator.features.reliable import ReliableFeature
from coordinator.features.repair import RepairFeature
from emunode.algorithms.claims import FURTHER_METRICS
from emunode.errors import RegistrationError
from emunode.model import CollectiveSpec
from emunode.registry import Registry


def _check(feature: Feature) -> None:
    if not feature.name.replace("-", "_").isidentifier():
        raise RegistrationError(f"feature {feature.name!r}: its name is not a word")
    # A claim is valid only about a metric with a known name, so a plug-in protocol has to add the names of its own.
    FURTHER_METRICS.update(feature.metrics)


FEATURES: Final = Registry[str, Feature](
    "feature", Feature, key=lambda feature: feature.name, required=("name",), check=_check, instances=True
)
"""Every feature by its name. If several features make claims about deliveries, the claims of the first one count."""
# Agreement first: where the collective runs again, the deliveries of its first run decide nothing. Repair and reliable
# links come before detection, because they deliver segments that the claims of detection count as withheld.
for _feature in (AgreementFeature(), RepairFeature(), ReliableFeature(), DetectionFeature()):
    FEATURES.add(_feature)


def active_features(spec: CollectiveSpec) -> tuple[Feature, ...]:
    """Return the features of a run, in the order of the registry."""
    return tuple(feature for feature in FEATURES.values() if feature.is_active(spec))
