"""Certificates: a claim about every set of faults, and its file, with everything that a check needs.

The file is JSON (docs/how-to/certificates.md describes it). It names the network and the schedule by digests. For every
class of messages it has the paths of the copies and a smallest set of faults that meets them. If sets were run, it has
the hashes of some of their histories instead.
"""

import json
import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal

import polars as pl

from coordinator.annexes.proofs.certificate_archive import pack_certificate
from coordinator.history.run_directory import temporary_folder
from coordinator.history.stored.version import VERSION_KEY
from coordinator.history.stored.writing import replace_file
from coordinator.planning.plan import Plan
from coordinator.results.claims import Judged, Verdict
from coordinator.scenario.fault_draws import FaultSites
from coordinator.scenario.fault_sets import SHORT, counts_in_words
from coordinator.scenario.model import Scenario
from coordinator.scenario.networks import stored_scenario
from coordinator.scenario.plugins import plugin_flags
from coordinator.theory.threats import ThreatPart
from coordinator.theory.tolerance import MessageClass, Tolerance
from emunode import __version__
from emunode.engine.memory import MemoryEngine
from emunode.errors import ScenarioError
from emunode.net.wire import ROW
from emunode.play import play
from emunode.terminal import plural
from emunode.topologies.digest import network_sha256

FORMAT: Final = "coordinator-certificate"
Method = Literal["runs", "cuts"]
"""Whether a certificate runs sets of faults, or proves by smallest cuts that none can do harm."""
MOST_INTEGER: Final = 2**63 - 1
MOST_BYTES: Final = 64 * 2**20
"""Largest certificate file."""


@dataclass
class Level:
    """Progress and counts of one fault set description."""

    faults: str
    size: int
    sets: int
    orbits: int = 0
    """Orbits that were run: all of them unless a counterexample was found."""
    covered: int = 0
    """Sets of faults whose effect is known.

    These are the sets in the orbits that were run, each with its images, or the sets that a proof decides.
    """
    tight: int = 0
    """Orbits that left some healthy node a single copy of a segment."""
    lost: int = 0
    """Healthy nodes that miss a message, summed over all covered sets."""
    undecided: int = 0
    again: int = 0
    """Orbits that were repeated on the requested driver with the same history, or run beside a proof."""
    survived: int = 0
    """Covered sets that leave every healthy node served."""
    histories: list[tuple[tuple[str, ...], str]] = field(default_factory=list)
    """Some of the sets that were run, with the hashes of their journals."""
    lost_counted: bool = False
    """Whether `lost` is the sum over all sets although not every set is covered."""

    def record(self) -> dict[str, object]:
        """Return the level as a row of the certificate; `mean_lost` only if it is known for all sets."""
        known = self.lost_counted or self.covered == self.sets
        mean = float(f"{self.lost / self.sets:.9g}") if known else None
        return {
            "faults": self.faults, "sets": self.sets, "covered": self.covered, "survived_least": self.survived,
            "survived_most": self.survived + self.sets - self.covered, "orbits": self.orbits, "tight": self.tight,
            "mean_lost": mean, "undecided": self.undecided, "again": self.again,
        }  # fmt: skip


@dataclass
class Counterexample:
    """A set of faults that defeats an algorithm."""

    faults: tuple[str, ...]
    unserved: tuple[str, ...]
    violated: tuple[str, ...]
    scenario: Scenario
    """The smallest scenario that shows it."""


