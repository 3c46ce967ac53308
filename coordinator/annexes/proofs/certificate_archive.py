"""Archives of certificates: one file with everything that somebody else needs to judge a certificate, as text.

The format is described in docs/extend/checker.md, and read by docs/checkers/check_cuts.py and check_histories.py,
programs that share no code with this package. The certificate is packed as it is, with whatever `coordinator verify`
finds wrong with it. Network and fault-free hops come from its scenario. Where paths decide nothing, an archive has the
runs of whole levels, up to a bound.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final

import polars as pl

from coordinator.annexes.proofs.archive import (
    csv_of,
    fault_rows,
    json_of,
    link_rows,
    node_rows,
    require_rows,
    with_manifest,
    write_files,
)
from coordinator.annexes.proofs.checker.judged import JudgedRuns
from coordinator.annexes.proofs.checker.paths import EFFECTS, Given, Threat, every_set
from coordinator.annexes.proofs.checker.reading import read_certificate
from coordinator.annexes.proofs.checker.subject import Subject
from coordinator.execution.verification import TooLargeError, UnreadableError, Verification
from coordinator.history.journal import COLUMNS, sorted_records, table
from coordinator.history.stored.reading import read_bytes
from coordinator.planning.plan import Plan
from coordinator.scenario.fault_sets import FaultSetSpec, on_links
from emunode.errors import EmulatorError, ScenarioError
from emunode.faults.kinds import FOREVER, KINDS, LinkFault, NodeFault
from emunode.model import CONTROL_TREE, FOLDING, FaultKnowledge, Rank
from emunode.net.wire import ROW

MOST_SETS: Final = 1_000
"""Most sets of all levels whose runs are packed beside the stored histories."""
MOST_RUN_ROWS: Final = 1_000_000
"""Most journal rows of all runs in an archive, about."""
MOST_STORED: Final = 10
"""Histories of each level that are packed, as many as `coordinator verify` repeats."""


def pack_certificate(path: Path, file: Path) -> None:
    """Write the archive of a certificate file, whatever `coordinator verify` finds wrong with it.

    ScenarioError (field `run`) if the certificate cannot be read or is too large, and (field `file`) if the file cannot be
    written.
    """
    try:
        verification = Verification(path)
        data = read_certificate(path, verification)
        files = files_of_certificate(Subject(path, data, verification), read_bytes(path, follow=False))
    except (UnreadableError, TooLargeError, OSError, EmulatorError, ValueError) as error:
        raise ScenarioError("run", str(path), f"it cannot be packed: {error}") from None
    write_files(files, file)


def files_of_certificate(subject: Subject, text: bytes) -> dict[str, bytes]:
    """Return the files of the archive of a certificate; EmulatorError or UnreadableError if it has none."""
    plan = subject.plan
    facts = _facts(plan)
    records = _Runs(subject, by_paths=bool(facts["paths_decide"]))
    runs, journals = records.runs, records.journals
    files = {
        "certificate.json": text,
        "facts.json": json_of(facts),
        "nodes.csv": csv_of(node_rows(plan)),
        "network.csv": csv_of(link_rows(plan)),
        "journal.csv": csv_of(_schedule(subject)),
        "faults.csv": csv_of(fault_rows(plan)),
        "runs.json": json_of({"runs": runs, "whole": records.whole}),
        "runs.csv": csv_of(pl.concat(journals) if journals else pl.DataFrame(schema=["run", *COLUMNS])),
    }
    return with_manifest(files)


def _facts(plan: Plan) -> dict[str, object]:
    """Return the facts about the collective that its algorithm states, and about the faults of the scenario."""
    spec, scenario, algorithm = plan.spec, plan.scenario, plan.algorithm
    folds = algorithm.collective in FOLDING
    told = scenario.fault_knowledge != FaultKnowledge.NONE
    protocols = told or any(feature.unpredictable for feature in plan.features)
    ends = (
        (fault.sender, plan.topology.neighbour(fault.sender, fault.port))
        for fault in plan.faults
        if isinstance(fault, LinkFault)
    )
    return {
        "topology": plan.topology.name,
        "collective": str(spec.collective),
        "algorithm": scenario.algorithm,
        "redundancy": spec.redundancy,
        "source": spec.source,
        "rooted": len(algorithm.sources) == 1 or spec.common_target >= 0,
        "paths_decide": bool(
            algorithm.timing.on_schedule
            and not folds
            and not protocols
            and scenario.clock == "steps"
            and _follows_paths(plan)
        ),
        "in_steps": scenario.clock == "steps",
        # Where nodes agree, the collective may run again, on trees of its own.
        "deliveries_judged": not folds and plan.first_other_tree == CONTROL_TREE,
        "faulty": sorted({fault.rank for fault in plan.faults if isinstance(fault, NodeFault)}),
        "broken": sorted({(min(link), max(link)) for link in ends}),
        "kinds": {kind: on_links(kind) for kind in KINDS},
    }


def _follows_paths(plan: Plan) -> bool:
    """Return whether the effect of the faults of the scenario follows from paths."""
    try:
        Given(plan)
    except TooLargeError:
        return False
    return True


def _schedule(subject: Subject) -> pl.DataFrame:
    """Return the hops of the run without faults, as a journal."""
    rows = subject.schedule.rows
    require_rows(subject.plan, len(rows))
    return table(sorted_records([b"".join(ROW.pack(*row) for row in rows)]))


class _Runs:
    """The runs in an archive: stored histories, the counterexample, and every set of levels that paths do not decide."""

    def __init__(self, subject: Subject, *, by_paths: bool) -> None:
        self._subject = subject
        self._judge = JudgedRuns(subject)
        self._rows = 0
        self.runs: list[dict[str, object]] = []
        self.journals: list[pl.DataFrame] = []
        self.whole: list[str] = []
        """The levels with every set in the archive."""
        data = subject.data
        self._judge.bound(data["levels"])
        levels = {
            level["faults"]: fault_set for level in data["levels"] if (fault_set := self._read(level)) is not None
        }
        sets = {name: self._sets(fault_set) for name, fault_set in levels.items()}
        kinds = {part.kind for fault_set in levels.values() for part in fault_set.parts}
        packs_all = (
            data["method"] == "runs"
            and not (by_paths and kinds <= EFFECTS.keys())
            and sum(map(len, sets.values())) <= MOST_SETS
        )
        for level in data["levels"]:
            name = level["faults"]
            specs = [history["faults"] for history in level["histories"][:MOST_STORED]]
            if packs_all and name in sets and self._add_all(name, sets[name]):
                self.whole.append(name)
            self._add_all(name, specs)
        different = data["different"]["faults"] if "different" in data else None
        found = data["counterexample"]
        self._add_all("", [specs for specs in (found and found["faults"], different) if specs is not None])

    def _read(self, level: Mapping[str, Any]) -> FaultSetSpec | None:
        try:
            return self._subject.fault_set(level)
        except UnreadableError:
            return None  # for judges to find

    def _sets(self, fault_set: FaultSetSpec) -> list[list[str]]:
        """Return the sets of a level as fault specifications; one more than MOST_SETS of them at most."""
        threat = Threat(tuple(part.kind for part in fault_set.parts), 1, FOREVER, *self._subject.places)
        chosen = islice(every_set(fault_set, threat), MOST_SETS + 1)
        return [self._subject.specs(each, fault_set) for each in chosen]

    def _add_all(self, level: str, sets: Iterable[list[str]]) -> bool:
        """Add runs that the archive does not have yet; return whether all of them had room and could be run."""
        added = [self._add(level, specs) for specs in sets]
        return all(added)

    def _add(self, level: str, specs: list[str]) -> bool:
        if any(run["faults"] == specs for run in self.runs):
            return True
        if self._rows > MOST_RUN_ROWS:
            return False
        try:
            found = self._judge.run(specs)
        except (EmulatorError, UnreadableError):
            return False  # for judges to find
        self._rows += len(found.records)
        number = pl.lit(len(self.runs), pl.Int64).alias("run")
        self.journals.append(table(found.records).select(number, *COLUMNS))
        ranks = [rank for rank in self._subject.plan.topology.ranks() if self._label(rank) in found.unserved]
        self.runs.append(
            {
                "level": level,
                "faults": specs,
                "undecided": found.undecided,
                "violated": found.violated,
                "unserved": ranks,
            }
        )
        return True

    def _label(self, rank: Rank) -> str:
        return self._subject.plan.topology.label(rank)
