"""The documentation: links resolve, commands and code blocks run, generated pages are current.

A fenced block of language `sh` is executed in one folder per page. A comment before a block changes that:

    <!-- not executed: REASON -->     the block needs Docker, root, another machine, or more than a minute
    <!-- exit status N -->            the last command of the block ends with this status
    <!-- needs: MODULE -->            the block is executed if the module exists
"""

import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from _pytest.mark import ParameterSet

from reference_pages.__main__ import stale_files
from reference_pages.metrics import glossary_terms, summary_types
from tests.command_line import ROOT, run_process

PAGES: Final = (
    *sorted((ROOT / "docs").rglob("*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
)
GENERATED_PAGES: Final = ROOT / "docs" / "reference"
REASONS: Final = re.compile(
    r"(needs (Docker|root|another machine)( and (root|another machine))?|more than a minute"
    r"|this is the environment in which the test runs|needs a browser)$"
)
BLOCK: Final = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]*) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
LINK: Final = re.compile(r"\]\((?!https?:)([^)#\s]*)(#[^)\s]*)?\)")


class Block(NamedTuple):
    """A fenced block with the comment before it."""

    mark: str
    language: str
    text: str


def blocks(page: Path, language: str) -> list[Block]:
    found = (Block(match["mark"] or "", match["language"], match["text"]) for match in BLOCK.finditer(page.read_text()))
    return [block for block in found if block.language == language]


def pages_with(language: str) -> list[ParameterSet]:
    """The hand-written pages with blocks of a language, as test parameters."""
    pages = [page for page in PAGES if page.parent != GENERATED_PAGES and blocks(page, language)]
    return [pytest.param(page, id=str(page.relative_to(ROOT))) for page in pages]


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
    index = ROOT / "docs" / "index.md"
    listed = {(index.parent / target).resolve() for target, _ in LINK.findall(index.read_text())}
    assert {page for page in PAGES if page.is_relative_to(index.parent)} - {index} <= listed


# --- commands and code -----------------------------------------------------------------------------------------------


def test_blocks_that_are_not_executed_have_a_reason() -> None:
    for page in PAGES:
        for block in blocks(page, "sh"):
            if block.mark.startswith("not executed: "):
                assert REASONS.match(block.mark.removeprefix("not executed: ")), f"{page.name}: {block.mark}"


@pytest.mark.slow
@pytest.mark.parametrize("page", pages_with("sh"))
def test_commands_run(page: Path, tmp_path: Path) -> None:
    for name in ("docs", "scripts", "compose"):
        (tmp_path / name).symlink_to(ROOT / name)
    variables = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "XDG_STATE_HOME": tmp_path / "state",
        "PYTHONPATH": "",
    }
    for block in blocks(page, "sh"):
        if block.mark.startswith("not executed: "):
            continue
        status = int(block.mark.removeprefix("exit status ")) if block.mark.startswith("exit status ") else 0
        done = run_process(tmp_path, ["bash", "-euo", "pipefail", "-c", block.text], **variables)
        assert done.status == status, f"{block.text}\n{done.out}\n{done.err}"


@pytest.mark.parametrize("page", pages_with("python"))
def test_code_runs(page: Path, tmp_path: Path) -> None:
    runnable = [
        block.text
        for block in blocks(page, "python")
        if not block.mark.startswith("needs: ") or _exists(block.mark.removeprefix("needs: "))
    ]
    done = run_process(tmp_path, [sys.executable, "-c", "\n".join(runnable)], PYTHONPATH="")
    assert done.status == 0, done.err


def _exists(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


# --- the reference ---------------------------------------------------------------------------------------------------


def test_generated_files_are_current() -> None:
    assert stale_files() == [], "run scripts/reference"


def test_every_key_of_the_summary_has_a_meaning() -> None:
    terms = glossary_terms()
    assert [key for key in summary_types() if key.replace("_", " ") not in terms] == []
