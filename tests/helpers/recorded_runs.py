"""Recorded runs: hash, verdict and claims of scenarios that use all algorithms, kinds of fault, clocks and protocols.

A refactoring changes none of them. `python -m tests.helpers.recorded_runs` runs all scenarios, prints all differences, and
adds new scenarios to `tests/golden/recorded_runs.jsonl`. It changes the hash of a journal only if a news fragment in
`changes/` says that the journal hash changes: a hash is a promise within a minor version.
"""

import json
import sys
from collections.abc import Iterator
from itertools import cycle, islice, product
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

from emunode.algorithms.base import ANY_FAMILY
from emunode.algorithms.registry import RegisteredAlgorithm, algorithms
from emunode.annexes import is_installed
from emunode.errors import ScenarioError
from emunode.faults.kinds import KINDS, NodeFault, value_names
from emunode.model import Collective
from emunode.topologies.base import Topology
from emunode.topologies.registry import parse_topology
from tests.helpers.command_line import ROOT
from tests.helpers.scenarios import Case
from tests.helpers.support import GOLDEN

FILE: Final = GOLDEN / "recorded_runs.jsonl"
NETWORKS: Final = ("star:4", "hypercube:3", "ej:2+3", "ej:1+2^2", "torus:3x4", "complete:8", "fat-tree:4")
SETTINGS: Final = ("", "messages=3", "port_model=one-port messages=2", "redundancy=2 messages=2")
PROTOCOLS: Final = (
    "reliable=true", "reliable=true window=3 attempts=2 back_off=true", "reliable=true port_model=one-port",
    "fault_knowledge=detect:2", "fault_knowledge=detect:2 on_failure=agree", "fault_knowledge=detect:1 on_failure=shrink",
    "fault_knowledge=neighbours", "fault_knowledge=all", "repair=next-port", "repair=dense",
    "repair=edges fault_knowledge=all", "repair=next-port reliable=true",
    "repair=switch-tree fault_knowledge=all", "repair=re-root fault_knowledge=all",
)  # fmt: skip
VALUES: Final = {
    "rate": "0.4", "steps": "2", "packet": "2", "factor": "2.5", "spread": "0.5", "drift": "0.01",
}  # fmt: skip
ENDED: Final = {"recover": "crash", "up": "down", "heal": "down"}
"""The fault that a repair ends."""
FOR_ANY: Final = ("torus:3x4", "complete:8", "fat-tree:4")
"""Networks where algorithms for any network are recorded."""
Record = dict[str, Any]


def record_of(line: str, **more: object) -> Record:
    """Run a scenario in memory, unless `more` names another driver, and return its hash, verdict and claims.

    All files but the report are written: these scenarios have every kind of table and summary.
    """
    with TemporaryDirectory() as folder:
        result = Case(line, **more).stored(Path(folder) / "run")
    # Runs over sockets are also replayed.
    judged = [each for each in result.judgements if each.claim.name != "replay_mismatches"]
    claims = [[each.claim.name, each.claim.relation, each.claim.predicted, str(each.verdict)] for each in judged]
    return {
        "scenario": line,
        "journal_hash": result.summary["journal_hash"],
        "verdict": str(result.verdict),
        "claims": json.loads(json.dumps(claims)),
    }


OF_ANNEXES: Final = {"values=": "numbers", "on_failure=": "agreement", "reliable=": "reliable", "repair=": "repair"}
"""The annexes of options in the records."""


def recorded() -> list[Record]:
    """Read the records, but those of annexes that are not here."""
    records = [json.loads(line) for line in FILE.read_text().splitlines()]
    missing = [option for option, annex in OF_ANNEXES.items() if not is_installed("coordinator", annex)]
    return [each for each in records if not any(option in str(each) for option in missing)]


def scenarios() -> Iterator[str]:
    """Make the scenarios that are recorded; some are refused, and left out."""
    kinds, settings = cycle(KINDS), cycle(SETTINGS[1:])
    for topology, collective in product(NETWORKS, Collective):
        network = parse_topology(topology)
        for name, entry in algorithms(network.family, collective).items():
            if entry.family != ANY_FAMILY or topology in FOR_ANY:
                base = _accepted_base(f"{topology} {collective} {name}", entry)
                yield base
                yield f"{base} {next(settings)}"
                yield from _with_faults(base, kinds)
    for topology, algorithm in (("star:4", "greedy-tree"), ("hypercube:3", "sbt"), ("torus:3x4", "bfs-tree")):
        yield from _with_protocols(f"{topology} broadcast {algorithm}")
    for base in ("star:4 broadcast edt", "hypercube:3 reduce sbt", "ej:2+3 broadcast improved"):
        yield from (f"{base} {setting} clock=timed startup=1ms per_byte=1us".replace("  ", " ") for setting in SETTINGS)
        yield from (f"{base} clock=timed startup=1ms {_fault(base, kind, timed=True)}" for kind in KINDS)
    for base in ("star:4 broadcast greedy-tree", "hypercube:3 broadcast sbt", "torus:3x4 broadcast bfs-tree"):
        yield from _with_timed_agreement(base)


