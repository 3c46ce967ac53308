"""Files of trees in scenarios: what is refused, who may execute one, and what a stored run has of it."""

import json
import tomllib
from pathlib import Path
from typing import Final

import pytest
import tomli_w

import coordinator as tb
from coordinator.annexes.trees.scenario_values import read_trees, with_trees_file
from emunode.annexes.trees.tree_text import MOST_PARENTS, digest
from emunode.errors import ScenarioError
from emunode.topologies.meshes import Mesh
from emunode.topologies.registry import parse_topology
from emunode.topologies.star import StarGraph
from tests.annexes.trees.support import MINE
from tests.helpers.command_line import Call

STAR = StarGraph(3)
RUN = "run --topology star:3 --collective broadcast --driver memory"
GREEDY: Final[dict[str, object]] = {"123": None, "213": 0, "321": 1, "132": "312", "231": "132", "312": "213"}


def written(answers: dict[str, object], more: str = "") -> str:
    """Return a file in Python whose function has these answers for all trees."""
    return f"ANSWERS = {answers!r}\n{more}\n\ndef parent(label, tree):\n    return ANSWERS[label]\n"


@pytest.fixture
def mine(empty_folder: Path) -> Path:
    path = empty_folder / "mine.py"
    path.write_text(MINE)
    return path


# --- wrong files -----------------------------------------------------------------------------------------------------

WRONG = [
    (written({**GREEDY, "231": "321", "321": "231"}), "tree 0: 231 -> 321 -> 231 is a cycle"),
    (written({**GREEDY, "231": None}), "tree 0: one root expected, found 123, 231"),
    (written(dict.fromkeys(GREEDY, 0)), "tree 0: one root expected, found none"),
    (written({**GREEDY, "231": "123"}), "tree 0: 231 hangs under 123, but its neighbours are 321, 132"),
    (written({**GREEDY, "231": 2}), "tree 0: 231 hangs under port 2; permutation star graph S_3 has ports 0..1"),
    (
        written({**GREEDY, "231": 1.5}),
        "231: TypeError: tree 0: expected a label, a port, or None for the root, found 1.5",
    ),
    (
        written({**GREEDY, "231": True}),
        "231: TypeError: tree 0: expected a label, a port, or None for the root, found True",
    ),
    (written({**GREEDY, "231": "x"}), "tree 0: 231 hangs under 'x', which is not a node of permutation star graph S_3"),
    (written({"123": None}), "213: line 5: KeyError: '213'"),
    (written(GREEDY, "TREES = 0"), "it has no trees; TREES is their number"),
    (written(GREEDY, "TREES = 'two'"), "TypeError: 'str' object cannot be interpreted as an integer"),
    (
        "def parent(label, tree):\n    return None if label == ('123', '213')[tree] else 1 - tree\n\nTREES = 2\n",
        "tree 0: 213 -> 312 -> 213 is a cycle",
    ),
    ("def parent(label, tree)\n", "line 1: SyntaxError: expected ':'"),
    ("x = 1\n", "expected one parent(label, tree), found none"),
    (
        MINE + "\nfrom emunode.trees.star.greedy import GreedyTree\n\nclass Other(GreedyTree):\n    pass\n",
        "expected one parent(label, tree), found Other, parent",
    ),
    (MINE + "\nopen('/tmp/x', 'w')\n", "PermissionError"),
    ("import os\n\nos._exit(3)\n", "it ended its process with exit status 3"),
    ("\udcff", "it is not UTF-8"),
]


@pytest.mark.parametrize(("text", "reason"), WRONG)
def test_wrong_trees_are_named(text: str, reason: str, mine: Path, call: Call) -> None:
    mine.write_text(text, errors="surrogateescape")
    ended = call(RUN, "--trees", mine)
    assert (ended.status, ended.out) == (2, "")
    assert reason in " ".join(ended.err.split())
    assert "invalid trees" in ended.err


def test_trees_of_two_roots_are_refused(mine: Path, call: Call) -> None:
    mine.write_text(
        "RING = ['123', '213', '312', '132', '231', '321']\nTREES = 2\n\ndef parent(label, tree):\n"
        "    here = RING.index(label)\n    return RING[here - 1] if here != tree else None\n"
    )
    ended = call(RUN, "--trees", mine)
    assert ended.status == 2
    assert "tree 0 has root 123, tree 1 has root 213; one root is expected" in ended.err


