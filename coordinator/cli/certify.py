"""`coordinator certify`: every set of faults there is, or the smallest counterexample."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from coordinator.cli.campaign import DEFAULTS
from coordinator.cli.options import JsonFlag, ScenarioFlags, print_json, values_from
from emunode.errors import ScenarioError

if TYPE_CHECKING:
    from coordinator.campaigns.certify import Certificate


def certify(
    scenario: Path | None = None,
    *,
    flags: ScenarioFlags = None,
    faults: Annotated[
        list[str] | None,
        Parameter(
            help="sets of faults, such as nodes<=2, links<=2, 'nodes<=1;links<=1', any<=2 (repeatable)", negative=()
        ),
    ] = None,
    sample: Annotated[
        int | None,
        Parameter(help="run all sets in memory, and on the driver those that leave a single copy and N of the others"),
    ] = None,
    workers: Annotated[int | None, Parameter(help="processes; default: one a core in memory, else one")] = None,
    out: Annotated[Path | None, Parameter(help="where to save the scenario of a counterexample: FILE.toml")] = None,
    json: JsonFlag = False,
) -> int:
    """Run every set of faults up to symmetry: `holds` if no healthy node misses anything, else a smallest counterexample.

    Without --faults, the scenario itself with the faults it has.
    """
    from coordinator.campaigns.certify import Certifier, exhaustive_fault_sets  # noqa: PLC0415
    from coordinator.cli.render import progress_display, show_certificate  # noqa: PLC0415
    from coordinator.results.claims import EXIT_STATUS  # noqa: PLC0415
    from coordinator.scenario.model import make_scenario  # noqa: PLC0415

    asked = make_scenario({**DEFAULTS, **values_from(scenario, flags)})
    fault_sets = exhaustive_fault_sets(faults or [])
    with Path(os.devnull).open("w") as log, progress_display("certify") as progress:
        certificate = Certifier(asked, workers, log, progress).certify(fault_sets, sample)
    path = None
    if certificate.counterexample is not None and fault_sets:
        path = out or Path("runs", "counterexamples", f"{certificate.plan.name}.toml")
        _save(path, certificate)
    if json:
        print_json(record(certificate, path))
    else:
        show_certificate(certificate, path)
    return 130 if certificate.interrupted else EXIT_STATUS[certificate.verdict]


def _save(path: Path, certificate: "Certificate") -> None:
    from coordinator.scenario.model import dump_scenario  # noqa: PLC0415

    assert certificate.counterexample is not None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dump_scenario(certificate.counterexample.scenario))
    except OSError as error:
        raise ScenarioError("out", str(path), f"it cannot be written: {error.strerror}") from None


def record(certificate: "Certificate", path: Path | None) -> dict[str, object]:
    """A certificate as plain values."""
    plan, found = certificate.plan, certificate.counterexample
    counterexample = found and {
        "faults": list(found.faults),
        "unserved": list(found.unserved),
        "violated": list(found.violated),
        "smallest": list(found.scenario.fault),
        "scenario": str(path) if path else None,
        "repeat": f"coordinator certify {path}" if path else None,
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
