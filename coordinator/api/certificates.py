"""Certificates as objects: the verdict over every set of faults, its levels, and a smallest counterexample."""

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, Unpack

import polars as pl

from coordinator.api.campaigns import on_disk
from coordinator.api.networks import BaseNetwork
from coordinator.api.option_types import Options
from coordinator.api.options import Faults, as_list, require_number, scenario_of
from coordinator.api.progress import ProgressOption, progress_display
from coordinator.api.threads import call
from coordinator.campaigns.certificate_file import save_certificate
from coordinator.campaigns.certify import Certificate as Found
from coordinator.campaigns.certify import Certifier, Counterexample, exhaustive_fault_sets, refuse_random
from coordinator.campaigns.cut_certifier import (
    CutEngine,
    NotProvableError,
    argument_text,
    smallest_kinds,
    threat_name,
)
from coordinator.campaigns.engines import ENGINES, Engine
from coordinator.campaigns.exact_certifier import BitRowEngine
from coordinator.dependence.size import InexactError
from coordinator.history.run_directory import replace_file
from coordinator.networks.base import Progress
from coordinator.results.claims import EXIT_STATUS, Verdict
from coordinator.scenario.model import Scenario
from coordinator.scenario.networks import stored_scenario
from coordinator.scenario.plugins import plugin_flags
from coordinator.theory.tolerance import Tolerance
from emunode.errors import ScenarioError

MOST_INTEGER: Final = 2**63 - 1
METHODS: Final = ("auto", "cuts", "runs")
"""How a certificate is made; `auto` is `cuts` where paths decide, and `runs` elsewhere."""


def certify(  # noqa: PLR0913  # all but the first three are optional
    net: BaseNetwork,
    collective: str,
    algorithm: str,
    *,
    faults: Faults = (),
    fault: Faults = (),
    sample: int | None = None,
    workers: int | None = None,
    method: str = "auto",
    engine: Engine = "auto",
    progress: ProgressOption = None,
    **options: Unpack[Options],
) -> "Certificate":
    """Decide every set of faults up to symmetry, or find a smallest counterexample.

    `faults` are the sets, such as `"nodes<=2"` or `"nodes<=1;links<=1"`; without them the scenario runs as it is. `fault` is
    in force in every run. `method` is `"cuts"`, `"runs"`, or `"auto"`: cuts where the paths of the algorithm decide, else
    runs. `engine` says how sets are run: with `"messages"`; `"exact"`, which judges deliveries without messages
    (ScenarioError where that is not exact); or `"auto"`: exact for many sets in memory where possible, with a sample that is
    run again with messages (RunError if a result differs). With `sample`, all sets run in memory, and those that leave one
    copy, and this many of the others, are repeated on `driver`. `workers` is the number of processes (default: one per core
    in memory).

    Raises ScenarioError before anything runs, RunError if a set cannot be run, and KeyboardInterrupt if interrupted.
    """
    require_number("sample", sample)
    require_number("workers", workers)
    with on_disk(net) as values, progress_display(progress, "certify") as show:
        named = {**values, "collective": collective, "algorithm": algorithm}
        scenario = scenario_of(named, fault, options)
        found = call(certify_scenario, scenario, as_list(faults), sample, workers, show, method, engine)
    if found.interrupted:
        raise KeyboardInterrupt
    return Certificate(found)


class Certificate:
    """The result of a certification: its levels, and the counterexample if there is one."""

    def __init__(self, found: Found) -> None:
        self._found = found

    @property
    def verdict(self) -> Verdict:
        """`holds` if every healthy node receives everything that is due, under every set of faults; or `violated`.

        `undecided` if a set was undecided.
        """
        return self._found.verdict

    @property
    def exit_status(self) -> int:
        """The exit status of `coordinator certify`: 0 holds, 1 violated, 3 undecided."""
        return EXIT_STATUS[self._found.verdict]

    @property
    def levels(self) -> pl.DataFrame:
        """One row per number of faults: sets, sets that are covered, sets that are survived, orbits that were run, ..

        Numbers of sets are floats where one of them exceeds 64 bits.
        """
        rows = [level.record() for level in self._found.levels]
        counts = ("sets", "covered", "survived_least", "survived_most")
        large = any(row[name] > MOST_INTEGER for row in rows for name in counts)  # type: ignore[operator]
        kinds = dict.fromkeys(counts, pl.Float64 if large else pl.Int64)
        return pl.DataFrame(rows, schema_overrides={"mean_lost": pl.Float64, **kinds}, strict=False)

    @property
    def method(self) -> str:
        """`cuts` if it was proved by smallest cuts, `runs` if sets were run."""
        return self._found.method

    @property
    def argument(self) -> list[str]:
        """The argument in words, one line for each combination of kinds of faults; empty if sets were run."""
        return [argument_text(each) for each in self._found.tolerances]

    @property
    def tolerance(self) -> int | None:
        """The most faults of which every set leaves every healthy node served, over all kinds of faults that were asked for.

        None if no number of these faults defeats the algorithm, or if sets were run.
        """
        return min((each.tolerated for each in self._found.tolerances if each.tolerated is not None), default=None)

    @property
    def counterexample(self) -> Counterexample | None:
        """The first set of faults that costs a healthy node a message or violates a claim, and a smallest scenario."""
        return self._found.counterexample

    @property
    def symmetries(self) -> int:
        """The number of symmetries by which sets are alike; 1 if no two sets are."""
        return self._found.symmetries

    @property
    def summary(self) -> dict[str, object]:
        """The certificate as plain values, as `coordinator certify --json` prints it."""
        return record(self._found, None)

    def save(self, path: Path | str) -> Path:
        """Write the certificate as a file, which `verify` and `coordinator verify` check again.

        A network from a file is written beside it. Raises ScenarioError (field `out`) if the file cannot be written.
        """
        save_certificate(Path(path), self._found)
        return Path(path)

    def save_counterexample(self, path: Path | str) -> Path:
        """Write the smallest scenario that fails, which `coordinator certify` and `coordinator run` take.

        Raises ScenarioError (field `out`) if it has no counterexample or the file cannot be written.
        """
        if self._found.counterexample is None:
            raise ScenarioError("out", str(path), "this certificate has no counterexample")
        save_counterexample(Path(path), self._found)
        return Path(path)

    def __repr__(self) -> str:
        spec = self._found.plan.spec
        sets = sum(level.covered for level in self._found.levels)
        because = f": {', '.join(self.counterexample.faults)}" if self.counterexample is not None else ""
        return (
            f"<certificate {spec.topology} {spec.collective} {spec.algorithm}: {self.verdict}, {sets:,} sets{because}>"
        )