def test_a_file_that_does_not_end_is_stopped(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.annexes.trees.scenario_values.SECONDS", 0.3)
    mine.write_text("def parent(label, tree):\n    while True:\n        pass\n")
    with pytest.raises(ScenarioError, match=r"it did not answer within 0\.3 s"):
        read_trees(mine, STAR)


def test_large_trees_are_refused(mine: Path, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=f"has {MOST_PARENTS + 1:,} nodes; at most {MOST_PARENTS:,} are run"):
        read_trees(mine, parse_topology(f"ring:{MOST_PARENTS + 1}"))
    path = Mesh((6000,))
    lines = ["tree,label,parent", "0,0,", *(f"0,{node},{node - 1}" for node in range(1, path.order))]
    (tmp_path / "path.csv").write_text("\n".join(lines))
    with pytest.raises(
        ScenarioError, match="the paths from the root have 17,997,000 links; at most 10,000,000 are run"
    ):
        with_trees_file({"topology": path.name, "collective": "broadcast"}, str(tmp_path / "path.csv"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("tree,label\n", "line 1': expected the columns tree, label, parent, found tree, label"),
        ("tree,label,parent\n0,123,\n", "tree 0: 213 is missing"),
        ("tree,label,port\n0,123,\n0,213,0\n0,213,0\n", "line 4': tree 0 mentions 213 a second time"),
    ],
)
def test_wrong_csv_is_named(text: str, reason: str, empty_folder: Path, call: Call) -> None:
    (empty_folder / "t.csv").write_text(text)
    ended = call(f"{RUN} --trees t.csv")
    assert ended.status == 2
    assert reason in " ".join(ended.err.split())


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (
            "--topology star:3 --trees mine.py --algorithm edt",
            "invalid algorithm 'edt': mine.py takes its place; leave it out",
        ),
        (
            "--trees mine.py",
            "topology: --trees has the trees of one network: name it, as in run star:4 broadcast --trees FILE",
        ),
        ("--topology star:3 --trees none.py", "it cannot be read: No such file"),
        ("--topology star:3 --trees .", "it cannot be read"),
    ],
)
@pytest.mark.usefixtures("mine")
def test_flags_that_contradict_are_refused(flags: str, reason: str, call: Call) -> None:
    ended = call(f"run --collective broadcast {flags}")
    assert ended.status == 2
    assert reason in " ".join(ended.err.split())


def test_an_algorithm_of_trees_needs_a_file(call: Call) -> None:
    ended = call(f"{RUN} --algorithm trees")
    assert (ended.status, ended.err) == (2, "coordinator: trees: algorithm 'trees' needs a file: --trees FILE\n")


# --- whose files are executed ----------------------------------------------------------------------------------------


def test_a_scenario_alone_executes_no_trees(mine: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("it was executed")

    Path("s.toml").write_text(
        tomli_w.dumps({"topology": "star:3", "collective": "broadcast", "trees": "mine.py", "driver": "memory"})
    )
    with monkeypatch.context() as patch:
        patch.setattr("coordinator.annexes.trees.scenario_values.SubmissionServer", refuse)
        for command in ("run s.toml", "plan s.toml", "campaign s.toml --faults nodes=1 --trials 2", "certify s.toml"):
            ended = call(command)
            assert ended.status == 2
            assert f"it counts only if you name it too: add --trees {mine}" in " ".join(ended.err.split())
    assert call("run s.toml --trees mine.py --json").data["algorithm"] == "trees"


def test_trees_in_csv_execute_nothing(empty_folder: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.annexes.trees.scenario_values.SubmissionServer", None)
    rows = [f"0,{label},{'' if to is None else to}" for label, to in GREEDY.items() if not isinstance(to, int)]
    (empty_folder / "t.csv").write_text("\n".join(["tree,label,parent", "0,213,123", "0,321,123", *rows]))
    Path("s.toml").write_text(tomli_w.dumps({"topology": "star:3", "collective": "broadcast", "trees": "t.csv"}))
    assert call("run s.toml --driver memory --json").data["verdict"] == "holds"


# --- what a run has of it --------------------------------------------------------------------------------------------


def test_a_stored_run_has_the_file_and_repeats_it(mine: Path, call: Call) -> None:
    first = call("run --topology star:4 --collective reduce --trees mine.py --driver memory --out one --json").data
    mine.unlink()
    kept = json.loads(tomllib.loads(Path("one/scenario.toml").read_text())["trees"])
    assert (kept["file"], kept["text"], kept["sha256"]) == ("mine.py", MINE, digest(MINE))
    assert Path("one/trees.py").read_text() == MINE
    for command in ("verify one", "report one", "compare one one"):
        assert call(command).status == 0, command
    again = call("run one/scenario.toml --json --out two").data
    Path("two/trees.py").write_text("other")
    assert "trees.py: differs from the scenario" in call("verify two").out
    assert again["journal_hash"] == first["journal_hash"]
    assert call("run --from one@1 --json --out three").data["verdict"] == "holds"
    Path("one/scenario.toml").write_text(
        Path("one/scenario.toml").read_text().replace("# ", "").replace("home", "house")
    )
    ended = call("verify one")
    assert ended.status != 0
    assert "digest mismatch" in ended.out + ended.err


@pytest.mark.usefixtures("mine")
def test_the_source_is_the_root_unless_it_is_given() -> None:
    Path("mine.py").write_text(MINE.replace('"".join(sorted(label))', '"4321"'))
    net = tb.network("star:4")
    root = net.broadcast(trees="mine.py")
    assert root.summary["source"] == "4321"
    moved = net.broadcast(trees="mine.py", source="2143")
    assert moved.summary["source"] == "2143"
    assert moved.verdict is root.verdict is tb.Verdict.HOLDS
    assert moved.summary["steps"] == root.summary["steps"]
    assert net.allgather(trees="mine.py").verdict is tb.Verdict.HOLDS


@pytest.mark.usefixtures("mine")
def test_trees_run_on_a_network_from_a_file() -> None:
    Path("net.edges").write_text("a b\nb c\nc d\nd a\n")
    Path("mine.py").write_text(
        "def parent(label, tree):\n    return {'a': None, 'b': 'a', 'c': 'b', 'd': 'a'}[label]\n"
    )
    run = tb.network("net.edges").gather(trees="mine.py")
    assert (run.verdict, run.summary["source"]) == (tb.Verdict.HOLDS, "a")
