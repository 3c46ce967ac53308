"""A watched run step by step in a browser: after k keys the page shows step k, as the run directory has it in the end."""

import json
from collections import Counter
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from coordinator.live.opening import watched_plan
from coordinator.reports.maps.marks import STATE_COLOURS
from coordinator.reports.scene.nodes import ALL_TO_ALL, GIVING
from coordinator.reports.scene.votes import State
from coordinator.reports.theme import LIGHT, mixture, viridis
from coordinator.scenario.command import run_command
from emunode.errors import ScenarioError
from emunode.faults.kinds import Hang, LinkFault
from emunode.model import AGAIN_TREE, ALL_RANKS
from tests.helpers.browser import Browser
from tests.helpers.command_line import Start
from tests.helpers.scenarios import Case
from tests.helpers.support import golden_rows
from tests.helpers.watch_support import watched
from tests.helpers.watched_page import OVER, Watched

SCENARIOS = [row["scenario"] for row in golden_rows("", "shown_runs", clicked="yes")]
SAMPLE = 5
"""One scenario in this number runs without `--all`: some of each group."""
DATA = pl.col("tree") < AGAIN_TREE
CAME = pl.col("outcome").is_in(["first", "duplicate", "corrupt"])
ARRIVED = CAME | (pl.col("outcome") == "relay")
SENT = ARRIVED | pl.col("outcome").is_in(["lost", "control"])
SEGMENT = ["receiver", "origin", "segment"]
WORDS = {"right": State.RIGHT, "none": State.SPLIT, "wrong": State.WRONG}
BUSY = [LIGHT[name] for name in ("blue", "purple", "red")]
OPEN = mixture(LIGHT["grey"], LIGHT["paper"], 0.3)
TURNS = (0.03, 0.08, 0.4, 0.45, 0.55, 0.6, 0.92, 0.97)
"""Points around a node, beside its label, in turns from the top; the slices of a pie begin there."""
STROKES = """
((links) => {
  const map = document.getElementById("map"), unit = map.width / 1000;
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  const { data } = map.getContext("2d").getImageData(0, 0, map.width, map.height);
  return links.map((line) => {
    path.setAttribute("d", line);
    return Array.from({ length: 21 }, (_, at) => path.getPointAtLength(path.getTotalLength() * (0.2 + 0.03 * at)))
      .map(({ x, y }) => 4 * (Math.floor(y * unit) * map.width + Math.floor(x * unit)))
      .map((at) => "#" + [...data.slice(at, at + 3)].map((part) => part.toString(16).padStart(2, "0")).join(""));
  });
})
"""
"""The colours of the map along these paths."""
FIGURES = """
Object.fromEntries([...document.getElementById("claims").rows].map(({ cells: [name, , measured] }) =>
  [name.textContent, measured.textContent]))
"""
"""By claim, what is measured so far."""


