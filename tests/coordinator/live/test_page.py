"""The page of a watched run in Chromium: the picture, the journal and the repeated command show the same run."""

import random
import shlex

import psutil
import pytest

from coordinator.reports.layout import WIDTH, layout_of
from coordinator.reports.theme import DARK, LIGHT
from emunode.topologies.registry import parse_topology
from tests.helpers.browser import Browser
from tests.helpers.command_line import Call, Start
from tests.helpers.watched_page import BOX, OVER, READY, Watched, received, step_colours

pytestmark = pytest.mark.browser


def test_a_click_on_a_node_is_in_picture_journal_and_command(page: Browser, start: Start, call: Call) -> None:
    star = parse_topology("star:4")
    run = Watched(start, page, "--topology star:4 --collective broadcast --algorithm edt --redundancy 3")
    assert "#" not in page.evaluate("location.href")
    run.step()
    run.click_node(star, star.rank("4231"))
    assert run.text("selected") == f"Node 4231 (rank {star.rank('4231')})"
    page.click("[data-kind=crash]")
    page.wait_until("document.getElementById('faults').textContent.includes('crash:4231@2 (takes effect in step 2)')")
    # Theory answers at once: two of the three trees are enough.
    page.wait_until("document.getElementById('claims').textContent.includes('intact deliveries22')")
    for _ in range(2):
        run.step()
    shown = 3
    page.wait_until("document.getElementById('state').textContent === 'Step 3 of 7 is done: 13 of 22 have it.'")
    nodes = [rank for rank in star.ranks() if rank != 0 and star.label(rank) != "4231"]
    colours = run.colours([run.at(star, rank, 0.75) for rank in nodes])
    # A cross over the crashed node: its arms reach beyond the disc.
    x, y = run.at(star, star.rank("4231"))
    arm = 1.3 * layout_of(star).radius * page.evaluate(BOX)[2] / WIDTH
    for side in (-arm, arm):
        assert LIGHT["red"] in run.colours([(x + side + aside, y + arm) for aside in range(-2, 3)])
    command = run.text("command")
    summary = run.run()
    assert run.text("verdict") == "Verdict: holds"
    assert summary["faults"] == ["crash:4231@2"]
    have = received(summary["path"], shown)
    assert 0 < len(have) < len(nodes)
    assert colours == step_colours(summary["path"], shown, 7, nodes)
    assert command == run.text("command")
    words = shlex.split(command)
    again = call("run --json", *words[2:])
    assert again.data["journal_hash"] == summary["journal_hash"]
    assert run.text("result").startswith(f"Journal {summary['journal_hash']}")
    assert call("verify", summary["path"]).status == 0
    assert run.client.token not in (run.command.folder / str(summary["path"]) / "log.jsonl").read_text() + run.text(
        "command"
    )
    assert run.command.err.count(run.client.token) == 1
    assert not any(run.client.token in each for each in page.complaints())


def test_a_click_cuts_a_link_and_a_rewound_page_shows_the_past(page: Browser, start: Start) -> None:
    star = parse_topology("star:4")
    run = Watched(
        start, page, "--topology star:4 --collective broadcast --algorithm flood --driver memory --messages 4"
    )
    (x1, y1), (x2, y2) = (run.at(star, rank) for rank in (0, star.neighbour(0, 1)))
    left, top, _ = page.evaluate(BOX)
    page.click_at(left + (x1 + x2) / 2, top + (y1 + y2) / 2)
    page.wait_until("document.getElementById('selected').textContent.startsWith('Link')")
    assert run.text("selected") in ("Link 1234 ~ 3214", "Link 3214 ~ 1234")
    page.click("[data-kind=down]")
    page.wait_until("document.getElementById('faults').textContent.includes('down:')")
    for _ in range(4):
        run.step()
    page.wait_until("document.getElementById('shown').textContent.startsWith('Step 4:')")
    newest = run.text("shown")
    page.click("#slider")
    page.evaluate("document.getElementById('slider').focus()")
    page.press("Home", 36)
    page.press("ArrowRight", 39)
    page.wait_until("document.body.classList.contains('past')")
    assert run.text("shown").startswith("Step 1: ")
    assert run.text("state").startswith("You are looking at step 1 of ")
    # A fault that is added now belongs to the next step all the same.
    page.click("[data-kind=up]")
    page.wait_until("document.getElementById('faults').textContent.includes('@5 (takes effect in step 5)')")
    page.click("#newest")
    assert run.text("shown") == newest
    summary = run.run()
    assert [spec.split(":")[0] + spec[spec.index("@") :] for spec in summary["faults"]] == ["down@1", "up@5"]  # type: ignore[attr-defined]
    page.evaluate("document.getElementById('slider').focus()")
    page.press("Home", 36)
    page.press("ArrowRight", 39)
    nodes = [rank for rank in star.ranks() if rank]
    expected = step_colours(summary["path"], 1, int(str(summary["steps"])), nodes, goal=4)
    assert run.colours([run.at(star, rank, 0.75) for rank in nodes]) == expected


