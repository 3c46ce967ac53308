"""Refereed runs: the judge believes nothing that a submission says about itself."""

from pathlib import Path

import pytest

from coordinator.annexes.grading.refereed_run import GradedFaults, Referee
from coordinator.annexes.grading.submission import SubmissionEndedError, SubmissionServer
from emunode.model import Collective, CollectiveSpec
from emunode.topologies.registry import parse_topology
from tests.annexes.grading.submissions import LIMITS, findings, flood, graded, receive


def test_judge_does_not_believe_the_submission(tmp_path: Path) -> None:
    """Changes to the modules of its own process, and false words about itself, change no verdict."""
    found = graded(
        tmp_path,
        flood(
            receive("sends = []"),
            "def claims(self):\n    return [Claim('intact_deliveries', 5, '==', 'me')]",
            after="""
                import coordinator.annexes.grading.refereed_run as judge
                judge.Referee._judge_deliveries = lambda self: None
                from coordinator.annexes.grading.session import SubmissionSession
                SubmissionSession.passed = True
            """,
        ),
    )
    assert "delivery: star:3, all-port, 123: not reached: 132, 312, 231" in findings(found)


def test_a_play_that_ends_names_its_reason() -> None:
    star = parse_topology("star:3")
    spec = CollectiveSpec(star.name, Collective.BROADCAST, "mine", 0, message_bytes=64)
    with SubmissionServer("mine.py", flood(receive("os._exit(9)")), LIMITS) as server:
        with server.process() as process, pytest.raises(SubmissionEndedError, match="exit status 9"):
            Referee(star, spec, GradedFaults()).referee(process, ("star", "broadcast", "mine"))
        # The server is as fresh as before.
        with server.process() as process:
            assert process.loaded is not None
            assert [each.key for each in process.loaded.algorithms] == [("star", "broadcast", "mine")]