class Judge:
    """Computes from the files of a run what the page should show after each step."""

    def __init__(self, case: Case, path: Path) -> None:
        self.plan, spec = case.plan, case.plan.spec
        self.copies, self.altering = spec.redundancy, any(fault.alters_payload for fault in self.plan.faults)
        self.giving, self.pies = spec.collective in GIVING, spec.collective in ALL_TO_ALL
        self.voter = "origin" if spec.collective == "gather" else "receiver"
        self.healthy = pl.read_parquet(path / "nodes.parquet").filter(state="alive")["rank"].to_list()
        self.nodes = [rank for rank in self.healthy if self.pies or rank != spec.source]
        journal = pl.read_parquet(path / "journal.parquet")
        self.steps = int(journal["step"].max())  # type: ignore[arg-type]
        hung = {fault.rank: fault.end for fault in self.plan.faults if isinstance(fault, Hang)}
        # What came in the last step of a hang is seen when the node runs again.
        late = ARRIVED & (pl.col("step") == pl.col("receiver").replace_strict(hung, default=0, return_dtype=pl.Int64))
        self.seen = journal.with_columns(step=pl.when(late).then(pl.col("step") + 1).otherwise("step"))
        self.elected: dict[tuple[int, ...], str] = {}
        if (contested := path / "elections.parquet").exists():
            self.elected = {
                tuple(row[:-1]): row[-1] for row in pl.read_parquet(contested).select(*SEGMENT, "elected").iter_rows()
            }

    def goal(self, rank: int) -> int:
        """Count the segments that a node is to receive from healthy nodes; 1 where nodes send to one target."""
        if self.giving:
            return 1
        meant = (
            pl.col("origin").is_in(self.healthy)
            & (pl.col("origin") != rank)
            & pl.col("target").is_in([rank, ALL_RANKS])
        )
        return self.seen.filter(DATA, meant).select("origin", "segment").n_unique()

    def has(self, step: int) -> dict[int, tuple[int, int]]:
        """By rank, the segments that it has, or has sent, after a step, and the step of the newest one."""
        if self.giving:
            rows = self.seen.filter(DATA, ARRIVED).with_columns(rank="sender")
        else:
            rows = self.seen.filter(DATA, pl.col("origin").is_in(self.healthy), outcome="first").with_columns(
                rank="receiver"
            )
        counts = rows.filter(pl.col("step") <= step).group_by("rank").agg(pl.len(), pl.col("step").max())
        return {rank: (count, newest) for rank, count, newest in counts.iter_rows()}

    def votes(self, step: int) -> dict[int, State]:
        """By rank, how its votes stand after a step; after the last one, open votes end as they stand."""
        meant = (pl.col("target") == pl.col("receiver")) | (pl.col("target") == ALL_RANKS)
        cast = self.seen.filter(DATA, CAME, meant, pl.col("step") <= step)
        cast = cast.sort("step").unique([*SEGMENT, "tree"], keep="first", maintain_order=True)
        states: dict[int, Counter[State]] = {}
        wrongs = (pl.col("outcome") == "corrupt").sum()
        counted = cast.group_by(*SEGMENT, rank=self.voter).agg(right=pl.len() - wrongs, wrong=wrongs)
        for *segment, rank, right, wrong in counted.iter_rows():
            state = WORDS[self.elected.get(tuple(segment), "right" if right else "wrong")]
            closed = 2 * right > self.copies or right + wrong >= self.copies or step >= self.steps
            states.setdefault(rank, Counter())[state if closed else State.WAITING] += 1
        ended = {}
        for rank, of in states.items():
            whole = State.RIGHT if of[State.RIGHT] == self.goal(rank) else State.WAITING
            ended[rank] = next((state for state in (State.WRONG, State.SPLIT) if of[state]), whole)
        return ended

    def votes_count(self, step: int) -> bool:
        """Report whether values are voted on, from the first altered copy or as soon as copies may be altered."""
        altered = self.seen.filter(DATA, pl.col("step") <= step, outcome="corrupt")
        return len(altered) > 0 or (self.copies > 1 and self.altering)

    def words(self, step: int) -> str:
        """The sentence about the nodes."""
        if self.votes_count(step):
            states = Counter(state for rank, state in self.votes(step).items() if rank in self.nodes)
            right, wrong, split, still = (
                states[each] for each in (State.RIGHT, State.WRONG, State.SPLIT, State.WAITING)
            )
            have = f"Of {len(self.nodes)} nodes {right} {'has' if right == 1 else 'have'} the right value"
            return f"{have}, {wrong} a wrong one, {split} no majority" + (f"; {still} open" if still else "")
        done = sum(count >= self.goal(rank) for rank, (count, _) in self.has(step).items() if rank in self.nodes)
        what = "sent" if self.giving else "everything" if self.goal(self.nodes[0]) > 1 else "it"
        return f"{done} of {len(self.nodes)} {'has' if done == 1 else 'have'} {what}"

    def packets(self, step: int) -> str:
        """The sentence about the packets."""
        rows = self.seen.filter(SENT, step=step)
        busy, lost = rows.select("sender", "port").n_unique(), len(rows.filter(DATA, outcome="lost"))
        words = f"Step {step}: {busy} busy link{'' if busy == 1 else 's'}"
        return words + (f", {lost} segment{'' if lost == 1 else 's'} lost" if lost else "")

    def links(self, step: int) -> dict[frozenset[int], set[str]]:
        """By the ends of a link, the colours of its busy directions."""
        kinds = (
            self.seen.filter(SENT, step=step)
            .group_by("sender", "receiver")
            .agg(pl.col("outcome").cast(pl.String).unique())
        )
        found: dict[frozenset[int], set[str]] = {}
        for *ends, outcomes in kinds.iter_rows():
            kind = "red" if {*outcomes} == {"lost"} else "purple" if "corrupt" in outcomes else "blue"
            found.setdefault(frozenset(ends), set()).add(LIGHT[kind])
        return found

    def colours(self, step: int, rank: int) -> list[str]:
        """The colours of a node at TURNS."""
        paper = LIGHT["paper"]
        if self.votes_count(step):
            state = self.votes(step).get(rank)
            return [paper if state is None else STATE_COLOURS.get(state, OPEN)] * len(TURNS)
        if rank not in (have := self.has(step)):
            return [paper] * len(TURNS)
        share = min(1.0, have[rank][0] / self.goal(rank))
        shade = viridis(((step if self.pies else have[rank][1]) - 1) / (self.steps - 1) if self.steps > 1 else 0.6)
        if self.pies:
            return [shade if turn < share else paper for turn in TURNS]
        return [mixture(shade, paper, round(20 + 80 * share) / 100)] * len(TURNS)


def parts(colours: list[str]) -> list[int]:
    """The red, green and blue of colours such as #1a2b3c, one after the other."""
    return [part for colour in colours for part in bytes.fromhex(colour[1:])]


