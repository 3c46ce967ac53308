"""Figures as pixels: PNG by resvg, a renderer without a browser (extra `report`)."""

import struct
import zlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from emunode.errors import ScenarioError

FONTS = ("/usr/share/fonts", "/usr/local/share/fonts", "/System/Library/Fonts", "/Library/Fonts", "C:/Windows/Fonts")
"""Folders of system fonts; the renderer brings no fonts."""
FAMILIES = {
    "DejaVuSans.ttf": "DejaVu Sans", "LiberationSans-Regular.ttf": "Liberation Sans", "NotoSans-Regular.ttf": "Noto Sans",
    "Arial.ttf": "Arial", "arial.ttf": "Arial", "Helvetica.ttc": "Helvetica",
}  # fmt: skip
"""Font file -> family. The renderer omits all text unless it is given a family for `sans-serif`."""


def png_of(svg: str, field: str, path: Path, otherwise: str = "", *, zoom: int = 2, about: Sequence[str] = ()) -> bytes:
    """Render the figure as PNG, `zoom` times as large, with the lines `about` as its description.

    Raises ScenarioError (for `field`, with the advice `otherwise`) if the renderer or a font is missing.
    """
    try:
        import resvg_py  # noqa: PLC0415  # optional
    except ImportError:
        raise ScenarioError(
            field, str(path), f"PNG needs the Python package resvg-py (pip install 'resvg-py>=0.5'){otherwise}"
        ) from None
    family = font_family()
    if family is None:
        raise ScenarioError(
            field, str(path), f"PNG needs one of these fonts: {', '.join(dict.fromkeys(FAMILIES.values()))}{otherwise}"
        )
    return with_description(bytes(resvg_py.svg_to_bytes(svg_string=svg, zoom=zoom, sans_serif_family=family)), about)


def with_description(png: bytes, about: Sequence[str]) -> bytes:
    """Return a PNG file with a text, before its last chunk, that image programs show as its description."""
    if not about:
        return png
    # Keyword, no compression, no language, and the text in UTF-8: an international text of the PNG specification.
    content = b"iTXt" + b"Description\0\0\0\0\0" + "\n".join(about).encode()
    chunk = struct.pack(">I", len(content) - 4) + content + struct.pack(">I", zlib.crc32(content))
    return png[:-LAST_CHUNK] + chunk + png[-LAST_CHUNK:]


LAST_CHUNK = 12
"""Bytes of the chunk that ends every PNG file."""


@cache
def font_family() -> str | None:
    """Return the family of an installed font."""
    files = {file.name for folder in FONTS if Path(folder).is_dir() for file in Path(folder).rglob("*.tt[fc]")}
    return next((name for file, name in FAMILIES.items() if file in files), None)
