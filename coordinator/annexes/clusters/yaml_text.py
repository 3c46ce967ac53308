"""A writer of YAML for plain values. Texts are written as in JSON: YAML contains JSON."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

INDENT: Final = "  "


def yaml_text(documents: Sequence[object]) -> str:
    """Return documents of mappings, lists, texts, numbers and booleans as YAML."""
    return "---\n".join("\n".join(_lines(document, 0)) + "\n" for document in documents)


def _lines(value: object, level: int) -> Iterator[str]:
    space = INDENT * level
    if isinstance(value, Mapping) and value:
        for key, part in value.items():
            if _is_nested(part):
                yield f"{space}{key}:"
                yield from _lines(part, level + 1)
            else:
                yield f"{space}{key}: {_scalar(part)}"
    elif isinstance(value, Sequence) and not isinstance(value, str) and value:
        for part in value:
            first, *others = _lines(part, level + 1) if _is_nested(part) else [INDENT * (level + 1) + _scalar(part)]
            # The first line of an item follows its hyphen, which takes the place of one indent.
            yield f"{space}- {first.lstrip()}"
            yield from others
    else:
        yield f"{space}{_scalar(value)}"


def _is_nested(value: object) -> bool:
    return isinstance(value, Mapping | Sequence) and not isinstance(value, str) and bool(value)


def _scalar(value: object) -> str:
    return json.dumps(value)
