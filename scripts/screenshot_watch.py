"""Write a screenshot of the page of a watched run: a broadcast in S_4 after the crash of a node, rank 22, in step 3.

PYTHONPATH=. python scripts/screenshot_watch.py docs/pictures/watch.png
"""

import sys
import threading
from pathlib import Path

import coordinator as tb
from tests.browser import Browser, find_chromium

CRASHED = 22


def main(path: Path) -> int:
    """Watch a run, step through it as a user does, and write the picture."""
    program = find_chromium()
    if program is None:
        print("Chromium not found (Debian, Ubuntu: apt install chromium; or set CHROMIUM)", file=sys.stderr)
        return 4
    addresses: list[str] = []
    ready = threading.Event()

    def show(url: str) -> None:
        addresses.append(url)
        ready.set()

    run = threading.Thread(
        daemon=True, target=lambda: tb.watch("star:4", "broadcast", "edt", redundancy=3, messages=5, show=show)
    )
    run.start()
    if not ready.wait(60):
        return 4
    with Browser(program, width=1240, height=1290) as page:
        page.open(addresses[0])
        page.wait_until("!document.getElementById('step').disabled")
        label = tb.network("star:4").labels[CRASHED]
        for step in range(1, 6):
            if step == 3:
                page.evaluate(f"document.getElementById('label').value = {label!r}")
                page.click("#search button")
                page.wait_until("document.querySelector('[data-kind=crash]')")
                page.click("[data-kind=crash]")
                page.wait_until(f"document.getElementById('faults').textContent.includes({label!r})")
            page.click("#step")
            page.wait_until(f"document.getElementById('state').textContent === 'Paused; step {step + 1} is next.'")
        page.wait_until("!document.getElementById('claims').rows[0].cells[2].textContent.includes('\\u2013')")
        page.evaluate("scrollTo(0, 0)")
        path.write_bytes(page.screenshot())
        page.click("#end")
    run.join()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
