"""Runs in several processes: pickles, forked children, and `coordinator.map`."""

import pickle
import signal
import sys
import textwrap
from contextlib import closing
from pathlib import Path
from typing import Any

import networkx
import polars as pl
import psutil
import pytest

import coordinator as tb
from coordinator import aio
from tests.helpers.annex_support import needs_every_annex
from tests.helpers.command_line import Ended, Running, run_process

PLUGIN = Path("docs/extend/topology.md").read_text().partition("```python")[2].partition("```")[0]
EDT: dict[str, Any] = {"topology": "star:4", "collective": "broadcast", "algorithm": "edt"}


def python(folder: Path, code: str, *arguments: str) -> Ended:
    """Execute a script in another process."""
    return run_process(folder, [sys.executable, "-c", textwrap.dedent(code), *arguments])


def copy(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


# --- pickles ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "net", [tb.network("star:4"), tb.network(networkx.petersen_graph(), name="p"), aio.network("ej:2+3")]
)
def test_a_network_comes_back_from_a_pickle(net: Any) -> None:
    back = copy(net)
    assert back == net
    assert type(back) is type(net)
    assert back.edges == net.edges


def test_a_network_brings_its_plug_in_to_another_process(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PLUGIN)
    name = next(line.split('"')[1] for line in PLUGIN.splitlines() if "example =" in line)
    (tmp_path / "net").write_bytes(pickle.dumps(tb.network(name, plugin=str(tmp_path / "mine.py"))))
    done = python(
        tmp_path,
        """
        import pickle, sys
        net = pickle.load(open(sys.argv[1], "rb"))
        print(net.broadcast("flood").verdict)
        """,
        str(tmp_path / "net"),
    )
    assert (done.out.strip(), done.err) == ("holds", "")


@pytest.mark.parametrize(
    ("net", "options"),
    [
        ("star:4", {"algorithm": "edt", "redundancy": 3, "faults": ["byzantine:2134", "crash:4231@2"]}),
        ("star:4", {"algorithm": "flood", "clock": "timed"}),
        (networkx.petersen_graph(), {"algorithm": "flood", "faults": "crash:1@1"}),
    ],
)
def test_a_run_in_memory_comes_back_whole(net: Any, options: dict[str, Any]) -> None:
    run = tb.network(net).broadcast(**options)
    back = copy(run)
    assert (repr(back), back.verdict, back.row(), back.faults, back.log) == (
        repr(run), run.verdict, run.row(), run.faults, run.log,
    )  # fmt: skip
    for table in ("journal", "nodes", "links", "steps", "claims", "elections", "timeline"):
        one, other = getattr(run, table), getattr(back, table)
        assert (one is None and other is None) or one.equals(other), table
    assert back.path is None
    assert back.panels == run.panels
    assert back.panel("details").html == run.panel("details").html
    with pytest.raises(tb.ScenarioError, match="comes from a pickle"):
        back.save("somewhere")


def test_a_stored_run_is_pickled_as_its_path(tmp_path: Path) -> None:
    run = tb.network("star:3").broadcast("flood", out=tmp_path / "run")
    back = copy(run)
    assert (back.path, back.row()) == (run.path, run.row())
    assert tb.verify(back).verified


# --- forks -----------------------------------------------------------------------------------------------------------

FORK = """
    import os, sys
    import coordinator as tb
    net = tb.network("star:3")
    if sys.argv[1] == "run":
        run = net.broadcast("flood")
    pid = os.fork()
    if pid == 0:
        try:
            print(net.broadcast("flood").verdict, flush=True)
            if sys.argv[1] == "run":
                run.journal
        except tb.RunError as error:
            print(error, flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
"""


def test_a_forked_child_is_refused_once_tables_were_computed(tmp_path: Path) -> None:
    """Without the refusal it would wait for ever."""
    done = python(tmp_path, FORK, "run")
    assert done.out.startswith("this process was forked after polars had started its threads")
    assert 'use threads, coordinator.map(..), or multiprocessing.get_context("spawn")' in done.out


def test_a_child_that_was_forked_before_can_run(tmp_path: Path) -> None:
    assert python(tmp_path, FORK, "nothing").out.strip() == "holds"


@needs_every_annex
def test_every_entry_is_refused_in_a_forked_child(tmp_path: Path) -> None:
    done = python(
        tmp_path,
        """
        import os
        import coordinator as tb
        net = tb.network("star:3")
        run = net.broadcast("flood")
        calls = [
            lambda: run.journal, lambda: run.nodes, lambda: run.claims, lambda: run.report(), lambda: tb.compare(run, run),
            lambda: tb.campaign(net, "broadcast", "flood", faults="nodes=1", trials=2), lambda: tb.algorithms(),
            lambda: tb.certify(net, "broadcast", "edt", faults="nodes<=1"), lambda: tb.sweep("star:3", "broadcast", "flood"),
            lambda: tb.map([dict(topology="star:3", collective="broadcast", algorithm="flood")]),
            lambda: tb.verify("nothing"),
        ]
        if (pid := os.fork()) == 0:
            for call in calls:
                try:
                    print("done", call())
                except tb.RunError as error:
                    print("refused" if "forked" in str(error) else error)
            os._exit(os.sys.stdout.flush() or 0)
        os.waitpid(pid, 0)
        """,
    )
    assert done.out.split() == ["refused"] * 11


