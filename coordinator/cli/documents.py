"""The output of JSON documents."""

import json
from collections.abc import Mapping, Sequence

from emunode.terminal import say


def print_json(value: Mapping[str, object] | Sequence[Mapping[str, object]]) -> None:
    """Print a value as JSON on standard output."""
    say(json.dumps(value, indent=2))
