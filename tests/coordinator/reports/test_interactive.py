"""Questions about nodes on the page of a report: the answers are those of the journal."""

import json
import random
import re
from base64 import b64decode
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import polars as pl
import pytest

from coordinator.reports.layout import layout_of
from tests.helpers.browser import CLIPPED, LETTERS, Browser
from tests.helpers.command_line import fields
from tests.helpers.report_page import ARROWS, STATE, TABLES, Recorded, ReportPage, below, path_to
from tests.helpers.support import run_and_draw, run_journal, run_scenario

Show = Callable[..., ReportPage]


@pytest.fixture
def show(page: Browser, tmp_path: Path) -> Show:
    """Run a scenario and open its report."""

    def show_one(scenario: str, fragment: str = "") -> ReportPage:
        return ReportPage(page, Recorded(run_and_draw(tmp_path / "run", **fields(scenario)).path), fragment)

    return show_one


DOTS: Final = """
[...document.querySelectorAll('.levels[data-tree="TREE"] .dot')].map((c) => [+c.dataset.rank, +c.getAttribute("cy")])
"""
STRIPED: Final = "star:4 broadcast edt source=2134 segments=3"
SCENARIOS: Final = [
    "star:3 broadcast edt segments=2 driver=local",  # over TCP
    STRIPED,
    "hypercube:4 broadcast sbt source=0110",
    "ej:2+3 broadcast improved",
    "star:4 broadcast flood",
    "star:4 gather edt source=1243 segments=3",
    "star:3 reduce edt segments=2",
    "hypercube:3 scatter sbt",
]


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_node_panel_answers_what_the_journal_says(scenario: str, show: Show) -> None:
    report = show(scenario)
    run, topology = report.run, report.run.topology
    parents = [run.parents(tree) for tree in range(run.trees)]
    # Every node of the smallest networks, some of the larger ones: each takes tens of milliseconds.
    for rank in random.Random(1).sample(list(topology.ranks()), 6):
        report.select(rank)
        tables = report.tables()
        assert report.text("node").startswith(f"Node {topology.label(rank)} rank {rank}")
        arrived = run.journal.filter(pl.col("receiver") == rank, pl.col("outcome") != "lost")["sender"].to_list()
        sent = run.journal.filter(pl.col("sender") == rank)["receiver"].to_list()
        assert tables["Ports (segments in the whole run)"] == [
            [str(port), topology.label(peer), str(arrived.count(peer)), str(sent.count(peer))]
            for port, peer in topology.adjacent(rank)
        ]
        for tree, row in enumerate(tables[f"Trees of {topology.label(run.root)}"]):
            up = parents[tree].get(rank)
            children = [topology.label(other) for other, parent in parents[tree].items() if parent == rank]
            assert row[0] == str(tree + 1)
            assert row[1] == ("none" if up is None else topology.label(up))
            assert sorted(row[2].split()) == (sorted(children) or ["none"])
            assert row[3:] == [str(len(path_to(parents[tree], rank)) - 1), str(len(below(parents[tree], rank)))]
        assert [tuple(row) for row in tables.get("Packets sent to it", [])] == run.received(rank)


@pytest.mark.parametrize("scenario", [STRIPED, "ej:2+3 broadcast improved", "star:4 gather edt source=1243 segments=3"])
def test_paths_and_subtrees_light_up(scenario: str, show: Show) -> None:
    report = show(scenario)
    run = report.run
    for rank in random.Random(2).sample(list(run.topology.ranks()), 3):
        report.select(rank)
        routes, branches = report.arcs("route"), report.arcs("branch")
        on_path, beneath = set[int](), set[int]()
        for tree in range(run.trees):
            parents = run.parents(tree)
            path, subtree = path_to(parents, rank), below(parents, rank)
            arcs = {(parents[child], child) for child in path[1:]}, {(parents[child], child) for child in subtree}
            expected = [{(child, parent) for parent, child in each} if run.up else each for each in arcs]
            assert [routes[tree], branches[tree]] == expected
            on_path |= set(path)
            beneath |= subtree
        assert report.rings("selected") == {rank}
        assert report.rings("above") == on_path - {rank}
        assert report.rings("below") == beneath - on_path


