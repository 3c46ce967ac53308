"""Shell completion: commands, flags and values."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.annex_support import needs_every_annex
from tests.helpers.command_line import ROOT, Call

pytestmark = [pytest.mark.usefixtures("wide_terminal"), needs_every_annex]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_contains_commands_flags_and_values(call: Call, tmp_path: Path, shell: str) -> None:
    assert call(f"--install-completion --shell {shell} --out completion").status == 0
    text = (tmp_path / "completion").read_text()
    for word in ("reproduce", "algorithms", "redundancy", "send-or-receive"):
        assert word in text


@pytest.mark.parametrize("between", ["", "[forget() for forget in typing._cleanups]"], ids=["kept", "forgotten"])
def test_help_lists_shells_in_one_order(between: str) -> None:
    """`typing` keeps the first of equal unions for a while; the library has the same union as the command."""
    call = "from coordinator.cli.invoke import main; main(['--install-completion', '--help'])"
    code = f"import typing, cyclopts.core\n{between}\n{call}"
    printed = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert "zsh, bash, fish, powershell" in " ".join(printed.split())