@pytest.mark.parametrize(
    "scenario",
    [pytest.param(each, marks=[pytest.mark.slow] if at % SAMPLE else []) for at, each in enumerate(SCENARIOS)],
)
def test_k_keys_show_the_first_k_steps_of_the_journal(scenario: str, page: Browser, start: Start) -> None:
    case = Case(scenario)
    topology = case.plan.topology
    run = Watched(start, page, run_command(case.plan.scenario).removeprefix("coordinator run "))
    picture = json.loads(run.client.ask("GET", "/picture")[2])
    links = [frozenset(ends) for ends in zip(picture["links"]["senders"], picture["links"]["receivers"], strict=True)]
    broken = {
        frozenset((fault.sender, topology.neighbour(fault.sender, fault.port)))
        for fault in case.plan.faults
        if isinstance(fault, LinkFault)
    }
    page.wait_until("document.getElementById('state').textContent.startsWith('Nothing is sent yet: step 1 of ')")
    steps = int(run.text("state").removesuffix(" is next.").rpartition(" ")[2])
    points = [run.at(topology, rank, 0.8, turn) for rank, turn in product(topology.ranks(), TURNS)]
    shown: list[tuple[str, str, list[str], list[list[str]], dict[str, str]]] = []
    for step in range(1, steps + 1):
        page.press(" ", 32)
        page.wait_until(f"document.getElementById('slider').max === '{step}'")
        page.wait_until(
            OVER if step == steps else f"document.getElementById('measured-title').textContent === 'after step {step}'"
        )
        colours, strokes = run.colours(points), page.evaluate(f"{STROKES}({json.dumps(picture['links']['paths'])})")
        shown.append((run.text("state"), run.text("shown"), colours, strokes, page.evaluate(FIGURES)))
    summary = run.close().data
    judge = Judge(case, Path(summary["path"]))
    assert steps == judge.steps
    for step, (state, packets, colours, strokes, figures) in enumerate(shown, 1):
        if step < steps:
            assert state == f"Step {step} of {steps} is done: {judge.words(step)}."
            rows = judge.seen.filter(DATA, SENT, pl.col("step") <= step)
            assert figures.get("segments", str(len(rows))) == str(len(rows))
        assert packets == judge.packets(step)
        for rank in judge.nodes:
            mine, wanted = colours[rank * len(TURNS) : (rank + 1) * len(TURNS)], judge.colours(step, rank)
            # The page rounds a half up, and the judge to an even number.
            assert parts(mine) == pytest.approx(parts(wanted), abs=1), (step, rank)
        drawn: dict[frozenset[int], set[str]] = {}
        for link, line in zip(links, strokes, strict=True):
            for colour, count in Counter(line).items():
                if colour in BUSY and 2 * count > len(line):
                    drawn.setdefault(link, set()).add(colour)
        busy = {ends: colours for ends, colours in judge.links(step).items() if ends not in broken}
        assert {*drawn} - broken == {*busy}, step
        assert all(drawn[ends] <= colours for ends, colours in busy.items()), step
    assert state.startswith(f"The run is over: {summary['verdict']}")


def played(scenario: str, faults: Mapping[int, Mapping[str, object]] = {}) -> tuple[list[dict[str, Any]], Any]:
    """Click Step until the run is over, with `faults` after some steps; the frame that followed each click, and the run."""
    plan = Case(scenario).plan
    clicks: list[dict[str, Any]] = []
    with watched(plan) as (client, results):
        stream = client.events()
        # Until it is known how many steps there will be.
        while (event := next(stream))[0] != "status" or event[1]["steps"] is None:
            pass
        wanted = False
        while True:
            if not wanted:
                client.request(do="step")
                wanted = True
            name, data = next(stream)
            if name == "finished":
                break
            for frame in data if name == "frames" else ():
                if "step" in frame:
                    assert wanted, "a step without a click"
                    wanted = False
                    clicks.append(frame)
                    if fault := faults.get(len(clicks)):
                        status = client.request(do="fault", **fault)
                        assert status["next"] == len(clicks) + 1
                        while (event := next(stream))[0] != "status" or event[1]["steps"] is None:
                            pass
    return clicks, results[0]


def test_a_node_that_is_crashed_receives_nothing_afterwards() -> None:
    rank = Case("star:4 broadcast greedy-tree").plan.topology.rank("4231")
    clicks, run = played("star:4 broadcast greedy-tree", {1: {"kind": "crash", "rank": rank}})
    assert run.plan.scenario.fault == ("crash:4231@2",)
    assert [rank in frame["gained"][::2] for frame in clicks] == [True, False, False, False]
    assert run.summary["intact_deliveries"] == 18
    late, run = played("star:4 broadcast greedy-tree", {2: {"kind": "crash", "rank": 23}})
    assert not any(23 in frame["gained"][::2] for frame in late)


def test_the_timed_clock_is_not_watched() -> None:
    scenario = Case("star:4 broadcast greedy-tree clock=timed").plan.scenario
    with pytest.raises(ScenarioError, match="the timed clock does not stop between steps"):
        watched_plan(scenario)