def test_an_open_vote_delivers_nothing(page: Browser, start: Start) -> None:
    run = Watched(
        start, page, "star:4 broadcast edt --redundancy 3 --driver memory --fault byzantine:2134 --fault byzantine:3214"
    )
    run.step()
    page.wait_until("document.getElementById('measured-title').textContent === 'after step 1'")
    figures = "[...document.getElementById('claims').rows].map((row) => [...row.cells].map((cell) => cell.textContent))"
    so_far = {name: measured for name, _, measured in page.evaluate(figures)}
    # No copy is altered yet.
    assert (so_far["elected wrong"], so_far["intact deliveries"]) == ("\N{EN DASH}", "\N{EN DASH}")
    run.run()
    ended = {name: (predicted, measured) for name, predicted, measured in page.evaluate(figures)}
    assert ended["elected wrong"] == ("21", "21 ✓ holds")


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_packets_move_unless_less_motion_is_preferred(motion: str, page: Browser, start: Start) -> None:
    page.prefer(prefers_reduced_motion=motion)
    run = Watched(start, page, "--topology star:3 --collective broadcast --algorithm flood --driver memory")
    page.evaluate(
        "new MutationObserver((all) => { window.moved = (window.moved ?? 0) + all.length; })"
        ".observe(document.getElementById('map'), { attributeFilter: ['data-moving'] })"
    )
    run.step()
    if motion == "reduce":
        run.colours([(1.0, 1.0)])
        assert page.evaluate("window.moved ?? 0") == 0
    else:
        page.wait_until("window.moved >= 2")  # it began and ended
        assert page.evaluate("'moving' in document.getElementById('map').dataset") is False
    run.run()


def test_figures_of_another_step_are_grey_and_say_their_step(page: Browser, start: Start) -> None:
    run = Watched(start, page, "--topology star:4 --collective broadcast --algorithm edt --driver memory --messages 3")
    assert run.text("measured-title") == "so far"
    for _ in range(3):
        run.step()
    page.wait_until("document.getElementById('measured-title').textContent === 'after step 3'")
    page.wait_until("!document.getElementById('claims').classList.contains('earlier')")
    page.click("#back")
    assert page.evaluate("document.getElementById('claims').classList.contains('earlier')")
    assert run.text("measured-title") == "after step 3"
    page.click("#newest")
    assert not page.evaluate("document.getElementById('claims').classList.contains('earlier')")
    run.run()
    assert run.text("measured-title") == "measured"
    page.click("#back")
    assert not page.evaluate("document.getElementById('claims').classList.contains('earlier')"), "they are final"


def test_the_keyboard_alone_is_enough(page: Browser, start: Start) -> None:
    run = Watched(start, page, "--topology star:3 --collective broadcast --algorithm flood --driver memory")
    page.evaluate("document.getElementById('label').focus()")
    for letter in "213":
        page.call("Input.insertText", text=letter)
    page.call("Input.dispatchKeyEvent", type="char", text="\r", key="Enter")
    page.wait_until("document.getElementById('selected').textContent.startsWith('Node 213')")
    page.evaluate("document.querySelector('[data-kind=crash]').focus()")
    page.call("Input.dispatchKeyEvent", type="char", text="\r", key="Enter")
    page.wait_until("document.getElementById('faults').textContent.includes('crash:213@1')")
    page.evaluate("document.getElementById('map').focus()")
    page.press("ArrowRight", 39)
    page.wait_until("!document.getElementById('selected').textContent.startsWith('Node 213')")
    page.press("Escape", 27)
    page.wait_until("document.getElementById('selected').textContent === 'Nothing is selected'")
    page.evaluate("document.getElementById('undo').focus()")
    page.call("Input.dispatchKeyEvent", type="char", text="\r", key="Enter")
    page.wait_until("document.getElementById('faults').textContent === 'none'")
    page.evaluate("document.getElementById('end').focus()")
    page.call("Input.dispatchKeyEvent", type="char", text="\r", key="Enter")
    assert run.close().status == 3


