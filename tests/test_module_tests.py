"""Every module of these folders has a file of tests of its own name."""

from tests.command_line import ROOT

FOLDERS = ("coordinator/cli", "coordinator/features", "coordinator/grading", "coordinator/planning", "emunode/timed")
WITHOUT = {
    "coordinator/cli": "compare execute image manifest pack report reproduce result run_flags serve sweep trials verify",
    "coordinator/features": "number_options",
    "emunode/timed": "orders protocol_node",
}
"""Modules that are tested by other files alone. No module may be added."""


def untested(folder: str) -> list[str]:
    """Return the modules of a folder without a file of tests of their name."""
    tests = {path.name for path in (ROOT / "tests" / folder).rglob("test_*.py")}
    modules = (path for path in sorted((ROOT / folder).glob("*.py")) if path.name != "__init__.py")
    return [path.stem for path in modules if f"test_{path.name}" not in tests]


def test_every_module_has_tests_of_its_name() -> None:
    found = {folder: " ".join(names) for folder in FOLDERS if (names := untested(folder))}
    assert found == WITHOUT
