"""Archives of certificates: one file with everything that somebody else needs to judge a certificate, as text.

The format is described in docs/extend/checker.md, and read by `checkers/check_certificate.py`, a program that shares
no code with this package and that `coordinator verify` calls. The certificate is packed as it is. Network, fault-free
hops and runs come from its scenario: stored histories, the counterexample, some sets of the largest level that paths
prove, and, where paths decide nothing, the runs of whole levels, up to a bound.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from random import Random
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
from coordinator.annexes.proofs.checkers.check_certificate import EFFECTS
from coordinator.annexes.proofs.reading import read_certificate
from coordinator.annexes.proofs.set_kinds import every_set, known_as
from coordinator.annexes.proofs.set_runs import SetRuns
from coordinator.annexes.proofs.subject import Subject
from coordinator.execution.verification import TooLargeError, UnreadableError, Verification
from coordinator.history.journal import COLUMNS, sorted_records, table
from coordinator.history.stored.reading import read_bytes
from coordinator.planning.plan import Plan
from coordinator.scenario.fault_sets import FaultSetSpec, on_links
from emunode.errors import EmulatorError, ScenarioError
from emunode.faults.kinds import KINDS, LinkFault, NodeFault
from emunode.model import CONTROL_TREE, FOLDING, FaultKnowledge, Rank
from emunode.net.wire import ROW

MOST_SETS: Final = 1_000
"""Most sets of all levels whose runs are packed beside the stored histories."""
MOST_RUN_ROWS: Final = 1_000_000
"""Most journal rows of all runs in an archive, about."""
MOST_STORED: Final = 10
"""Histories of each level that are packed, and sets of the largest level that paths prove."""
ON_PATHS: Final = tuple(KINDS[kind] for kind in EFFECTS)
"""The kinds whose effect on a message follows from its paths, as faults of the scenario."""


def pack_certificate(path: Path, file: Path) -> None:
    """Write the archive of a certificate file, whatever `coordinator verify` finds wrong with it.

    ScenarioError (field `run`) if the certificate cannot be read or is too large, and (field `file`) if the file cannot be
    written.
    """
    try:
        subject = Subject(path, read_certificate(path, Verification(path)))
        files = files_of_certificate(subject, read_bytes(path, follow=False))
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
            and all(isinstance(fault, ON_PATHS) for fault in plan.faults)
        ),
        "in_steps": scenario.clock == "steps",
        # Where nodes agree, the collective may run again, on trees of its own.
        "deliveries_judged": not folds and plan.first_other_tree == CONTROL_TREE,
        "faulty": sorted({fault.rank for fault in plan.faults if isinstance(fault, NodeFault)}),
        "broken": sorted({(min(link), max(link)) for link in ends}),
        "kinds": {kind: on_links(kind) for kind in KINDS},
        "like": {kind: like for kind in KINDS if (like := known_as(kind)) not in (None, kind)},
    }


def _schedule(subject: Subject) -> pl.DataFrame:
    """Return the hops of the run without faults, as a journal."""
    rows = subject.rows
    require_rows(subject.plan, len(rows))
    return table(sorted_records([b"".join(ROW.pack(*row) for row in rows)]))


class _Runs:
    """The runs in an archive: stored histories, the counterexample, and every set of levels that paths do not decide."""

    def __init__(self, subject: Subject, *, by_paths: bool) -> None:
        self._subject = subject
        self._judge = SetRuns(subject)
        self._rows = 0
        self.runs: list[dict[str, object]] = []
        self.journals: list[pl.DataFrame] = []
        self.whole: list[str] = []
        """The levels with every set in the archive."""
        data = subject.data
        self._judge.bound(data["levels"])
        all_by_paths = by_paths and all(
            known_as(part.kind) for level in data["levels"] for part in subject.fault_set(level).parts
        )
        for level in data["levels"]:
            name, fault_set = level["faults"], subject.fault_set(level)
            if data["method"] == "runs" and not all_by_paths and self._add_level(name, fault_set):
                self.whole.append(name)
            self._add_all(name, [history["faults"] for history in level["histories"][:MOST_STORED]])
        proved = [level for level in data["levels"] if level["survived"][:1] == [level["sets"]]]
        if data["method"] == "cuts" and proved:
            self._add_all(proved[-1]["faults"], self._sample(subject.fault_set(proved[-1]), proved[-1]["sets"]))
        different = data["different"]["faults"] if "different" in data else None
        found = data["counterexample"]
        self._add_all("", [specs for specs in (found and found["faults"], different) if specs is not None])

    def _add_level(self, name: str, fault_set: FaultSetSpec) -> bool:
        """Add the sets of a level, as many as there is room for; return whether these are all."""
        sets = every_set(fault_set, *self._subject.places)
        left = max(0, MOST_SETS - len(self.runs))
        added = self._add_all(name, (self._subject.specs(each, fault_set) for each in islice(sets, left)))
        return added and next(sets, None) is None

    def _sample(self, fault_set: FaultSetSpec, sets: int) -> Iterator[list[str]]:
        """Yield some sets of a level."""
        draw = Random(self._subject.data["schedule"]["sha256"])
        for _ in range(min(MOST_STORED, sets)):
            free: dict[bool, list[Any]] = dict(enumerate(map(sorted, self._subject.places)))  # type: ignore[arg-type]
            chosen = []
            for at, part in enumerate(fault_set.parts):
                for place in draw.sample(free[part.on_links], part.count):
                    free[part.on_links].remove(place)
                    chosen.append((at, place))
            yield self._subject.specs(chosen, fault_set)

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
