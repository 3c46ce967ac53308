"""Draw the page of a watched run as a user sees it.

PYTHONPATH=. python scripts/screenshot_watch.py docs/pictures/watch.png     # a broadcast in S_4, after a crash in step 3
PYTHONPATH=. python scripts/screenshot_watch.py docs/pictures/watch.gif     # step, click a node, crash it, step on
PYTHONPATH=. python scripts/screenshot_watch.py docs/pictures/watch-forged.png   # two nodes that make all others elect a lie
"""

import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
from PIL import Image

from emunode.topologies.registry import parse_topology
from tests.helpers.browser import Browser, find_chromium
from tests.helpers.command_line import Running, command
from tests.helpers.watched_page import BOX, Watched

WINDOW: Final = 1280, 720
WIDTH: Final = 800
"""Of the moving picture, in pixels."""
COLOURS: Final = 64
MOTION: Final = (60, 120, 180, 240)
"""Milliseconds from a step to the picture of its packets."""
FRAME: Final = 90
"""Milliseconds that a picture of a motion is shown; below, one to read, and the last one."""
PAUSE: Final = 1_100
LAST: Final = 3_000

CURSOR = """(() => {
  const image = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  image.id = 'cursor';
  image.setAttribute('viewBox', '0 0 16 24');
  const place = {left: '600px', top: '150px', width: '22px', height: '33px'};
  Object.assign(image.style, {position: 'fixed', zIndex: 9, pointerEvents: 'none', ...place});
  image.innerHTML = '<path d="M1 1v18l4-4 3 7 3-1-3-7h6z" fill="#111" stroke="#fff"/>';
  document.body.append(image);
  window.clock = 0;
  performance.now = () => window.clock;
})()"""
"""A pointer (screenshots lack it) and a clock that is set by hand, so that a picture shows one moment of a motion."""


def palette_of(images: Sequence[Image.Image], count: int) -> Image.Image:
    """Return a picture with the palette that suits every colour of some pictures.

    Each colour counts once, whatever its area: otherwise thin lines, such as crosses, would get no colour of their own.
    """
    colours = np.unique(np.concatenate([np.asarray(image).reshape(-1, 3) for image in images]), axis=0)
    return Image.fromarray(colours[np.newaxis]).quantize(count)


def write_still(page: Browser, path: Path) -> None:
    """Write the page from its top on."""
    page.evaluate("scrollTo(0, 0)")
    image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    image.quantize(palette=palette_of([image], 256), dither=Image.Dither.NONE).save(path, optimize=True)


