"""Marks of links and nodes against the journal, counted here row by row, for many kinds of runs."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest

from coordinator.execution.run import run as carry_out
from coordinator.execution.sinks import DirectorySink
from coordinator.live.frames import Frames
from coordinator.networks.base import StepResult, UnreadArrivals
from coordinator.planning.plan import Plan
from coordinator.reports.data import read_run
from coordinator.reports.maps.marks import STATE_COLOURS, VOTE_COLOURS
from coordinator.reports.panels.base import Report
from coordinator.reports.run_report import write_report
from coordinator.reports.scene.scene import Scene
from coordinator.reports.scene.votes import State
from emunode.engine.rank_set import AlteredCopy
from emunode.model import Step
from emunode.topologies.base import Topology
from tests.helpers.browser import Browser
from tests.helpers.command_line import fields
from tests.helpers.scenarios import Case
from tests.helpers.support import golden_rows
from tests.helpers.watch_support import Script

AGAIN = 2**14
"""The first tree number of packets that repeat a collective; those of control packets are higher still."""
CONTROL = 2**15 - 256
SHOWN = [row["scenario"] for row in golden_rows("", "shown_runs", scene="yes")]
VOTED = [row["scenario"] for row in golden_rows("", "shown_runs", scene="yes", votes="yes")]


class Recorded:
    """The rows of a run: those with data, and those of packets that were sent at all."""

    def __init__(self, path: Path, scenario: str, topology: Topology) -> None:
        self.scenario = fields(scenario)
        journal = pl.read_parquet(path / "journal.parquet").with_columns(pl.col("outcome").cast(pl.String))
        self.rows: list[dict[str, Any]] = journal.to_dicts()
        for row in self.rows:
            row["back"] = topology.end(row["sender"], row["port"])[1] if row["sender"] != row["receiver"] else -1
        self.sent = [row for row in self.rows if row["outcome"] not in ("withheld", "report")]
        self.data = [row for row in self.sent if row["tree"] < CONTROL]
        self.last = max(row["step"] for row in self.data)
        self.giving = self.scenario["collective"] in ("gather", "reduce")
        nodes = pl.read_parquet(path / "nodes.parquet")
        self.faulty = set(nodes.filter(pl.col("state") != "alive")["rank"].to_list())
        self.silent = self.faulty if self.scenario["collective"] in ("allgather", "alltoall") else set()

    def links(self, step: int) -> dict[tuple[int, int], tuple[int, int, int]]:
        """By sender and port: segments, those lost and those altered."""
        rows = [row for row in self.data if row["step"] == step]
        of = defaultdict(list)
        for row in rows:
            of[row["sender"], row["port"]].append(row["outcome"])
        return {link: (len(found), found.count("lost"), found.count("corrupt")) for link, found in of.items()}

    def busy(self, step: int) -> set[tuple[int, int]]:
        """Return the sender and port of every packet of any kind."""
        return {(row["sender"], row["port"]) for row in self.sent if row["step"] == step}

    def withheld(self, step: int) -> set[tuple[int, int]]:
        """Return the sender and port of every packet that was withheld."""
        return {
            (row["sender"], row["port"]) for row in self.rows if (row["step"], row["outcome"]) == (step, "withheld")
        }

    def have(self, step: int, *, again: bool = True) -> dict[int, int]:
        """By rank, the segments sent without loss, or first received, up to `step`; `again`: also in a repetition."""
        rows = [row for row in self.data if row["step"] <= step and (again or row["tree"] < AGAIN)]
        if self.giving:
            return dict(Counter(row["sender"] for row in rows if row["outcome"] != "lost"))
        firsts = [row for row in rows if row["outcome"] == "first" and row["origin"] not in self.silent]
        return dict(Counter(row["receiver"] for row in firsts))

    def votes(
        self, step: int, altered: list[AlteredCopy], *, over: bool
    ) -> tuple[dict[int, int], dict[tuple[int, int], int]]:
        """By rank, segments with a copy up to `step`; by rank and state, those with a settled vote, all if it is `over`."""
        values = {copy[:6]: copy[6] for copy in altered}
        copies = int(str(self.scenario.get("redundancy", 1)))
        ballots: defaultdict[tuple[int, ...], dict[int, tuple[int, int | None]]] = defaultdict(dict)
        for row in sorted(self.data, key=lambda row: (row["step"], row["back"])):
            meant = row["target"] in (-1, row["receiver"]) and row["outcome"] in ("first", "duplicate", "corrupt")
            if not meant or row["receiver"] in self.faulty or row["origin"] in (*self.silent, row["receiver"]):
                continue
            copy = (row["step"], row["receiver"], row["back"], row["origin"], row["tree"], row["segment"])
            who = row["origin"] if self.scenario["collective"] == "gather" else row["receiver"]
            value = values.get(copy, -1) if row["outcome"] == "corrupt" else None
            piece = (who, row["receiver"], row["origin"], row["segment"])
            ballots[piece].setdefault(row["tree"], (row["step"], value))
        heard: Counter[int] = Counter()
        settled: Counter[tuple[int, int]] = Counter()
        for (rank, *_), by_tree in ballots.items():
            cast = [value for _, value in by_tree.values()]
            so_far = [value for at, value in by_tree.values() if at <= step]
            heard[rank] += bool(so_far)
            if so_far and (2 * so_far.count(None) > copies or len(so_far) >= copies or over):
                winner = [value for value in set(cast) if 2 * cast.count(value) > len(cast)]
                settled[rank, State.SPLIT if not winner else State.RIGHT if winner[0] is None else State.WRONG] += 1
        return dict(+heard), dict(settled)


DRAWN = """((at) => {
  const slider = document.getElementById("slider");
  slider.value = at + 1;
  slider.dispatchEvent(new Event("input", { bubbles: true }));
  const circles = [...document.getElementById("nodes").children];
  const centres = circles.map((node) => ["cx", "cy"].map((name) => +node.getAttribute(name)));
  const nearest = (x, y) => {
    const away = centres.map(([cx, cy]) => Math.hypot(cx - x, cy - y));
    return away.indexOf(Math.min(...away));
  };
  const texts = (name) => document.getElementById(name)?.getAttribute("d") ?? "";
  const lines = (...names) => names.flatMap((name) => texts(name).split("\\n").filter(Boolean));
  const ends = (...names) => lines(...names).map((d) => {
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("d", d);
    const length = path.getTotalLength();
    return [0, length].map((share) => path.getPointAtLength(share)).map(({ x, y }) => nearest(x, y));
  });
  return {
    busy: ends("flow0", "flow1", "flow2"), lost: ends("lost"), altered: ends("forged"),
    heads: lines("heads").length, forgedHeads: lines("forged-heads").length, withheld: lines("withheld").length,
    fills: circles.map((node) => node.getAttribute("fill")),
  };
})(%d)"""
"""What the map shows at one position of the slider: the nodes where lines begin and end, and the colours of nodes."""


class Run(NamedTuple):
    """A run with its scene, and if it can be watched, its frames."""

    scenario: str
    recorded: Recorded
    scene: Scene
    watched: "Watched | None"
    path: Path


class Watched(Script):
    """Steers a run without requests, and keeps the frames that its page would get."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan, lambda _: [])
        self.frames = Frames(plan)
        self.altered: list[AlteredCopy] = []
        self.last = 0

    def after_step(self, step: Step, result: StepResult, arrivals: UnreadArrivals) -> bool:
        over = super().after_step(step, result, arrivals)
        self.frames.add(step, result.rows, arrivals, result.altered_copies, after=over)
        self.altered += result.altered_copies
        self.last = step
        if step % 3:  # steps are counted one by one, and two at once
            self.frames.since(0, 1)
        return over

    def end(self) -> None:
        super().end()
        self.frames.finish(self.last)


