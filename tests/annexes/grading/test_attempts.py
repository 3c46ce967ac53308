"""Attempts that the kernel tells: a submission without the audit hook cannot hide them."""

from functools import partial
from pathlib import Path

import pytest

from coordinator.annexes.grading.layers import Layer
from coordinator.annexes.grading.submission import SubmissionServer
from tests.annexes.grading.confinement_support import needs_filter
from tests.annexes.grading.submissions import flood, graded, marks, receive

HIDDEN = {
    "os.fork()": "fork", "os.kill(os.getppid(), 0)": "kill", "socket.socket()": "socket",
    "open('left', 'w')": "open to write",
    "os.execv('/bin/true', ['true'])": "execve",
}  # fmt: skip


@needs_filter
def test_hidden_attempts_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layers = [layer for layer in Layer if layer is not Layer.HOOK]
    monkeypatch.setattr("coordinator.annexes.grading.grade.SubmissionServer", partial(SubmissionServer, layers=layers))
    tries = "\n".join(f"try: {call}\nexcept OSError: pass" for call in HIDDEN)
    seen = marks(graded(tmp_path, flood(receive(tries))))
    assert {f"it tried {name}" for name in HIDDEN.values()} == set(seen["limits"].findings)
    assert seen["delivery"].passed == 6
