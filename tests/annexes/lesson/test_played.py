"""Lessons played in a browser against journals: every step, every crash of every node, keys and sizes of windows."""

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from tests.annexes.lesson.lessons import Made
from tests.helpers.browser import Browser
from tests.helpers.command_line import fields
from tests.helpers.support import run_scenario

pytestmark = pytest.mark.browser

STATE = """
(() => {
  const lines = (name) => document.querySelector(`#packets .${name}`).getAttribute("d").split("M").length - 1;
  return {
    now: document.querySelector("#now strong").textContent,
    flow: lines("flow"), lost: lines("gone"),
    fills: [...document.querySelectorAll(".place .node")].map((node) => node.getAttribute("fill")),
    crosses: document.querySelectorAll("#broken .cross").length,
    cuts: document.querySelectorAll("#broken .cut").length,
    over: document.querySelector("#step").disabled,
    verdict: document.querySelector("#verdict").textContent,
    measured: [...document.querySelectorAll("#claims td:nth-child(3)")].map((cell) => cell.textContent),
  };
})()
"""
EMPTY = "var(--paper)"


@pytest.fixture
def opened(lessons: Callable[[str], Made], page: Browser) -> Callable[[str], Made]:
    """Open the lesson of a scenario, without motion."""

    def open_one(scenario: str) -> Made:
        page.prefer(prefers_color_scheme="light", prefers_reduced_motion="reduce")
        page.resize(1280, 720)
        made = lessons(scenario)
        page.open(made.page)
        page.wait_until("window.lesson")
        return made

    return open_one


def journal_of(scenario: str, *faults: str) -> pl.DataFrame:
    """Return the journal of a fresh run, with the outcome as text."""
    run = run_scenario(None, **fields(scenario) | ({"fault": list(faults)} if faults else {}))
    return run.journal.with_columns(pl.col("outcome").cast(pl.String)).collect()


def last_step(journal: pl.DataFrame) -> int:
    """Return the last step with a packet; 0 for none."""
    return max(journal["step"].to_list(), default=0)


def packets(journal: pl.DataFrame, step: int) -> tuple[int, int]:
    """Return the number of packets of a step that arrive, and of those that are lost."""
    rows = journal.filter(pl.col("step") == step).group_by("sender", "port").agg((pl.col("outcome") == "lost").all())
    lost = int(rows["outcome"].sum())
    return len(rows) - lost, lost


def holders(journal: pl.DataFrame, step: int) -> set[int]:
    """Return the nodes that have received after a step."""
    return {*journal.filter(pl.col("step") <= step, pl.col("outcome") == "first")["receiver"].to_list()}


def seen(page: Browser) -> dict[str, Any]:
    """Return what the page shows."""
    shown: dict[str, Any] = page.evaluate(STATE)
    return shown


@pytest.mark.parametrize("algorithm", ["greedy-tree", "edt"])
def test_every_crash_of_every_node_is_a_fresh_run(algorithm: str, opened: Callable[[str], Made], page: Browser) -> None:
    scenario = f"star:3 broadcast {algorithm}"
    made = opened(scenario)
    whole = journal_of(scenario)
    steps = last_step(whole)
    for rank, label in enumerate(made.lesson.finished.plan.topology.label(rank) for rank in range(6)):
        for before in range(1, steps + 1):
            journal = journal_of(scenario, f"crash:{label}@{before}")
            last = max(last_step(journal), before - 1)
            due = {*range(1, 6)} - {rank}
            page.evaluate("lesson.again(); lesson.selected = null")
            for step in range(1, before):
                page.press("PageDown", 34)
                assert seen(page)["now"] == said(step, steps, holders(whole, step), {*range(1, 6)})
            page.click(f'[data-rank="{rank}"] .node')
            page.press("c", 67)
            shown = seen(page)
            crashed = shown["fills"][rank]
            assert shown["crosses"] == 1
            for step in range(before, last + 1):
                assert not shown["over"]
                page.press("ArrowRight", 39)
                shown = seen(page)
                assert (shown["flow"], shown["lost"]) == packets(journal, step)
                have = holders(journal, step)
                assert {at for at, fill in enumerate(shown["fills"]) if fill != EMPTY} == have | {0}
                assert shown["now"] == said(step, last, have & due, due)
                assert shown["fills"][rank] == crashed, "a crashed node receives nothing"
            assert shown["over"]
            verdict = run_scenario(None, **fields(f"{scenario} fault=crash:{label}@{before}")).verdict
            assert shown["verdict"].endswith(f" {verdict}")
            assert "…" not in shown["measured"]


def said(step: int, steps: int, have: set[int], due: set[int]) -> str:
    """Return the headline after a step."""
    count = len(have & due)
    return f"Step {step} of {steps} is done: {count} of {len(due)} {'has' if count == 1 else 'have'} it. "