def test_small_nodes_have_the_colours_of_the_past_step(page: Browser, start: Start) -> None:
    """On a narrow page, the 2,048 nodes of Q_11 are squares of a few pixels."""
    page.resize(400, 844)
    cube = parse_topology("hypercube:11")
    run = Watched(start, page, "--topology hypercube:11 --collective broadcast --algorithm sbt --driver memory")
    assert run.text("title") == "Hypercube Q11"
    summary = run.run()
    page.evaluate("(() => { const slider = document.getElementById('slider'); slider.value = 6; slider.oninput(); })()")
    # Away from the mark of the source.
    ranks = [256, 1023, 1024, 1536, 2046, 2047]
    layout, width = layout_of(cube), page.evaluate("document.getElementById('map').clientWidth")
    unit = float(width) / WIDTH
    colours = run.colours([(float(layout.x[rank]) * unit, float(layout.y[rank]) * unit) for rank in ranks])
    expected = step_colours(summary["path"], 6, 11, ranks)
    assert colours == [LIGHT["grid"] if colour == LIGHT["paper"] else colour for colour in expected]
    assert len(set(colours)) > 2


def test_a_reloaded_page_continues_with_its_token(page: Browser, start: Start) -> None:
    run = Watched(
        start, page, "--topology star:3 --collective broadcast --algorithm flood --driver memory --messages 3"
    )
    run.step()
    run.step()
    page.call("Page.reload")
    page.wait_for("Page.loadEventFired")
    page.wait_until(READY)
    page.wait_until("document.getElementById('state').textContent.startsWith('Step 2 of ')")
    page.evaluate("sessionStorage.clear()")
    page.call("Page.reload")
    page.wait_for("Page.loadEventFired")
    page.wait_until("document.getElementById('error').textContent")
    assert "token of this run is missing" in run.text("error")
    # Not in the answer to `run`: by then steps may have run.
    assert run.client.request(do="pause")["next"] == 3
    run.client.request(do="run")
    # Nobody watches: the page was refused.
    assert run.command.end().status == 0
    page.events.clear()  # the refused request is an error to the browser


def test_the_command_repeats_a_run_of_random_clicks(page: Browser, start: Start, call: Call) -> None:
    star, draw = parse_topology("star:3"), random.Random(2)
    run = Watched(
        start, page, "--topology star:3 --collective broadcast --algorithm flood --driver memory --messages 6"
    )
    while "over" not in run.text("state"):
        for _ in range(draw.randrange(3)):
            run.click_node(star, draw.randrange(6))
            if draw.random() < 0.5:
                page.click(f".links button:nth-child({draw.randrange(2) + 1})")
                page.wait_until("document.getElementById('selected').textContent.startsWith('Link')")
            page.evaluate("document.querySelectorAll('#more').forEach((each) => { each.open = true; })")
            kinds = page.evaluate("[...document.querySelectorAll('[data-kind]')].map((button) => button.dataset.kind)")
            page.click(f"[data-kind={draw.choice(kinds)}]")
        run.step()
    summary = run.close().data
    assert len(summary["faults"]) > 2
    again = call("run --json", *shlex.split(run.text("command"))[2:])
    assert again.data["journal_hash"] == summary["journal_hash"]