class Story:
    """The pictures of a page, and for how many milliseconds each is shown."""

    def __init__(self, page: Browser) -> None:
        self._page = page
        self._shown: list[tuple[Image.Image, int]] = []
        self._clock = 0

    def picture(self, milliseconds: int) -> None:
        """Add the page as it is."""
        # Two frames of the browser, for what a change draws in the next one.
        self._page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        image = Image.open(io.BytesIO(self._page.screenshot())).convert("RGB")
        self._shown.append((image.resize((WIDTH, round(image.height * WIDTH / image.width))), milliseconds))

    def point(self, x: float, y: float) -> None:
        """Move the pointer to a point of the page, and click there."""
        self._page.evaluate(f"Object.assign(document.getElementById('cursor').style, {{left: '{x}px', top: '{y}px'}})")
        self.picture(PAUSE // 2)
        self._page.click_at(x, y)

    def press(self, selector: str) -> None:
        """Point at an element and click it."""
        box = f"document.querySelector({selector!r}).getBoundingClientRect()"
        self.point(*self._page.evaluate(f"(({{x, y, width, height}}) => [x + width / 2, y + 0.6 * height])({box})"))

    def motion(self) -> None:
        """Add the packets on their way, and the page after their arrival."""
        for milliseconds in MOTION:
            self._page.evaluate(f"window.clock = {self._clock + milliseconds}")
            self.picture(FRAME)
        self._clock += 1_000
        self._page.evaluate(f"window.clock = {self._clock}")
        self.picture(PAUSE)

    def save(self, path: Path) -> None:
        """Write the pictures as an animation that repeats."""
        images, durations = zip(*self._shown, strict=True)
        palette = palette_of(images, COLOURS)
        frames = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
        frames[0].save(
            path, save_all=True, append_images=frames[1:], duration=[*durations[:-1], LAST], loop=0, optimize=True
        )


def stepped(page: Browser, step: int) -> None:
    """Wait until the page shows this step, or the end of the run."""
    page.wait_until(
        f"document.getElementById('state').textContent.startsWith('Step {step} of ') "
        "|| document.getElementById('verdict').textContent"
    )


@contextmanager
def watched(flags: str) -> Iterator[Watched]:
    """Show a watched run in a browser, and end it with the context."""
    program = find_chromium()
    if program is None:
        raise SystemExit("Chromium not found (Debian, Ubuntu: apt install chromium; or set CHROMIUM)")
    with TemporaryDirectory() as folder, ExitStack() as ending:

        def start(line: str) -> Running:
            return ending.enter_context(closing(Running(Path(folder), command(line))))

        with Browser(program, width=WINDOW[0], height=WINDOW[1]) as page:
            page.resize(*WINDOW)
            yield Watched(start, page, f"--driver memory {flags}")


def moving(path: Path) -> None:
    """Step twice, crash a node that other nodes depend on, see the prediction change, and step to the verdict."""
    with watched("star:4 broadcast greedy-tree") as run:
        page, story = run.page, Story(run.page)
        page.evaluate(CURSOR)
        story.picture(PAUSE)
        for step in (1, 2):
            story.press("#step")
            stepped(page, step)
            story.motion()
        left, top, _ = page.evaluate(BOX)
        topology = parse_topology("star:4")
        x, y = run.at(topology, topology.rank(CRASHED))
        story.point(left + x, top + y)
        page.wait_until("document.querySelector('[data-kind=crash]')")
        story.picture(PAUSE)
        before = run.text("claims")
        story.press("[data-kind=crash]")
        page.wait_until(f"document.getElementById('claims').textContent !== {before!r}")
        story.picture(LAST)
        for step in (3, 4):
            story.press("#step")
            stepped(page, step)
            story.motion()
        story.picture(LAST)
        story.save(path)


CRASHED: Final = "4132"
"""Receives the message in step 2, and is to pass it on in step 3."""


def still(path: Path) -> None:
    """Crash node 3421 in step 3 of a broadcast over three trees, and draw the page after step 5."""
    with watched("star:4 broadcast edt --redundancy 3 --messages 5") as run:
        page = run.page
        for step in range(1, 6):
            if step == 3:
                page.evaluate("document.getElementById('label').value = '3421'")
                page.click("#search button")
                page.wait_until("document.querySelector('[data-kind=crash]')")
                page.click("[data-kind=crash]")
                page.wait_until("document.getElementById('faults').textContent.includes('3421')")
            run.step()
        page.wait_until("document.getElementById('measured-title').textContent === 'after step 5'")
        page.wait_until("!('moving' in document.getElementById('map').dataset)")
        write_still(page, path)


def forged(path: Path) -> None:
    """Draw the page at the end of a broadcast with two nodes that forge alike, and so win every vote of three copies."""
    faults = "--fault collude:21345 --fault collude:32145"
    with watched(f"star:5 broadcast edt --redundancy 3 --source 12345 {faults}") as run:
        run.page.evaluate("document.getElementById('rate').value = '0'")
        run.page.click("#run")
        run.page.wait_until("document.getElementById('verdict').textContent")
        write_still(run.page, path)


PAGES: Final = {"watch.png": still, "watch.gif": moving, "watch-forged.png": forged}

if __name__ == "__main__":
    wanted = Path(sys.argv[1])
    PAGES[wanted.name](wanted)
