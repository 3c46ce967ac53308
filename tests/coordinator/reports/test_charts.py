"""Colours, bars and tables of reports."""

from itertools import pairwise

import pytest

from coordinator.reports.charts import Bins
from coordinator.reports.numbers import abbreviate, show, show_seconds
from coordinator.reports.tables import to_csv, to_markdown
from coordinator.reports.theme import DARK, LIGHT, viridis
from emunode.terminal import plural


def contrast(one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, bright = sorted((luminance(one), luminance(other)))
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_text_and_marks_contrast_with_the_page(colours: dict[str, str]) -> None:
    assert contrast(colours["ink"], colours["paper"]) > 7
    assert contrast(colours["muted"], colours["panel"]) > 4.5
    for name in ("blue", "green", "red"):
        assert contrast(colours[name], colours["paper"]) > 3


def test_viridis_gets_brighter() -> None:
    shades = [contrast(viridis(share / 20), "#000000") for share in range(21)]
    assert all(one < other for one, other in pairwise(shades))


def test_bars_keep_peaks() -> None:
    values = [0.0] * 5039
    values[4321] = 7
    bins = Bins(5039)
    assert len(bins.of(values)) == bins.count <= 160
    assert max(bins.of(values)) == 7
    assert bins.span(0) == "steps 1 to 32"
    assert bins.span(bins.count - 1).endswith("5,039")


def test_tables() -> None:
    rows: list[dict[str, object]] = [{"name": "a|b", "value": (1, 2)}, {"name": 'x, "y"', "value": None}]
    assert to_csv(rows) == 'name,value\na|b,1 2\n"x, ""y""",\n'
    assert to_markdown(rows) == '| name | value |\n| --- | --- |\n| a\\|b | 1, 2 |\n| x, "y" | - |\n'
    assert to_csv([]) == to_markdown([]) == ""
    values = (None, 12345, 0.1234567, 12345.6, 2.0, True, "x")
    assert [show(value) for value in values] == ["-", "12,345", "0.123457", "12,345.6", "2", "yes", "x"]
    assert [show(value, 4, decimals=4) for value in (1.0, 0.5, 0.00012, 1.23456)] == ["1", "0.5000", "0.0001", "1.235"]
    assert [abbreviate(value) for value in (2e9, 1.5e6, 1200.0, 0.1)] == ["2G", "1.5M", "1,200", "0.1"]
    assert [show_seconds(value) for value in (1.5, 0.002, 3e-6)] == ["1.5 s", "2 ms", "3 µs"]
    assert [plural(1, "symmetr", "ies", "y"), plural(2, "node")] == ["1 symmetry", "2 nodes"]
    assert show(list(range(40))).endswith(", 11, .. (40)")
