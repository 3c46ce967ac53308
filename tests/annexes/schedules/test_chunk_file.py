"""The judge of chunk programs: golden verdicts, mutants against random executions, and hostile files."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.annexes.schedules.base import FileVerdict, RefusedScheduleError
from coordinator.annexes.schedules.chunk_file import ChunkFile
from coordinator.annexes.schedules.chunk_program import ChunkProgram, ProgramGpu
from coordinator.annexes.schedules.folder import judge_file
from coordinator.annexes.schedules.formats.msccl import msccl_file
from coordinator.annexes.schedules.registry import read_schedule
from emunode.topologies.registry import parse_topology
from tests.annexes.schedules.support import FOLDER, RIGHT, random_execution, refused_texts
from tests.helpers.support import golden_rows


def network(name: str, file: str) -> str:
    """Return the network of a row: 4 nodes, or 8 where the name of the file says so."""
    order = 8 if "8" in file else 4
    return f"hypercube:{order.bit_length() - 1}" if name == "hypercube" else f"{name}:{order}"


@pytest.mark.parametrize(
    "row", golden_rows("schedules", "expected-msccl"), ids=lambda row: f"{row['file']}-{row['network']}"
)
def test_golden_verdicts(row: dict[str, str]) -> None:
    topology = parse_topology(network(row["network"], row["file"]))
    if row["verdict"] == "refused":
        assert judge_file(FOLDER / row["file"], topology).judgement.reason == row["reason"]
        return
    schedule = read_schedule(FOLDER / row["file"])
    schedule.require_network(topology)
    found, one = schedule.judge(), schedule.judge(1)
    columns = ("verdict", "steps_unlimited", "steps_capacity_1", "chunk_hops", "largest_link_load")
    numbers = map(str, (found.words, found.steps, one.steps, found.chunks, found.largest_link_load))
    assert list(numbers) == [row[column] for column in columns]
    assert found.reason.startswith(row["reason"])
    if row["wrong_chunks"] not in ("", "0") and "holds nothing" not in found.reason:
        assert row["first_wrong_chunk"] in found.reason
        assert found.line is not None


def racing_gpu(number: int, step: int) -> str:
    """Return a gpu whose two thread blocks write one cell in a step, after steps that do nothing."""
    place = 'cnt="{}" depid="-1" deps="-1" hasdep="0"'
    nop = 'type="nop" srcbuf="i" srcoff="-1" dstbuf="o" dstoff="-1"'
    steps = [f'<step s="{at}" {nop} {place.format(0)}/>' for at in range(step)]
    steps.append(f'<step s="{step}" type="cpy" srcbuf="i" srcoff="0" dstbuf="o" dstoff="{number}" {place.format(1)}/>')
    blocks = [f'<tb id="{block}" send="-1" recv="-1" chan="0">{"".join(steps)}</tb>' for block in (0, 1)]
    return f'<gpu id="{number}" i_chunks="1" o_chunks="2" s_chunks="0">{"".join(blocks)}</gpu>'


def test_the_first_race_in_time_is_named() -> None:
    head = '<algo name="race" nchunksperloop="2" nchannels="1" proto="Simple" ngpus="2" coll="allgather" inplace="0">'
    for late, early in ((0, 1), (1, 0)):
        gpus = "".join(racing_gpu(gpu, 3 if gpu == late else 0) for gpu in (0, 1))
        found = msccl_file(f"{head}{gpus}</algo>".encode()).judge()
        assert found.reason == f"race on gpu {early}, o[{early}]: tb 0 step 0 and tb 1 step 0 are not ordered"


# --- mutants -----------------------------------------------------------------------------------------------------------


def mutants(text: str) -> Iterator[str]:
    """Yield the text with one change each: a dependency dropped, a type, an offset or a peer changed."""
    changes = (
        (r'depid="\d+" deps="\d+"', 'depid="-1" deps="-1"'),
        (r'type="rrc"', 'type="r"'),
        (r'type="rrcs"', 'type="rcs"'),
        (r'srcoff="0"', 'srcoff="1"'),
        (r'dstoff="1"', 'dstoff="2"'),
        (r'dstoff="2"', 'dstoff="0"'),
        (r'send="1"', 'send="2"'),
        (r'inplace="1"', 'inplace="0"'),
    )
    for pattern, new in changes:
        for found in re.finditer(pattern, text):
            yield text[: found.start()] + new + text[found.end() :]


@pytest.mark.parametrize("path", RIGHT, ids=lambda path: path.stem)
def test_mutants_that_hold_are_right_in_any_order(path: Path) -> None:
    killed = 0
    for mutant in mutants(path.read_text()):
        try:
            schedule = msccl_file(mutant.encode())
        except RefusedScheduleError:
            killed += 1
            continue
        found = schedule.judge()
        results = {random_execution(schedule.program, seed) for seed in range(6)}
        if found.verdict is FileVerdict.HOLDS:
            assert results == {True}
            continue
        killed += 1
        # A race, or a chunk that is read too early, may still end well by chance.
        if "race" not in found.reason and "holds nothing" not in found.reason:
            assert results == {False}
    assert killed


def test_race_is_found_where_one_execution_is_right() -> None:
    schedule = read_schedule(FOLDER / "wrong-missing-dependency.xml")
    assert isinstance(schedule, ChunkFile)
    assert {random_execution(schedule.program, seed) for seed in range(40)} == {True, False}


def test_deadlock_names_its_cycle() -> None:
    found = read_schedule(FOLDER / "wrong-deadlock-dependency.xml").judge()
    assert found.notes == ("cycle: gpu 0, tb 0 waits for gpu 0, tb 1 waits for gpu 0, tb 0",)


LOCAL = """<algo name="x" proto="Simple" nchannels="1" nchunksperloop="1" ngpus="2" coll="allreduce" inplace="0"
 outofplace="1" minBytes="0" maxBytes="0"><gpu id="0" i_chunks="1" o_chunks="1" s_chunks="0"><tb id="0" send="-1" recv="-1"
 chan="0"><step s="0" type="cpy" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/></tb>
