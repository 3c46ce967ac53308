"""Certificates as objects: the verdict over every set of faults, its levels, and a smallest counterexample."""

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, Unpack

from coordinator.annexes.proofs.batch_certifier import BitRowEngine
from coordinator.annexes.proofs.certificate import Certificate
from coordinator.annexes.proofs.certify import Certifier, exhaustive_fault_sets, refuse_random
from coordinator.annexes.proofs.cut_certifier import (
    CutEngine,
    NotProvableError,
)
from coordinator.api.campaigns import on_disk
from coordinator.api.networks import BaseNetwork
from coordinator.api.option_types import Options
from coordinator.api.options import FaultTexts, as_list, require_number, scenario_of
from coordinator.api.progress import ProgressOption, progress_display
from coordinator.api.threads import call
from coordinator.campaigns.engines import ENGINES, Engine
from coordinator.networks.base import Progress
from coordinator.scenario.model import Scenario
from coordinator.theory.dependence.size import InexactError
from emunode.errors import ScenarioError

METHODS: Final = ("auto", "cuts", "runs")
"""How a certificate is made; `auto` is `cuts` where paths decide, and `runs` elsewhere."""


def certify(  # noqa: PLR0913  # all but the first three are optional
    net: BaseNetwork,
    collective: str,
    algorithm: str,
    *,
    faults: FaultTexts = (),
    fault: FaultTexts = (),
    sample: int | None = None,
    workers: int | None = None,
    method: str = "auto",
    engine: Engine = "auto",
    progress: ProgressOption = None,
    **options: Unpack[Options],
) -> Certificate:
    """Decide every set of faults up to symmetry, or find a smallest counterexample.

    `faults` are the sets, such as `"nodes<=2"` or `"nodes<=1;links<=1"`; without them the scenario runs as it is.
    `fault` is in force in every run. `method` is `"cuts"`, `"runs"`, or `"auto"`: cuts where the paths of the algorithm
    decide, else runs. `engine` says how sets are run: with `"messages"`; `"exact"`, to judge deliveries without
    messages (ScenarioError where that is not exact); or `"auto"`: exact for many sets in memory where possible, with a
    sample that is run again with messages (RunError if a result differs). With `sample`, all sets run in memory; the
    sets that leave a single copy, and this number of other sets, are repeated on `driver`. `workers` is the number of
    processes (default: one per core in memory).

    Raises ScenarioError before anything runs, RunError if a set cannot be run, and KeyboardInterrupt if interrupted.

    >>> import coordinator as tb
    >>> found = tb.certify(tb.network("star:4"), "broadcast", "edt", redundancy=3, faults="nodes<=1")
    >>> print(found.verdict)
    holds
    """
    require_number("sample", sample)
    require_number("workers", workers)
    with on_disk(net) as values, progress_display(progress, "certify") as show:
        named = {**values, "collective": collective, "algorithm": algorithm}
        scenario = scenario_of(named, fault, options)
        found = call(certify_scenario, scenario, as_list(faults), sample, workers, show, method, engine)
    if found.interrupted:
        raise KeyboardInterrupt
    return found


def certify_scenario(
    scenario: Scenario,
    faults: Sequence[str],
    sample: int | None,
    workers: int | None,
    progress: Progress,
    method: str = "auto",
    engine: str = "auto",
) -> Certificate:
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