def test_a_pool_that_forks_says_what_to_use_instead(tmp_path: Path) -> None:
    done = python(
        tmp_path,
        """
        import multiprocessing
        import coordinator as tb
        net = tb.network("star:3")
        def run(name):
            return net.broadcast(name).row()
        run("flood")
        with multiprocessing.get_context("fork").Pool(2) as pool:
            try:
                pool.map(run, ["flood", "bfs-tree"])
            except tb.RunError as error:
                print(error)
        """,
    )
    assert 'use threads, coordinator.map(..), or multiprocessing.get_context("spawn")' in done.out


# --- map -------------------------------------------------------------------------------------------------------------


def workers() -> list[psutil.Process]:
    children: list[psutil.Process] = psutil.Process().children()
    return children


def test_map_gives_the_rows_of_the_runs_in_their_order() -> None:
    graph = tb.network(networkx.petersen_graph(), name="petersen")
    scenarios: list[dict[str, Any]] = [{**EDT, "redundancy": x, "faults": "crash:4231@2", "seed": x} for x in (3, 1, 2)]
    scenarios.append({**EDT, "topology": graph, "algorithm": "flood", "source": 3, "fault": ["crash:4@2"]})
    seen: list[tuple[str, int, int]] = []
    table = tb.map(scenarios, workers=2, progress=lambda *shown: seen.append(shown))
    alone = []
    for each in scenarios:
        options = {name: value for name, value in each.items() if name not in ("topology", "collective", "fault")}
        net = each["topology"]
        net = tb.network(net) if isinstance(net, str) else net
        alone.append(net.broadcast(**options, **({"faults": each["fault"]} if "fault" in each else {})).row())
    assert table["journal_hash"].to_list() == [row["journal_hash"] for row in alone]
    same = ("topology", "redundancy", "seed", "steps", "segments", "delivery_ratio", "verdict", "faults", "source")
    assert table.select(same).rows() == [tuple(row[name] for name in same) for row in alone]
    assert table["error"].to_list() == [None] * 4
    assert isinstance(table, pl.DataFrame)
    assert {name for row in alone for name in row} | {"error"} == set(table.columns)
    assert seen[-1] == ("runs", 4, 4)
    assert workers() == []


def test_map_reports_what_cannot_run_and_goes_on() -> None:
    table = tb.map([{**EDT, "redundancy": 9}, EDT, {**EDT, "step_limit": 2}], workers=1)
    assert table["verdict"].to_list() == [None, "holds", "undecided"]
    assert "carries each message on 1..3 trees" in table["error"][0]
    assert table["redundancy"].to_list() == [9, 1, 1]
    assert table["undecided_because"][2].startswith("the step limit of 2")


def test_map_refuses_an_invalid_scenario_before_anything_runs() -> None:
    with pytest.raises(tb.ScenarioError, match=r"no such key; did you mean 'seed'\? \(scenario 1\)"):
        tb.map([EDT, {**EDT, "sead": 1}])
    with pytest.raises(tb.ScenarioError, match=r"topology: every scenario names its network \(scenario 0\)"):
        tb.map([{"collective": "broadcast"}])
    with pytest.raises(tb.ScenarioError, match="timeout"):
        tb.map([EDT], timeout=0)
    assert tb.map([]).is_empty()


ENDLESS = """
import os, signal, time
from emunode.algorithms.flooding import Flood
from emunode.registry import register


@register
class Odd(Flood):
    name = "odd"

    def validate(self):
        super().validate()
        if self.spec.seed == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.spec.seed == 2:
            time.sleep(1000)
        if self.spec.seed == 3:
            os.kill(os.getpid(), signal.SIGSTOP)
"""


def odd(seeds: list[int], tmp_path: Path) -> list[dict[str, Any]]:
    (tmp_path / "odd.py").write_text(ENDLESS)
    net = tb.network("star:3", plugin=str(tmp_path / "odd.py"))
    return [{"topology": net, "collective": "broadcast", "algorithm": "odd", "seed": seed} for seed in seeds]


def test_map_reports_dead_processes_and_long_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.campaigns.worker_pool.LOOK_SECONDS", 0.2)
    table = tb.map(odd([1, 3, 2, 0], tmp_path), workers=2, timeout=15)
    assert table["verdict"].to_list() == [None, None, None, "holds"]
    assert table["error"].to_list() == [
        "a worker process ended unexpectedly (was killed by signal 9)",
        "its process was stopped, and was ended",
        "it took more than 15 s, and was ended",
        None,
    ]
    assert workers() == []


def test_an_interrupted_map_leaves_no_process(tmp_path: Path) -> None:
    odd([2], tmp_path)
    script = (
        "import coordinator as tb\n"
        f"net = tb.network('star:3', plugin={str(tmp_path / 'odd.py')!r})\n"
        "each = dict(topology=net, collective='broadcast', algorithm='odd', seed=2)\n"
        "tb.map([each] * 3, workers=2)\n"
    )
    with closing(Running(tmp_path, [sys.executable, "-c", script])) as running:
        parent = psutil.Process(running.process.pid)
        running.wait_for(lambda: len(parent.children(recursive=True)) >= 2, "two processes")
        children = parent.children(recursive=True)
        assert len(children) == 2
        running.process.send_signal(signal.SIGINT)
        errors = running.end().err
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert not [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
