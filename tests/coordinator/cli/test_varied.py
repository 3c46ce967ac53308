"""`--vary FIELD=VALUES`: lists, ranges and networks, and refused texts."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from coordinator.cli.varied import varied_values


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["redundancy=1..4"], {"redundancy": [1, 2, 3, 4]}),
        (["source=-2..0"], {"source": [-2, -1, 0]}),
        (["algorithm=edt,greedy-tree"], {"algorithm": ["edt", "greedy-tree"]}),
        (["segments=1,4..5,9"], {"segments": ["1", 4, 5, "9"]}),
        (["message-bytes=8", "message_bytes=64"], {"message_bytes": ["8", "64"]}),
        (["topology=petersen:7,2,star:4"], {"topology": ["petersen:7,2", "star:4"]}),
        (["redundancy=3..1"], {"redundancy": []}),
    ],
)
def test_texts_stand_for_values(texts: Sequence[str], values: dict[str, list[object]]) -> None:
    assert varied_values(texts) == values


def test_a_file_of_a_network_is_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert varied_values(["topology=file:net.csv"]) == {"topology": [f"file:{tmp_path}/net.csv"]}
