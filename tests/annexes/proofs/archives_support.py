"""The checkers of archives: what they say of a history beside what the program says."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import numpy as np

from coordinator.annexes.proofs.archive import Packed, files_of, zipped
from coordinator.annexes.proofs.verify_certificate import verify_certificate
from coordinator.execution.drive import ExecutionResult
from coordinator.execution.run import summarize
from coordinator.history.journal import Journal, table
from coordinator.history.stored.version import VersionError
from coordinator.planning.plan import Plan
from coordinator.results.conclude import Conclusion, History, conclude
from coordinator.scenario.model import dump_scenario
from emunode.engine.rank_set import AlteredCopy
from tests.helpers.command_line import ROOT, Ended
from tests.helpers.support import golden_rows

Records = np.ndarray[Any, np.dtype[Any]]
"""Journal rows, packed, in the order of the journal."""


CHECKER: Final = ROOT / "coordinator" / "annexes" / "proofs" / "checkers" / "check_run.py"
PATH_CHECKER: Final = CHECKER.with_name("check_paths.py")
CERTIFICATE_CHECKER: Final = CHECKER.with_name("check_certificate.py")


def judged_archive(plan: Plan, records: Records, altered: Sequence[AlteredCopy] = ()) -> tuple[Conclusion, bytes]:
    """Judge these rows, and return the conclusion with an archive that states it."""
    rows = table(records)
    history = History(rows.lazy(), len(records), None, altered)
    conclusion = conclude(plan, history, replay=False, derive=True)
    summary = {
        **summarize(plan, conclusion, Journal(), ExecutionResult()),
        "journal_rows": len(records),
        "journal_hash": blake2b(records.tobytes(), digest_size=16).hexdigest(),
    }
    packed = Packed(
        plan, conclusion, rows, json.loads(json.dumps(summary)), altered, dump_scenario(plan.scenario).encode()
    )
    return conclusion, zipped(files_of(packed))


def disagreements(histories: Mapping[str, tuple[Plan, Records, Sequence[AlteredCopy]]], folder: Path) -> list[str]:
    """Name where the checkers and `conclude` judge these histories differently; `folder` is empty."""
    conclusions = {}
    for number, history in enumerate(histories.values()):
        target = folder / f"{number}.zip"
        conclusions[str(target)], data = judged_archive(*history)
        target.write_bytes(data)
    paths = list(conclusions)
    found = []
    by_paths = _ask(PATH_CHECKER, "", paths).splitlines()
    results = map(json.loads, _ask(CHECKER, "--json", paths).splitlines())
    for name, path, result in zip(histories, paths, results, strict=True):
        conclusion = conclusions[path]
        lines = result["wrong"] if "verdict" in result else [str(result)]
        # Histories are changed where they stand, and the judges may count a breach several times.
        counts = (
            "journal.csv: its rows",
            "journal.csv: its hash",
            *(f"journal.csv: {rule}" for rule in result["breaches"]),
        )
        lines = [line for line in lines if not line.startswith(counts)]
        legal = not conclusion.metrics["illegal_hops"]
        # What protocols leave in a journal is judged by `conclude` alone.
        if legal == bool(result["breaches"]) and (legal or not conclusion.plan.features):
            lines.append(
                f"{conclusion.metrics['illegal_hops']} illegal hops, and the checker says {result['breaches']}"
            )
        if conclusion.plan.features and not legal:
            lines = [line for line in lines if not line.startswith(("the verdict", "the claim illegal_hops"))]
        lines += [
            line for line in by_paths if line.startswith(f"{path}:") and (", not " in line or "unreadable" in line)
        ]
        found += [f"{name}: {line}" for line in lines]
    return found


HARMLESS: Final = {(row["certificate"], row["place"]) for row in golden_rows("proofs", "harmless_forgeries")}
"""The changes of one value that leave a certificate true, or undecided: another order, a wider
bound, a default that is left out. Two checkers of an earlier version, which shared no code, agreed about them."""


def misjudged_forgeries(name: str, forgeries: Mapping[str, object], folder: Path) -> list[str]:
    """Name the changed certificates of a kind that are refused although harmless, or not refused; `folder` is empty."""
    misjudged = []
    for place, data in forgeries.items():
        (path := folder / "forged.json").write_text(json.dumps(data))
        try:
            refused = bool(verify_certificate(path).findings)
        except VersionError:
            refused = True
        if refused == ((name, place.strip()) in HARMLESS):
            misjudged.append(place)
    return misjudged


def one_value_forgeries(data: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield copies of JSON values with one change: another number or word, or an item that is missing or there twice."""
    if isinstance(data, dict):
        for key in data:
            yield f"{place} no {key}", {name: value for name, value in data.items() if name != key}
            for name, changed in one_value_forgeries(data[key], f"{place} {key}"):
                yield name, {**data, key: changed}
    elif isinstance(data, list):
        if data:
            yield f"{place} without its last", data[:-1]
            yield f"{place} with its first twice", [data[0], *data]
        if len(data) > 1 and data[0] != data[-1]:
            yield f"{place} turned", [*data[1:], data[0]]
        for number, item in enumerate(data):
            for name, changed in one_value_forgeries(item, f"{place} {number}"):
                yield name, [*data[:number], changed, *data[number + 1 :]]
    elif isinstance(data, str):
        yield f"{place} longer", data + "0"
        yield f"{place} empty", ""
    elif isinstance(data, int | float):
        yield f"{place} more", data + 1
        yield f"{place} less", data - 1
    else:
        yield f"{place} a number", 1


def _ask(checker: Path, option: str, paths: Sequence[str]) -> str:
    words = [sys.executable, "-I", str(checker), *option.split(), *paths]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout


def judge(checker: Path, *paths: Path) -> Ended:
    """Run a checker on archives, as a program that imports nothing of the project."""
    done = subprocess.run([sys.executable, "-I", checker, *paths], capture_output=True, text=True, check=False)
    return Ended(done.returncode, done.stdout, done.stderr)
