"""Tables with cells that wrap: words stay whole where they fit, and nothing is cropped."""

import pytest
from rich.cells import cell_len

from coordinator.cli.render import show_rows

pytestmark = pytest.mark.usefixtures("terminal_width")


@pytest.fixture
def terminal_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("heading", ["guaranteed delivery", "ratio"])
def test_words_that_fit_stay_whole(capsys: pytest.CaptureFixture[str], heading: str) -> None:
    rows = [dict.fromkeys([heading, *"abcdef"], "0.111 to 0.222 without a limit"), {heading: "delivered", "a": "late"}]
    show_rows("", [dict.fromkeys(rows[0], "") | row for row in rows])
    words = [word for line in capsys.readouterr().out.splitlines() for word in line.split()]
    assert set(words) - {word for word in words if set(word) == {"─"}} == {
        *heading.split(), *"abcdef", "0.111", "to", "0.222", "without", "a", "limit", "delivered", "late",
    }  # fmt: skip


def test_optional_columns_give_way_to_whole_words(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"name": "x" * 28, "nodes": "24", "value": "y" * 40, "bound": "4"}
    show_rows("", [row], optional=["nodes", "bound"])
    assert capsys.readouterr().out.split()[:3] == ["name", "value", "bound"]
    show_rows("", [row | {"value": "y" * 20}], optional=["nodes", "bound"])
    assert capsys.readouterr().out.split()[:4] == ["name", "nodes", "value", "bound"]


def test_long_words_are_broken_and_not_cropped(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows("", [{"heading": "x" * 70, "remedy": "y" * 40}])
    text = capsys.readouterr().out
    assert (text.count("x"), text.count("y") - 1) == (70, 40)
    assert max(map(cell_len, text.splitlines())) <= 80
