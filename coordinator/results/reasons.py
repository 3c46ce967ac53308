"""Why a run is undecided, and why nodes of a run were not served, in the same words everywhere."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

STEP_LIMIT: Final = "the step limit of"
INTERRUPTED: Final = "interrupted"
NO_VOTE_WON: Final = "no value won: votes tied"


class Reason(StrEnum):
    """The kind of reason why a run is undecided."""

    INTERRUPTED = "interrupted"
    """Somebody ended it: by a signal, from its page, or by leaving it paused."""
    NOT_SERVED = "not yet served"
    """The step limit came before the last delivery."""
    NOT_JUDGED = "not judged"
    """The measurement is invalid or missing: a host died, or the machine was late."""
    THEORY = "undecided by theory"
    """The run is complete, and no claim decides about it."""


EARLY: Final = (Reason.INTERRUPTED, Reason.NOT_SERVED, Reason.NOT_JUDGED)
"""Reasons of runs that are incomplete, or measured incompletely, so that no claim about them is judged."""


def reason_of_end(ended: str) -> Reason:
    """Return the reason of a run that ended early, from the words for it."""
    if ended.startswith((INTERRUPTED, "it was ended", "it was paused")):
        return Reason.INTERRUPTED
    return Reason.NOT_SERVED if ended.startswith(STEP_LIMIT) else Reason.NOT_JUDGED


def why_undecided(reason: object, because: object) -> str:
    """State why a run is undecided: one of four words, and what happened; empty for other runs.

    Runs of earlier versions have no `reason`.
    """
    word, text = str(reason or "").removeprefix("undecided "), str(because or "")
    return f"{word}: {text}" if word and text and not text.startswith(word) else text


def is_early(summary: Mapping[str, Any]) -> bool:
    """Return whether the claims of a run were not judged, because the run or its measurement is incomplete."""
    return summary.get("reason") in EARLY


def unjudged_word(summary: Mapping[str, Any]) -> str:
    """Return the word for the undecided claims of a run."""
    return str(Reason.NOT_JUDGED) if is_early(summary) else "undecided"


def unserved_words(summary: Mapping[str, Any]) -> str:
    """Return what happened to the nodes that miss a message: `cut off` only if the run is over and nothing arrived."""
    if is_early(summary):
        return str(Reason.NOT_SERVED)
    if summary.get("missing_contributions"):
        return "without all contributions"
    if not summary.get("corrupt"):
        return "cut off"
    voted = summary.get("elected_wrong") or summary.get("elected_right") or not summary.get("elected_none")
    return "without the right value" if voted else NO_VOTE_WON
