"""Schedule files as scenarios: their runs are what the files say, on their links or a network, with faults or without."""

from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest

from coordinator.annexes.schedules.base import RefusedScheduleError, WrongScheduleError
from coordinator.annexes.schedules.formats.msccl import msccl_file
from coordinator.annexes.schedules.options import ScheduleOptions
from coordinator.scenario.schedule_text import with_schedule
from coordinator.theory.dependence.losses import losses
from coordinator.theory.dependence.outages import outages_of
from emunode.annexes.schedules.given_schedule import GivenHop, parse_given
from emunode.errors import ScenarioError
from emunode.model import ALL_RANKS
from tests.annexes.schedules.support import FOLDER, RIGHT, RandomMessages
from tests.helpers.scenarios import Case
from tests.helpers.support import golden_rows

STEPS = {
    row["file"]: row["steps_unlimited"] for row in golden_rows("schedules", "expected-msccl") if row["steps_unlimited"]
}


def case_of(path: Path, *faults: str, **values: object) -> Case:
    """Return the case of a schedule file."""
    return Case(with_schedule({"schedule": str(path), **values}), *faults)


def lost(hops: Iterable[GivenHop], outage: tuple[int, int], data: int) -> int:
    """Return the (rank, chunk) pairs of an allgather or broadcast that a directed link without packets costs."""
    hops = sorted(hops)
    wanted = {(rank, hop.origin, hop.segment) for hop in hops for rank in range(data) if rank != hop.origin}
    has: dict[tuple[int, int, int], int] = {}
    for step, sender, receiver, origin, _, segment in hops:
        since = 0 if sender == origin else has.get((sender, origin, segment), step)
        if since < step and (sender, receiver) != outage:
            has.setdefault((receiver, origin, segment), step)
    return len(wanted - has.keys())


@pytest.mark.parametrize("path", RIGHT, ids=lambda path: path.stem)
def test_a_run_is_what_the_file_says(path: Path) -> None:
    case = case_of(path)
    assert case.summary["verdict"] == "holds"
    assert str(case.summary["steps"]) == STEPS[path.name]
    columns = ("step", "sender", "receiver", "origin", "target", "segment")
    rows = sorted(case.journal.select(columns).iter_rows())
    # The journal holds the crossings of the executed program, which the judge of files counts.
    crossings = msccl_file(path.read_bytes()).execution(None).crossings
    crossed = sorted((each.step, each.sender, each.receiver) for each in crossings for _ in each.values)
    assert [row[:3] for row in rows] == crossed
    assert rows == [tuple(hop) for hop in parse_given(str(ScheduleOptions.of(case.scenario).schedule)).hops]


@pytest.mark.parametrize("name", ["allgather-ring-4", "allgather-ring-4-two-channels", "broadcast-binomial-8"])
def test_links_that_carry_nothing_cost_what_depends_on_them(name: str) -> None:
    case = case_of(FOLDER / f"{name}.xml")
    hops = parse_given(str(ScheduleOptions.of(case.scenario).schedule)).hops
    for sender, receiver in sorted({(hop.sender, hop.receiver) for hop in hops}):
        faulty = case.but(f"down:{sender}>{receiver}@1")
        missed = faulty.summary["expected_deliveries"] - faulty.summary["intact_deliveries"]
        assert missed == lost(hops, (sender, receiver), case.plan.topology.order)


@pytest.mark.parametrize("path", RIGHT, ids=lambda path: path.stem)
def test_losses_follow_from_the_schedule(path: Path) -> None:
    case = case_of(path)
    last = case.summary["steps"]
    for step in range(1, last + 1):
        faulty = case.but(f"crash:1@{step}")
        plan = faulty.plan
        outages = outages_of(plan.judged.timeline, plan.judged.states, plan.topology, 0)
        assert outages is not None
        found = losses(plan.algorithm, outages)
        assert found is not None
        assert found.delivered == faulty.conclusion.metrics["intact_deliveries"]
        assert faulty.summary["verdict"] == "holds"


def test_partial_sums_are_those_of_the_program() -> None:
    case = case_of(FOLDER / "allreduce-doubling-8.xml", topology="hypercube:3")
    assert case.plan.topology.name == "hypercube:3"
    assert case.plan.algorithm.segments_due(0, 5) == 3
    assert case.conclusion.metrics["miscounted_results"] == 0
    ring = case_of(FOLDER / "allreduce-ring-4.xml")
    partial = [row for row in ring.journal.iter_rows(named=True) if row["target"] != ALL_RANKS]
    assert len(partial) == 12
    assert all(row["origin"] == row["sender"] for row in partial)
    # Rank 1 folds its block with nothing but its own contribution, and passes nothing that came from 0 on.
    faulty = ring.but("down:0>1@2")
    assert faulty.conclusion.metrics["least_contributions"] == 1


def test_capacity_stretches_a_schedule() -> None:
    path = FOLDER / "allgather-ring-4-two-channels.xml"
    one = case_of(path, link_capacity=1)
    assert (case_of(path).summary["steps"], one.summary["steps"]) == (3, 6)
    assert one.summary["max_link_segments_per_step"] == 1
    # The text holds the steps, so a lower capacity needs the file.
    text = ScheduleOptions.of(case_of(path).scenario).schedule
    with pytest.raises(ScenarioError, match="read for links that carry 2 chunks in a step"):
        _ = one.but(schedule=text).plan


def test_chunks_that_come_twice_are_duplicates() -> None:
    case = case_of(FOLDER / "wrong-delivered-twice.xml")
    assert case.summary["verdict"] == "holds"
    assert case.summary["duplicates"] == 1