def test_trees_have_their_colours_and_levels(show: Show) -> None:
    report = show(STRIPED)
    run, page = report.run, report.page
    page.click("[data-choice=all]")
    drawn = report.arcs("whole")
    assert sorted(drawn) == [0, 1, 2]
    page.click("#show-levels")
    colours = page.evaluate("[...document.querySelectorAll('#overlay .whole')].map((p) => getComputedStyle(p).stroke)")
    swatches = "[...document.querySelectorAll('[data-choice] .swatch')].map((s) => getComputedStyle(s).backgroundColor)"
    assert colours == page.evaluate(swatches)
    assert len(set(colours)) == 3
    for tree, arcs in drawn.items():
        assert arcs == {(parent, child) for child, parent in run.parents(tree).items()}
        dots = page.evaluate(DOTS.replace("TREE", str(tree)))
        rows = {height: level for level, height in enumerate(sorted({height for _, height in dots}))}
        depth = {rank: len(path_to(run.parents(tree), rank)) - 1 for rank in run.topology.ranks()}
        assert {rank: rows[height] for rank, height in dots} == depth
    page.click("[data-choice='1']")
    assert sorted(report.arcs("whole")) == [1]
    assert report.state()["levels"] == [1]
    # A click on a dot of the drawing selects its node.
    page.click('.levels .dot[data-rank="7"]')
    assert report.rings("selected") == {7}


def test_a_broken_path_is_dotted_where_nothing_arrived(show: Show, tmp_path: Path) -> None:
    """The arcs that a fault keeps packets from are those of the trees without packets that arrived."""
    report = show("star:4 broadcast edt source=2134 redundancy=2 fault=crash:1234@2 fault=crash:4123@3", "#node=1432")
    run = report.run
    arrived = run.journal.filter(pl.col("outcome") != "lost")
    carried = set(arrived.select("tree", "sender", "receiver").iter_rows())
    broken, whole = report.arcs("route.broken"), report.arcs("route:not(.broken)")
    assert {tree: len(arcs) for tree, arcs in broken.items()} == {0: 3, 1: 4}
    assert not any((tree, *arc) in carried for tree, arcs in broken.items() for arc in arcs)
    assert all((tree, *arc) in carried for tree, arcs in whole.items() for arc in arcs)
    # The rest is what the same algorithm does without faults.
    healthy = Recorded(
        run_scenario(tmp_path / "healthy", **fields("star:4 broadcast edt source=2134 redundancy=2")).path
    )
    for tree in range(2):
        path = path_to(healthy.parents(tree), run.topology.rank("1432"))
        assert broken[tree] | whole[tree] == set(pairwise(path))


def test_every_origin_of_an_all_to_all_collective_has_trees(show: Show) -> None:
    report = show("star:3 allgather edt-dfs")
    run = report.run
    for origin in (0, 4):
        report.page.evaluate(
            f"(() => {{ const root = document.getElementById('root'); root.value = '{origin}'; "
            "root.dispatchEvent(new Event('change')); })()"
        )
        report.select(2)
        (row, *_) = report.tables()[f"Trees of {run.topology.label(origin)}"]
        assert row[1] == run.topology.label(run.parents(0, origin)[2])


def test_cut_off_nodes_name_the_fault_and_its_arc(show: Show) -> None:
    report = show("star:4 broadcast greedy-tree source=1234 fault=crash:2134@1 fault=down:1234~4231@1")
    run = report.run
    listed = {node["label"]: node["because"] for node in run.summary["cut_off"]}
    assert len(set(listed.values())) == 2, "each fault cuts off some nodes"
    for label, because in listed.items():
        report.go(f"#node={label}")
        assert f"Cut off by {because}." in report.facts()
        path = report.page.evaluate("document.querySelector('#node tr[data-tree] td:nth-child(2)').textContent")
        assert "(" in path, "nothing arrived from the parent"
    report.page.click("#cut-off a[data-node]")
    first = report.page.evaluate("document.querySelector('#cut-off a[data-node]').dataset.node")
    assert report.text("node").startswith(f"Node {first} ")
    report.go("#node=2134&step=1")
    behind = sum(because.startswith("crash:") for because in listed.values())
    _, free = run_journal(**fields("star:4 broadcast greedy-tree source=1234"))
    unsent = free.filter(sender=run.topology.rank("2134")).select("step", "port").unique().height
    effects = f"first effect in step 1; {unsent} packets were never sent; {behind} nodes cut off"
    assert f"Crash from step 1 (until the end; {effects})." in " ".join(report.facts())


