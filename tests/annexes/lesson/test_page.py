"""The page of a lesson: one file that loads nothing, with a limit on its size."""

from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator.annexes.lesson import page as pages
from coordinator.annexes.lesson.page import picture_of, write_lesson
from coordinator.reports.data import read_run
from emunode.errors import ScenarioError
from tests.annexes.lesson.lessons import Made
from tests.helpers.command_line import fields
from tests.helpers.support import run_scenario


def test_the_page_is_one_file_without_addresses(lessons: Callable[[str], Made]) -> None:
    made = lessons("star:3 broadcast edt redundancy=2")
    text = made.page.read_text()
    assert "default-src 'none'" in text
    assert not any(
        word in text.replace("http://www.w3.org/2000/svg", "") for word in ("http:", "https:", '<link rel="s')
    )
    assert str(made.run) not in text
    assert len(text) < 60_000


def test_pages_are_the_same_every_time(lessons: Callable[[str], Made]) -> None:
    made = lessons("star:3 broadcast edt redundancy=2")
    assert made.page.read_text() == pages.render(read_run(made.run), made.lesson)


def test_large_pages_are_refused_with_their_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = run_scenario(tmp_path / "run", **fields("star:3 broadcast greedy-tree")).path
    monkeypatch.setattr(pages, "MOST_BYTES", 30_000)
    with pytest.raises(ScenarioError, match=r"the page has \d\d,\d{3} bytes; at most 30,000"):
        write_lesson(read_run(path), tmp_path / "lesson.html")
    assert not (tmp_path / "lesson.html").exists()
    monkeypatch.undo()
    with pytest.raises(ScenarioError, match="cannot be written: No such file or directory"):
        write_lesson(read_run(path), tmp_path / "no" / "lesson.html")


@pytest.mark.parametrize("scenario", ["star:3 gather edt", "star:3 allgather edt-dfs fault=hang:213@2-3"])
def test_pictures_have_every_directed_link(scenario: str, lessons: Callable[[str], Made]) -> None:
    made = lessons(scenario)
    topology, picture = made.lesson.finished.plan.topology, picture_of(made.lesson)
    links = picture["links"]
    assert isinstance(links, dict)
    assert {len(column) for column in links.values()} == {2 * topology.link_count}
    assert picture["root"] == (0 if "gather edt" in scenario and "all" not in scenario else None)


def test_faults_of_the_run_are_listed_with_their_places(lessons: Callable[[str], Made]) -> None:
    link = lessons("star:3 broadcast flood messages=2 fault=down:123~213@2-3").data["faults"]
    assert [[text, step, {rank, peer}] for text, step, rank, peer in link] == [["down:123~213@2-3", 2, {0, 1}]] * 2
    assert lessons("star:3 allgather edt-dfs fault=hang:213@2-3").data["faults"] == [["hang:213@2-3", 2, 1, None]]