def test_claims_of_the_file_stand_beside_what_is_measured() -> None:
    case = case_of(FOLDER / "teccl-allgather-ring-4.json")
    stated = [claim for claim in case.summary["claims"] if "says so" in claim["source"]]
    assert [(claim["name"], claim["relation"], claim["verdict"]) for claim in stated] == [("steps", "<=", "holds")]
    assert case.summary["steps"] == 2


@pytest.mark.parametrize(("name", "steps"), [("ring-4", 2), ("ring-4-two-trees", 3), ("switch-4", 6)])
def test_trees_run_on_their_links(name: str, steps: int) -> None:
    case = case_of(FOLDER / f"forest-allgather-{name}.xml", link_capacity=1)
    assert (case.summary["verdict"], case.summary["steps"]) == ("holds", steps)


@pytest.mark.parametrize(
    ("name", "messages", "size"),
    [("goal-broadcast-4.goal", 3, 192), ("chakra/allreduce-ring-4-plain.0.et", 24, 24 * 1024)],
)
def test_files_without_contents_run_by_their_messages(name: str, messages: int, size: int) -> None:
    case = case_of(FOLDER / name)
    assert case.summary["verdict"] == "holds"
    assert case.summary["unjudged"] == "contents not judged: the file does not carry them"
    assert (case.summary["intact_deliveries"], case.summary["bytes"]) == (messages, size)
    timed = case.but(clock="timed", startup="1ms", per_byte="1us")
    assert timed.summary["journal_hash"] == case.summary["journal_hash"]


@pytest.mark.parametrize("seed", range(12))
def test_messages_that_wait_for_lost_ones_are_lost(seed: int, tmp_path: Path) -> None:
    program = RandomMessages(seed)
    (tmp_path / "random.goal").write_text(program.goal)
    case = case_of(tmp_path / "random.goal", topology=f"complete:{program.ranks}")
    assert case.summary["steps"] == max(program.arrivals().values())
    draw = Random(seed)
    for _ in range(4):
        one, other = draw.sample(range(program.ranks), 2)
        step = draw.randint(1, case.summary["steps"])
        text = draw.choice([f"crash:{one}@{step}", f"down:{one}>{other}@{step}", f"down:{one}~{other}@1-{step}"])
        faulty = case.but(text)
        rows = faulty.journal.filter(faulty.journal["outcome"] == "first")
        found = {(row["origin"], row["target"], row["segment"]): row["step"] for row in rows.iter_rows(named=True)}
        assert found == program.arrivals(text)
        # The claim on deliveries follows from the list, and not from the run.
        assert faulty.summary["verdict"] in ("holds", "undecided")
        assert all(claim["verdict"] != "violated" for claim in faulty.summary["claims"])


def test_a_root_is_named() -> None:
    data = (FOLDER / "broadcast-binomial-8.xml").read_bytes()
    assert case_of(FOLDER / "broadcast-binomial-8.xml", source="000", topology="hypercube:3").plan.spec.source == 0
    assert msccl_file(data, 1).judge().verdict == "violated"
    with pytest.raises(WrongScheduleError):
        case_of(FOLDER / "broadcast-binomial-8.xml", source="1")
    with pytest.raises(ScenarioError, match="the number of a node of the schedule is expected"):
        case_of(FOLDER / "broadcast-binomial-8.xml", source="x")


def test_wrong_and_impossible_files_are_not_run(tmp_path: Path) -> None:
    with pytest.raises(WrongScheduleError, match="4 of 16 chunks are wrong"):
        case_of(FOLDER / "wrong-missing-reduction.xml")
    with pytest.raises(RefusedScheduleError, match="gpu 1 sends to 2, and no link joins them"):
        case_of(FOLDER / "allgather-ring-4.xml", topology="hypercube:2")
    with pytest.raises(RefusedScheduleError, match="the file cannot be read: No such file"):
        case_of(tmp_path / "none.xml")
    with pytest.raises(ScenarioError, match=r"allgather-ring-4\.xml says allgather; leave it out"):
        case_of(FOLDER / "allgather-ring-4.xml", collective="broadcast")


STEP = 'srcoff="0" dstbuf="{}" dstoff="0" cnt="1" depid="-1" deps="-1"/></tb></gpu>'
CHAIN = f"""<algo name="x" nchannels="1" nchunksperloop="1" ngpus="3" coll="reduce" inplace="0">
<gpu id="0" i_chunks="1" o_chunks="1" s_chunks="0">
<tb id="0" send="-1" recv="1" chan="0"><step s="0" type="rrc" srcbuf="i" {STEP.format("o")}
<gpu id="1" i_chunks="1" o_chunks="1" s_chunks="1">
<tb id="0" send="0" recv="2" chan="0"><step s="0" type="rrs" srcbuf="i" {STEP.format("s")}
<gpu id="2" i_chunks="1" o_chunks="1" s_chunks="0">
<tb id="0" send="1" recv="-1" chan="0"><step s="0" type="s" srcbuf="i" {STEP.format("i")}
</algo>"""


def test_fused_additions_run_and_a_passed_on_part_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "chain.xml"
    path.write_text(CHAIN)
    assert case_of(path).summary["verdict"] == "holds"
    # The contribution of 1 stays behind.
    path.write_text(CHAIN.replace('"rrs"', '"rcs"'))
    with pytest.raises(WrongScheduleError, match="1 of 1 chunks are wrong"):
        case_of(path)
