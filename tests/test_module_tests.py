"""Every module of these folders, and of the folders in them, has a file of tests of its own name."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

from tests.helpers.command_line import ROOT

FOLDERS: Final = (
    "coordinator/cli", "coordinator/features", "coordinator/annexes/grading", "coordinator/planning", "emunode/timed",
)  # fmt: skip
WITHOUT: Final[frozenset[str]] = frozenset()
"""Modules that are tested by other files alone. No module may be added."""


def place_of_tests(module: Path) -> Path:
    """Return the file of the tests of a module below `tests`, where annexes stand by themselves."""
    own = module.with_name(f"test_{module.name}")
    return own.relative_to("coordinator") if own.parts[:2] == ("coordinator", "annexes") else own


def untested(root: Path, folders: Iterable[str]) -> set[str]:
    """Return the modules of folders below `root` without a file of tests of their name."""
    modules = (path.relative_to(root) for folder in folders for path in (root / folder).rglob("*.py"))
    return {
        str(module)
        for module in modules
        if module.name != "__init__.py" and not (root / "tests" / place_of_tests(module)).exists()
    }


def test_every_module_has_place_of_tests_its_name() -> None:
    assert untested(ROOT, FOLDERS) == WITHOUT


@pytest.mark.parametrize(
    ("files", "missing"),
    [
        (["cli/a.py", "tests/cli/test_a.py", "cli/__init__.py"], set()),
        (["cli/a.py", "tests/cli/test_b.py"], {"cli/a.py"}),
        (["cli/a.py", "tests/test_a.py", "tests/cli/deep/test_a.py"], {"cli/a.py"}),
        (["cli/deep/a.py", "tests/cli/deep/test_a.py", "cli/deep/b.py"], {"cli/deep/b.py"}),
        (["api/a.py"], set()),
    ],
    ids=lambda value: " ".join(sorted(value)) or "none",
)
def test_a_module_without_tests_is_found(tmp_path: Path, files: list[str], missing: set[str]) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert untested(tmp_path, ["cli"]) == missing
