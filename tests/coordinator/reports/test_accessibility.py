"""Accessibility of the pages: axe-core in Chromium, and colours that can be told apart with any colour vision."""

import json
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

from coordinator.api.comparisons import compare
from coordinator.cli.invoke import main
from coordinator.history.run_index import write_index
from coordinator.reports.index_page import index_page
from coordinator.reports.theme import DARK, LIGHT, TREE_COLOURS, VIRIDIS, viridis
from tests.helpers.browser import Browser
from tests.helpers.command_line import Start, fields
from tests.helpers.support import run_and_draw, run_scenario

AXE = find_spec("axe_core_python")
LOAD: Final = """
((page, text) => {
  const script = page.head.appendChild(page.createElement("script"));
  script.textContent = text;
  script.remove();
})
"""
RUN_AXE: Final = """
((page, rules) => page.axe.run({iframes: false, rules}).then(({violations}) => violations.map(({id, nodes}) =>
  [id, nodes.map(({html, failureSummary}) => [html.slice(0, 200), failureSummary])])))
"""
in_browser = [
    pytest.mark.browser,
    pytest.mark.skipif(AXE is None, reason="axe-core-python is not installed (extra `dev`)"),
]


@pytest.fixture(scope="module")
def axe() -> str:
    """Provide the program of axe-core."""
    assert AXE is not None
    assert AXE.origin is not None
    return (Path(AXE.origin).parent / "axe.min.js").read_text(encoding="utf-8")


OPEN: Final = {
    "report": ("#step=2&node=132&tree=all", "document.getElementById('show-levels').click()"),
    "comparison": ("#step=2", "document.querySelectorAll('details').forEach((part) => { part.open = true; })"),
}
"""By page: its fragment, and what is opened on it."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages of a run, of two runs, of all runs, of a campaign and of a sweep."""
    folder = tmp_path_factory.mktemp("pages")
    crash = "star:3 broadcast greedy-tree fault=crash:312@1"
    one = run_and_draw(
        folder / "run", **fields("star:3 broadcast edt segments=3 fault=crash:312@1 fault=down:123~321@1")
    )
    run_scenario(folder / "other", **fields(crash))
    for line in (
        "campaign --topology star:4 --algorithm bfs-tree --faults nodes=0..2 --trials 20 --workers 1",
        "sweep --topology star:3 --topology star:4 --collective broadcast --algorithm greedy-tree",
    ):
        assert main([*line.split(), "--out", str(folder / line.split()[0])]) == 0
    return {
        "report": one.path / "report.html",
        "comparison": compare(one.path, folder / "other").save(folder / "page.html"),
        "index": write_index(folder, index_page),
        "campaign": folder / "campaign" / "campaign.html",
        "sweep": folder / "sweep" / "sweep.html",
    }


def violations(page: Browser, axe: str) -> list[Any]:
    """Of the page and of its frames, one by one: axe-core sends messages to frames, which files may not receive."""
    page.evaluate(axe)
    found = list(page.evaluate(f"{RUN_AXE}(window, {{}})"))
    for at in range(int(page.evaluate("frames.length"))):
        page.evaluate(f"{LOAD}(frames[{at}].document, {json.dumps(axe)})")
        # The page around a frame has the heading.
        found += page.evaluate(f"{RUN_AXE}(frames[{at}], {{'page-has-heading-one': {{enabled: false}}}})")
    return found


