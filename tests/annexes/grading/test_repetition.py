"""Cheats of content: refused jobs, hidden mistakes, and rules that are not local."""

from pathlib import Path

import pytest

from coordinator.annexes.grading.layers import failure
from coordinator.annexes.grading.sealed_root import _own_users, _shift_clocks
from emunode import runtime
from tests.annexes.grading.submissions import flood, graded, marks, receive

HIDDEN_WATCH = """
from emunode import locality
locality.CallWatch.forbidden = property(lambda self: [], lambda self, value: None)
"""
MASKED_ANSWERS = """
import json
old = json.dumps
def dumps(message, *rest, **more):
    result = message.get("result") if isinstance(message, dict) else None
    if isinstance(result, dict) and "late" in result:
        result["late"] = [[0, "a submission may not call"]]
    return old(message, *rest, **more)
json.dumps = dumps
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
    "text in the place of a step": (flood(receive("sends = []"), after=MASKED_ANSWERS), "model"),
    "clock": (flood(receive("sends = sends if time.monotonic() < 1e8 else []"), after=HIDDEN_WATCH), "locality"),
    "chance": (flood(receive("sends = [each for each in sends if os.urandom(1)[0] % 2]"), after=HIDDEN_WATCH), "locality"),
    "order": (flood(receive("BOARD.append(1)\nif len(BOARD) % 5 == 1: sends = []"), after="BOARD = []"), "locality"),
    "ends for the last source": (flood(receive("if self._algorithm.spec.source == 5: os._exit(3)")), "delivery"),
    "no one-directional links": (
        flood(
            algorithm="""
            duplexes = (Duplex.FULL, Duplex.HALF)
            def validate(self):
                from emunode.errors import ScenarioError
                super().validate()
                if self.spec.duplex == "half": raise ScenarioError("duplex", "half", "too hard for me")
        """
        ),
        "delivery",
    ),
    "an odd source": (refuses("self.spec.source % 2"), "delivery"),
    "a source that is not sorted": (refuses("self.topology.label(self.spec.source) != '123'"), "delivery"),
    "an error for some sources": (flood(receive("if self._algorithm.spec.source == 3: 1 / 0")), "model"),
    "hash seed": (flood(receive("sends = sends if hash('a') % 3 else []"), after=HIDDEN_WATCH), "locality"),
    "address of an object": (
        flood(receive("sends = [each for each in sends if id(packets) // 16 % 5 > 1]"), after=HIDDEN_WATCH),
        "locality",
    ),
    "number of the process": (
        flood(receive("sends = [each for each in sends if os.getpid() % 7 > 2]"), after=HIDDEN_WATCH),
        "locality",
    ),
    "wall clock": (
        flood(receive("sends = [each for each in sends if time.time_ns() // 1000 % 3]"), after=HIDDEN_WATCH),
        "locality",
    ),
    "random module": (
        flood(receive("sends = [each for each in sends if random.random() < 0.5]"), after=HIDDEN_WATCH),
        "locality",
    ),
    "a variable of the class": (
        flood(receive("R.seen = getattr(R, 'seen', 0) + 1\nif R.seen % 4 == 2: sends = []")),
        "locality",
    ),
    "a variable of another module": (
        flood(receive("sys.seen = getattr(sys, 'seen', 0) + 1\nif sys.seen % 4 == 2: sends = []")),
        "locality",
    ),
    "a claim that is false for one source": (
        flood(algorithm="def claims(self): return [Claim('steps', 9 if self.spec.source == 2 else 3, '==', 'a')]"),
        "claims",
    ),
    "a false upper bound": (flood(algorithm="def claims(self): return [Claim('steps', 1, '<=', 'a')]"), "claims"),
    "a false lower bound": (
        flood(algorithm="def claims(self): return [*super().claims(), Claim('segments', 10**6, '>=', 'a')]"),
        "claims",
    ),
    "false claim": (
        flood(algorithm="def claims(self): return [Claim('steps', 0, '>=', 'a')] * 50 + [Claim('steps', 2, '==', 'b')]"),
        "claims",
    ),
}  # fmt: skip


def why_clocks_stay() -> str:
    """Return why this user cannot shift the clocks of a process; empty if it can."""

    def shift() -> bytes:
        return (failure(_own_users) or failure(_shift_clocks) or "").encode()

    return runtime.in_child(shift, 10).decode()


@pytest.mark.parametrize(("text", "requirement"), CHEATS.values(), ids=CHEATS)
def test_cheat_fails_its_requirement(tmp_path: Path, text: str, requirement: str) -> None:
    if "time.monotonic" in text and (reason := why_clocks_stay()):
        pytest.skip(f"clocks cannot be shifted: {reason}")  # as within a chroot, which has no namespace of users
    mark = marks(graded(tmp_path, text))[requirement]
    assert (str(mark.verdict), mark.points < 10) == ("fail", True)
    assert requirement != "claims" or mark.points == 0
