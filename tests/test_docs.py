"""The documentation: links resolve, commands and code blocks run, generated pages are current.

Fenced blocks of language `sh` are executed in one folder per page, and those of language `python` in one process per page;
programs of this project are forks of a warm process.
A block of language `text` after one of language `sh` is its output: every line of it has to be printed, in this order.
Spaces, seconds, rates and the times in names of run directories may differ, and `..` stands for any text.
A comment before a block changes that:

    <!-- not executed: REASON -->     the block needs Docker, root, another machine, or more than a minute
    <!-- exit status N -->            the last command of the block ends with this status
    <!-- needs: MODULE -->            the block is executed if the module exists
    <!-- not the output -->           the text is not what the block before it prints

`scripts/test-docs` sets TESTBENCH_DOCS=all. Then blocks that are marked `not executed` are executed too, if this machine has
what they need, campaigns have as many trials as the page says, and `coordinator` is the installed program.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from _pytest.mark import ParameterSet

from tests.helpers.annex_support import needs_every_annex
from tests.helpers.command_line import ROOT, run_process
from tests.helpers.warm_programs import make_shim

pytestmark = needs_every_annex

PAGES: Final = (
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "examples/README.md",
)
SAMPLED: Final = {ROOT / "docs" / name: one_in for name, one_in in {"how-to": 9, "explanation": 7, "extend": 3}.items()}
"""The folders whose pages are sampled: one in this number."""
INDEX: Final = ROOT / "docs/index.md"
GENERATED_PAGES: Final = ROOT / "docs/reference"
GALLERY: Final = ROOT / "docs/gallery.md"
"""`tests/annexes/papers/test_gallery.py` executes its commands, and compares their numbers."""
REASONS: Final = re.compile(
    r"(needs (Docker|root|another machine|Slurm|mpirun|an ssh server|a package index|LaTeX)( and another machine)?"
    r"|more than a minute|this is the environment in which the test runs|needs a browser"
    r"|needs a second checkout|needs clicks on the page|it rewrites this page)$"
)
EVERYTHING: Final = os.environ.get("TESTBENCH_DOCS") == "all"
FEW_TRIALS: Final = 8
BLOCK: Final = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]*) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
LINK: Final = re.compile(r"\]\((?!https?:)([^)#\s]*)(#[^)\s]*)?\)")


class Block(NamedTuple):
    """A fenced block with the comment before it."""

    mark: str
    language: str
    text: str

    @property
    def reason(self) -> str | None:
        """Why the block is not executed, as its mark says."""
        return self.mark.removeprefix("not executed: ") if self.mark.startswith("not executed: ") else None

    @property
    def is_executed(self) -> bool:
        """Whether this run of the tests executes the block."""
        if self.mark.startswith("needs: "):
            return _exists(self.mark.removeprefix("needs: "))
        return self.reason is None or (EVERYTHING and not missing(self.reason))

    @property
    def status(self) -> int:
        """The exit status at the end of the block."""
        return int(self.mark.removeprefix("exit status ")) if self.mark.startswith("exit status ") else 0


def blocks(page: Path, language: str | None = None) -> list[Block]:
    """Return the blocks of a page, of one language or of all."""
    found = (Block(match["mark"] or "", match["language"], match["text"]) for match in BLOCK.finditer(page.read_text()))
    return [block for block in found if language in (None, block.language)]


def missing(reason: str) -> list[str]:
    """The needs of a block, by its mark, that this machine lacks."""
    return [need for need in HERE if need in reason and not HERE[need]()]


def _has_images() -> bool:
    """Return whether a Docker engine answers and has the images of this project."""
    images = ["docker", "image", "inspect", "collective-testbench", "collective-testbench-host"]
    return bool(shutil.which("docker")) and not subprocess.run(images, capture_output=True, check=False).returncode


HERE: Final[Mapping[str, Callable[[], object]]] = {
    "Docker": _has_images,
    "root": lambda: not os.geteuid(),
    "a browser": lambda: shutil.which("chromium"),
    "another machine": lambda: False,
    # A test of its own executes the pages about launchers, on a small cluster.
    "Slurm": lambda: False,
    "mpirun": lambda: False,
    "an ssh server": lambda: False,
    "a package index": lambda: False,
    "a second checkout": lambda: False,
    "clicks": lambda: False,
    "this is the environment": lambda: False,
    "it rewrites": lambda: False,
}
"""The needs that a mark may name, and whether this machine meets them; `more than a minute` needs only time."""


def pages_with(language: str) -> list[ParameterSet]:
    """Return the hand-written pages with blocks of a language, as test parameters; of most folders, a sample runs by
    default.
    """
    pages = [page for page in PAGES if page.parent != GENERATED_PAGES and page != GALLERY and blocks(page, language)]
    return [
        pytest.param(
            page,
            id=str(page.relative_to(ROOT)),
            marks=pytest.mark.exhaustive(one_in=SAMPLED[page.parent]) if page.parent in SAMPLED else (),
        )
        for page in pages
    ]


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


# --- links -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES])
def test_links_resolve(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text()):
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), f"{page.name}: {target}"
        if anchor and path.suffix == ".md":
            assert anchor[1:] in anchors(path), f"{page.name}: {target}{anchor}"


def test_every_page_is_in_the_index() -> None:
    listed = {(INDEX.parent / target).resolve() for target, _ in LINK.findall(INDEX.read_text())}
    assert {page for page in PAGES if page.is_relative_to(INDEX.parent)} - {INDEX} <= listed


def title(page: Path) -> str:
    """Return the heading of a page."""
    text = page.read_text()
    return next(re.finditer(r"^# (.*)$", text, re.MULTILINE))[1] if page.suffix == ".md" else text.splitlines()[0]


def test_links_with_a_capital_quote_the_title_of_their_page() -> None:
    """A link in a sentence may have words of its own, in small letters; the index has titles only."""
    wrong = []
    for page in (*PAGES, *(ROOT / "coordinator/annexes").glob("*/README.md")):
        for words, target in re.findall(r"(?<!!)\[([^\]]+)\]\((?!https?:)([^)#\s]+\.(?:md|rst))\)", page.read_text()):
            is_title = words[0].isupper() or page == INDEX
            if is_title and " ".join(words.split()) != title(page.parent / target):
                wrong.append(f"{page.relative_to(ROOT)}: {words}")
    assert wrong == []


def test_titles_of_tasks_are_instructions() -> None:
    titles = [title(page) for page in PAGES if page.parent.name in ("how-to", "extend")]
    wrong = re.compile(r"(How|What|Which|An?|The) |\w+(ing|s)\b")
    assert [each for each in titles if wrong.match(each)] == []


# --- commands and code -----------------------------------------------------------------------------------------------


def test_blocks_that_are_not_executed_have_a_reason() -> None:
    for page in PAGES:
        for block in blocks(page):
            assert block.reason is None or REASONS.match(block.reason), f"{page.name}: {block.mark}"


def test_every_block_is_executed_or_read() -> None:
    """Nothing escapes by its language: commands are `sh`, code is `python`, data is parsed, and `text` is output."""
    for page in PAGES:
        for block in blocks(page):
            match block.language:
                case "toml":
                    tomllib.loads(block.text)
                case "json":
                    json.loads(block.text)
                case "console":
                    assert page.parent == GENERATED_PAGES, f"{page.name}: write commands as `sh`, output as `text`"
                case language:
                    executed = language in ("sh", "python", "text")
                    assert executed or block.reason, f"{page.name}: nothing executes a block of language {language!r}"


def commands(block: Block) -> str:
    """Return the commands of a block, with few trials in campaigns."""
    if EVERYTHING:
        return block.text
    return re.sub(r"--trials (\d+)", lambda match: f"--trials {min(int(match[1]), FEW_TRIALS)}", block.text)


VARIES: Final = re.compile(r"\d[\d.,]*(?= (?:s|ms|min|per second)\b)|\d{4}-\d\d-\d\dT[\d.-]+Z")
"""The parts of an output that differ between machines."""


def plain_lines(text: str) -> list[str]:
    """Return the lines of an output without the parts that vary, and with single spaces."""
    lines = (" ".join(VARIES.sub("N", line).split()) for line in text.splitlines())
    return [line for line in lines if line and not set(line) <= {"─", " "}]


def unprinted(shown: str, printed: str) -> str | None:
    """Return the first line of a block of text that its command did not print, after the lines before it."""
    lines = iter(plain_lines(printed))
    for line in plain_lines(shown):
        pattern = re.compile(".*".join(map(re.escape, line.split(".."))))
        if line != ".." and not any(pattern.fullmatch(each) for each in lines):
            return line
    return None


@pytest.mark.parametrize(
    ("shown", "left"),
    [
        ("steps  4\n..\nran in 0.5 s", None),
        ("ran in 0.02 s\nsteps 4", "steps 4"),
        ("steps 5", "steps 5"),
        ("segments 23 ..", None),
        ("runs/x/2026-01-01T00-00-00.000Z-0", None),
    ],
)
def test_output_that_differs_is_found(shown: str, left: str | None) -> None:
    printed = "steps 4\nsegments 23 of 23\nran in 0.31 s\nruns/x/2026-11-24T08-27-25.558Z-0\n"
    assert unprinted(shown, printed) == left


@pytest.mark.parametrize("page", pages_with("sh"))
def test_commands_run(page: Path, tmp_path: Path) -> None:
    for name in ("docs", "examples", "scripts", "compose"):
        (tmp_path / name).symlink_to(ROOT / name)
    programs = tmp_path / ".bin"
    programs.mkdir()
    if not EVERYTHING:
        make_shim(programs / "coordinator", "-m", "coordinator")
    variables = {
        "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "XDG_STATE_HOME": tmp_path / "state",
        "COLUMNS": "80",  # pages show what a usual terminal shows
        "PYTHONPATH": "",
    }
    every = blocks(page)
    for block, following in zip_longest(every, every[1:]):
        if block.language == "sh" and block.is_executed:
            line = ["bash", "-euo", "pipefail", "-c", commands(block)]
            done = run_process(tmp_path, line, **variables)
            assert done.status == block.status, f"{block.text}\n{done.out}\n{done.err}"
            is_shown = following and following.language == "text" and following.mark != "not the output"
            if is_shown and commands(block) == block.text:
                left = unprinted(following.text, done.out + done.err)
                assert left is None, f"{page.name}: {block.text}prints no line {left!r}, but\n{done.out}\n{done.err}"


@pytest.mark.parametrize("page", pages_with("python"))
def test_code_runs(page: Path, tmp_path: Path) -> None:
    runnable = [block.text for block in blocks(page, "python") if block.is_executed]
    done = run_process(tmp_path, [sys.executable, "-c", "\n".join(runnable)], PYTHONPATH="")
    assert done.status == 0, done.err


def _exists(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


# --- the reference ---------------------------------------------------------------------------------------------------


def test_generated_files_are_current() -> None:
    from reference_pages.__main__ import stale_files  # it needs every annex

    assert stale_files() == [], "run scripts/reference"


def test_every_key_of_the_summary_has_a_meaning() -> None:
    from reference_pages.metrics import glossary_terms, summary_types

    terms = glossary_terms()
    keys = [key.replace("_", " ") for key in summary_types()]
    assert [key for key in keys if key not in terms] == []
    assert len({terms[key] for key in keys}) == len(keys)  # no two keys share one description


def test_functions_that_inside_names_are_where_it_says() -> None:
    text = (ROOT / "docs/explanation/inside.md").read_text()
    named = re.findall(r"`(?:\w+\.)?(\w+)`(?:, `[\w.]+`)?(?: \(| of )`([\w/]+\.py)`", text)
    assert len(named) > 26
    assert [
        (name, path) for name, path in named if not re.search(rf"(def |class |\n){name}\b", (ROOT / path).read_text())
    ] == []
    assert all((ROOT / path).exists() for path in re.findall(r"`((?:emunode|coordinator)/.*?)`", text))