LOOK = """
[...document.querySelectorAll("body *")].filter((each) => each.getClientRects().length && !each.closest(".wide"))
  .map((each) => each.getBoundingClientRect()).filter(({right}) => right > innerWidth + 0.5).length
"""
NAMELESS = """
[...document.querySelectorAll("button, input, select, canvas")].filter((each) =>
  !(each.textContent.trim() || each.getAttribute("aria-label") || each.labels?.length)).map((each) => each.outerHTML)
"""
CONTRASTS = r"""
(() => {
  const linear = (part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  const parts = (colour) => colour.match(/[\d.]+/g).slice(0, 3).map((part) => linear(part / 255));
  const light = (colour) => parts(colour).reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (each) => {
    while (getComputedStyle(each).backgroundColor.endsWith(", 0)")) each = each.parentElement;
    return getComputedStyle(each).backgroundColor;
  };
  return [...document.querySelectorAll("h1, h2, p, button:not(:disabled), th, td, pre, output, label, li")]
    .filter((each) => each.getClientRects().length && each.textContent.trim())
    .map((each) => [each, [getComputedStyle(each).color, behind(each)].map(light).sort((a, b) => b - a)])
    .map(([each, [high, low]]) => [each.outerHTML.slice(0, 80), (high + 0.05) / (low + 0.05)])
    .filter(([, contrast]) => contrast < 4.5);
})()
"""
"""Texts whose contrast is below that of WCAG 2.1, level AA, with the ratio."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_narrow_and_dark_pages_are_readable_with_named_controls(page: Browser, start: Start, scheme: str) -> None:
    page.prefer(prefers_color_scheme=scheme)
    star = parse_topology("star:4")
    run = Watched(start, page, "--topology star:4 --collective broadcast --algorithm flood --driver memory")
    run.click_node(star, 7)
    run.step()
    run.step()
    page.resize(390, 844)
    assert page.evaluate(LOOK) == 0
    assert page.evaluate(NAMELESS) == []
    assert page.evaluate(CONTRASTS) == []
    paper = (LIGHT if scheme == "light" else DARK)["paper"]
    assert run.colours([(3, 3)]) == [paper]
    run.client.request(do="end")
    assert run.close().status == 3


def test_a_branch_is_shown_beside_the_run_before(page: Browser, start: Start, call: Call) -> None:
    star = parse_topology("star:4")
    run = Watched(
        start, page, "--topology star:4 --collective broadcast --algorithm greedy-tree --driver memory --out whole"
    )
    for _ in range(3):
        run.step()
    for _ in range(2):
        page.click("#back")
    page.click("#branch")
    page.wait_until("document.body.classList.contains('branched')")
    page.wait_until("document.getElementById('state').textContent.startsWith('Step 1 of 4 is done: 3 of 23 have it')")
    assert "verdict: holds; run directory" in run.text("other-result")
    run.click_node(star, star.rank("2134"))
    page.click("[data-kind=crash]")
    page.wait_until("document.getElementById('faults').textContent.includes('crash:2134@2')")
    # Another page gets both runs, too.
    page.open("about:blank")
    page.open(run.url)
    page.wait_until("document.body.classList.contains('branched') && " + READY)
    summary = run.run()
    assert "12 of 22 have it" in run.text("this")
    assert "23 of 23 have it" in run.text("other-shown")
    assert summary["faults"] == ["crash:2134@2"]
    assert (summary["branch_of"], summary["branch_step"]) == ("whole", 1)
    folder = run.command.folder
    assert call("verify", folder / "whole", folder / "whole-branch-1").out.count(": verified") == 2
    # The colours of the other map are the colours of the run before, and the colours of this one those of the branch.
    step = int(page.evaluate("Number(document.getElementById('slider').value)"))
    for name, path in (("map", summary["path"]), ("other", folder / "whole")):
        served = received(path, step)
        nodes = [rank for rank in star.ranks() if rank != 0 and star.label(rank) != "2134"]
        found = run.colours([run.at(star, rank, 0.75) for rank in nodes], name)
        assert [colour != LIGHT["paper"] for colour in found] == [rank in served for rank in nodes], name


FITS = """
((side) => [document.scrollingElement, side].every(({ scrollHeight, scrollWidth, clientHeight, clientWidth }) =>
  scrollHeight <= clientHeight && scrollWidth <= clientWidth))(document.getElementById("side"))
