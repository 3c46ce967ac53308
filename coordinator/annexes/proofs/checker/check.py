"""Verification of certificate files, without the code that makes them.

Everything in the file is computed again from the scenario: the digests of network and schedule, the messages that are due,
the path of every copy (from the hops of a fault-free run of the message engine), the fewest faults that defeat each message
(a shortest way through the sets of copies that faults can reach), the numbers of sets, and the run of the counterexample.
Some sets are run by the message engine.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from coordinator.annexes.proofs.checker.cuts import Cuts
from coordinator.annexes.proofs.checker.judged import JudgedRuns
from coordinator.annexes.proofs.checker.reading import read_certificate
from coordinator.annexes.proofs.checker.runs import Runs
from coordinator.annexes.proofs.checker.subject import Subject, shape_of
from coordinator.annexes.proofs.checker.words import statement
from coordinator.execution.verification import TooLargeError, UnreadableError, Verification
from coordinator.scenario.fault_sets import FaultSetSpec
from emunode.errors import EmulatorError
from emunode.topologies.digest import network_sha256

MOST_FINDINGS: Final = 50


def verify_certificate(path: Path) -> Verification:
    """Check a certificate file; raises only VersionError, for another minor version, whatever it contains."""
    verification = Verification(path)
    try:
        Check(path, read_certificate(path, verification), verification).everything()
    except TooLargeError as error:
        verification.unchecked.append(str(error))
        verification.undecided = True
    except UnreadableError as error:
        verification.findings.append(str(error))
    except OSError as error:
        verification.findings.append(f"it cannot be read: {error.strerror}")
    del verification.findings[MOST_FINDINGS:]
    return verification


class Check:
    """All checks of one certificate."""

    def __init__(self, path: Path, data: Mapping[str, Any], verification: Verification) -> None:
        self._subject = Subject(path, data, verification)

    def everything(self) -> None:
        """Run all checks; TooLargeError if that would take too long."""
        try:
            self._all()
        except EmulatorError as error:
            self._subject.findings.append(f"a run fails: {str(error)[:200]}")

    def _all(self) -> None:
        subject = self._subject
        data, plan = subject.data, subject.plan
        topology = plan.topology
        network = {
            "name": topology.name, "order": topology.order, "links": topology.link_count, "sha256": network_sha256(topology)
        }  # fmt: skip
        for name, expected in network.items():
            subject.differs(f"network: {name}", data["network"][name], expected)
        if subject.findings:
            return
        subject.differs("schedule: hops", data["schedule"]["hops"], len(subject.schedule.rows))
        subject.differs("schedule: sha256", data["schedule"]["sha256"], subject.schedule.sha256)
        if subject.findings:
            return
        if data["method"] not in ("cuts", "runs"):
            raise UnreadableError(f"method is {data['method'][:40]!r}; expected cuts or runs")
        levels = [(level, subject.fault_set(level)) for level in data["levels"]]
        _require_distinct(levels)
        if data["method"] == "cuts":
            cuts = Cuts(subject)
            cuts.bound(levels)
            cuts.check(levels)
        else:
            subject.differs("threats of a certificate by runs", data["threats"], [])
            runs = JudgedRuns(subject)
            runs.bound(data["levels"])
            for level, fault_set in levels:
                runs.level(level, fault_set)
        self._verdict()
        if data["counterexample"] is not None:
            self._counterexample(data["counterexample"], levels)
        if "different" in data:
            self._different(data["different"])
        if not subject.findings:
            subject.verification.statement = statement(subject, levels)

    # --- the conclusion --------------------------------------------------------------------------------------------------

    def _verdict(self) -> None:
        data, refuted = self._subject.data, list(self._subject.refuted)
        # A set whose run decides nothing is not survived, and does not fail: such a level was run again, set by set.
        refuted += [
            level["faults"]
            for level in data["levels"]
            if level["survived"][1] < level["sets"] and not (data["method"] == "runs" and level["undecided"])
        ]
        if data["counterexample"] is not None or "different" in data:
            expected = "violated"
        elif refuted:
            expected = "violated"
            self._subject.findings.append(f"there is no counterexample, and some sets fail: {refuted[0]}")
        elif all(level["survived"][0] == level["sets"] and not level["undecided"] for level in data["levels"]):
            expected = "holds"
        else:
            expected = "undecided"
        self._subject.differs("verdict", data["verdict"], expected)

    def _counterexample(
        self, stored: Mapping[str, Any], levels: Sequence[tuple[Mapping[str, Any], FaultSetSpec]]
    ) -> None:
        """Check that the counterexample is a set of one of the levels, and run it."""
        subject = self._subject
        try:
            found = subject.shape(stored["faults"])
        except UnreadableError as error:
            raise UnreadableError(f"counterexample: {error}") from None
        if found is None:
            subject.findings.append(
                "counterexample: two of its faults are at the same place, or one where nothing may fail"
            )
        elif found not in [shape_of(fault_set) for _, fault_set in levels]:
            subject.findings.append("counterexample: its faults are not a set of any level")
        if subject.findings:
            return
        self._run_counterexample(stored)

    def _different(self, stored: Mapping[str, Any]) -> None:
        """Run in memory the set that gave two drivers different histories; no host is started for the other
        driver.
        """
        subject, specs = self._subject, stored["faults"]
        if stored["memory"] == stored["driver"]:
            subject.findings.append("different: both histories are the same")
        subject.differs("different: memory", stored["memory"], JudgedRuns(subject).run(specs).journal_hash)
        under = ", ".join(specs)[:80] or "no further faults"
        subject.undecided(f"different: the history on the other driver, under {under}, is not run again")

    def _run_counterexample(self, stored: Mapping[str, Any]) -> None:
        """Run the counterexample: exactly the named nodes are unserved, or, if none is named, a claim is violated."""
        subject, specs = self._subject, stored["faults"]
        by_cuts = subject.data["method"] == "cuts"
        if by_cuts:
            unserved = sorted(map(subject.plan.topology.label, Runs(subject).unserved(specs)))
            refuted = bool(unserved)
        else:
            found = JudgedRuns(subject).run(specs)
            unserved = found.unserved
            refuted = found.undecided is None and bool(unserved or found.violated)
        if not refuted:
            reason = "leaves no healthy node without a message" + ("" if by_cuts else ", and violates no claim")
            subject.findings.append(f"counterexample: a run with its faults {reason}")
        subject.differs("counterexample: unserved", sorted(stored["unserved"]), unserved)


def _require_distinct(levels: Sequence[tuple[Mapping[str, Any], FaultSetSpec]]) -> None:
    """Refuse a level that is given twice."""
    seen = set()
    for level, fault_set in levels:
        if fault_set in seen:
            raise UnreadableError(f"level {level['faults'][:60]}: it is repeated")
        seen.add(fault_set)
