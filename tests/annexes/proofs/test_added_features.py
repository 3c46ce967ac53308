"""Certificates of runs with a feature that no module knows."""

import sys

import pytest

from coordinator.annexes.proofs.certify import Certifier, exhaustive_fault_sets
from tests.coordinator.features.test_registry import short_steps  # noqa: F401
from tests.helpers.scenarios import Case


@pytest.mark.usefixtures("short_steps")
def test_a_feature_may_keep_a_run_from_symmetries() -> None:
    # The 3 edge-disjoint trees of S_4 are turned into each other, but for a feature that says otherwise.
    for seed, symmetries in ((6, 3), (7, 1)):
        certifier = Certifier(Case("star:4 broadcast edt x=3", seed=seed).scenario, 1, sys.stderr, lambda *_: None)
        assert certifier.orbits(exhaustive_fault_sets(["nodes<=1"]))[0].symmetries == symmetries