def _accepted_base(base: str, entry: RegisteredAlgorithm) -> str:
    """Add the first port model, number of messages and cut that the algorithm accepts to a scenario."""
    models = ["", *(f" port_model={model}" for model in entry.port_models)]
    loads = ("", " messages=3", " segments=3", " message_bytes=720")
    return next(
        (f"{base}{model}{load}" for model, load in product(models, loads) if _is_accepted(base + model + load)), base
    )


def _with_faults(base: str, kinds: Iterator[str]) -> Iterator[str]:
    # Kinds that only change times are refused in lock-step; the next ones take their place.
    tries = (f"{base} seed=1 {_fault(base, next(kinds))}" for _ in KINDS)
    yield from islice(filter(_is_accepted, tries), 1)
    if _is_accepted(f"{base} redundancy=2"):
        yield f"{base} redundancy=2 seed=2 {_fault(base, 'byzantine')} {_fault(base, 'loss')}"


def _with_protocols(base: str) -> Iterator[str]:
    for number, (protocol, clock) in enumerate(product(PROTOCOLS, ("steps", "timed"))):
        crash, loss = _fault(base, "crash", number=number), _fault(base, "loss", number=number)
        timed = " clock=timed startup=1ms" if clock == "timed" else ""
        yield f"{base} {protocol}{timed}"
        yield f"{base} {protocol}{timed} messages=2 seed={number} {crash}"
        yield f"{base} {protocol}{timed} messages=2 seed={number} {loss}"


def _with_timed_agreement(base: str) -> Iterator[str]:
    """Agreement needs signs of life; the scenarios of all protocols do not set these."""
    for mode, number in product(("agree", "shrink"), range(3)):
        settings = (
            f"{base} clock=timed startup=1ms per_byte=0s fault_knowledge=detect:2 keep_alive=40ms on_failure={mode}"
        )
        crash = _fault(base, "crash", number=number, timed=True)
        other = _fault(base, "crash" if number else "down", number=number + 10, timed=True)
        yield f"{settings} seed={number} {crash}"
        yield f"{settings} seed={number} {crash} {other}"


def _fault(base: str, kind: str, *, number: int = 0, timed: bool = False) -> str:
    """Return one fault of a kind at a place that the scenario and the number decide."""
    network, random = parse_topology(base.split(maxsplit=1)[0]), Random(f"{base} {kind} {number}")
    record = KINDS[kind]
    values = "".join(f":{VALUES[name]}" for name in value_names(record) if name in VALUES)
    if issubclass(record, NodeFault):
        where = network.label(random.choice([rank for rank in network.data_ranks if rank]))
    else:
        where = _link(network, random)
    begin, unit = random.randint(1, 3), "ms" if timed else ""
    when = f"@{begin}{unit}" if "@" in record.form else ""
    ended = ENDED.get(kind)
    before = f"fault={ended}:{where}@{begin}{unit} " if ended else ""
    return f"{before}fault={kind}:{where}{values}{when if not ended else f'@{begin + 2}{unit}'}"


def _link(network: Topology, random: Random) -> str:
    one = random.randrange(network.order)
    port = random.choice(list(network.ports(one)))
    return f"{network.label(one)}{random.choice('~>')}{network.label(network.neighbour(one, port))}"


def _is_accepted(line: str) -> bool:
    try:
        _ = Case(line).plan
    except ScenarioError:
        return False
    return True


def permits_other_hashes(folder: Path) -> bool:
    """Report whether a news fragment announces that hashes of journals change."""
    return any("journal hash" in path.read_text().lower() for path in folder.glob("*.changed.md"))


def main() -> int:
    """Print every record that differs from the one before, and write the file; 1 if that would change a hash silently."""
    before = {each["scenario"]: each for each in recorded()} if FILE.exists() else {}
    lines = list(dict.fromkeys(filter(_is_accepted, scenarios())))
    records = []
    for line in lines:
        records.append(record_of(line))
        print(f"{len(records)} of {len(lines)}: {line}", file=sys.stderr)
    hashes = 0
    for record in records:
        old = before.get(record["scenario"])
        if old is not None and old != record:
            print(f"{record['scenario']}\n  was {old}\n  is  {record}")
            hashes += old["journal_hash"] != record["journal_hash"]
    if hashes and not permits_other_hashes(ROOT / "changes"):
        print(
            f"{hashes} journal hashes differ, and no fragment changes/*.changed.md says that the journal hash changes"
        )
        return 1
    FILE.write_text("".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records))
    print(f"{len(records)} scenarios in {FILE.relative_to(GOLDEN.parent.parent)}, {len(records) - len(before)} new")
    return 0


if __name__ == "__main__":
    sys.exit(main())
