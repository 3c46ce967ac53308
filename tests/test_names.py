"""Names: one meaning for each type name, and no public name that nothing uses. Both allowances may only shrink."""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.helpers.annex_support import needs_every_annex
from tests.helpers.command_line import ROOT

PACKAGES: Final = ("emunode", "coordinator")
USERS: Final = (*PACKAGES, "compose", "examples", "scripts")
"""Folders whose files count as uses of a public name; tests do not."""
SUFFIXES: Final = {".py", ".jinja", ".js", ".ipynb", ""}
WORD: Final = re.compile(r"[A-Za-z_]\w*")
TYPE_VARIABLES: Final = {"NewType", "ParamSpec", "TypeVar", "TypeVarTuple"}

REPEATED: Final = frozenset(
    {
        "Arc",
        "Arcs",
        "Network",
        "Number",
        "Ranks",
    }
)
"""Type names that two or more modules define with different meanings. A name that gets one meaning leaves the list."""

ONLY_TESTS_USE: Final = frozenset(
    {
        "TABLE_7",
        "THREE_PHASES_BY_DIMENSION",
        "additions_at",
        "allowed_numbers",
        "edge_colouring",
    }
)
"""Public names that only tests use: parts of papers that are tested by themselves, and functions that tests begin with."""

CALLED_BY_NAME: Final = frozenset(
    {"compile_templates", "create_module", "dump_bytecode", "exec_module", "model_config"}
)
"""Members that a library calls or reads, and the function that `scripts/common.sh` calls."""


class Definition(NamedTuple):
    """A public name and the place of its definition."""

    name: str
    module: str
    line: int
    is_type: bool = False
    is_registered: bool = False
    """Whether a decorator or a registry uses the object, by whatever name."""


@cache
def sources() -> Mapping[str, str]:
    """Return the text of every module of both packages."""
    # The checkers of archives are programs of one file each: their names are their own.
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    paths = [path for path in paths if "checkers" not in path.parts]
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}


def definitions(module: str, text: str) -> Iterator[Definition]:
    """Yield every public definition of a module: at its top, and in its classes."""
    yield from _definitions(module, ast.parse(text).body, at_top=True)


def _definitions(module: str, body: Sequence[ast.stmt], *, at_top: bool) -> Iterator[Definition]:
    for node in body:
        match node:
            case ast.ClassDef(name=name, decorator_list=decorators):
                yield Definition(name, module, node.lineno, at_top, bool(decorators))
                yield from _definitions(module, node.body, at_top=False)
            case ast.FunctionDef(name=name, decorator_list=decorators):
                yield Definition(name, module, node.lineno, is_registered=at_top and bool(decorators))
            case ast.AsyncFunctionDef(name=name, decorator_list=decorators):
                yield Definition(name, module, node.lineno, is_registered=at_top and bool(decorators))
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                function = ast.unparse(value.func) if isinstance(value, ast.Call) else ""
                alias = name[:1].isupper() and not name.isupper() and function not in TYPE_VARIABLES
                yield Definition(name, module, node.lineno, at_top and alias, function == "register")
            case ast.AnnAssign(target=ast.Name(id=name)) if at_top:
                yield Definition(name, module, node.lineno)


@cache
def all_definitions() -> Sequence[Definition]:
    return [
        found
        for module, text in sources().items()
        for found in definitions(module, text)
        if not found.name.startswith("_")
    ]


# --- type names ------------------------------------------------------------------------------------------------------


def repeated(found: Sequence[Definition]) -> dict[str, list[str]]:
    """Return the type names that several modules define, with these modules."""
    modules: dict[str, set[str]] = {}
    for definition in found:
        if definition.is_type:
            modules.setdefault(definition.name, set()).add(definition.module)
    return {name: sorted(places) for name, places in modules.items() if len(places) > 1}


def test_no_further_type_name_has_two_meanings() -> None:
    assert {name: places for name, places in repeated(all_definitions()).items() if name not in REPEATED} == {}


@needs_every_annex
def test_names_with_one_meaning_leave_the_list() -> None:
    assert sorted(REPEATED - repeated(all_definitions()).keys()) == []


# --- unused names ----------------------------------------------------------------------------------------------------


@cache
def uses() -> Counter[str]:
    """Return how often each word occurs in the product, its programs and its examples, definitions included."""
    words: Counter[str] = Counter()
    for folder in USERS:
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and path.suffix in SUFFIXES and "__pycache__" not in path.parts:
                words.update(WORD.findall(path.read_text(encoding="utf-8", errors="replace")))
    return words