@pytest.fixture(scope="module", params=SHOWN)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    scenario = request.param
    plan = Case(scenario).plan
    watched = Watched(plan) if "timed" not in scenario else None
    sink = DirectorySink(tmp_path_factory.mktemp("runs") / "run", draw=False)
    path = carry_out(plan, sink, steering=watched).path
    scene = Report(read_run(path)).scene
    assert scene is not None
    return Run(scenario, Recorded(path, scenario, scene.topology), scene, watched, path)


@pytest.mark.exhaustive(one_in=5)
def test_a_scene_shows_what_the_journal_says(run: Run) -> None:
    recorded, scene = run.recorded, run.scene
    assert (scene.votes is not None) == (run.scenario in VOTED)
    assert scene.positions.width == 1
    assert scene.positions.count == recorded.last
    altered = run.watched.altered if run.watched else []
    for at, step in enumerate(scene.positions.last):
        links = scene.marks.links.filter(frame=at).select("sender", "port", "segments", "lost", "altered")
        assert {(sender, port): tuple(counts) for sender, port, *counts in links.iter_rows()} == recorded.links(step)
        assert set(scene.marks.withheld.filter(frame=at).select("sender", "port").iter_rows()) == recorded.withheld(
            step
        )
        held = scene.held(at)
        assert numbered(held.have.tolist()) == recorded.have(step)
        if scene.votes is not None:
            heard, settled = recorded.votes(step, altered, over=step == recorded.last)
            assert numbered(held.heard.tolist()) == heard
            assert states(held.settled.tolist()) == settled


