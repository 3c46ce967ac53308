"""Shows a page in the browser of the user."""

import os
import webbrowser
from pathlib import Path

DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")


def open_page(page: Path | str) -> str | None:
    """Open a file or an address in the browser; return the reason if that is not possible.

    Without a display, `webbrowser` would start a browser for terminals, which shows neither a map nor a slider. It is
    started only if the variable BROWSER names it.
    """
    if not any(map(os.environ.get, DISPLAYS)):
        return f"this machine has no display (none of {', '.join(DISPLAYS)} is set)"
    address = page if isinstance(page, str) else page.resolve().as_uri()
    return None if webbrowser.open(address) else "no browser could be started; BROWSER may name one"
