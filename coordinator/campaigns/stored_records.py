"""The records of campaigns and sweeps, from any source: every value is checked before it is counted.

Records are lines of JSON. A RefusedError names the line and the value; an incomplete last line, left by a kill, is not read.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from math import isfinite
from pathlib import Path
from typing import Any, Final, NoReturn

from coordinator.campaigns.trial_runner import TrialResult
from coordinator.history.stored.reading import RefusedError, read_lines

LARGEST: Final = 2**63
RecordCheck = Callable[[Any], bool]


def read_records(path: Path) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield each line of a file of records: its number from 1, its bytes with the end of the line, and its object.

    OSError if the file cannot be read; RefusedError for a link or a device, a line of more than 16 MiB, and no JSON object.
    """
    for number, line in enumerate(read_lines(path, follow=False), 1):
        try:
            record = json.loads(line, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)[:120]
            raise RefusedError(f"line {number}: {reason}") from None
        if not isinstance(record, dict):
            raise RefusedError(f"line {number}: expected an object")
        yield number, len(line) + 1, record


def _refuse_constant(text: str) -> NoReturn:
    raise RefusedError(f"{text} is not a number of JSON")


def require_record(
    record: Mapping[str, Any], checks: Mapping[str, tuple[str, RecordCheck]], optional: frozenset[str]
) -> None:
    """Refuse a record that lacks a key, or has a value of another type; further keys are left as they are."""
    for name, (expected, fits) in checks.items():
        if name not in record:
            if name not in optional:
                raise RefusedError(f"{name} is missing")
        elif not fits(record[name]):
            raise RefusedError(f"{name} is {_short(record[name])}, expected {expected}")


def _short(value: object) -> str:
    text = "a list" if isinstance(value, list) else "an object" if isinstance(value, dict) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# --- values ----------------------------------------------------------------------------------------------------------


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < LARGEST


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and type(value) is not bool and 0 <= value < LARGEST and isfinite(value)


def _maybe(check: RecordCheck) -> RecordCheck:
    return lambda value: value is None or check(value)


def _list_of(check: RecordCheck, length: int | None = None) -> RecordCheck:
    return lambda value: isinstance(value, list) and length in (None, len(value)) and all(map(check, value))


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_truth(value: object) -> bool:
    return isinstance(value, bool)


COUNT: Final = ("a whole number from 0 on", _is_count)
MAYBE_COUNT: Final = ("a whole number from 0 on, or null", _maybe(_is_count))
TEXT: Final = ("text", _is_text)
MAYBE_TEXT: Final = ("text, or null", _maybe(_is_text))
TEXTS: Final = ("a list of texts", _list_of(_is_text))


def _pairs(length: int) -> tuple[str, RecordCheck]:
    return f"a list of lists of {length} whole numbers", _list_of(_list_of(_is_count, length))


def _are_groups(value: object) -> bool:
    """Return whether a value has the delivery ratios of groups of draws: [group, [[due, intact, trials], ..]], .."""
    return isinstance(value, list) and all(map(_is_group, value))


def _is_group(value: object) -> bool:
    if not isinstance(value, list) or len(value) != 2:
        return False
    number, ratios = value
    return (
        _is_count(number)
        and _list_of(_list_of(_is_count, 3))(ratios)
        and all(0 < due >= intact for due, intact, _ in ratios)
    )


