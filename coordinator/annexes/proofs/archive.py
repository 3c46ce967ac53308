"""Archives of runs: one file with everything that somebody else needs to judge a run, as text.

The format is described in docs/extend/checker.md, and read by `checkers/check_run.py`, a program that shares no code
with this package. An archive states what a checker cannot know without the algorithm: predictions, the shape of the
messages of the collective, and the effects of faults on single packets as far as they were drawn at random.
"""

import json
import zipfile
from collections.abc import Mapping, Sequence
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any, Final, NamedTuple

import polars as pl

from coordinator.execution.sinks import MemoryRun
from coordinator.execution.verification import UnreadableError, Verification
from coordinator.execution.verify import recompute
from coordinator.history.journal import COLUMNS, table
from coordinator.history.stored.reading import read_bytes
from coordinator.history.stored.writing import replacing
from coordinator.planning.plan import Plan
from coordinator.results.causality import drawn_effects
from coordinator.results.claims import roots_of
from coordinator.results.conclude import Conclusion, judge_run
from coordinator.results.deliveries import silent_sources
from coordinator.results.structure import claimed_structure
from coordinator.results.voting import COPY as ALTERED
from coordinator.scenario.model import dump_scenario
from emunode import __version__
from emunode.algorithms.traits import listed_messages
from emunode.engine.rank_set import AlteredCopy
from emunode.errors import ScenarioError
from emunode.faults.effects import Effect, Stops
from emunode.model import FOLDING, ROOTLESS, Collective

FORMAT: Final = 1
MOST_ROWS: Final = 2_000_000
"""Most rows of a table in an archive, as many as the checker reads."""
EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The time of every file in an archive, so that equal runs give equal archives."""


class Packed(NamedTuple):
    """The parts of a judged run that an archive is made of."""

    plan: Plan
    conclusion: Conclusion
    journal: pl.DataFrame
    summary: Mapping[str, Any]
    altered: Sequence[AlteredCopy]
    """Altered copies that arrived."""
    scenario: bytes
    """The text of scenario.toml."""
    ended: str | None = None
    """Why the run ended early, for a reason that does not follow from the journal; or None."""


def pack_run(run: MemoryRun | Path, file: Path) -> None:
    """Write the archive of a run that is in memory, or stored; ScenarioError as of both."""
    if isinstance(run, Path):
        pack(run, file)
    else:
        write_archive(archive_of(run), file)


def pack(run: Path, file: Path) -> None:
    """Write the archive of a stored run, whatever `coordinator verify` finds wrong with it.

    ScenarioError (field `run`) if the run cannot be read or is too long, and (field `file`) if the file cannot be written.
    """
    try:
        again = recompute(run, Verification(run))
        scenario = read_bytes(run / "scenario.toml", follow=False)
    except (UnreadableError, OSError, ValueError) as error:
        raise ScenarioError("run", str(run), f"it cannot be packed: {error}") from None
    history = again.history
    packed = Packed(
        again.plan, again.conclusion, table(again.records), again.summary, history.altered, scenario, history.ended
    )
    write_archive(packed, file)


def archive_of(run: MemoryRun) -> Packed:
    """Return the parts of a run in memory."""
    scenario = dump_scenario(run.plan.scenario).encode()
    execution = run.execution
    ruling, metrics = run.conclusion.ruling, run.conclusion.metrics
    # As `verify`: the reason of an early end does not follow from claims and metrics.
    natural = judge_run(run.plan, [each.claim for each in ruling.judgements], metrics, None)
    ended = ruling.undecided if ruling.undecided != natural.undecided else None
    summary = json.loads(json.dumps(run.summary))
    return Packed(run.plan, run.conclusion, run.journal.collect(), summary, execution.altered_copies, scenario, ended)


def write_archive(packed: Packed, file: Path) -> None:
    """Write an archive; ScenarioError as `pack`."""
    write_files(files_of(packed), file)


def write_files(files: Mapping[str, bytes], file: Path) -> None:
    """Write an archive of these files; ScenarioError (field `file`) if it cannot be written."""
    data = zipped(files)
    try:
        with replacing(file, named=True) as target:
            target.write(data)
    except OSError as error:
        raise ScenarioError("file", str(file), f"it cannot be written: {error.strerror}") from None


def files_of(packed: Packed) -> dict[str, bytes]:
    """Return the files of an archive by their names; ScenarioError (field `run`) for tables of more than MOST_ROWS rows."""
    plan, journal = packed.plan, packed.journal
    require_rows(plan, len(journal))
    draws, withheld = drawn_effects(plan, journal.lazy())
    altered = pl.DataFrame(list(packed.altered), schema={**ALTERED, "value": pl.Int64}, orient="row")
    files = {
        "run.json": json_of(_run_record(packed)),
        "summary.json": json_of(packed.summary),
        "scenario.toml": packed.scenario,
        "nodes.csv": csv_of(node_rows(plan)),
        "network.csv": csv_of(link_rows(plan)),
        "journal.csv": csv_of(journal.select(COLUMNS)),
        "faults.csv": csv_of(fault_rows(plan)),
        "draws.csv": csv_of(draws.with_columns(pl.col(pl.Boolean).cast(pl.Int8))),
        "withheld.csv": csv_of(withheld),
        "altered.csv": csv_of(altered.unique().sort(pl.all())),
    }
    return with_manifest(files)


def require_rows(plan: Plan, rows: int) -> None:
    """Refuse a journal or a network that is too large for the tables of an archive: ScenarioError."""
    if max(rows, plan.topology.order, 2 * plan.topology.link_count) > MOST_ROWS:
        raise ScenarioError("run", plan.name, f"the tables of an archive have at most {MOST_ROWS} rows")


def with_manifest(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files of an archive with the manifest that has the digest of each."""
    digests = {name: sha256(data).hexdigest() for name, data in files.items()}
    return {"manifest.json": json_of({"format": FORMAT, "version": __version__, "sha256": digests}), **files}


