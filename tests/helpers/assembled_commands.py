"""The arguments of commands, assembled once for each command of a process and not for each command line.

For every line cyclopts assembles the arguments of the command from its signature, and pydantic a validator for each of them:
50 ms of processor time where the options of a scenario are among them. A program parses one line; tests parse a thousand in
one process.
"""

from collections.abc import Callable
from copy import copy
from functools import cache
from typing import Any

import pydantic
import pytest
from cyclopts import App
from cyclopts.argument import ArgumentCollection

_assemble = App.assemble_argument_collection
_assembled: dict[tuple[Callable[..., Any] | None, str, bool], ArgumentCollection] = {}


def assemble_once(patch: pytest.MonkeyPatch) -> None:
    """Let every command line of a test use the arguments that the first one of its command assembled."""
    patch.setattr(App, "assemble_argument_collection", _remembered)
    patch.setattr(pydantic, "TypeAdapter", _validator)


def _remembered(app: App, *, parse_docstring: bool = False, **others: Any) -> ArgumentCollection:
    key = (app.default_command, repr(others) + repr(app.name), parse_docstring)
    if key not in _assembled:
        _assembled[key] = _assemble(app, parse_docstring=parse_docstring, **others)
    return _unused(_assembled[key])


_validator = cache(pydantic.TypeAdapter)


def _unused(collection: ArgumentCollection) -> ArgumentCollection:
    """Return a copy whose arguments can be given values, and know each other as the originals do."""
    copies: dict[int, Any] = {}

    def copied(argument: Any) -> Any:
        if id(argument) not in copies:
            copies[id(argument)] = found = copy(argument)
            found.tokens = argument.tokens.copy()
            found.children = ArgumentCollection(map(copied, argument.children))  # type: ignore[no-untyped-call]
        return copies[id(argument)]

    return ArgumentCollection(map(copied, collection))  # type: ignore[no-untyped-call]
