"""Rich's markup without rich, whose import takes longer than the plan of a small network.

Text with markup becomes colours on a terminal, where rich prints it. Elsewhere only the text counts.
"""

import re

TAG = re.compile(r"(\\*)(\[[a-z#/@][^[]*?\])")
"""A tag of markup after the backslashes that escape it or one another, by the rules of rich."""


def escape(text: str) -> str:
    """Return a text as markup that shows the same text: `rich.markup.escape`."""
    escaped = TAG.sub(lambda tag: f"{tag[1]}{tag[1]}\\{tag[2]}", text)
    # A single backslash at the end would escape a tag that follows.
    return f"{escaped}\\" if escaped.endswith("\\") and not escaped.endswith("\\\\") else escaped


def unmarked(markup: str) -> str:
    """Return the text of markup without its styles: tags disappear, and escaped tags lose their backslashes."""
    return TAG.sub(_shown, markup)


def _shown(tag: re.Match[str]) -> str:
    backslashes, escaped = divmod(len(tag[1]), 2)
    return "\\" * backslashes + (tag[2] if escaped else "")