def certify_scenario(
    scenario: Scenario,
    faults: Sequence[str],
    sample: int | None,
    workers: int | None,
    progress: Progress,
    method: str = "auto",
    engine: str = "auto",
) -> Found:
    """Certify a scenario; arguments and errors as of `certify`."""
    fault_sets = exhaustive_fault_sets(faults)
    if method not in METHODS:
        raise ScenarioError("method", method, f"one of: {', '.join(METHODS)}")
    if engine not in ENGINES:
        raise ScenarioError("engine", engine, f"one of: {', '.join(ENGINES)}")
    refuse_random(scenario, fault_sets)
    with Path(os.devnull).open("w") as log:
        if method != "runs":
            try:
                return Certifier(scenario, workers, log, progress, CutEngine).certify(fault_sets, sample)
            except NotProvableError as reason:
                if method == "cuts":
                    raise ScenarioError("method", method, f"it cannot be used here: {reason}") from None
                without_cuts: str | None = str(reason)
        else:
            without_cuts = None
        # A driver of hosts was asked for because every set is to run there.
        if engine == "exact" or (engine == "auto" and scenario.driver == "memory"):
            try:
                rows = partial(BitRowEngine, always=engine == "exact")
                certifier = Certifier(scenario, workers, log, progress, rows)
                return replace(certifier.certify(fault_sets, sample), without_cuts=without_cuts)
            except InexactError as reason:
                if engine == "exact":
                    raise ScenarioError("engine", engine, f"{reason}; use auto or messages") from None
        return replace(
            Certifier(scenario, workers, log, progress).certify(fault_sets, sample), without_cuts=without_cuts
        )


def save_counterexample(path: Path, certificate: Found) -> None:
    """Write the smallest scenario that shows a counterexample; ScenarioError (field `out`) if that is not possible."""
    assert certificate.counterexample is not None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scenario, topology = certificate.counterexample.scenario, certificate.plan.topology
        replace_file(path, stored_scenario(scenario, topology, path.parent, f"{path.stem}-network.json"))
    except OSError as error:
        raise ScenarioError("out", str(path), f"it cannot be written: {error.strerror}") from None


def tolerance_record(tolerance: Tolerance) -> dict[str, object]:
    """The argument for one combination of kinds of faults as plain values."""
    return {
        "faults": threat_name(tolerance),
        "tolerated": tolerance.tolerated,
        "smallest": smallest_kinds(tolerance),
        "messages": sum(len(each.members) for each in tolerance.classes),
        "classes": len(tolerance.classes),
        "argument": argument_text(tolerance),
    }


def record(certificate: Found, path: Path | None) -> dict[str, object]:
    """A certificate as plain values."""
    plan, found = certificate.plan, certificate.counterexample
    counterexample = found and {
        "faults": list(found.faults),
        "unserved": list(found.unserved),
        "violated": list(found.violated),
        "smallest": list(found.scenario.fault),
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
        "sets": sum(level.sets for level in certificate.levels),
        "orbits": sum(level.orbits for level in certificate.levels),
        "symmetries": certificate.symmetries,
        "trials": certificate.trials,
        "trials_per_second": certificate.trials_per_second,
        "levels": [level.record() for level in certificate.levels],
        "counterexample": counterexample,
        "different_histories": list(certificate.different) if certificate.different is not None else None,
        "interrupted": certificate.interrupted,
    }  # fmt: skip