def zipped(files: Mapping[str, bytes]) -> bytes:
    """Return a ZIP archive of these files; equal files give an equal archive."""
    target = BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return target.getvalue()


def json_of(value: object) -> bytes:
    """Return a value as an indented JSON document."""
    return json.dumps(value, indent=1).encode() + b"\n"


def csv_of(frame: pl.DataFrame) -> bytes:
    """Return a table as CSV with a heading."""
    return frame.write_csv().encode()


def _run_record(packed: Packed) -> dict[str, object]:
    """Return what judges have to know of the scenario, besides network, journal and faults."""
    plan, spec = packed.plan, packed.plan.spec
    return {
        "clock": plan.scenario.clock,
        "collective": str(spec.collective),
        "port_model": str(spec.port_model),
        "duplex": str(spec.duplex),
        "source": spec.source,
        "messages": spec.messages,
        "message_bytes": spec.message_bytes,
        "short_blocks": spec.short_blocks,
        "redundancy": spec.redundancy,
        "packet_limit": plan.scenario.packet_limit or 0,
        "startup": plan.scenario.startup,
        "per_byte": plan.scenario.per_byte,
        "roots": [rank for rank, _ in roots_of(plan)],
        "many_roots": spec.collective in ROOTLESS or bool(spec.permutation),
        "ended": packed.ended,
        **_algorithm_record(plan),
        **_fault_record(plan),
        **_feature_record(packed),
    }