def test_cut_links_lose_their_packets(opened: Callable[[str], Made], page: Browser) -> None:
    scenario = "star:3 broadcast greedy-tree"
    opened(scenario)
    page.press("PageDown", 34)
    first = journal_of(scenario).filter(pl.col("step") == 2).row(0, named=True)
    ends = sorted([first["sender"], first["receiver"]])
    page.evaluate(f"lesson.select({ends[0]}, {ends[1]})")
    label = page.evaluate("document.querySelector('#place').value")
    assert page.evaluate("document.querySelector('#break').textContent") == "Cut"
    page.click("#break")
    page.press("PageDown", 34)
    shown = seen(page)
    assert shown["cuts"] == 1
    assert (shown["flow"], shown["lost"]) == packets(journal_of(scenario, f"down:{label}@2"), 2)
    assert shown["lost"] == 1


def test_rewinding_shows_the_same_again(opened: Callable[[str], Made], page: Browser) -> None:
    opened("star:3 alltoall edt")
    states = [seen(page)]
    while not states[-1]["over"]:
        page.press("PageDown", 34)
        states.append(seen(page))
    assert len({str(state) for state in states}) == len(states)
    for earlier in reversed(states[:-1]):
        page.press("PageUp", 33)
        assert seen(page) == earlier
    page.press("PageUp", 33)
    assert seen(page) == states[0]


def test_a_second_fault_needs_an_undo(opened: Callable[[str], Made], page: Browser) -> None:
    opened("star:3 broadcast edt redundancy=2")
    for label in ("321", "213"):  # nothing has happened yet: another choice takes its place
        page.evaluate(f"lesson.select({{'321': 5, '213': 1}}['{label}'], null)")
        page.click("#break")
        assert page.evaluate("document.querySelector('#repeat').textContent").startswith("The same run: --fault crash:")
    page.press("PageDown", 34)
    page.evaluate("lesson.select(2, null)")
    reason = "document.querySelector('#reason').textContent"
    assert page.evaluate("document.querySelector('#break').disabled")
    assert page.evaluate(reason).startswith("One fault at a time: undo crash:")
    page.click("#undo")
    assert seen(page)["crosses"] == 0
    assert page.evaluate(reason) == ""
    for _ in range(9):
        page.press("PageDown", 34)
    assert page.evaluate(reason) == "The run is over: go back, or start again."


def test_keys_are_left_to_fields_and_buttons(opened: Callable[[str], Made], page: Browser) -> None:
    opened("star:3 broadcast greedy-tree")
    start = seen(page)
    page.evaluate("document.querySelector('#place').focus()")
    for key, code in ((" ", 32), ("ArrowRight", 39), ("c", 67), ("?", 191)):
        page.press(key, code)
    assert seen(page) == start
    page.evaluate("document.querySelector('#place').blur()")
    page.click("#step")
    assert page.evaluate("lesson.step") == 1
    page.press(" ", 32)
    assert page.evaluate("lesson.step") == 2, "a click with the mouse leaves the keys to the page"
    page.press("?", 191)
    assert page.evaluate("!document.querySelector('#keys').hidden")
    page.press("?", 191)
    assert page.evaluate("document.querySelector('#keys').hidden")


def test_packets_move_before_they_arrive(opened: Callable[[str], Made], page: Browser) -> None:
    opened("star:3 broadcast greedy-tree")
    page.prefer(prefers_color_scheme="light", prefers_reduced_motion="no-preference")
    page.evaluate(
        "lesson.forward(); lesson.drawing.svg.dataset.moved = document.querySelectorAll('#dots circle').length"
    )
    page.wait_until("!('moving' in lesson.drawing.svg.dataset)")
    assert page.evaluate("lesson.drawing.svg.dataset.moved") == str(
        packets(journal_of("star:3 broadcast greedy-tree"), 1)[0]
    )
    assert page.evaluate("document.querySelectorAll('#dots circle').length") == 0
    assert {at for at, fill in enumerate(seen(page)["fills"]) if fill != EMPTY} == holders(
        journal_of("star:3 broadcast greedy-tree"), 1
    ) | {0}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("scenario", ["star:3 broadcast edt redundancy=2", "star:3 allreduce mbst"])
def test_the_page_fits_a_projector(scheme: str, scenario: str, opened: Callable[[str], Made], page: Browser) -> None:
    opened(scenario)
    page.prefer(prefers_color_scheme=scheme, prefers_reduced_motion="reduce")
    size = "[document.documentElement.scrollWidth - innerWidth, document.documentElement.scrollHeight - innerHeight]"
    while not seen(page)["over"]:
        assert max(page.evaluate(size)) <= 0
        page.press("PageDown", 34)
    assert max(page.evaluate(size)) <= 0
    page.resize(390, 800)
    assert page.evaluate(size)[0] <= 0
