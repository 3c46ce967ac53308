"""Cheats of content: refused jobs, hidden mistakes, and rules that are not local."""

from pathlib import Path

import pytest

from tests.annexes.grading.submissions import flood, graded, marks, receive

HIDDEN_WATCH = """
from emunode import locality
locality.CallWatch.forbidden = property(lambda self: [], lambda self, value: None)
"""


def refuses(condition: str) -> str:
    return flood(
        algorithm=f"""
        def validate(self):
            from emunode.errors import ScenarioError
            super().validate()
            if {condition}: raise ScenarioError("source", "x", "too hard for me")
    """
    )


CHEATS = {
    "one source": (refuses("self.spec.source"), "delivery"),
    "all sources but one": (refuses("self.spec.source == 5"), "delivery"),
    "ends its process": (flood(receive("if self._algorithm.spec.source: os._exit(0)")), "delivery"),
    "text of a refused call": (
        flood(receive("if self._algorithm.spec.source: raise PermissionError('a submission may not call os.fork')")),
        "model",
    ),
    "clock": (flood(receive("sends = sends if time.monotonic() < 1e8 else []"), after=HIDDEN_WATCH), "locality"),
    "chance": (flood(receive("sends = [each for each in sends if os.urandom(1)[0] % 2]"), after=HIDDEN_WATCH), "locality"),
    "order": (flood(receive("BOARD.append(1)\nif len(BOARD) % 5 == 1: sends = []"), after="BOARD = []"), "locality"),
    "false claim": (
        flood(algorithm="def claims(self): return [Claim('steps', 0, '>=', 'a')] * 50 + [Claim('steps', 2, '==', 'b')]"),
        "claims",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "requirement"), CHEATS.values(), ids=CHEATS)
def test_cheat_fails_its_requirement(tmp_path: Path, text: str, requirement: str) -> None:
    mark = marks(graded(tmp_path, text))[requirement]
    assert (str(mark.verdict), mark.points < 10) == ("fail", True)
    assert requirement != "claims" or mark.points == 0
