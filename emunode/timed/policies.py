"""The policy of the ranks of a run, from its parameters."""

from typing import NamedTuple

from emunode.algorithms.base import Algorithm, goes_by_arrivals
from emunode.faults.in_time import FaultsInTime
from emunode.model import Rank, Step
from emunode.timed.by_steps import BySteps
from emunode.timed.cost_model import LinearCostModel
from emunode.timed.on_arrival import OnArrival
from emunode.timed.rank import TimedRank
from emunode.timed.through_protocol import RunTimes, ThroughProtocol
from emunode.timed.transmission import RankTimetable


class RunSettings(NamedTuple):
    """The settings that all ranks of a run share."""

    algorithm: Algorithm
    costs: LinearCostModel
    faults: FaultsInTime
    last: Step
    """Nothing is sent in a later step."""
    times: RunTimes | None
    """The times of a run whose ranks have a protocol or a failure detector; None for other runs."""

    def make_rank(self, rank: Rank, timetable: RankTimetable) -> TimedRank:
        """Create a rank; `timetable` is its part in the fault-free timetable (a protocol needs none)."""
        common = (rank, self.algorithm, self.costs, self.faults)
        # A protocol decides on its own when a rank acts, whether or not the algorithm follows arrivals.
        if self.times is not None:
            return TimedRank(ThroughProtocol(*common, self.times))
        policy = OnArrival if goes_by_arrivals(self.algorithm) else BySteps
        return TimedRank(policy(*common, timetable, self.last))
