"""Reading a certificate file: its size, its nesting, its keys, and the types of all values are checked."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from coordinator.execution.verification import UnreadableError, Verification
from coordinator.history.stored.reading import RefusedError, parse_json, read_text
from coordinator.history.stored.version import VERSION_KEY, require_version
from coordinator.history.stored_run import unknown_keys

FORMAT: Final = "coordinator-certificate"
MOST_BYTES: Final = 64 * 2**20
MOST_LEVELS: Final = 10_000
LARGEST: Final = 10**4000
"""A bound on whole numbers: there are more sets of faults than 64 bits can count."""
MAYBE_INT: Final = (int, type(None))
KEYS: Final = {
    "format": str, VERSION_KEY: str, "verdict": str, "method": str, "network": dict, "schedule": dict,
    "levels": list, "threats": list, "counterexample": (dict, type(None)), "scenario": dict,
}  # fmt: skip
DIFFERENT_KEYS: Final = {"faults": list, "memory": str, "driver": str}
"""The keys of `different`; only a certificate whose drivers had different histories has them."""
LEVEL_KEYS: Final = {
    "faults": str, "sets": int, "survived": list, "lost": MAYBE_INT, "undecided": int, "histories": list
}  # fmt: skip
THREAT_KEYS: Final = {"kinds": list, "when": str, "tolerated": MAYBE_INT, "classes": list}
CLASS_KEYS: Final = {
    "members": list, "piece": list, "argument": str, "paths": list, "least": MAYBE_INT, "cut": (list, type(None))
}  # fmt: skip


def read_certificate(path: Path, verification: Verification) -> dict[str, Any]:
    """Return the values of a certificate file; keys that this version does not know are noted and left out.

    OSError if it cannot be read, UnreadableError if it is no certificate, VersionError if another minor version wrote it.
    """
    try:
        data = parse_json(read_text(path, MOST_BYTES), LARGEST)
    except ValueError as error:
        raise UnreadableError(f"not a certificate: {str(error)[:120]}") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise UnreadableError('not a certificate: it has no "format": "coordinator-certificate"')
    try:
        require_version(data, "certificate", path)
    except RefusedError as error:
        raise UnreadableError(str(error)) from None
    notes = verification.unchecked
    _require({name: value for name, value in data.items() if name != "different"}, KEYS, "certificate", notes)
    if "different" in data:
        _require(data["different"], DIFFERENT_KEYS, "different", notes)
        _require_each(data["different"]["faults"], str, "different: faults")
    _require(data["network"], {"name": str, "order": int, "links": int, "sha256": str}, "network", notes)
    _require(data["schedule"], {"hops": int, "sha256": str}, "schedule", notes)
    if data["counterexample"] is not None:
        _require(data["counterexample"], {"faults": list, "unserved": list}, "counterexample", notes)
        _require_each(data["counterexample"]["faults"], str, "counterexample: faults")
        _require_each(data["counterexample"]["unserved"], str, "counterexample: unserved")
    if not 1 <= len(data["levels"]) <= MOST_LEVELS:
        raise UnreadableError(f"{len(data['levels'])} levels; expected 1 to {MOST_LEVELS}")
    for at, level in enumerate(data["levels"]):
        _require(level, LEVEL_KEYS, f"level {at}", notes)
        _require_each(level["survived"], int, f"level {at}: survived")
        for history in level["histories"]:
            _require(history, {"faults": list, "journal_hash": str}, f"level {at}: history", notes)
            _require_each(history["faults"], str, f"level {at}: history")
    for at, threat in enumerate(data["threats"]):
        _require(threat, THREAT_KEYS, f"threat {at}", notes)
        _require_each(threat["kinds"], str, f"threat {at}: kinds")
        for each in threat["classes"]:
            _require_class(each, f"threat {at}: class", notes)
    return data


def _require_class(each: object, where: str, notes: list[str]) -> None:
    _require(each, CLASS_KEYS, where, notes)
    assert isinstance(each, dict)
    for name in ("members", "paths"):
        _require_each(each[name], list, f"{where}: {name}")
        for inner in each[name]:
            _require_each(inner, int, f"{where}: {name}")
    if not each["members"] or any(len(member) != 2 for member in each["members"]):
        raise UnreadableError(f"{where}: members are pairs of ranks, and there is at least one")
    _require_each(each["piece"], int, f"{where}: piece")
    _require_each(each["cut"] or [], str, f"{where}: cut")


def _require(value: object, keys: Mapping[str, Any], where: str, notes: list[str]) -> None:
    if not isinstance(value, dict) or not value.keys() >= keys.keys():
        raise UnreadableError(f"{where}: expected an object with the keys {', '.join(keys)}")
    notes += unknown_keys(where, value, keys)
    for name, kind in keys.items():
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if type(value[name]) not in kinds:
            raise UnreadableError(f"{where}: {name} is {str(value[name])[:60]!r}, which is of the wrong type")


def _require_each(values: object, kind: type, where: str) -> None:
    if not isinstance(values, list) or any(type(value) is not kind for value in values):
        raise UnreadableError(f"{where}: expected a list of values of type {kind.__name__}")
