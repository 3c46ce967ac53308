"""Colours, bars and tables of reports."""

from coordinator.reports.charts import Bins
from coordinator.reports.numbers import abbreviate, show, show_seconds
from coordinator.reports.tables import to_csv, to_markdown
from emunode.terminal import plural


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
