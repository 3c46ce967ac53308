"""A headless Chromium, controlled through its debugging pipe: open a page, press keys, evaluate JavaScript.

The DevTools protocol on two pipes (`--remote-debugging-pipe`: file descriptors 3 and 4, JSON terminated by a zero byte)
needs no port, no websocket and no driver program. Every call has a deadline. Leaving the context closes the browser and
removes its profile.

    python -m tests.helpers.browser report.html ..      # print the size of each page and the time it takes to load and paint
"""

import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from base64 import b64decode
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome")
SECONDS = 240.0
"""Deadline of any call; a busy machine starts a browser slowly."""
FLAGS = (
    "--headless",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-gpu",
    "--in-process-gpu",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)


EXECUTE_WITH_PIPES = """
import os, sys
for end, wanted in zip(map(int, sys.argv[1:3]), (3, 4)):
    os.dup2(end, wanted)
if not os.fork():
    for end in map(int, sys.argv[1:3]):
        os.close(end)
    os.execv(sys.argv[3], sys.argv[3:])
"""
"""Moves the two pipes to the descriptors that Chromium expects, then executes it in the background.

Tests look at the children of their own process: the browser is not among them, as other tests share it.
"""


CLICKS = 5
"""Most tries to click an element of a page that moves."""
AIM = """
new Promise((done) => {
  const selector = SELECTOR, element = document.querySelector(selector);
  window.clicked = "nothing";
  document.addEventListener("click", ({ target }) => {
    const other = target.closest("button, a, input, select, summary, canvas");
    window.clicked = target.closest(selector) ? selector : other?.outerHTML ?? "nothing";
  }, { capture: true, once: true });
  const aim = (before) => {
    element.scrollIntoView({ block: "center" });
    const { x, y, width, height } = element.getBoundingClientRect(), middle = [x + width / 2, y + height / 2];
    if (String(middle) === String(before)) done([...middle, element.disabled]);
    else requestAnimationFrame(() => aim(middle));
  };
  aim();
})
"""
"""Bring an element to the middle of the window, and wait until it stays there: its place, and whether it is disabled.

From then on `clicked` is what got the next click: the selector, the text of another control, or "nothing".
"""


class BrowserError(Exception):
    """The browser did not answer, or reported an error."""


def find_chromium() -> str | None:
    """Return the path of the browser: `$CHROMIUM`, or the first that is installed."""
    wanted = os.environ.get("CHROMIUM")
    return shutil.which(wanted) if wanted else next(filter(None, map(shutil.which, PROGRAMS)), None)


