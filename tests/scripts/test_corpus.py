"""What the fuzzer kept of its finds: every input of tests/corpus goes through its target once more, without the fuzzer."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "tests" / "corpus"


def replay(folder: Path) -> subprocess.CompletedProcess[str]:
    """Feed the targets what a folder holds."""
    return subprocess.run(
        [sys.executable, "-m", "stress_tests.fuzzing", "-replay", str(folder)],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'scripts'}"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_kept_input_is_taken_or_refused_as_documented() -> None:
    done = replay(CORPUS)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = dict(line.removesuffix(" inputs").split(": ") for line in done.stdout.splitlines())
    assert counts == {path.name: str(len(list(path.iterdir()))) for path in CORPUS.iterdir()}
    assert all(0 < int(count) <= 40 for count in counts.values())


def test_the_replay_tells_of_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hello").mkdir()
    (tmp_path / "hello" / "bad").symlink_to(tmp_path)  # a folder: reading it fails, as a target might
    monkeypatch.delenv("PYTHONPATH", raising=False)
    done = replay(tmp_path)
    assert done.returncode == 1
    assert "IsADirectoryError" in done.stdout + done.stderr
