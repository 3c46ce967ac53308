"""Confinement: another user where that is possible, and no signals to the grader."""

from pathlib import Path

import pytest

from coordinator.annexes.grading.confinement import surroundings
from coordinator.annexes.grading.layers import Layer, Protection
from tests.annexes.grading.confinement_support import IS_ROOT
from tests.annexes.grading.submissions import findings, flood, graded, receive


@pytest.mark.skipif(not IS_ROOT, reason="only root becomes another user")
def test_a_private_interpreter_rules_out_another_user(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir(0o700)
    (private / "module.py").touch()
    found = surroundings(list(Layer), [private], Protection())
    assert found.other_user is None
    assert found.no_other_user is not None
    assert f"{private}: Permission denied" in found.no_other_user
    public = surroundings(list(Layer), [Path("/usr/bin/env")], Protection())
    assert (public.other_user is None, public.no_other_user) == (False, None)


def test_submission_cannot_have_its_grader_killed(tmp_path: Path) -> None:
    """By the owner of a pipe: no rule about signals sees it."""
    found = graded(
        tmp_path,
        flood(
            receive("""
                import fcntl
                read, write = os.pipe()
                for command, value in (fcntl.F_SETOWN, os.getppid()), (fcntl.F_SETSIG, 9), (fcntl.F_SETFL, os.O_ASYNC):
                    fcntl.fcntl(read, command, value)
                os.write(write, b"x")
            """)
        ),
    )
    assert "limits: it tried fcntl.fcntl" in findings(found)
