"""The inputs that the fuzzer has kept in tests/corpus are processed again, without the fuzzer."""

import sys
from pathlib import Path

from tests.helpers.annex_support import needs_every_annex
from tests.helpers.command_line import ROOT, Ended, run_process

pytestmark = needs_every_annex

CORPUS = ROOT / "tests" / "corpus"
REPLAY = f"""
import sys
sys.path.insert(0, {str(ROOT / "scripts")!r})
from stress_tests.fuzzing.__main__ import main
main()
"""


def replay(folder: Path) -> Ended:
    """Feed the targets with the inputs of a folder."""
    return run_process(ROOT, [sys.executable, "-c", REPLAY, "-replay", folder])


def test_every_kept_input_is_accepted_or_refused_as_documented() -> None:
    done = replay(CORPUS)
    assert done.status == 0, done.out + done.err
    counts = dict(line.removesuffix(" inputs").split(": ") for line in done.out.splitlines())
    assert counts == {path.name: str(len(list(path.iterdir()))) for path in CORPUS.iterdir()}
    assert all(0 < int(count) <= 40 for count in counts.values())


def test_the_replay_reports_a_finding(tmp_path: Path) -> None:
    (tmp_path / "hello").mkdir()
    (tmp_path / "hello" / "bad").symlink_to(tmp_path)  # a folder: reading it fails, as a target might
    done = replay(tmp_path)
    assert done.status == 1
    assert "IsADirectoryError" in done.out + done.err
