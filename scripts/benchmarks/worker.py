"""Counterpart of `subprocesses.measure`: answer one question on standard input. Standard library only."""

import json
import sys
from collections.abc import Callable, Mapping


def answer(questions: Mapping[str, Callable[..., object]]) -> None:
    """Call the function that the question names, and print its result as JSON."""
    requested = json.load(sys.stdin)
    print(json.dumps(questions[requested["name"]](**requested["arguments"])))