def unused(found: Sequence[Definition], words: Mapping[str, int]) -> list[Definition]:
    """Return the definitions whose names occur nowhere but in definitions."""
    counts = Counter(definition.name for definition in found)
    return [
        definition
        for definition in found
        if not definition.is_registered and words.get(definition.name, 0) <= counts[definition.name]
    ]


def is_handler(definition: Definition) -> bool:
    """Return whether a function is found by its name: `do_step` answers the request `step`."""
    return definition.module == "coordinator/annexes/grading/session.py" and definition.name.startswith("do_")


@needs_every_annex
def test_every_public_name_is_used() -> None:
    left = [
        f"{found.module}:{found.line}: {found.name}"
        for found in unused(all_definitions(), uses())
        if found.name not in ONLY_TESTS_USE | CALLED_BY_NAME and not is_handler(found)
    ]
    assert left == []


@needs_every_annex
def test_names_that_are_used_or_gone_leave_the_lists() -> None:
    names = {found.name for found in unused(all_definitions(), uses())}
    assert sorted((ONLY_TESTS_USE | CALLED_BY_NAME) - names) == []


@needs_every_annex
def test_names_that_only_tests_use_are_used_by_tests() -> None:
    here = Path(__file__)
    words = {word for path in (ROOT / "tests").rglob("*.py") if path != here for word in WORD.findall(path.read_text())}
    assert sorted(ONLY_TESTS_USE - words) == []


# --- names of tests --------------------------------------------------------------------------------------------------

LONGEST: Final = 60
"""Characters of the longest name of a test, `test_` included."""


def named_tests(source: str) -> list[str]:
    """Return the names of the tests that a file defines."""
    functions = (
        node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return [each.name for each in functions if each.name.startswith("test_")]


def has_a_test(source: str) -> bool:
    """Return whether a file defines a test."""
    first = re.search(r"^def test_\w+\(", source, re.MULTILINE)
    if first:
        # Parsing takes longest; what comes before this line ends there, unless the line is part of a text.
        with suppress(SyntaxError):
            return bool(named_tests(f"{source[: first.end()]}): ..."))
    return bool(named_tests(source))


def long_names(source: str) -> list[str]:
    """Return the names of tests that are no short phrase."""
    if not re.search(rf"def\s+test_\w{{{LONGEST - 4}}}", source):
        return []  # parsing takes longest
    return [name for name in named_tests(source) if len(name) > LONGEST]


def test_names_of_tests_are_short_phrases() -> None:
    named = {path.name: long_names(path.read_text()) for path in (ROOT / "tests").rglob("test_*.py")}
    assert {path: names for path, names in named.items() if names} == {}


def test_every_test_file_has_a_test() -> None:
    paths = sorted((ROOT / "tests").rglob("test_*.py"))
    assert [str(path.relative_to(ROOT)) for path in paths if not has_a_test(path.read_text())] == []


# --- the judges are judged -------------------------------------------------------------------------------------------

ONE: Final = "Rank = int\nKind = TypeVar('Kind')\nLIMIT = 3\nclass Link: ...\ndef send(): ...\n"
OTHER: Final = "Kind = TypeVar('Kind')\nLIMIT = 4\nclass Link:\n    def close(self): ...\ndef send(): ...\n"


REGISTERED: Final = "x = register(Link)\n@register\nclass Ring: ...\n"


def both() -> list[Definition]:
    return [*definitions("a", ONE), *definitions("b", OTHER + REGISTERED)]


@pytest.mark.parametrize(("length", "found"), [(60, 0), (61, 1)])
def test_a_long_name_of_a_test_is_found(length: int, found: int) -> None:
    source = f"class TestA:\n    async def {'test_'.ljust(length, 'x')}(self): ...\ndef helper_{'x' * 60}(): ...\n"
    assert len(long_names(source)) == found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("", False),
        ("test_a = 1\ndef helper(): ...\n", False),
        ("X = '''\ndef test_a(): ...\n'''\n", False),
        ("class TestA:\n    def test_b(self): ...\n", True),
        ("@mark\ndef test_b(\n    a: int,\n) -> None: ...\n", True),
    ],
)
def test_a_file_without_a_test_is_found(source: str, found: bool) -> None:
    assert has_a_test(source) is found


def test_a_type_in_two_modules_is_found() -> None:
    assert repeated(both()) == {"Link": ["a", "b"]}


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ({"Link": 3, "Rank": 2, "send": 3, "close": 2, "Kind": 3, "LIMIT": 3}, set()),
        ({"Link": 3, "Rank": 1, "send": 2, "close": 1, "Kind": 3, "LIMIT": 3}, {"Rank", "send", "close"}),
    ],
)
def test_a_name_without_a_use_is_found(words: Mapping[str, int], names: set[str]) -> None:
    assert {found.name for found in unused(both(), words)} == names
