"""`coordinator certify`."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.markup import escape

from coordinator.campaigns.certify import Certificate, Certifier, exhaustive_fault_sets
from coordinator.cli import render
from coordinator.cli.options import ScenarioFile, values_from
from coordinator.cli.output import OUTPUT, JsonFlag, as_command, print_json
from coordinator.cli.trials import TRIAL_DEFAULTS, TrialFlags, WorkersFlag
from coordinator.reports.numbers import plural
from coordinator.results.claims import EXIT_STATUS
from coordinator.scenario.model import make_scenario
from coordinator.scenario.networks import stored_scenario
from coordinator.scenario.plugins import plugin_flags
from emunode.errors import ScenarioError


def certify(
    scenario: ScenarioFile = None,
    *,
    flags: TrialFlags = None,
    faults: Annotated[
        list[str] | None,
        Parameter(
            metavar="SETS",
            help="sets of faults: nodes<=2, links<=2, 'nodes<=1;links<=1' or any<=2 (repeatable); "
            "default: the faults of the scenario",
            negative=(),
        ),
    ] = None,
    sample: Annotated[
        int | None,
        Parameter(
            help="run all sets in memory, then run on --driver those that leave one copy, and this many of the others"
        ),
    ] = None,
    workers: WorkersFlag = None,
    out: Annotated[
        Path | None,
        Parameter(group=OUTPUT, help="file for the scenario of a counterexample, such as counterexample.toml"),
    ] = None,
    json: JsonFlag = False,
) -> int:
    """Run every set of faults up to symmetry, or find a smallest counterexample.

    The verdict is `holds` if every healthy node receives everything that is due, under every set of faults.

    Examples:
      coordinator certify --topology star:4 --algorithm edt --redundancy 3 \\
          --faults 'nodes<=2'
      coordinator certify counterexample.toml
    """
    base = make_scenario({**TRIAL_DEFAULTS, **values_from(scenario, flags)})
    fault_sets = exhaustive_fault_sets(faults or [])
    with Path(os.devnull).open("w") as log, render.progress_display("certify") as progress:
        certificate = Certifier(base, workers, log, progress).certify(fault_sets, sample)
    path = None
    if certificate.counterexample is not None and fault_sets:
        path = out or Path("runs", "counterexamples", f"{certificate.plan.name}.toml")
        _save(path, certificate)
    if json:
        print_json(record(certificate, path))
    else:
        show_certificate(certificate, path)
    return 130 if certificate.interrupted else EXIT_STATUS[certificate.verdict]


def _save(path: Path, certificate: Certificate) -> None:
    assert certificate.counterexample is not None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scenario, topology = certificate.counterexample.scenario, certificate.plan.topology
        path.write_text(stored_scenario(scenario, topology, path.parent, f"{path.stem}-network.json"))
    except OSError as error:
        raise ScenarioError("out", str(path), f"it cannot be written: {error.strerror}") from None


def record(certificate: Certificate, path: Path | None) -> dict[str, object]:
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
        "sets": sum(level.sets for level in certificate.levels),
        "orbits": sum(level.orbits for level in certificate.levels),
        "symmetries": certificate.symmetries,
        "trials": certificate.trials,
        "trials_per_second": certificate.trials_per_second,
        "levels": [level.record() for level in certificate.levels],
        "counterexample": counterexample,
        "different_histories": list(certificate.different) if certificate.different is not None else None,
        "interrupted": certificate.interrupted,
    }


def show_certificate(certificate: Certificate, path: Path | None) -> None:
    """Print what was certified, each level, the counterexample if there is one, and the verdict."""
    out, plan, spec, verdict = render.console(), certificate.plan, certificate.plan.spec, certificate.verdict
    out.print(
        f"[bold]{plan.topology.title}[/bold]: {spec.collective} by {spec.algorithm}, redundancy {spec.redundancy}, "
        f"driver {plan.scenario.driver}; {plural(certificate.symmetries, 'symmetr', 'ies', 'y')} "
        "fix the source and keep the trees",
        soft_wrap=True,
    )
    render.show_rows("sets of faults", [level.record() for level in certificate.levels])
    for line in _counterexample_lines(certificate, path):
        out.print(escape(line), soft_wrap=True)
    covered, orbits = (sum(getattr(level, name) for level in certificate.levels) for name in ("covered", "orbits"))
    rate = f"; {certificate.trials_per_second:,.0f} per second" if certificate.trials_per_second else ""
    counted = f"{plural(covered, 'set')} of faults in {plural(orbits, 'orbit')}, each one run{rate}"
    out.print(f"verdict: {render.verdict_text(verdict)}   {counted}", soft_wrap=True)


def _counterexample_lines(certificate: Certificate, path: Path | None) -> Iterator[str]:
    found = certificate.counterexample
    if found:
        yield f"counterexample: {', '.join(found.faults) or 'nothing broken'}"
        if found.unserved:
            yield f"  healthy and not served: {', '.join(found.unserved)}"
        if found.violated:
            yield f"  violated: {'; '.join(found.violated)}"
    if path:
        yield f"  repeat it with: coordinator certify {path}{plugin_flags(certificate.plan.scenario.plugin)}"
    if certificate.different is not None:
        yield f"history different from memory under: {', '.join(certificate.different)}"


certify_command = as_command(certify)
