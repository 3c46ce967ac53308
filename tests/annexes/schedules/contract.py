"""Every algorithm as a schedule file: read again, the file has the same pairs, bytes and order as a run, or is refused."""

from collections import Counter
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from coordinator.annexes.schedules import writing as schedule_export
from coordinator.annexes.schedules.base import FileVerdict, RefusedScheduleError, ScheduleFile
from coordinator.annexes.schedules.registry import read_schedule
from emunode.algorithms.base import Dependence
from emunode.errors import ScenarioError
from emunode.model import Collective
from tests.contract.cases import ONCE, AlgorithmCase
from tests.contract.walk import check

CHUNKS = ("sender", "receiver", "origin", "target", "segment")
REASONS = (
    "ForestColl has trees of an allgather", "MSCCL has no collective unicast", "which is no tree",
    "receives chunk", "its schedule cannot be written",
)  # fmt: skip
"""Parts of the reasons why a schedule in fixed steps has no file of a format."""


SMALLER = [case._replace(network="star:3") if case.network == "star:4" else case for case in ONCE]
"""The cases on S_3 in place of S_4: writing and reading files of 24 nodes would take most of the time of these tests."""


@check(6, SMALLER)
def a_schedule_comes_back_from_its_files(case: AlgorithmCase) -> None:
    plan = case.plan
    written = set()
    read = cache(read_schedule)
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        # Writers read their files too: once is enough.
        patch.setattr(schedule_export, "read_schedule", read)
        for kind, write in schedule_export.WRITERS.items():
            path = Path(folder) / f"one.{kind}"
            try:
                file = read(write(plan, path).path, root=plan.spec.source)
            except ScenarioError as error:
                _is_known(case, kind, error)
                continue
            written.add(kind)
            assert file.judge().verdict is FileVerdict.HOLDS, kind
            if kind == "goal":
                _same_messages(case, file)
            else:
                _same_chunks(case, file)
    if plan.algorithm.dependence is Dependence.FIXED:
        assert "goal" in written
    else:
        assert not written


def _is_known(case: AlgorithmCase, kind: str, error: ScenarioError) -> None:
    """Hold the reason of a refusal against the algorithm."""
    algorithm = case.plan.algorithm
    if kind != "goal" and len(algorithm.topology.data_ranks) < algorithm.topology.order:
        assert error.field == "topology"
    elif algorithm.dependence is not Dependence.FIXED:
        assert error.field == "algorithm"
        assert "coordinator export goal RUN FILE" in error.allowed
    else:
        assert any(reason in error.allowed for reason in REASONS), (kind, error)
        assert kind != "goal"
        assert (
            kind == "forestcoll" or case.plan.spec.collective is Collective.UNICAST or "receives chunk" in error.allowed
        )


def _same_messages(case: AlgorithmCase, file: ScheduleFile) -> None:
    """Compare the messages of a file without contents with the packets of a run."""
    packets: dict[tuple[int, int, int], int] = {}
    for row in case.history:
        key = int(row["step"]), int(row["sender"]), int(row["receiver"])
        packets[key] = packets.get(key, 0) + int(row["bytes"])
    expected: dict[tuple[int, int], list[int]] = {}
    for (_, sender, receiver), size in sorted(packets.items()):
        expected.setdefault((sender, receiver), []).append(size)
    operations = file.operations_in_steps()
    assert operations is not None
    sends = [each for each in operations if each.way == "send"]
    found: dict[tuple[int, int], list[int]] = {}
    for each in sorted(sends, key=lambda each: each.segment):
        found.setdefault((each.rank, each.peer), []).append(each.size)
    assert found == expected
    # A packet leaves after all that its sender has received before, also where idle steps are left out.
    steps = {(each.rank, each.peer, each.segment): each.step for each in sends}
    counts: Counter[tuple[int, int]] = Counter()
    latest: dict[int, tuple[int, int]] = {}
    for step in sorted({key[0] for key in packets}):
        arrivals = []
        for _, sender, receiver in sorted(key for key in packets if key[0] == step):
            now = steps[sender, receiver, counts[sender, receiver]]
            counts[sender, receiver] += 1
            assert latest.get(sender, (0, 0))[1] < now <= step
            arrivals.append((receiver, now))
        for receiver, now in arrivals:
            latest[receiver] = step, max(now, latest.get(receiver, (0, 0))[1])


def _same_chunks(case: AlgorithmCase, file: ScheduleFile) -> None:
    """Compare the chunks of a file with the segments of a run, which the file has under other numbers of trees."""
    rows = Counter(tuple(int(row[name]) for name in CHUNKS) for row in case.history)
    try:
        hops = file.timetable().hops
    except RefusedScheduleError:
        pairs = Counter((int(sender), int(receiver)) for sender, receiver in file.sends())
        assert pairs == Counter({pair: count for pair, count in _pairs(rows).items() if count})
        return
    assert Counter(tuple(hop[1:]) for hop in hops) == rows


def _pairs(rows: Counter[tuple[int, ...]]) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    for (sender, receiver, *_), count in rows.items():
        found[sender, receiver] += count
    return found