@pytest.mark.browser
@pytest.mark.exhaustive(one_in=10)
def test_the_picture_shows_what_the_journal_says(run: Run, page: Browser) -> None:
    """The drawn lines, by the nodes at their ends, and in runs with votes the colours of nodes."""
    write_report(run.path)
    page.open(run.path / "report.html")
    recorded, topology = run.recorded, run.scene.topology
    altered = run.watched.altered if run.watched else None
    for at, step in enumerate(run.scene.positions.last):
        drawn = page.evaluate(DRAWN % at)
        links = recorded.links(step)

        def ends(wanted: Iterable[tuple[int, int]]) -> list[list[int]]:
            return sorted([sender, topology.end(sender, port)[0]] for sender, port in wanted)

        assert sorted(drawn["busy"]) == ends(links)
        assert sorted(drawn["lost"]) == ends(link for link, (_, lost, _) in links.items() if lost)
        assert sorted(drawn["altered"]) == ends(link for link, (_, _, forged) in links.items() if forged)
        assert (drawn["heads"], drawn["forgedHeads"]) == (len(links), len(drawn["altered"]))
        assert drawn["withheld"] == len(recorded.withheld(step))
        one_segment = set(run.scene.full) <= {0, 1}
        if run.scene.votes is not None and one_segment and altered is not None:
            heard, settled = recorded.votes(step, altered, over=step == recorded.last)
            ended = {rank: STATE_COLOURS[State(state)] for rank, state in settled}
            for rank in topology.ranks():
                if rank in recorded.faulty or rank == run.scene.source or not run.scene.full[rank]:
                    continue
                colour = ended.get(rank, VOTE_COLOURS[State.WAITING] if heard.get(rank) else "var(--paper)")
                assert drawn["fills"][rank] == colour, (step, rank)


@pytest.mark.exhaustive(one_in=3)
def test_a_watched_run_shows_what_the_journal_says(run: Run) -> None:
    if run.watched is None:
        return
    recorded, order = run.recorded, run.scene.order
    gained, altered, heard = [0] * order, [0] * order, [0] * order
    settled = [[0] * len(State) for _ in range(order)]
    again = run.scenario.endswith("shrink")
    frames = [json.loads(text) for text in run.watched.frames.since(0, 10**9)[1]]
    shown = [frame for frame in frames if "step" in frame]
    assert [frame["step"] for frame in shown] == list(range(1, len(shown) + 1))
    for frame in frames:
        closing = "closing" in frame
        step = frame["closing" if closing else "step"]
        for counts, name in (
            (gained, "gained"),
            (altered, "altered"),
            (heard, "heard" if frame["heard"] is not None else "gained"),
        ):
            for rank, count in zip(frame[name][::2], frame[name][1::2], strict=True):
                counts[rank] += count
        votes = frame["votes"]
        if votes is None:
            votes = [
                value
                for rank, count in zip(frame["gained"][::2], frame["gained"][1::2], strict=True)
                for value in (rank, 1, count)
            ]
        for rank, state, count in zip(votes[::3], votes[1::3], votes[2::3], strict=True):
            settled[rank][state] += count
        if not closing:
            assert frame["busy"] == len(frame["arcs"]) // 6 == len(recorded.busy(step))
            assert frame["lost"] == sum(lost for _, lost, _ in recorded.links(step).values())
            assert [tuple(frame["withheld"][at : at + 2]) for at in range(0, len(frame["withheld"]), 3)] == sorted(
                recorded.withheld(step)
            )
            assert numbered(gained) == recorded.have(step, again=not again)
        if run.scenario in VOTED:
            # What a faulty node has is not judged.
            for rank in () if recorded.scenario["collective"] == "gather" else recorded.faulty:
                heard[rank], settled[rank] = 0, [0] * len(State)
            assert (numbered(heard), states(settled)) == recorded.votes(step, run.watched.altered, over=closing)
    if run.scenario in VOTED:
        assert sum(altered) == sum(row["outcome"] == "corrupt" for row in recorded.data)
        assert states(settled) == recorded.votes(recorded.last, run.watched.altered, over=True)[1], "as the report ends"


def numbered(counts: list[int]) -> dict[int, int]:
    return {rank: count for rank, count in enumerate(counts) if count}


def states(table: list[list[int]]) -> dict[tuple[int, int], int]:
    return {(rank, state): count for rank, counts in enumerate(table) for state, count in enumerate(counts) if count}
