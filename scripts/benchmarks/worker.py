"""The other side of `programs.ask`: a module that answers one question on standard input. Standard library only."""

import json
import sys
from collections.abc import Callable, Mapping


def answer(questions: Mapping[str, Callable[..., object]]) -> None:
    """Answer the question on standard input by the function of its name."""
    asked = json.load(sys.stdin)
    print(json.dumps(questions[asked["name"]](**asked["arguments"])))