def test_step_node_and_tree_are_in_the_address(show: Show) -> None:
    report = show(STRIPED, "#step=3&node=4231&tree=2")
    shown = report.state()
    assert (shown["slider"], shown["rings"], shown["choices"]) == (3, [report.run.topology.rank("4231")], ["1"])
    report.page.click("[data-choice=all]")
    report.page.click("#whole")
    report.page.wait_until("location.hash === '#node=4231&tree=all'")
    report.go("#step=2&node=9999")
    assert report.text("complaint") == "There is no node 9999."
    assert report.state()["rings"] == []


def test_an_address_that_the_reader_enters_is_not_overwritten(show: Show) -> None:
    """The address follows the page after a moment; one that was entered within this moment counts."""
    report = show("star:3 broadcast greedy-tree")
    entered = report.page.evaluate("""new Promise((done) => {
      const slider = document.getElementById("slider"), began = performance.now();
      slider.value = 1;
      slider.dispatchEvent(new Event("input"));
      setTimeout(() => {
        while (performance.now() - began < 300);
        location.hash = "#step=2";
        setTimeout(() => done(location.hash), 50);
      });
    })""")
    assert entered == "#step=2"
    assert report.text("now").startswith("step 2 of ")


def test_a_click_selects_the_node_under_it_also_after_zooming(show: Show) -> None:
    report = show(STRIPED)
    layout = layout_of(report.run.topology)
    for zoomed in (False, True):
        if zoomed:
            report.page.click("#closer")
            assert report.state()["box"][2] == 625.0
        for rank in (0, 13, 22):
            report.page.evaluate("document.getElementById('map').scrollIntoView({block: 'center'})")
            at = report.page.evaluate(
                f"(() => {{ const p = new DOMPoint({layout.x[rank]}, {layout.y[rank]})"
                ".matrixTransform(document.getElementById('map').getScreenCTM()); return [p.x, p.y]; })()"
            )
            inside = report.page.evaluate(f"Boolean(document.elementFromPoint({at[0]}, {at[1]})?.closest('#picture'))")
            if inside:
                report.page.click_at(*at)
                assert report.rings("selected") == {rank}


