"""Records of files of unknown origin: each is read into the dataclass that its writer states, or refused.

The types of the dataclass are taken strictly: no text counts as a number, and no truth value as a whole number. Keys that
the dataclass does not have are left out, because later versions may have written them.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Annotated, Any, Final, NamedTuple, TypeVar

from pydantic import Field, GetCoreSchemaHandler, TypeAdapter, ValidationError
from pydantic_core import CoreSchema, core_schema

from coordinator.history.stored.reading import RefusedError

Stored = TypeVar("Stored")
Element = TypeVar("Element")
LARGEST: Final = 2**63
LONGEST: Final = 40
"""Characters of a value, and of the name of its place, that an error shows."""


WORDS: Final = {
    "string_type": "text", "int_type": "a whole number", "float_type": "a number", "bool_type": "true or false",
    "list_type": "a list", "tuple_type": "a list", "dict_type": "an object",
}  # fmt: skip
"""The words of errors for the types of pydantic's own."""


class InWords(NamedTuple):
    """The words of an error for what a value should be; part of the annotation."""

    words: str

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.custom_error_schema(
            handler(source), custom_error_type="expected", custom_error_message=self.words
        )


Natural = Annotated[int, Field(ge=0, lt=LARGEST), InWords("a whole number from 0 on")]
Finite = Annotated[int | float, Field(gt=-LARGEST, lt=LARGEST), InWords("a number")]
NonNegative = Annotated[float, Field(ge=0, lt=LARGEST), InWords("a number from 0 on")]
Items = Annotated[tuple[Element, ...], Field(fail_fast=True)]
"""A list whose errors end at the first wrong item."""

_adapter: Final["Callable[[object], TypeAdapter[Any]]"] = cache(TypeAdapter)


def read_record(kind: type[Stored], value: Any) -> Stored:
    """Return a record from a line of JSON, or from plain values that were parsed; RefusedError names the first mistake."""
    try:
        # In Python's own lists and tables, pydantic is strict about tuples and dataclasses too.
        text = value if isinstance(value, bytes) else json.dumps(value)
        record: Stored = _adapter(kind).validate_json(text, strict=True)
        return record
    except ValidationError as error:
        mistake = error.errors(include_url=False)[0]
    place, words = repr(".".join(map(str, mistake["loc"])))[1:-1][:LONGEST] or "it", mistake["msg"]
    match mistake["type"]:
        case "missing":
            raise RefusedError(f"{place} is missing")
        case "json_invalid":
            raise RefusedError(words)
        case "value_error":
            raise RefusedError(str(mistake["ctx"]["error"]))
    words = WORDS.get(mistake["type"], words.removeprefix("Input should be "))
    raise RefusedError(f"{place} is {described(mistake['input'])}, expected {words}")


def described(value: object) -> str:
    """Return a value from a file in a few words, for an error."""
    match value:
        case dict():
            return "an object"
        case list():
            return "a list"
    text = str(value)
    shown = text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
    return repr(shown) if isinstance(value, str) else shown


@contextmanager
def refused_in(place: str) -> Iterator[None]:
    """Name the place of a record that the body refuses."""
    try:
        yield
    except RefusedError as error:
        raise RefusedError(f"{place}: {error}") from None