def _algorithm_record(plan: Plan) -> dict[str, object]:
    """Return the shape of the messages, and the model of the algorithm."""
    spec, algorithm, ranks = plan.spec, plan.algorithm, plan.topology.data_ranks
    folds, messages = spec.collective in FOLDING, range(spec.messages)
    unicast = spec.collective is Collective.UNICAST
    # A result in one segment may be folded at several ranks.
    whole = spec.collective is Collective.ALLREDUCE and len(algorithm.block_owners) == 1
    own = {str(rank): [algorithm.segments_due(number, rank) for number in messages] for rank in ranks} if folds else {}
    return {
        "target": spec.common_target,
        **({"listed": [list(each) for each in listed_messages(algorithm)]} if listed_messages(algorithm) else {}),
        "destinations": {str(rank): spec.destination(rank) for rank in algorithm.sources} if unicast else {},
        "segments_per_message": algorithm.segments_per_message,
        "pieces": [] if folds else [algorithm.segments_due(number) for number in messages],
        "own_pieces": own,
        "block_owners": list(algorithm.block_owners) if folds else [],
        "folders": list(algorithm.result_folders) if folds else [],
        "finishers": list(algorithm.finishers) if folds else [],
        "holders": [rank for rank in ranks if algorithm.segments_due(0, rank)] if whole else [],
        "link_capacity": algorithm.link_capacity,
        "copies_keep_trees": algorithm.traits.copies_keep_trees,
        "ack_bytes": algorithm.traits.ack_bytes,
        **({} if algorithm.traits.states_order else {"adds_by_itself": True}),
        "structure": claimed_structure(plan),
    }


def _fault_record(plan: Plan) -> dict[str, object]:
    """Return how faults bear on the judgement."""
    timing = [fault.step for fault in plan.faults if fault.affects_timing and fault.breaks]
    # Control segments may meet other packets in any step; so may faults whose times do not coincide with steps.
    any_step = plan.spec.has_control or (timing and not plan.exact_steps)
    return {
        "faults": bool(plan.faults),
        "harmful": bool(plan.judged.harmful_faults),
        "faulty_owners_are_silent": bool(silent_sources(plan)),
        "knows_neighbours": plan.spec.knows_neighbours,
        "receipts_before": 0 if any_step else min(timing, default=None),
    }


def _feature_record(packed: Packed) -> dict[str, object]:
    """Return the protocols of the nodes, and what they change in the judgement."""
    plan, spec = packed.plan, packed.plan.spec
    claims = [judgement.claim for judgement in packed.conclusion.ruling.judgements]
    reasons = (feature.unproven(claims, packed.conclusion.metrics, spec) for feature in plan.features)
    return {
        "features": [feature.name for feature in plan.features],
        "has_control": spec.has_control,
        "news_trees": sorted(plan.news_trees),
        "judged_anyway": sorted({name for feature in plan.features for name in feature.judged_anyway}),
        "unproven": next(filter(None, reasons), None),
    }


def node_rows(plan: Plan) -> pl.DataFrame:
    """Return rank, label, whether it is a switch, and state of every node."""
    topology = plan.topology
    rows = [
        (rank, topology.label(rank), int(topology.is_switch(rank)), plan.judged.states.get(rank, ""))
        for rank in topology.ranks()
    ]
    return pl.DataFrame(rows, schema=["rank", "label", "switch", "state"], orient="row")


def link_rows(plan: Plan) -> pl.DataFrame:
    """Return every link from both ends."""
    topology = plan.topology
    rows = [(rank, port, other, its_port) for rank in topology.ranks() for port, other, its_port in topology.ends(rank)]
    return pl.DataFrame(rows, schema=["rank", "port", "neighbour", "its_port"], orient="row")


def fault_rows(plan: Plan) -> pl.DataFrame:
    """Return place, first step, first step after it, and effect of every fault; a kind may have an unknown effect."""
    timeline = plan.judged.timeline
    rows = [(_place(place), *interval, _word(effect)) for place, interval, effect in timeline]
    rows += [(_place(place), 1, 2**62, "unknown") for place in sorted(timeline.opaque_places, key=_place)]
    return pl.DataFrame(
        rows, schema={"place": pl.String, "start": pl.Int64, "end": pl.Int64, "effect": pl.String}, orient="row"
    )


def _place(place: int | tuple[int, int]) -> str:
    return str(place) if isinstance(place, int) else "{}/{}".format(*place)


def _word(effect: Effect) -> str:
    name = type(effect).__name__.lower()
    return f"{name} and forgets" if isinstance(effect, Stops) and effect.forgets else name
