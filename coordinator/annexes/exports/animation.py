"""The map of a run as pictures, one per position of the slider, and as an animated GIF: `coordinator export gif RUN FILE`.

Below the map stands the sentence of the step.
"""

from html import escape
from io import BytesIO
from pathlib import Path
from typing import Final

from coordinator.annexes.exports.drawing_files import drawn
from coordinator.history.stored.writing import replace_file
from coordinator.reports.data import RunData
from coordinator.reports.layout import WIDTH
from coordinator.reports.maps.base import NetworkMap
from coordinator.reports.network_svg import CSS
from coordinator.reports.panels.base import Report
from coordinator.reports.theme import LIGHT, in_light_colours, without_media
from emunode.errors import ScenarioError

STRIP: Final = 56
"""Height of the strip with the sentence, in units of the map."""
LETTERS: Final = 100
"""Longest sentence in one line."""
SECONDS: Final = 0.7
MANY_FRAMES: Final = 60
SECONDS_OF_MANY: Final = 0.15
LAST_SECONDS: Final = 2.5


def write_gif(data: RunData, path: Path) -> Path:
    """Write the animation of a run and return its path.

    Raises ScenarioError (field `gif`) if the run has no steps to show, a package is missing, or the file cannot be written.
    """
    picture = Report(data).picture
    if picture is None or not picture.frames:
        raise ScenarioError("gif", str(path), "the run has no steps to show: " + (data.reasons or "nothing was sent"))
    try:
        from PIL import Image  # noqa: PLC0415  # optional
    except ImportError:
        raise ScenarioError(
            "gif", str(path), "a GIF needs the Python package pillow (pip install 'pillow>=11')"
        ) from None

    def image(frame: int) -> Image.Image:
        return Image.open(BytesIO(drawn("png", map_at(picture, frame), path, "gif"))).convert("RGB")

    # One palette for all pictures, from the last one, since it has every colour: a palette of its own would make each
    # flicker.
    palette = image(picture.frames - 1).quantize(256)
    # One at a time: the pictures of a long run would take a gigabyte.
    pictures = (image(at).quantize(palette=palette, dither=Image.Dither.NONE) for at in range(picture.frames))
    each = SECONDS if picture.frames <= MANY_FRAMES else SECONDS_OF_MANY
    durations = [round(1000 * each)] * (picture.frames - 1) + [round(1000 * LAST_SECONDS)]
    content = BytesIO()
    next(pictures).save(content, "GIF", save_all=True, append_images=pictures, duration=durations, loop=0)
    try:
        replace_file(path, content.getvalue(), named=True)
    except OSError as error:
        raise ScenarioError("gif", str(path), f"cannot be written: {error.strerror}") from None
    return path


def map_at(picture: NetworkMap, frame: int) -> str:
    """Return the map at one position of the slider, from 0, as an SVG document in light colours."""
    names, texts, last = (picture.script[key] for key in ("names", "texts", "last"))
    assert isinstance(names, list)
    assert isinstance(texts, list)
    assert isinstance(last, list)
    text = f"step {names[frame]} of {last[-1]}: {texts[frame]}"
    shown = text if len(text) <= LETTERS else text[: LETTERS - 1] + "…"
    height = round(picture.layout.height)
    css = without_media(CSS)  # a picture has no small screens
    return in_light_colours(
        f'<svg xmlns="http://www.w3.org/2000/svg" class="map" viewBox="0 0 {WIDTH:.0f} {height + STRIP}" '
        f'width="{WIDTH:.0f}" height="{height + STRIP}"><style>{css}text{{font-family:sans-serif}}</style>'
        f'<rect width="{WIDTH:.0f}" height="{height + STRIP}" fill="{LIGHT["paper"]}"/>{"".join(picture.body(frame))}'
        f'<text x="20" y="{height + STRIP / 2:.0f}" font-size="20" fill="var(--ink)">{escape(shown)}</text></svg>'
    )
