"""Shell completion: commands, flags and values."""

from pathlib import Path

import pytest
from rich.console import Console

from coordinator.cli.app import app
from tests.command_line import Call


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    # every command keeps the console of its first use in this process, with the width of that time; this one comes first
    monkeypatch.setattr(app, "_console", Console(width=400))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_contains_commands_flags_and_values(call: Call, tmp_path: Path, shell: str) -> None:
    assert call(f"--install-completion --shell {shell} --out completion").status == 0
    text = (tmp_path / "completion").read_text()
    for word in ("reproduce", "algorithms", "redundancy", "send-or-receive"):
        assert word in text