PLACE: Final = {"point": COUNT, "variant": COUNT}
TRIAL: Final[Mapping[str, tuple[str, RecordCheck]]] = {
    **PLACE, "number": COUNT, "faults": TEXTS, "seed": COUNT,
    **dict.fromkeys(("steps", "packets", "segments", "bytes", "lost", "corrupt", "duplicates", "expected"), COUNT),
    **dict.fromkeys(("delivered", "intact", "least_copies"), COUNT),
    "unserved": TEXTS, "predicted": MAYBE_COUNT, "violated": TEXTS,
    "undecided": MAYBE_TEXT, "journal_hash": TEXT,
    "latencies": ("a list of whole numbers", _list_of(_is_count)),
    "seconds": ("a number from 0 on, or null", _maybe(_is_time)), "over": ("'tcp'", lambda value: value == "tcp"),
}  # fmt: skip
"""The values of a trial with messages."""
OPTIONAL: Final = frozenset({"seconds", "over"})
"""The values that some trials do not have."""
BLOCK: Final[Mapping[str, tuple[str, RecordCheck]]] = {
    "block": COUNT, **PLACE, **dict.fromkeys(("trials", "undecided", "violated", "steps", "segments"), COUNT),
    "due": _pairs(4), "lost": _pairs(2), "worst": _pairs(2), "violations": ("a list of numbers", _list_of(_is_count)),
    "whole": ("true or false", _is_truth), "times": ("an object", lambda value: isinstance(value, dict)),
    "groups": ("groups of delivery ratios", _are_groups),
}  # fmt: skip
TIMES: Final = {"packets": COUNT, "sums": _pairs(4), "longest": COUNT, "squares": COUNT, "by_step": _pairs(2)}
RESULT: Final = frozenset(each.name for each in fields(TrialResult))


def require_block(record: Mapping[str, Any]) -> None:
    """Refuse the record of a block of draws that is malformed or contradicts itself."""
    require_record(record, BLOCK, frozenset())
    require_record(record["times"], TIMES, frozenset())
    trials, undecided = record["trials"], record["undecided"]
    if not trials:
        raise RefusedError("it has no trials")
    for name in ("due", "lost"):
        counted = sum(each[1] for each in record[name])
        if counted != trials - undecided:
            raise RefusedError(f"{name} has {counted} trials, and {trials - undecided} are decided")
    if any(due == 0 or served > several or intact > due * several for due, several, intact, served in record["due"]):
        raise RefusedError("more messages arrived than were due")


def require_trial(record: Mapping[str, Any]) -> None:
    """Refuse the record of a trial that is malformed or contradicts itself."""
    require_record(record, TRIAL, OPTIONAL)
    if record["undecided"] is None and not 0 < record["expected"] >= record["intact"]:
        raise RefusedError(f"{record['intact']} of {record['expected']} messages arrived intact")


MOST_DIGITS: Final = 1024 * 16
HEXADECIMAL: Final = re.compile("[0-9a-f]+")
VERDICTS: Final = ("holds", "violated", "undecided")

# --- sweeps ----------------------------------------------------------------------------------------------------------


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and type(value) is not bool and abs(value) < LARGEST and isfinite(value)


def _is_claim(value: object) -> bool:
    if not isinstance(value, list) or len(value) != 4:
        return False
    name, relation, predicted, source = value
    return _is_text(name) and _is_text(relation) and _is_text(source) and _is_number(predicted)


def _are_measured(value: object) -> bool:
    return isinstance(value, dict) and all(each is None or _is_number(each) for each in value.values())


def _is_hexadecimal(value: object) -> bool:
    # The bytes of whole elements, of up to eight bytes each.
    return (
        isinstance(value, str) and len(value) <= MOST_DIGITS and not HEXADECIMAL.sub("", value) and not len(value) % 4
    )


SWEEP: Final[Mapping[str, tuple[str, RecordCheck]]] = {
    "key": TEXT, "order": COUNT, "degree": COUNT, "verdict": ("a verdict", lambda value: value in VERDICTS),
    "journal_hash": TEXT, "measured": ("an object of numbers or null", _are_measured),
    "claims": ("a list of claims", _list_of(_is_claim)), "bits": ("hexadecimal digits", _is_hexadecimal),
}  # fmt: skip


def require_row(record: Mapping[str, Any]) -> None:
    """Refuse the record of a run of a sweep that is malformed."""
    # Only runs with real numbers have bits.
    require_record(record, SWEEP, frozenset({"bits"}))
