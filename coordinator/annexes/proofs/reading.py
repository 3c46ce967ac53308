"""Reading a certificate file: its size, its nesting, its keys, and the types of all values are checked."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from coordinator.execution.verification import UnreadableError, Verification
from coordinator.history.stored.reading import RefusedError, parse_json, read_text
from coordinator.history.stored.records import read_record, refused_in
from coordinator.history.stored.version import require_version
from coordinator.history.stored_run import unknown_keys

FORMAT: Final = "coordinator-certificate"
MOST_BYTES: Final = 64 * 2**20
MOST_LEVELS: Final = 10_000
LARGEST: Final = 10**4000
"""A bound on whole numbers: there are more sets of faults than 64 bits can count."""


@dataclass
class CertifiedNetwork:
    """The network of a certificate."""

    name: str
    order: int
    links: int
    sha256: str


@dataclass
class CertifiedSchedule:
    """The schedule of a certificate."""

    hops: int
    sha256: str


@dataclass
class CertifiedHistory:
    """The history of a run under one set of faults."""

    faults: list[str]
    journal_hash: str


@dataclass
class CertifiedLevel:
    """The sets of faults of one size."""

    faults: str
    sets: int
    survived: list[int]
    lost: int | None
    undecided: int
    histories: list[CertifiedHistory]


@dataclass
class CertifiedClass:
    """Messages that symmetries carry to each other, and why faults do not defeat them."""

    members: list[list[int]]
    piece: list[int]
    argument: str
    paths: list[list[int]]
    least: int | None
    cut: list[str] | None


@dataclass
class CertifiedThreat:
    """Kinds of faults, and how many of them are tolerated."""

    kinds: list[str]
    when: str
    tolerated: int | None
    classes: list[CertifiedClass]


@dataclass
class CertifiedCounterexample:
    """Faults that leave nodes unserved."""

    faults: list[str]
    unserved: list[str]


@dataclass
class DifferentHistories:
    """The histories of two drivers; only a certificate whose drivers had different histories has them."""

    faults: list[str]
    memory: str
    driver: str


@dataclass
class CertificateFile:
    """A certificate."""

    format: str
    version: str
    verdict: str
    method: str
    network: CertifiedNetwork
    schedule: CertifiedSchedule
    levels: list[CertifiedLevel]
    threats: list[CertifiedThreat]
    counterexample: CertifiedCounterexample | None
    scenario: dict[str, Any]


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
    try:
        record = read_record(CertificateFile, {name: value for name, value in data.items() if name != "different"})
        if "different" in data:
            with refused_in("different"):
                read_record(DifferentHistories, data["different"])
    except RefusedError as error:
        raise UnreadableError(str(error)) from None
    if not 1 <= len(record.levels) <= MOST_LEVELS:
        raise UnreadableError(f"{len(record.levels)} levels; expected 1 to {MOST_LEVELS}")
    members = [each.members for threat in record.threats for each in threat.classes]
    if not all(members) or any(len(member) != 2 for each in members for member in each):
        raise UnreadableError("classes: members are pairs of ranks, and there is at least one")
    for where, values, kind in _parts(data):
        verification.unchecked += unknown_keys(where, values, kind.__match_args__)
    return data


def _parts(data: Mapping[str, Any]) -> Iterator[tuple[str, Iterable[str], Any]]:
    """Yield the place, the values and the kind of every record of a certificate."""
    yield "certificate", [key for key in data if key != "different"], CertificateFile
    for name, kind in {
        "network": CertifiedNetwork,
        "schedule": CertifiedSchedule,
        "counterexample": CertifiedCounterexample,
        "different": DifferentHistories,
    }.items():
        yield name, data.get(name) or (), kind
    for at, level in enumerate(data["levels"]):
        yield f"level {at}", level, CertifiedLevel
        yield from ((f"level {at}: history", history, CertifiedHistory) for history in level["histories"])
    for at, threat in enumerate(data["threats"]):
        yield f"threat {at}", threat, CertifiedThreat
        yield from ((f"threat {at}: class", each, CertifiedClass) for each in threat["classes"])