"""
CODES = {" ": 32, "PageUp": 33, "PageDown": 34, "ArrowLeft": 37, "ArrowRight": 39, "Escape": 27}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1280, 720), (1366, 768)])
def test_a_lesson_on_a_projector_needs_keys_and_no_scrolling(
    width: int, height: int, scheme: str, page: Browser, start: Start
) -> None:
    page.prefer(prefers_color_scheme=scheme)
    page.resize(width, height)
    run = Watched(
        start, page, "--topology star:4 --collective broadcast --algorithm greedy-tree --driver memory --out out"
    )

    def press(key: str, state: str) -> None:
        page.press(key, CODES.get(key, ord(key[0].upper())))
        page.wait_until(f"document.getElementById('state').textContent.startsWith({state!r})")
        assert page.evaluate(FITS), (key, state)

    press(" ", "Step 1 of 4 is done: 3 of 23")
    press("/", "Step 1 of 4")
    press("c", "Step 1 of 4")  # a letter for the field
    for label in ("2134", "4231"):
        page.press("/", 191)
        page.call("Input.insertText", text=label)
        page.call("Input.dispatchKeyEvent", type="char", text="\r", key="Enter")
        page.wait_until(f"document.getElementById('selected').textContent.startsWith('Node {label}')")
    assert run.text("faults") == "none"
    press("c", "Step 1 of 4 is done: 2 of 22")
    assert run.text("faults") == "crash:4231@2 (takes effect in step 2)"
    page.wait_until("document.getElementById('claims').textContent.startsWith('intact deliveries18')")
    press("ArrowRight", "Step 2 of 4 is done")
    press("PageDown", "Step 3 of 4 is done")
    press("PageUp", "You are looking at step 2 of 4")
    press("PageDown", "Step 3 of 4 is done")
    press(" ", "The run is over: holds")
    for name in ("step", "run"):
        assert page.evaluate(f"document.getElementById({name!r}).disabled")
    assert run.text("cannot") == "The run is over: branch, or start again."
    assert page.evaluate("document.querySelector('[data-kind=crash]').disabled")
    press(" ", "The run is over")
    assert run.text("error") == "The run is over: branch, or start again."
    press("a", "Nothing is sent yet: step 1 of 4 is next")
    assert run.text("faults") == "none"
    for step in range(1, 4):
        press(" ", f"Step {step} of 4 is done")
    press("ArrowLeft", "You are looking at step 2")
    press("b", "Step 2 of 4 is done")
    assert run.text("this").startswith("Run 3, branch after step 2")
    press("c", "Step 2 of 4 is done")
    page.wait_until("document.getElementById('faults').textContent.includes('crash:4231@3')")
    page.evaluate("document.getElementById('rate').value = '0'")
    press("r", "The run is over")
    assert run.close().status == 0
    assert {path.name for path in run.command.folder.iterdir()} >= {"out", "out-branch-1", "out-branch-2"}
    page.wait_until(
        "document.getElementById('state').textContent.endsWith('The coordinator has ended; this page keeps the history.')"
    )
    press(" ", "The run is over: holds")


def test_keys_change_the_look_unless_a_button_has_the_focus(page: Browser, start: Start) -> None:
    run = Watched(start, page, "--topology star:3 --collective broadcast --algorithm flood --driver memory")

    def is_on(name: str) -> bool:
        return bool(page.evaluate(f"document.getElementById({name!r}).getAttribute('aria-pressed') === 'true'"))

    page.press("d", 68)
    assert run.colours([(3, 3)]) == [DARK["paper"]]
    page.press("l", 76)
    assert page.evaluate("getComputedStyle(document.body).fontSize") == "18.8px"
    page.press("f", 70)
    page.wait_until(
        "document.fullscreenElement && document.getElementById('full').getAttribute('aria-pressed') === 'true'"
    )
    page.click("#full")
    page.wait_until("!document.fullscreenElement")
    page.press("?", 191)
    assert "Page Down" in run.text("keys")
    assert page.evaluate("document.getElementById('keys').getClientRects().length") == 1
    page.press("Escape", 27)
    assert page.evaluate("document.getElementById('keys').hidden")
    page.evaluate("document.getElementById('large').focus()")
    page.press("d", 68)
    assert is_on("dark")
    page.click("#large")  # a click with a pointer leaves the keys to the page
    page.press("d", 68)
    assert (is_on("large"), is_on("dark")) == (False, False)
    page.press("c", 67)
    assert run.text("error").startswith("Select a node first")
    page.click("#search button")
    assert run.text("error") == "Type the label of a node, such as 321."
    run.client.request(do="end")
    assert run.close().status == 3


@pytest.mark.parametrize("again", [False, True])
def test_a_host_that_dies_leaves_the_page_its_history(again: bool, page: Browser, start: Start) -> None:
    run = Watched(
        start, page, "--topology star:3 --collective broadcast --algorithm greedy-tree --driver local --out out"
    )
    run.step()
    hosts = psutil.Process(run.command.process.pid).children(recursive=True)
    hosts[-1].kill()
    page.click("#step")
    page.wait_until(OVER)
    assert "undecided (not judged: host 1 " in run.text("state")
    assert "Step 1" in run.text("shown")
    if not again:
        assert run.close().status == 3
        return
    page.press("Home", 36)
    page.press("a", 65)
    page.wait_until("document.getElementById('this').textContent.startsWith('Run 2')")
    assert run.run()["verdict"] == "holds"