class Browser:
    """One browser with one page."""

    def __init__(self, program: str, *, width: int = 1200, height: int = 1600) -> None:
        self._program = program
        self._size = f"--window-size={width},{height}"
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        """Events received from the browser, oldest first."""

    def __enter__(self) -> Self:
        self._profile = TemporaryDirectory(prefix="testbench-browser-")
        ours, theirs = _pipe(), _pipe()  # to the browser, from the browser
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        command = [self._program, *FLAGS, *sandbox, self._size, f"--user-data-dir={self._profile.name}", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", EXECUTE_WITH_PIPES, str(ours[0]), str(theirs[1]), *command],
            pass_fds=(ours[0], theirs[1]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(ours[0])
        os.close(theirs[1])
        self._process.wait()
        self._write, self._read = ours[1], theirs[0]
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(f"{domain}.enable")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(BrowserError, OSError):
            self._session = None
            self.call("Browser.close")
        self._end()

    def _end(self) -> None:
        """Close the pipe to the browser, which ends it; kill its process group if it does not end."""
        os.close(self._write)
        deadline = time.monotonic() + 10
        # The other pipe ends with the browser.
        while select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))[0]:
            if not os.read(self._read, 1 << 20):
                break
        os.close(self._read)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with suppress(OSError):
            self._profile.cleanup()

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """Return the result of a method of the protocol; BrowserError if it fails."""
        self._number += 1
        message: dict[str, object] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + SECONDS
        while True:
            answer = self._next(deadline, method)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']['message']}")
                return dict(answer["result"])
            self.events.append(answer)

    def wait_for(self, event: str) -> dict[str, Any]:
        """Return the next event of this name, starting with events already received."""
        deadline = time.monotonic() + SECONDS
        while True:
            for at, seen in enumerate(self.events):
                if seen.get("method") == event:
                    del self.events[at]
                    return dict(seen["params"])
            self.events.append(self._next(deadline, event))

    def _next(self, deadline: float, wanted: str) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise BrowserError(f"no answer to {wanted} within {SECONDS:.0f} s")
            chunk = os.read(self._read, 1 << 20)
            if not chunk:
                raise BrowserError(f"the browser ended before it answered {wanted}")
            self._buffer += chunk
        message, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(message))

    def open(self, page: Path | str, fragment: str = "") -> None:
        """Show a file, or the page at an address, and wait until it is loaded."""
        address = page if isinstance(page, str) else page.resolve().as_uri()
        # The event of an earlier page must not stand for that of this one.
        self.events[:] = [event for event in self.events if event.get("method") != "Page.loadEventFired"]
        self.call("Page.navigate", url=address + fragment)
        self.wait_for("Page.loadEventFired")

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression, after promises have resolved; BrowserError if it throws."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise BrowserError(str(answer["exceptionDetails"]["exception"].get("description")))
        return answer["result"].get("value")

    def press(self, key: str, code: int) -> None:
        """Press and release a key."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def wait_until(self, condition: str) -> None:
        """Wait until a JavaScript expression is true; BrowserError after SECONDS. The page itself looks again and again."""
        self.evaluate(
            "new Promise((done, fail) => { const look = () => { try { "
            f"if ({condition}) done(); else setTimeout(look, 10); "
            "} catch (error) { fail(error); } }; look(); })"
        )

    def click_at(self, x: float, y: float) -> None:
        """Click a point of the page, in pixels of the window."""
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def screenshot(self) -> bytes:
        """Return the window as PNG."""
        return b64decode(self.call("Page.captureScreenshot")["data"])

    def click(self, selector: str) -> None:
        """Click the middle of an element, again if the page moved it away; BrowserError if another control got the click."""
        for _ in range(CLICKS):
            x, y, disabled = self.evaluate(AIM.replace("SELECTOR", json.dumps(selector)))
            self.click_at(x, y)
            got = self.evaluate("window.clicked")
            if disabled or got in (None, selector):  # None: the click opened another page
                return
            if got != "nothing":
                break
        raise BrowserError(f"the click on {selector} hit {got}")

    def resize(self, width: int, height: int = 900) -> None:
        """Set the size of the page in pixels; narrow pages emulate a phone."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def prefer(self, media: str = "", **features: str) -> None:
        """Emulate a medium such as print, or media features such as prefers_color_scheme."""
        wanted = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.call("Emulation.setEmulatedMedia", media=media, features=wanted)

    def complaints(self) -> list[str]:
        """Return errors and warnings of the page, and its network requests."""
        found = []
        for event in self.events:
            match event.get("method"), event.get("params"):
                case "Runtime.exceptionThrown", {"exceptionDetails": details}:
                    found.append(str(details))
                case "Log.entryAdded", {"entry": {"level": "error" | "warning"} as entry}:
                    found.append(str(entry["text"]))
                case "Network.requestWillBeSent", {"request": {"url": str(url)}} if not url.startswith(
                    ("file:", "data:", "about:")
                ):
                    found.append(f"request for {url}")
        return found


def _pipe() -> tuple[int, int]:
    """Return a pipe with descriptors of at least 16, which do not clash with the 3 and 4 they are moved to."""
    low = os.pipe()
    high = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 16) for end in low)
    for end in low:
        os.close(end)
    return high[0], high[1]


LETTERS = """
[...document.querySelectorAll("svg.chart text, svg.map text")].filter((text) => text.getBoundingClientRect().width)
  .map((text) => [parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().d, text.getBoundingClientRect().height,
                  text.textContent])
"""
"""(pixels of its font, pixels of its box, text) of every visible text in a figure."""
CLIPPED = """
[...document.querySelectorAll("svg.chart")].filter((chart) => chart.getBoundingClientRect().width).flatMap((chart) => {
  const box = chart.getBoundingClientRect();
  return [...chart.querySelectorAll("text")].filter((text) => {
    const at = text.getBoundingClientRect();
    return at.left < box.left - 1 || at.right > box.right + 1 || at.top < box.top - 1 || at.bottom > box.bottom + 1;
  }).map((text) => text.textContent);
})
"""
"""Texts that leave their chart."""


PAINTED = """
new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
  const [navigation] = performance.getEntriesByType("navigation");
  done([navigation.loadEventEnd, performance.now(), document.querySelectorAll("*").length]);
})))
"""
"""Milliseconds from the request until the page was loaded and until the second frame after that; number of elements."""


def main(pages: list[str]) -> int:
    """Open every page once and print its size and times."""
    program = find_chromium()
    if program is None:
        print("Chromium not found (Debian, Ubuntu: apt install chromium; or set CHROMIUM)", file=sys.stderr)
        return 4
    with Browser(program) as browser:
        for page in map(Path, pages):
            browser.open(page)
            loaded, painted, elements = browser.evaluate(PAINTED)
            size = page.stat().st_size / 1e6
            print(
                f"{page}: {size:.2f} MB, {elements:,} elements, loaded in {loaded:.0f} ms, painted in {painted:.0f} ms"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