</gpu><gpu id="1" i_chunks="1" o_chunks="1" s_chunks="0"></gpu></algo>"""


def test_a_file_that_sends_nothing_is_judged() -> None:
    """One local copy, and a gpu without thread blocks: the sum comes nowhere."""
    file = msccl_file(LOCAL.encode())
    assert file.judge().words == "violated"
    with pytest.raises(RefusedScheduleError, match="no gpu sends; the file is judged, and not run"):
        file.timetable()


@pytest.mark.parametrize(
    "name", ["nchunksperloop", "nchannels", "proto", "minBytes", "maxBytes", "inplace", "outofplace", "hasdep"]
)
def test_attributes_that_rccl_demands_are_named(name: str) -> None:
    """The list is that of its reader, `msccl_parser.cc`; peers, channels and cells this reader demands too."""
    assert msccl_file(LOCAL.encode()).notes == ()
    (note,) = msccl_file(re.sub(rf'{name}="\w+"', "", LOCAL).encode()).notes
    assert note.startswith(f"RCCL refuses it: no attribute '{name}'")


# --- files -------------------------------------------------------------------------------------------------------------

RING = (FOLDER / "allreduce-ring-4.xml").read_text()
REFUSED = {
    **refused_texts("msccl"),
    "type-of-document": (f'<!DOCTYPE algo [<!ENTITY a "b">]>{RING}', "document types and entities are not read"),
    "cut": (RING[: len(RING) // 2], "not XML: unclosed token, line"),
    "long": (f'<algo name="{"a" * 70000}"/>', "or one of more than 65536 characters"),
}


@pytest.mark.parametrize(("text", "reason"), REFUSED.values(), ids=REFUSED)
def test_refused_files(text: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "some.xml").write_text(text)
    with pytest.raises(RefusedScheduleError) as refused:
        read_schedule(tmp_path / "some.xml")
    assert reason in refused.value.allowed


def test_the_chunks_of_all_gpus_are_bounded() -> None:
    gpus = [ProgramGpu(number, dict.fromkeys("ios", 500_000), ()) for number in range(9)]
    with pytest.raises(RefusedScheduleError, match=r"9 gpus with 500000 chunks each are more than 4,000,000"):
        ChunkProgram("", "allreduce", False, 500_000, gpus).require_sound()
