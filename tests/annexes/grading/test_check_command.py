"""`coordinator check`: what it prints and refuses."""

import re
from pathlib import Path

from emunode.topologies.star import StarGraph
from emunode.trees.star.edge_disjoint import EdgeDisjointTrees
from tests.annexes.grading.submissions import flood, receive
from tests.annexes.grading.tree_files import labels_of, write_csv
from tests.helpers.command_line import Call


def test_a_reason_is_printed_once(tmp_path: Path, call: Call) -> None:
    file = tmp_path / "mine.py"
    file.write_text(flood(rule=receive("time.sleep(1000)")))
    ended = call("check --topology star:3 --answer-seconds 1", file)
    assert ended.status == 1
    assert ended.out.count("no case could be run") == ended.out.count("the rest was not tried") == 1
    assert "model, delivery: star:3, all-port, 123: in step 2: it did not answer within 1 s" in ended.out
    assert "0 of 6 (0 run)" in ended.out


STAR = StarGraph(4)


def test_command(tmp_path: Path, call: Call) -> None:
    path = write_csv(tmp_path / "t.csv", STAR, labels_of(STAR, EdgeDisjointTrees(STAR)))
    ended = call(f"check {path} --topology star:4 --property arc-disjoint --json")
    assert (ended.status, ended.data["verdict"], ended.data["points"], ended.data["of"]) == (0, "pass", 30, 30)
    brief = call(f"check {path} --topology star:4 --property arc-disjoint")
    assert (brief.status, brief.out) == (0, "All checks passed: 30 of 30\n")
    verbose = call(f"check {path} --topology star:4 --property arc-disjoint --verbose")
    assert "every tree has one root, no cycle, and reaches every node" in " ".join(verbose.out.split())
    assert "pass, 30 of 30 points" in verbose.out
    ended = call(f"check {path} --topology star:4 --property edge-disjoint")
    assert ended.status == 1
    assert re.search("edge-disjoint.*: star:4: trees 0 and ", ended.out)
    for line, message in (
        (f"check {path}", "give --topology NET"),
        (f"check {tmp_path}/no.csv --topology star:4", "there is no such file"),
        (f"check {tmp_path}/no.txt", "expected an algorithm"),
        (f"check {path} --topology star:4 --property flat", "expected one of arc-disjoint"),
        (f"check {path} --topology star:4 --within 0.5", "1 or more"),
        (f"check {path} --topology star:4 --answer-seconds 0", "invalid answer_seconds"),
    ):
        ended = call(line)
        assert (ended.status, message in ended.err) == (2, True), ended.err
