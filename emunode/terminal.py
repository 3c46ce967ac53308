"""Text for terminals: the one function that prints anything escapes control characters.

Names, labels, reasons and logs may come from files, plug-ins, programs or hosts of somebody else. Escape sequences in them
would move the cursor or change earlier lines, and bidirectional overrides would show another order than the text has.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from unicodedata import category

SHOWN = frozenset({"Zs", "Cn", "Co"})
"""Categories that Python does not count as printable, and that change nothing but their own place."""


def visible(text: str, *, lines: bool = True) -> str:
    r"""Return a text with escapes, such as \x1b, in place of control, format and separator characters.

    With `lines`, line feeds and tabs stay. A text that has been escaped is returned as it is.
    """
    if text.isprintable():
        return text
    kept = "\n\t" if lines else ""
    return "".join(
        char if char.isprintable() or char in kept or category(char) in SHOWN else _escaped(char) for char in text
    )


def _escaped(char: str) -> str:
    return char.encode("ascii", "backslashreplace").decode() if ord(char) > 127 else repr(char)[1:-1]


def say(text: object = "", *, err: bool = False, end: str = "\n", flush: bool = False, lines: bool = True) -> None:
    """Print a text on standard output, or with `err` on standard error, escaped as by `visible`."""
    print(visible(str(text), lines=lines), file=sys.stderr if err else sys.stdout, end=end, flush=flush)


def unwrapped(text: str) -> str:
    """Join the lines of each paragraph: a docstring has lines of its own length. Indented lines stay as they are.

    >>> unwrapped("One\\ntwo.\\n\\nExamples:\\n  three")
    'One two.\\n\\nExamples:\\n  three'
    """
    return re.sub(r"(?<=\S)\n(?![-*] )(?=\S)", " ", text)


def plural(count: int, noun: str, ending: str = "s", singular: str = "") -> str:
    """Write a count and its noun: `1 node`, `2 nodes`; `ending` and `singular` follow the stem (`ies`, `y`)."""
    return f"{count:,} {noun}{singular if count == 1 else ending}"


def first_of(names: Sequence[str], most: int, count: int | None = None) -> str:
    """Write at most the first `most` names, and how many of `count` names are missing: `a, b, 3 more`.

    By default `count` is the number of `names`; they may be the beginning of a longer list.
    """
    count = len(names) if count is None else count
    return ", ".join([*names[:most], *([f"{count - most:,} more"] if count > most else [])])


def print_json(value: Mapping[str, object] | Sequence[Mapping[str, object]]) -> None:
    """Print a value as JSON on standard output."""
    say(json.dumps(value, indent=2))
