"""Annexes: what each adds is what the table says, and a missing one is named. `scripts/test --without` removes them."""

import ast
from collections.abc import Iterator
from importlib import import_module
from typing import Final

import pytest

import coordinator
from coordinator.annexes import BELONGS, Annex, annex_function, installed, merged
from coordinator.scenario.added_options import ADDED
from emunode.annexes import MissingAnnexError, is_installed, load
from tests.helpers.command_line import ROOT, Call

FOLDER: Final = ROOT / "coordinator" / "annexes"
COMMANDS: Final = sorted({name for names in BELONGS.values() for name in names if name.startswith("coordinator ")})


def names_of(annex: Annex) -> set[str]:
    """Return the names that users know: the first words of commands, flags, names of the Python API, and calls."""
    own = {*annex.groups, *(words for words in annex.commands if " " not in words)}
    # A command below one of another annex, such as `export msccl`, has all its words.
    commands = {f"coordinator {words if words.split()[0] not in own else words.split()[0]}" for words in annex.commands}
    for module in annex.options.values():
        import_module(module)
    options = {name for record in annex.options for name in ADDED[record].model_fields}
    flags = {f"--{name.replace('_', '-')}" for name in options}
    drivers = {f"driver {name!r}" for name in annex.drivers}
    return {*commands, *flags, *drivers, *(f"coordinator.{name}" for name in annex.names), *annex.calls}


def targets_of(annex: Annex) -> Iterator[str]:
    """Yield everything that is imported when it is used."""
    # A command below one of another annex may need that.
    yield from (target for target, _ in annex.commands.values() if target.split(".")[2] in installed())
    yield from (*annex.names.values(), *annex.calls.values(), *annex.features.values(), *annex.panels.values())


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("coordinator.annexes.installed", dict)
    merged.cache_clear()
    yield
    merged.cache_clear()


@pytest.mark.parametrize("name", BELONGS)
def test_the_table_names_what_an_annex_adds(name: str) -> None:
    if name not in installed():
        pytest.skip(f"without the annex {name}")
    assert set(BELONGS[name]) == names_of(installed()[name])
    assert all(callable(load(target)) for target in targets_of(installed()[name]))


@pytest.mark.parametrize("field", Annex._fields)
def test_no_annex_hides_what_another_adds(field: str) -> None:
    if field != "needs":
        assert len(merged(field)) == sum(len(getattr(annex, field)) for annex in installed().values())


def test_every_folder_is_an_annex_with_a_page() -> None:
    folders = {path.name for path in FOLDER.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders >= {*installed()}
    assert folders <= {*BELONGS}
    assert all((FOLDER / name / "README.md").is_file() for name in folders)


@pytest.mark.parametrize("name", BELONGS)
def test_registering_imports_nothing_of_the_annex(name: str) -> None:
    if name not in installed():
        pytest.skip(f"without the annex {name}")
    tree = ast.parse((FOLDER / name / "__init__.py").read_text())
    imported = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert imported == ["from coordinator.annexes import Annex"]


@pytest.mark.usefixtures("without")
@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_names_the_annex_that_is_missing(call: Call, words: str) -> None:
    ended = call(f"{words.removeprefix('coordinator ')} anything --json")
    (annex,) = (name for name, names in BELONGS.items() if words in names)
    assert ended.status == 2
    assert ended.err == f"coordinator: {words} belongs to the annex {annex}, which is not installed\n"


@pytest.mark.usefixtures("without")
@pytest.mark.parametrize("asked", sorted(name for names in BELONGS.values() for name in names))
def test_the_api_names_the_annex_that_is_missing(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "_TARGETS", {})
    with pytest.raises(MissingAnnexError, match=f"^{asked} belongs to the annex [a-z]+, which is not installed$"):
        coordinator.__getattr__(name) if (name := asked.removeprefix("coordinator.")) != asked else annex_function(
            asked
        )


def test_a_folder_decides_whether_an_annex_is_installed() -> None:
    assert is_installed("coordinator", "mpi") == (FOLDER / "mpi").is_dir()
    assert not is_installed("coordinator", "no_such_annex")