def test_the_keyboard_alone_suffices(show: Show) -> None:
    """Find a node by its label, move to a neighbour on the map, step on, and close."""
    report = show(STRIPED)
    page = report.page

    def focus_by_tab(name: str) -> None:
        for _ in range(40):
            page.press("Tab", ARROWS["Tab"])
            if page.evaluate(f"document.activeElement.id === {name!r}"):
                return
        raise AssertionError(f"no Tab leads to {name}")

    focus_by_tab("label")
    page.call("Input.insertText", text="4231")
    page.call("Input.dispatchKeyEvent", type="keyDown", key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")
    assert report.text("node").startswith("Node 4231 ")
    assert page.evaluate("document.activeElement.id") == "node"
    page.evaluate("document.getElementById('label').focus()")
    focus_by_tab("picture")
    layout = layout_of(report.run.topology)
    (before,) = report.rings("selected")
    page.press("ArrowRight", ARROWS["ArrowRight"])
    (after,) = report.rings("selected")
    assert layout.x[after] > layout.x[before]
    page.press("Escape", ARROWS["Escape"])
    assert report.state()["hidden"]
    page.evaluate("document.activeElement.blur()")
    page.press("ArrowRight", ARROWS["ArrowRight"])
    page.press("ArrowRight", ARROWS["ArrowRight"])
    assert report.text("now").startswith("step 2 of ")
    page.press("ArrowLeft", ARROWS["ArrowLeft"])
    assert report.text("now").startswith("step 1 of ")


CONTROLS: Final = [
    "#whole", "#play", "#show-levels", "#closer", "#farther", "#fit", "#node .close", "#node .node-link",
    "[data-choice=traffic]", "[data-choice=all]", "[data-choice='0']", "[data-choice='2']", ".levels .dot", "#picture",
]  # fmt: skip
KEYS: Final = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Escape", "+", "-", "0"]
ACT: Final = """
((kind, query, share, value) => {
  const found = [...document.querySelectorAll(query)].filter((one) => one.getClientRects().length);
  if (!found.length) return;
  const one = found[Math.floor(share * found.length)], box = one.getBoundingClientRect();
  if (kind === "key") return one.dispatchEvent(new KeyboardEvent("keydown", {key: value, bubbles: true, cancelable: true}));
  if (kind === "slide") { one.value = value; one.dispatchEvent(new Event("input", {bubbles: true})); return; }
  const [x, y] = [box.left + share * box.width, box.top + (1 - share) * box.height];
  const at = {clientX: x, clientY: y, bubbles: true, pointerId: 1};
  for (const type of ["pointerdown", "pointerup"]) one.dispatchEvent(new PointerEvent(type, {...at, buttons: 1}));
  one.dispatchEvent(new MouseEvent("click", at));
})
"""


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("scenario", [STRIPED, "star:4 broadcast edt segments=3 fault=crash:4132@1 fault=hang:1243@2"])
def test_any_clicks_and_keys_leave_a_consistent_page(scenario: str, show: Show) -> None:
    """Forty random sequences: the parts of the page agree with each other, and the picture with the journal."""
    report = show(scenario)
    page, run, draw = report.page, report.run, random.Random(scenario)
    parents = [run.parents(tree) for tree in range(run.trees)]
    last = int(run.journal["step"].max())  # type: ignore[arg-type]
    sequences = []
    for _ in range(40):
        actions: list[tuple[str, str, float, str | int]] = []
        for _ in range(draw.randint(1, 8)):
            kind = draw.choice(["click", "click", "key", "slide"])
            query = {"key": draw.choice(["#picture", "body"]), "slide": "#slider"}.get(kind, draw.choice(CONTROLS))
            value = draw.choice(KEYS) if kind == "key" else draw.randint(1, last)
            actions.append((kind, query, draw.random(), value))
        sequences.append(actions)
    # All in one call, which saves most of the time.
    titles = set()
    for shown, tables in page.evaluate(
        f"{json.dumps(sequences)}.map((actions) => {{ for (const action of actions) ({ACT})(...action); "
        "document.querySelector('#play[aria-pressed=true]')?.click(); "
        f"return [{STATE}, {TABLES}]; }})"
    ):
        assert shown["playing"] == 0
        assert shown["now"].startswith("whole run: " if shown["whole"] else f"step {shown['slider']} of {last}: ")
        (choice,) = shown["choices"]
        trees = [int(choice)] if choice.isdigit() else list(range(run.trees))
        assert shown["wholeTrees"] == ([] if choice == "traffic" else trees)
        assert shown["levels"] == (trees if shown["showLevels"] else [])
        assert shown["hidden"] == (not shown["rings"])
        left, top, width, height = shown["box"]
        assert min(left, top) >= 0
        assert left + width <= 1000.1
        assert height > 0
        if shown["rings"]:
            (rank,) = shown["rings"]
            titles.add(rank)
            assert shown["title"] == f"Node {run.topology.label(rank)} rank {rank}"
            rows = dict(tables)[f"Trees of {run.topology.label(run.root)}"]
            for tree, row in zip(trees, rows, strict=True):
                if parents[tree].get(rank) is not None:
                    assert row[1] == run.topology.label(parents[tree][rank])
    assert len(titles) > 5, "the sequences select many nodes"


CATCH_DOWNLOADS: Final = """
window.saved = [];
HTMLAnchorElement.prototype.click = function () { window.saved.push([this.download, this.href]); };
URL.createObjectURL = (blob) => { blob.text().then((text) => { window.svg = text; }); return "blob:0"; };
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_saved_pictures_look_as_the_page_does(scheme: str, show: Show) -> None:
    """The SVG has plain colours, and its circles those of the page; the PNG has the size of the map."""
    report = show(STRIPED, "#step=4&node=4231&tree=all")
    page = report.page
    page.prefer(prefers_color_scheme=scheme)
    page.evaluate(CATCH_DOWNLOADS)
    page.click("#save-svg")
    page.click("#save-png")
    page.wait_until("window.saved.length === 2 && window.svg")
    (svg_name, _), (png_name, png) = page.evaluate("window.saved")
    assert (Path(svg_name).suffix, Path(png_name).suffix) == (".svg", ".png")
    text = page.evaluate("window.svg")
    assert not re.search(r"var\(|color\(|class=|color-mix", text)
    root = ElementTree.fromstring(text)
    fills = "[...document.querySelectorAll('#nodes circle')].map((c) => getComputedStyle(c).fill)"
    drawn = [circle.get("fill") for circle in root.findall(".//*[@id='nodes']/{*}circle")]
    shown = page.evaluate(fills)
    assert len(drawn) == 24
    assert [
        one for one, other in zip(drawn, shown, strict=True) if one != other and not other.startswith("color(")
    ] == []
    image = b64decode(png.partition(",")[2])
    assert image[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = (int.from_bytes(image[at : at + 4]) for at in (16, 20))
    assert (width, height) == (2000, 2 * round(1000 * layout_of(report.run.topology).height / 1000))


def test_large_map_shows_links_on_demand(show: Show) -> None:
    """In a network of 5,040 nodes: the links of a step, and the packets of a node."""
    report = show("star:7 broadcast greedy-tree", "#step=4&node=2134567")
    page, run = report.page, report.run
    (rank,) = report.rings("selected")
    assert run.topology.label(rank) == "2134567"
    assert [tuple(row) for row in report.tables()["Packets sent to it"]] == run.received(rank)
    page.click("#links-on-map")
    ends = page.evaluate("document.querySelector('#overlay .busy').getAttribute('d').split('\\n').length")
    assert ends == run.journal.filter(step=4).select("sender", "port").n_unique()
    page.click("#whole")
    ends = page.evaluate("document.querySelector('#overlay .busy').getAttribute('d').split('\\n').length")
    assert ends == run.journal.select("sender", "port").n_unique()
    page.click("#links-on-map")
    assert page.evaluate("document.querySelector('#overlay .busy')") is None


def test_packets_of_long_runs_are_summed_over_steps(show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.reports.interactive.node_data.MOST_PACKETS", 200)
    report = show("star:4 allgather hamiltonian-cycle port_model=one-port", "#node=2134")
    rows = report.tables()["Packets sent to it"]
    rank = report.run.topology.rank("2134")
    assert sum(int(row[3]) for row in rows) == report.run.journal.filter(pl.col("receiver") == rank).height
    spans = [tuple(map(int, row[0].split(" to "))) for row in rows]
    last = int(report.run.journal["step"].max())  # type: ignore[arg-type]
    assert {end - first + 1 for first, end in spans if end != last} == {4}
    assert max(end for _, end in spans) <= last


@pytest.mark.parametrize("width", [360, 1400])
def test_panel_and_drawings_fit_the_screen(width: int, show: Show) -> None:
    report = show(STRIPED)
    report.page.resize(width)
    report.go("#step=3&node=4231&tree=all")
    report.page.click("#show-levels")
    assert report.page.evaluate("document.documentElement.scrollWidth") <= width
    assert report.page.evaluate(CLIPPED) == []
    letters = report.page.evaluate(LETTERS)
    assert [text for font, _, text in letters if font < 9] == []
    drawings = "[...document.querySelectorAll('#node .charts svg, #levels svg')]"
    overflow = f"{drawings}.filter((one) => one.getBoundingClientRect().right > innerWidth + 1).length"
    assert report.page.evaluate(overflow) == 0


@pytest.mark.parametrize("width", [360, 1400])
def test_long_labels_leave_room_for_the_charts(width: int, page: Browser, tmp_path: Path) -> None:
    name = "a-rather-long-name-of-the-switch-in-rack-{}-of-the-hall"
    ring = [(at, (at + 1) % 8) for at in range(8)]
    (tmp_path / "ring.edges").write_text("".join(f"{name.format(one)} {name.format(other)}\n" for one, other in ring))
    network = {"topology": f"file:{tmp_path / 'ring.edges'}", "collective": "broadcast", "algorithm": "bfs-tree"}
    path = run_and_draw(tmp_path / "run", **network).path
    page.resize(width)
    page.open(path / "report.html", f"#node={name.format(3)}")
    assert page.evaluate("document.querySelectorAll('#node .charts svg').length") == 2
    assert page.evaluate(CLIPPED) == []
    assert page.evaluate("document.documentElement.scrollWidth") == width