@dataclass(repr=False)
class Certificate(Judged):
    """The result of a certification: its levels, and the counterexample if there is one.

    >>> import coordinator as tb
    >>> found = tb.certify(tb.network("hypercube:3"), "broadcast", "sbt", faults="nodes<=1")
    >>> print(found.verdict, *found.counterexample.faults)
    violated crash:001@1
    """

    plan: Plan
    symmetries: int
    """The number of symmetries that make sets alike; 1 if no two sets are alike."""
    counts: list[Level] = field(default_factory=list)
    """The levels that were run."""
    counterexample: Counterexample | None = None
    """The first set of faults that costs a healthy node a message or violates a claim, and a smallest scenario."""
    interrupted: bool = False
    trials: int = 0
    seconds: float = 0.0
    """Time of running trials, without the start of worker processes."""
    different: tuple[str, ...] | None = None
    """Faults that gave two drivers different histories."""
    different_hashes: tuple[str, str] | None = None
    """The hashes of these histories, in memory and on the driver of the scenario."""
    method: Method = "runs"
    """`cuts` if it was proved by smallest cuts, `runs` if sets were run."""
    tolerances: list[Tolerance] = field(default_factory=list)
    """The argument of a certificate by cuts: the smallest defeats, for each combination of kinds of faults."""
    without_cuts: str | None = None
    """Why sets were run although the method was left open."""
    engine: Literal["messages", "exact"] = "messages"
    """The engine that decided the sets that were run."""
    repeated: int = 0
    """Orbits that were evaluated exactly, and run again with messages with the same results."""

    @property
    def trials_per_second(self) -> float | None:
        """Trials per second; None if no time was measured."""
        return round(self.trials / self.seconds, 1) if self.seconds else None

    @property
    def verdict(self) -> Verdict:
        """`holds` if every healthy node receives everything due, under every set of faults.

        Else it is `violated`, or `undecided` if a set was not run or was undecided.
        """
        # One failing set refutes, whatever else was not run.
        if self.counterexample or self.different is not None:
            return Verdict.VIOLATED
        # Holding takes every set of every level; an undecided trial proves nothing.
        whole = self.counts and all(level.covered == level.sets and not level.undecided for level in self.counts)
        return Verdict.HOLDS if whole and not self.interrupted else Verdict.UNDECIDED

    @property
    def levels(self) -> pl.DataFrame:
        """One row per number of faults: sets, sets that are covered, sets that are survived, orbits that were run, ..

        Numbers of sets are floats where one of them exceeds 64 bits.
        """
        rows = [level.record() for level in self.counts]
        names = ("sets", "covered", "survived_least", "survived_most")
        large = any(row[name] > MOST_INTEGER for row in rows for name in names)  # type: ignore[operator]
        kinds = dict.fromkeys(names, pl.Float64 if large else pl.Int64)
        return pl.DataFrame(rows, schema_overrides={"mean_lost": pl.Float64, **kinds}, strict=False)

    @property
    def argument(self) -> list[str]:
        """The argument in words, one line for each combination of kinds of faults.

        Empty if sets were run.
        """
        return [argument_text(each) for each in self.tolerances]

    @property
    def tolerance(self) -> int | None:
        """The most faults that leave every healthy node served, wherever they are.

        Faults of all kinds that were asked for are counted together. None if no number of these faults defeats the
        algorithm, or if sets were run.
        """
        return min((each.tolerated for each in self.tolerances if each.tolerated is not None), default=None)

    @property
    def summary(self) -> dict[str, object]:
        """The certificate as plain values, as `coordinator certify --json` prints it."""
        return record(self, None)

    def save(self, path: Path | str) -> Path:
        """Write the certificate as a file, for another check by `verify` and `coordinator verify`.

        A network from a file is written beside it. Raises ScenarioError (field `out`) if the file cannot be written.
        """
        topology, path = self.plan.topology, Path(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Random faults of the scenario are resolved in the plan; a network from a file is written beside.
            stored = stored_scenario(self.plan.scenario, topology, path.parent, f"{path.stem}-network.json")
            text = json.dumps({**contents(self), "scenario": tomllib.loads(stored)}, separators=(",", ":"))
            if len(text) > MOST_BYTES:
                raise ScenarioError(
                    "out", str(path), f"the certificate has {len(text):,} bytes; at most {MOST_BYTES:,}"
                )
            replace_file(path, text + "\n", named=True)
        except OSError as error:
            raise ScenarioError("out", str(path), f"it cannot be written: {error.strerror}") from None
        return path

    def pack(self, file: Path | str) -> Path:
        """Write an archive with everything that others need to judge the certificate.

        Returns its path, as `coordinator pack`. Raises ScenarioError (field `run`) if it is too large, and (field
        `file`) if the file cannot be written.
        """
        with temporary_folder() as folder:
            pack_certificate(self.save(folder / "certificate.json"), Path(file))
        return Path(file)

    def save_counterexample(self, path: Path | str) -> Path:
        """Write the smallest scenario that fails, for `coordinator certify` and `coordinator run`.

        Raises ScenarioError (field `out`) if it has no counterexample or the file cannot be written.
        """
        topology, path = self.plan.topology, Path(path)
        if self.counterexample is None:
            raise ScenarioError("out", str(path), "this certificate has no counterexample")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            scenario = self.counterexample.scenario
            replace_file(path, stored_scenario(scenario, topology, path.parent, f"{path.stem}-network.json"))
        except OSError as error:
            raise ScenarioError("out", str(path), f"it cannot be written: {error.strerror}") from None
        return path

    def __repr__(self) -> str:
        spec = self.plan.spec
        sets = sum(level.covered for level in self.counts)
        because = f": {', '.join(self.counterexample.faults)}" if self.counterexample is not None else ""
        return (
            f"<certificate {spec.topology} {spec.collective} {spec.algorithm}: {self.verdict}, {sets:,} sets{because}>"
        )


# --- plain values -----------------------------------------------------------------------------------------------------


def tolerance_record(tolerance: Tolerance) -> dict[str, object]:
    """Return the argument for one combination of kinds of faults as plain values."""
    return {
        "faults": threat_name(tolerance),
        "tolerated": tolerance.tolerated,
        "smallest": smallest_kinds(tolerance),
        "messages": sum(len(each.members) for each in tolerance.classes),
        "classes": len(tolerance.classes),
        "argument": argument_text(tolerance),
    }


def record(certificate: Certificate, path: Path | None) -> dict[str, object]:
    """Return a certificate as plain values."""
    plan, failure = certificate.plan, certificate.counterexample
    counterexample = failure and {
        "faults": list(failure.faults),
        "unserved": list(failure.unserved),
        "violated": list(failure.violated),
        "smallest": list(failure.scenario.fault),
        "scenario": str(path) if path else None,
        "repeat": f"coordinator certify {path}{plugin_flags(plan.scenario.plugin)}" if path else None,
    }
    return {
        "topology": plan.topology.name,
        "collective": str(plan.spec.collective),
        "algorithm": plan.spec.algorithm,
        "redundancy": plan.spec.redundancy,
        "driver": plan.scenario.driver,
        "verdict": str(certificate.verdict),
        "method": certificate.method,
        "engine": certificate.engine if certificate.method == "runs" else None,
        "repeated": certificate.repeated,
        "tolerances": [tolerance_record(each) for each in certificate.tolerances],
        "sets": sum(level.sets for level in certificate.counts),
        "orbits": sum(level.orbits for level in certificate.counts),
        "symmetries": certificate.symmetries,
        "trials": certificate.trials,
        "trials_per_second": certificate.trials_per_second,
        "levels": [level.record() for level in certificate.counts],
        "counterexample": counterexample,
        "different_histories": list(certificate.different) if certificate.different is not None else None,
        "interrupted": certificate.interrupted,
    }  # fmt: skip


def threat_name(tolerance: Tolerance) -> str:
    """Return the kinds of faults, such as `nodes and links from step 3`."""
    parts = tolerance.threats.parts
    names = {kind: short for short, kind in SHORT.items()}
    name = " and ".join(names.get(part.kind, part.kind) for part in parts)
    window = parts[0].window
    if window.is_endless and window.start == 1:
        return name
    return f"{name} from step {window.start}" + ("" if window.is_endless else f" to {window.end - 1}")


def argument_text(tolerance: Tolerance) -> str:
    """Write the argument of one tolerance in a sentence."""
    classes, threat, smallest = tolerance.classes, threat_name(tolerance), tolerance.smallest
    images = sum(len(each.members) for each in classes) - len(classes)
    checked = plural(len(classes), "message") + " checked"
    checked += f", the other {images:,} are mirror images" if images else ""
    if smallest is None or smallest.least is None:
        return f"{threat}: no number of these faults stops a message; tolerance unlimited ({checked})"
    if not smallest.least:
        return f"{threat}: the faults of the scenario stop a message already ({checked})"
    size = len(smallest.least)
    kinds = smallest_kinds(tolerance)
    which = f" ({counts_in_words(kinds)})" if len(tolerance.threats.parts) > 1 else ""
    searched = any(each.argument == "search" for each in classes)
    why = (
        "the paths of the copies meet, and the smallest sets of places on all of them were searched"
        if searched
        else "each message takes a single path"
        if size == 1
        else "the copies of each message take paths without a common place"
    )
    return f"{threat}: {why}, so it takes {plural(size, 'fault')}{which} to stop one; tolerance {size - 1} ({checked})"


def smallest_kinds(tolerance: Tolerance) -> dict[str, int]:
    """Return how many faults of each kind a smallest defeating set has.

    Empty if no set defeats a message.
    """
    smallest = tolerance.smallest
    strikes = () if smallest is None or smallest.least is None else smallest.least
    return dict(Counter(tolerance.threats.parts[part].kind for part, _ in strikes))


# --- the file ---------------------------------------------------------------------------------------------------------


def contents(certificate: Certificate) -> dict[str, object]:
    """Return a certificate as plain values, without its scenario."""
    plan, failure = certificate.plan, certificate.counterexample
    hops, digest = schedule_digest(certificate)
    return {
        "format": FORMAT,
        VERSION_KEY: __version__,
        "verdict": str(certificate.verdict),
        "method": certificate.method,
        "network": {
            "name": plan.topology.name,
            "order": plan.topology.order,
            "links": plan.topology.link_count,
            "sha256": network_sha256(plan.topology),
        },
        "schedule": {"hops": hops, "sha256": digest},
        "levels": [_level(level) for level in certificate.counts],
        "threats": [_threat(each, certificate) for each in certificate.tolerances],
        "counterexample": failure and {"faults": list(failure.faults), "unserved": list(failure.unserved)},
        **_different(certificate),
    }


def _different(certificate: Certificate) -> dict[str, object]:
    """Return the set that gives two drivers different histories, if there is one."""
    if certificate.different is None or certificate.different_hashes is None:
        return {}
    memory, driver = certificate.different_hashes
    return {"different": {"faults": list(certificate.different), "memory": memory, "driver": driver}}


def schedule_digest(certificate: Certificate) -> tuple[int, str]:
    """Return the number of hops of the run without faults, and the SHA-256 of their rows in ascending order."""
    turns = play(MemoryEngine(certificate.plan.algorithm), limit=certificate.plan.scenario.step_limit)
    rows = list(ROW.iter_unpack(b"".join(turns)))
    digest = sha256()
    for row in sorted(rows):
        digest.update(ROW.pack(*row))
    return len(rows), digest.hexdigest()


def _level(level: Level) -> dict[str, object]:
    row = level.record()
    known = level.lost_counted or level.covered == level.sets
    return {
        "faults": level.faults,
        "sets": level.sets,
        "survived": [row["survived_least"], row["survived_most"]],
        "lost": level.lost if known else None,
        "undecided": level.undecided,
        "histories": [{"faults": list(faults), "journal_hash": digest} for faults, digest in level.histories],
    }


def _threat(tolerance: Tolerance, certificate: Certificate) -> dict[str, object]:
    places = FaultSites(certificate.plan.algorithm, certificate.plan.scenario.fault)
    parts = tolerance.threats.parts
    return {
        "kinds": [part.kind for part in parts],
        "when": _when(parts[0]),
        "tolerated": tolerance.tolerated,
        "classes": [_class(each, parts, places) for each in tolerance.classes],
    }


def _when(part: ThreatPart) -> str:
    window = part.window
    return str(window.start) if window.is_endless else f"{window.start}-{window.end - 1}"


def _class(each: MessageClass, parts: Iterable[ThreatPart], places: FaultSites) -> dict[str, object]:
    kinds = list(parts)
    cut = None
    if each.least is not None:
        # `FaultSites.spec` takes the kind from a term of a fault set; parts have the same.
        cut = [f"{kinds[part].kind}:{_where(place, places)}@{_when(kinds[part])}" for part, place in each.least]
    return {
        "members": [list(member) for member in each.members],
        "piece": list(each.segment),
        "argument": each.argument,
        "paths": [[path[0].sender, *(hop.receiver for hop in path)] for path in each.paths],
        "least": None if cut is None else len(cut),
        "cut": cut,
    }


def _where(place: int | tuple[int, int], places: FaultSites) -> str:
    label = places.topology.label
    return label(place) if isinstance(place, int) else f"{label(place[0])}~{label(place[1])}"
