"""Drawings as PNG and PDF files, by typst, which needs neither a browser nor LaTeX (extra `report`)."""

import struct
import zlib
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

from coordinator.reports.pictures import Picture
from emunode.errors import ScenarioError

FAMILIES: Final = ("DejaVu Sans", "Liberation Sans", "Noto Sans", "Arial", "Helvetica")
"""Fonts of which one has to be installed: typst brings none without serifs, and leaves texts out without a font."""
PIXELS_PER_INCH: Final = 96
"""Resolution at which a unit of a drawing is a pixel."""
DOCUMENT: Final = b"""
#set page(width: auto, height: auto, margin: 0pt)
#set document(title: sys.inputs.title, description: sys.inputs.about, date: none)
#image(bytes(sys.inputs.svg), format: "svg", alt: sys.inputs.title)
"""
"""A page of the size of the drawing, without a date, so that the same drawing gives the same bytes."""


def file_of(picture: Picture, path: Path, field: str) -> bytes:
    """Return the content of a PNG or PDF file of a picture, by the ending of `path`, with its lines `about`.

    A pixel of a PNG is half a unit of the drawing. Raises ScenarioError (for `field`) if typst or a font is missing.
    """
    title, about = next(iter(picture.about), picture.title), "\n".join(picture.about)
    if path.suffix == ".png":
        return with_description(drawn("png", picture.svg, path, field, zoom=2, otherwise="; or use .svg"), about)
    return drawn("pdf", picture.svg, path, field, otherwise="; or use .svg", title=title, about=about)


def drawn(kind: str, svg: str, path: Path, field: str, *, zoom: int = 1, otherwise: str = "", **words: str) -> bytes:
    """Draw an SVG document as "png", `zoom` times as large, or as "pdf", with the words `title` and `about`.

    Raises ScenarioError (for `field`, with the advice `otherwise`) if typst or a font is missing.
    """
    fonts = _fonts()
    if isinstance(fonts, str):
        raise ScenarioError(field, str(path), f"{kind.upper()} needs {fonts}{otherwise}")
    inputs = {"title": "", "about": "", **words, "svg": svg.replace("sans-serif", f"'{fonts.family}'")}
    compiler = fonts.typst.Compiler(font_paths=fonts.found)
    return bytes(compiler.compile(DOCUMENT, format=kind, ppi=PIXELS_PER_INCH * zoom, sys_inputs=inputs))


class _Fonts(NamedTuple):
    typst: ModuleType
    found: Any  # the fonts of this machine, which typst looks for once
    family: str


@cache
def _fonts() -> _Fonts | str:
    """Return typst and a font, or what has to be installed."""
    try:
        import typst  # noqa: PLC0415  # optional
    except ImportError:
        return "the Python package typst (pip install 'typst>=0.14')"
    found = typst.Fonts()
    family = next((each for each in FAMILIES if each in found.families()), None)
    return f"one of these fonts: {', '.join(FAMILIES)}" if family is None else _Fonts(typst, found, family)


def with_description(png: bytes, about: str) -> bytes:
    """Return a PNG file with a text, before its last chunk, that image programs show as its description."""
    if not about:
        return png
    # Keyword, no compression, no language, and the text in UTF-8: an international text of the PNG specification.
    content = b"iTXt" + b"Description\0\0\0\0\0" + about.encode()
    chunk = struct.pack(">I", len(content) - 4) + content + struct.pack(">I", zlib.crc32(content))
    return png[:-LAST_CHUNK] + chunk + png[-LAST_CHUNK:]


LAST_CHUNK = 12
"""Bytes of the chunk that ends every PNG file."""
