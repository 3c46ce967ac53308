"""`coordinator reproduce`: lists, output, exit statuses and files."""

import json
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coordinator.annexes.papers import document
from coordinator.annexes.papers.base import Figure, Reproduction, Section
from coordinator.annexes.papers.registry import REPRODUCTIONS
from coordinator.annexes.papers.run_cache import RunCache
from coordinator.annexes.papers.tables import Table, compared
from coordinator.cli.invoke import main
from emunode.errors import RunError
from tests.helpers.support import golden_rows


def test_the_command_shows_estimate_and_effort(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "star-against-hypercube", "--n", "3"]) == 0
    output = capsys.readouterr()
    announced = re.search(r"reproduce: (\d+) runs, about \d+ s on two idle cores", output.err)
    made = re.search(r"(\d+) runs, \d+ results used again; took \d+ s", output.out)
    assert announced
    assert made
    assert announced[1] == made[1]


def test_the_list_of_what_is_not_reproduced_has_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["reproduction"] for row in rows} <= {*REPRODUCTIONS}
    assert all(row["item"] and row["statement"] and len(row["reason"].split()) > 4 for row in rows)
    assert len({(row["reproduction"], row["item"], row["statement"]) for row in rows}) == len(rows)
    assert main(["reproduce", "hussain-figures", "--list"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "figure 12" in text
    assert "names neither alpha" in " ".join(row["reason"] for row in rows)
    assert main(["reproduce", "hussain-figures", "--list", "--out", "x"]) == 2
    assert "leave --n and --out out" in capsys.readouterr().err


def test_without_a_name_the_command_lists_the_reproductions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--json"]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == list(REPRODUCTIONS)


@pytest.mark.parametrize("row", golden_rows("", "refused_reproductions"), ids=lambda row: row["arguments"])
def test_invalid_arguments_are_rejected(row: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", *row["arguments"].split()]) == 2
    assert row["message"] in capsys.readouterr().err


def test_exit_status_output_and_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"n": 3, **compared(1, 1)}]

    def build(run_cache: RunCache) -> Iterator[Section]:
        assert list(run_cache.sizes) == [3]
        yield Table("a table", rows, ["† a note"])
        yield Figure("a figure", "<svg></svg>")

    monkeypatch.setitem(REPRODUCTIONS._entries, "tried", Reproduction("tried", "T", "P", "D", build, range(3, 4)))
    assert main(["reproduce", "tried", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "a table" in out
    assert "a note" in out
    assert "a figure" in out
    assert "rows: 1 hold, 0 violated, 0 only evaluated, 0 not measured" in out
    assert len(list(tmp_path.iterdir())) == 2
    for predicted, status in ((2, 1), (1, 0)):
        rows[:] = [{"n": 3, **compared(predicted, 1)}]
        assert main(["reproduce", "tried", "--json"]) == status
        assert json.loads(capsys.readouterr().out)[0]["tables"][0]["rows"][0]["measured"] == 1


def fail() -> None:
    raise RunError("no memory")


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize(("end", "status"), [(interrupt, 130), (fail, 4)])
def test_an_error_keeps_the_sections_before_it(
    end: Callable[[], None], status: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def build(cache: RunCache) -> Iterator[Section]:
        yield Table("before", [{"n": 3, **compared(1, 1)}])
        if not cache.rehearsing:
            end()

    monkeypatch.setitem(REPRODUCTIONS._entries, "tried", Reproduction("tried", "T", "P", "D", build))
    assert main(["reproduce", "tried", "--out", str(tmp_path)]) == status
    text = (tmp_path / document.PAGE).read_text()
    assert "before" in text
    assert "incomplete" in text
    assert 'class="verdict undecided"' in text
