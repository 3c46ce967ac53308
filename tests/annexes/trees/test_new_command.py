"""`coordinator new tree`: eight lines that run as they stand."""

from pathlib import Path

import pytest

from tests.annexes.trees.support import MINE
from tests.helpers.command_line import Call


@pytest.mark.usefixtures("empty_folder")
def test_a_new_tree_has_eight_lines_and_runs(call: Call) -> None:
    assert "coordinator run star:4 broadcast --trees mine.py" in call("new tree mine.py").out
    assert len(Path("mine.py").read_text().splitlines()) == 8
    run = call("run --topology star:4 --collective broadcast --trees mine.py --driver memory --json")
    Path("other.py").write_text(MINE)
    other = call("run --topology star:4 --collective broadcast --trees other.py --driver memory --json")
    assert run.data["journal_hash"] == other.data["journal_hash"]
    assert call("check mine.py --topology star:4").status == 0
    refused = call("new tree mine.py")
    assert (refused.status, "the file exists" in refused.err) == (2, True)
    assert call("new tree --json").data == {"file": "tree.py"}
    assert call("new tree tree.txt").status == 2
