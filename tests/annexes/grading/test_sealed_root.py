"""The sealed root: needed where confinement is required, and empty."""

import errno
import json
import sys
from pathlib import Path
from typing import Final

import pytest

from coordinator.annexes.grading import system_calls
from coordinator.annexes.grading.layers import Layer
from coordinator.annexes.grading.system_calls import ARCHITECTURES
from tests.annexes.grading.confinement_support import ANOTHER_USER, IS_ROOT, checked_without, needs_filter, tried
from tests.annexes.grading.submissions import flood, graded
from tests.helpers.command_line import ROOT, run_process


@needs_filter
def test_submission_is_not_executed_without_required_confinement(tmp_path: Path) -> None:
    unshare = 272 if system_calls.architecture() is ARCHITECTURES["x86_64"] else 97
    done = checked_without(f"{errno.EPERM},{unshare}", tmp_path / "mine.py", "--json", "--require-confinement")
    assert done.status == 4
    message = json.loads(done.out)["error"]["message"]
    assert (
        "was not executed, since this machine does not confine it fully: no sealed root (unshare: Operation" in message
    )
    assert all(f"{layer} (" in message for layer in (Layer.NETWORK, Layer.IPC, Layer.PROCESSES, Layer.USER_NAMESPACE))
    done = checked_without(f"{errno.EPERM},{unshare}", tmp_path / "mine.py", "--json")
    record = json.loads(done.out)
    assert (done.status, record["verdict"]) == (0, "pass")
    assert record["not_protected"]["process namespace"] == "unshare: Operation not permitted"
    assert "system call filter" in record["protection"]


WITHOUT_RIGHT: Final = """
import sys
from coordinator.cli.invoke import main
from emunode import runtime as libc
libc.call("prctl", 24, 21, 0, 0, 0)
sys.exit(main(["check", *sys.argv[1:]]))
"""
"""Runs the command so that its processes start without CAP_SYS_ADMIN, as root's processes do in a container."""


@pytest.mark.skipif(not IS_ROOT, reason="no other user has this right")
def test_root_without_its_rights_makes_namespaces_as_others_do(tmp_path: Path) -> None:
    reason = tried(ANOTHER_USER, (Layer.ROOT,))["protection"][Layer.ROOT]
    if reason is not None:
        pytest.skip(f"other users have no namespaces here: {reason}")
    file = tmp_path / "mine.py"
    file.write_text(flood())
    done = run_process(ROOT, [sys.executable, "-c", WITHOUT_RIGHT, file, "--topology", "star:3", "--json"])
    record = json.loads(done.out)
    assert (done.status, record["verdict"]) == (0, "pass")
    assert {"sealed root", "process namespace", "network namespace", "IPC namespace"} <= {*record["protection"]}
    # In its namespace of users there is no other user.
    assert [*record["not_protected"]] == ["other user"]


def test_submission_gets_no_variables_and_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN_OF_THE_TEACHER", "secret")
    found = graded(tmp_path, flood(after="print(sorted(os.environ), os.getcwd(), os.listdir('.'))"))
    assert "TOKEN" not in found.printed
    assert str(tmp_path) not in found.printed
    if found.protection.holds(Layer.ROOT):
        assert "/submission []" in found.printed
