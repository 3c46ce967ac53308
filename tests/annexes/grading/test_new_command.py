"""`coordinator new`: files to start from."""

from pathlib import Path

import pytest

from tests.helpers.command_line import Call


def test_new_writes_files_once(tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("new algorithm my-tree --topology star:4").status == 0
    assert call("new topology my-ring --json").data == {"file": "my_ring.py"}
    ended = call("new algorithm my-tree --topology hypercube")
    assert (ended.status, "the file exists" in ended.err) == (2, True)
    assert 'family = "star"' in (tmp_path / "my_tree.py").read_text()
    for line in ("new algorithm My", "new algorithm x --topology moon", "new topology y --out y.txt"):
        assert call(line).status == 2
