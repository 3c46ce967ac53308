"""Answers of programs that are wrong, and words of the errors that they lead to."""

import json

from tests.helpers.support import GOLDEN


def golden_answers(name: str) -> dict[str, tuple[str, str]]:
    """Return the answers of a file, by case: the line of the program, and words of the error."""
    lines = (GOLDEN / "programs" / f"{name}.jsonl").read_text().splitlines()
    return {row["case"]: (row["answer"], row["words"]) for row in map(json.loads, lines)}
