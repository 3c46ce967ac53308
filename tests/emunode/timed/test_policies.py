"""The policy that a rank gets: by a protocol, by arrivals, or by steps."""

import pytest

from emunode.engine.step_times import StepTimes
from emunode.faults.in_time import FaultsInTime
from emunode.model import ReliableLinks
from emunode.timed.by_steps import BySteps
from emunode.timed.on_arrival import OnArrival
from emunode.timed.policies import RunSettings
from emunode.timed.rank import Policy
from emunode.timed.through_protocol import RunTimes, ThroughProtocol
from emunode.timed.transmission import NOTHING_PLANNED
from tests.emunode.timed.test_faults_in_time import MS, ONE_MS, made


@pytest.mark.parametrize(
    ("collective", "algorithm", "reliable", "policy"),
    [
        ("broadcast", "sbt", False, OnArrival),
        ("broadcast", "flood", False, OnArrival),
        ("reduce", "sbt", False, BySteps),
        ("broadcast", "sbt", True, ThroughProtocol),
        ("reduce", "sbt", True, ThroughProtocol),
    ],
)
def test_collective_and_protocol_choose_the_policy(
    collective: str, algorithm: str, reliable: bool, policy: type[Policy]
) -> None:
    """Copies are passed on as they come; a fold waits for its step, unless a protocol decides when a rank acts."""
    links = ReliableLinks(2 * MS, 3) if reliable else None
    made_algorithm = made("hypercube:3", collective, algorithm, reliable=links)
    times = RunTimes(StepTimes([MS]), 100 * MS) if reliable else None
    faults = FaultsInTime(made_algorithm.topology, 0, ())
    rank = RunSettings(made_algorithm, ONE_MS, faults, 10, times).make_rank(5, NOTHING_PLANNED)
    assert type(rank._policy) is policy
    assert rank.rank == 5