class TestWithAxe:
    """The rules of axe-core, in both colour schemes, on a screen and on a phone."""

    pytestmark = in_browser

    @pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 360)])
    @pytest.mark.parametrize("name", ["report", "comparison", "index", "campaign", "sweep"])
    def test_page(self, name: str, scheme: str, width: int, pages: dict[str, Path], page: Browser, axe: str) -> None:
        page.resize(width)
        page.prefer(prefers_color_scheme=scheme)
        fragment, script = OPEN.get(name, ("", "0"))
        page.open("about:blank")
        page.open(pages[name], fragment)
        page.evaluate(script)
        opened = page.evaluate("[frames.length, document.querySelectorAll('#levels svg').length]")
        assert opened == {"report": [0, 2], "comparison": [2, 0]}.get(name, [0, 0])
        assert violations(page, axe) == []

    def test_watched_run(self, browser: Browser, start: Start, axe: str) -> None:
        flags = "--topology star:3 --collective broadcast --algorithm greedy-tree --driver memory --out run"
        command = start(f"coordinator run --watch --json {flags}")
        command.wait_for(lambda: "http" in command.err and command.err.endswith("\n"), "the address")
        url = next(word for word in command.err.split() if word.startswith("http"))
        for scheme, width in (("light", 1200), ("dark", 360)):
            browser.resize(width)
            browser.prefer(prefers_color_scheme=scheme)
            browser.open("about:blank")
            browser.open(url)
            browser.wait_until("!document.getElementById('step').disabled")
            browser.evaluate("document.getElementById('label').value = '213'")
            browser.evaluate("document.getElementById('search').requestSubmit()")
            browser.wait_until("document.querySelector('[data-kind=crash]')")
            assert violations(browser, axe) == []
        browser.click("#end")
        browser.wait_until("document.getElementById('result').textContent")
        assert violations(browser, axe) == []
        browser.click("#close")
        command.end()
        browser.open("about:blank")  # the browser goes on with other tests


# --- colours ---------------------------------------------------------------------------------------------------------

VISIONS: Final[Mapping[str, list[list[float]]]] = {
    "all": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
"""G. M. Machado, M. M. Oliveira and L. A. F. Fernandes, "A physiologically-based model for simulation of color vision
deficiency", IEEE TVCG 15 (2009), severity 1: matrices on linear RGB."""
XYZ: Final = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
WHITE: Final = (0.95047, 1.0, 1.08883)
TOLD_APART: Final = 10.0
"""Least distance in CIELAB; from 2.3 on, two colours side by side differ."""


def linear(colour: str) -> NDArray[np.float64]:
    parts = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(colour: str, vision: str) -> NDArray[np.float64]:
    """Return the colour in CIELAB as this vision sees it."""
    seen = np.clip(np.array(VISIONS[vision]) @ linear(colour), 0, 1)
    ratio = np.array(XYZ) @ seen / np.array(WHITE)
    f = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio * (29 / 6) ** 2 / 3 + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(one: str, other: str) -> float:
    dark, bright = sorted(float(np.array(XYZ)[1] @ linear(colour)) for colour in (one, other))
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("vision", VISIONS)
def test_colours_of_trees_can_be_told_apart(vision: str, colours: Mapping[str, str]) -> None:
    seen = {name: lab(colours[name], vision) for name in TREE_COLOURS}
    close = {
        (one, other): round(float(np.linalg.norm(seen[one] - seen[other])), 1)
        for one, other in combinations(TREE_COLOURS, 2)
        if np.linalg.norm(seen[one] - seen[other]) < TOLD_APART
    }
    assert close == {}


@pytest.mark.parametrize("vision", VISIONS)
def test_scales_get_brighter_for_any_vision(vision: str) -> None:
    lightness = [lab(viridis(share / 20), vision)[0] for share in range(21)]
    assert (np.diff(lightness) > 0).all()
    assert lab(VIRIDIS[-1], vision)[0] - lab(VIRIDIS[0], vision)[0] > 60


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_text_and_lines_contrast_with_their_background(colours: Mapping[str, str]) -> None:
    """WCAG 2.2: 4.5 for text (1.4.3), 3 for graphics (1.4.11); here on both backgrounds for text."""
    texts = ("ink", "muted", "blue", "holds", "violated", "undecided")
    assert {
        name for name in texts for ground in ("paper", "panel") if contrast(colours[name], colours[ground]) < 4.5
    } == set()
    assert contrast(colours["ink"], colours["paper"]) > 7
    low = {name for name in TREE_COLOURS if contrast(colours[name], colours["paper"]) < 3}
    # A light sky blue and grey; such a line is wide, and the panel and the address name its tree.
    assert low <= {"sky", "grey", "orange"}


@pytest.fixture
def page(browser: Browser) -> Iterator[Browser]:
    browser.events.clear()
    yield browser
    browser.prefer()
    browser.resize(1400)
