"""Shell completion: commands, flags and values."""

from pathlib import Path

import pytest

from tests.command_line import Call

pytestmark = pytest.mark.usefixtures("wide_terminal")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_contains_commands_flags_and_values(call: Call, tmp_path: Path, shell: str) -> None:
    assert call(f"--install-completion --shell {shell} --out completion").status == 0
    text = (tmp_path / "completion").read_text()
    for word in ("reproduce", "algorithms", "redundancy", "send-or-receive"):
        assert word in text
