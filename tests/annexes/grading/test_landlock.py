"""Landlock: a machine without it is named."""

import errno
import re
from pathlib import Path

from tests.annexes.grading.confinement_support import checked_without, needs_filter


@needs_filter
def test_grade_says_which_layers_did_not_hold(tmp_path: Path) -> None:
    done = checked_without(f"{errno.ENOSYS},444", tmp_path / "mine.py", "--verbose")
    assert done.status == 0, done.err
    assert "not confined by: Landlock (landlock_create_ruleset: Function not implemented)" in done.out
    assert re.search(r"^confined by: resource limits, .*system call filter, audit hook$", done.out, re.MULTILINE)
