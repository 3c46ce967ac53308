"""The gallery of the site: its commands run, its sentences state the numbers of the runs, and its pictures are there."""

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from coordinator.annexes.papers.registry import REPRODUCTIONS
from documentation.gallery import FILE, Entry, Group, entries, in_dark_colours, listing, make, only, read_gallery, wall
from tests.helpers.command_line import ROOT, command, run_process

GALLERY = read_gallery()
LONG = {"fragopoulou-akl-1996", "fragopoulou-akl-1993", "tseng-sheu-1997"}
"""Reproductions of several seconds; the tests of `coordinator.annexes.papers` hold every row of them."""


def is_long(entry: Entry) -> bool:
    """Return whether an entry takes seconds."""
    return bool(LONG.intersection(entry.command.split()))


def executed(entry: Entry, folder: Path) -> object:
    """Run an entry as a fork of a warm process."""

    def execute(words: Sequence[str]) -> tuple[int, str, str]:
        ended = run_process(folder.parent, [*command("coordinator"), *words])
        return ended.status, ended.out, ended.err

    return make(entry, folder, execute)


def parameters() -> list[ParameterSet]:
    """Return the entries; of long ones, a sample runs by default."""
    sample = pytest.mark.exhaustive(one_in=3)
    return [pytest.param(entry, id=entry.name, marks=sample if is_long(entry) else ()) for entry in entries(GALLERY)]


def entry_of(**more: object) -> Entry:
    """Return an entry of a run with other values."""
    line = "coordinator run --topology star:3 --collective broadcast --algorithm greedy-tree --driver memory"
    values = {"name": "x", "title": "x", "command": line, "see": "5 nodes", "numbers": ["deliveries"], "picture": 1}
    return Entry(**{**values, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize("entry", parameters())
def test_a_sentence_states_the_numbers_of_its_run(entry: Entry, tmp_path: Path) -> None:
    folder = tmp_path / entry.name
    output = executed(entry, folder)
    assert entry.stated() == entry.found(output)
    page = (folder / entry.report).read_text()
    assert str(tmp_path) not in page
    for shade in ("light", "dark"):
        picture = (folder / f"{shade}.svg").read_text()
        assert "var(" not in picture
        assert len(list(ET.fromstring(picture).iter())) > 10
        assert len(picture) < 150_000


def test_the_gallery_has_seventeen_entries_and_all_papers() -> None:
    names = [entry.name for entry in entries(GALLERY)]
    assert len(names) == len(set(names)) == 17
    shown = " ".join(entry.command for entry in entries(GALLERY))
    papers = {name.split("-")[0] for name in REPRODUCTIONS} - {"any", "additions", "star"}
    assert [paper for paper in papers if paper not in shown] == []
    assert {"fragopoulou-akl-1993", "fragopoulou-akl-1996"} <= set(shown.split())


def test_every_sentence_has_a_number_of_its_run() -> None:
    for entry in entries(GALLERY):
        assert len(entry.stated()) == len(entry.numbers) >= 1, entry.name


@pytest.mark.parametrize(
    ("sentence", "numbers"),
    [
        ("1,200 of S_4 and Q_7 in 3.5 s", [1200, 3.5]),
        ("13 %, 17.3 % and 100 %.", [0.13, 0.173, 1]),
        ("6, 12 and 18.", [6, 12, 18]),
        ("edt, EJ_{2+3rho}: none", [2]),
    ],
)
def test_numbers_of_sentences_are_read(sentence: str, numbers: list[float]) -> None:
    assert entry_of(see=sentence).stated() == numbers


def test_a_wrong_number_is_found(tmp_path: Path) -> None:
    entry = entry_of(see="6 nodes")
    assert entry.stated() != entry.found(executed(entry, tmp_path / "x"))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"status": 1}, "exit status 0"),
        ({"picture": 99}, "no step 99"),
        ({"command": "rm -r x"}, "no command of the gallery"),
    ],
)
def test_an_entry_that_does_not_run_is_refused(tmp_path: Path, more: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        executed(entry_of(**more), tmp_path / "x")


def test_a_place_that_no_output_has_is_refused() -> None:
    rows = {"rows": [{"algorithm": "sbt", "steps": 4}]}
    assert entry_of(numbers=["rows / sbt / steps", "rows / 0 / steps"]).found(rows) == [4, 4]
    with pytest.raises(LookupError, match="no element has nesbt"):
        entry_of(numbers=["rows / nesbt / steps"]).found(rows)


def test_a_page_shows_every_entry_with_its_report() -> None:
    page, stored = wall(GALLERY), listing(GALLERY)
    for entry in entries(GALLERY):
        assert f'href="../gallery/{entry.name}/{entry.report}"' in page
        assert page.count(f"../gallery/{entry.name}/light.svg") == 1
        assert entry.see in stored
        assert entry.shown in stored
    assert stored == (ROOT / "docs" / "gallery.md").read_text()


def test_entries_can_be_chosen_by_name() -> None:
    assert only(GALLERY, ["flood"]) == [
        Group("Traffic", [entry for entry in entries(GALLERY) if entry.name == "flood"])
    ]


def test_dark_pictures_have_the_colours_of_dark_pages() -> None:
    assert in_dark_colours('<path stroke="#0072b2" fill="#ffffff"/>') == '<path stroke="#4da3dc" fill="#12171d"/>'


def test_the_file_names_no_unknown_key(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text(FILE.read_text().replace("see =", "sea =", 1))
    with pytest.raises(TypeError, match="sea"):
        read_gallery(tmp_path / "x.toml")


def test_links_of_the_stored_page_are_there() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", listing(GALLERY)):
        assert (ROOT / "docs" / target).exists()
    assert json.dumps(listing(GALLERY)).count("coordinator ") >= 16
