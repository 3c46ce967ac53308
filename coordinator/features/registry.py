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
    FURTHER_METRICS.update(feature.metrics)


FEATURES: Final = Registry[str, Feature](
    "feature", Feature, key=lambda feature: feature.name, required=("name",), check=_check, instances=True
)
"""Every feature by its name. Of several that claim something about deliveries, the first one speaks for the run."""
for _feature in (AgreementFeature(), RepairFeature(), ReliableFeature(), DetectionFeature()):
    FEATURES.add(_feature)


def active_features(spec: CollectiveSpec) -> tuple[Feature, ...]:
    """Return the features of a run, in the order of the registry."""
    return tuple(feature for feature in FEATURES.values() if feature.is_active(spec))
