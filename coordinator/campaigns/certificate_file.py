"""Certificate files: a claim about every set of faults, with what is needed to check it again.

The file is JSON (docs/how-to/certificates.md describes it). It names the network and the schedule by digests, and for every
class of messages it has the paths of the copies and a smallest set of faults that meets them; or, if sets were run, the
hashes of some of their histories. `coordinator.execution.verify_certificate` reads it without this module.
"""

import json
import tomllib
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Final

from coordinator.campaigns.certify import Certificate, Level
from coordinator.history.run_directory import replace_file
from coordinator.scenario.fault_draws import FaultSites
from coordinator.scenario.networks import stored_scenario
from coordinator.theory.threats import Part
from coordinator.theory.tolerance import MessageClass, Tolerance
from emunode import __version__
from emunode.engine.memory import MemoryEngine
from emunode.errors import ScenarioError
from emunode.net.wire import ROW
from emunode.topologies.digest import network_sha256

FORMAT: Final = "coordinator-certificate"
VERSION: Final = 1
MOST_BYTES: Final = 64 * 2**20
"""Largest certificate file."""


def save_certificate(path: Path, certificate: Certificate) -> None:
    """Write a certificate file; ScenarioError (field `out`) if that is not possible."""
    topology = certificate.plan.topology
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Random faults of the scenario are resolved in that of the plan; a network from a file is written beside.
        stored = stored_scenario(certificate.plan.scenario, topology, path.parent, f"{path.stem}-network.json")
        text = json.dumps({**contents(certificate), "scenario": tomllib.loads(stored)}, separators=(",", ":"))
        if len(text) > MOST_BYTES:
            raise ScenarioError("out", str(path), f"the certificate has {len(text):,} bytes; at most {MOST_BYTES:,}")
        replace_file(path, text + "\n")
    except OSError as error:
        raise ScenarioError("out", str(path), f"it cannot be written: {error.strerror}") from None


def contents(certificate: Certificate) -> dict[str, object]:
    """A certificate as plain values, without its scenario."""
    plan, found = certificate.plan, certificate.counterexample
    hops, digest = schedule_digest(certificate)
    return {
        "format": FORMAT,
        "version": VERSION,
        "software": __version__,
        "verdict": str(certificate.verdict),
        "method": certificate.method,
        "network": {
            "name": plan.topology.name,
            "order": plan.topology.order,
            "links": plan.topology.link_count,
            "sha256": network_sha256(plan.topology),
        },
        "schedule": {"hops": hops, "sha256": digest},
        "levels": [_level(level) for level in certificate.levels],
        "threats": [_threat(each, certificate) for each in certificate.tolerances],
        "counterexample": found and {"faults": list(found.faults), "unserved": list(found.unserved)},
        **_different(certificate),
    }


def _different(certificate: Certificate) -> dict[str, object]:
    """The set under which two drivers have different histories, if there is one."""
    if certificate.different is None or certificate.different_hashes is None:
        return {}
    memory, driver = certificate.different_hashes
    return {"different": {"faults": list(certificate.different), "memory": memory, "driver": driver}}


def schedule_digest(certificate: Certificate) -> tuple[int, str]:
    """The number of hops of the run without faults, and the SHA-256 of their rows in ascending order."""
    engine, step, rows = MemoryEngine(certificate.plan.algorithm), 0, list[tuple[int, ...]]()
    while engine.busy and step < certificate.plan.scenario.step_limit:
        step += 1
        rows += ROW.iter_unpack(engine.step(step))
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


def _when(part: Part) -> str:
    window = part.window
    return str(window.start) if window.is_endless else f"{window.start}-{window.end - 1}"


def _class(each: MessageClass, parts: Iterable[Part], places: FaultSites) -> dict[str, object]:
    kinds = list(parts)
    cut = None
    if each.least is not None:
        # `FaultSites.spec` takes the kind from a term of a fault set; parts have the same.
        cut = [f"{kinds[part].kind}:{_where(place, places)}@{_when(kinds[part])}" for part, place in each.least]
    return {
        "members": [list(member) for member in each.members],
        "piece": list(each.piece),
        "argument": each.argument,
        "paths": [[path[0].sender, *(hop.receiver for hop in path)] for path in each.paths],
        "least": None if cut is None else len(cut),
        "cut": cut,
    }


def _where(place: int | tuple[int, int], places: FaultSites) -> str:
    label = places.topology.label
    return label(place) if isinstance(place, int) else f"{label(place[0])}~{label(place[1])}"
