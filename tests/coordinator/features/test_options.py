"""`--heal-at`: a step or a time."""

import pytest

from coordinator.scenario.model import make_scenario, plain_values
from emunode.errors import ScenarioError

LINE = {"topology": "hypercube:3", "collective": "broadcast", "algorithm": "sbt"}


@pytest.mark.parametrize(
    ("given", "meant"), [(5, 5), (" 12 ", 12), ("50ms", "50ms"), ("0.05s", "50ms"), ("999999999", 999999999)]
)
def test_a_moment_is_a_step_or_a_time(given: object, meant: object) -> None:
    faults = ["down:000>001@1"] if isinstance(meant, int) else ["down:000>001@1ms"]
    clock = "steps" if isinstance(meant, int) else "timed"
    scenario = make_scenario(LINE | {"heal_at": given, "fault": faults, "clock": clock})
    assert plain_values(scenario)["heal_at"] == meant


@pytest.mark.parametrize("given", [0, "-3", "05", "0ms", "soon", True, "1000000000000", "²"])
def test_other_moments_are_refused(given: object) -> None:
    with pytest.raises(ScenarioError, match="heal_at"):
        make_scenario(LINE | {"heal_at": given})
