"""The page of a campaign shows its verdicts and findings."""

import re

from coordinator.reports.campaign_report import page as campaign_page
from tests.helpers.report_runs import Page


def test_campaign_page_shows_verdicts_and_findings() -> None:
    figures = {"delivery_ratio": 0.123456789, "ratio_low": 0.1, "ratio_high": 0.2, "theory": None}
    figures |= {"guaranteed": 1.0, "guaranteed_low": 1.0, "guaranteed_high": 1.0, "promised": 1}
    rows: list[dict[str, object]] = [
        {"topology": "star:4", "faults": "nodes=1", "trials": 9, "undecided": undecided, "violated": violated, **figures,
         "finding": finding}
        for undecided, violated, finding in ((0, 0, None), (2, 0, None), (1, 3, None), (0, 0, "delivery ratio 1, not 0.5"))
    ]  # fmt: skip
    text = campaign_page("star_4: broadcast", {"trials": 36}, rows, {})
    page = Page(text)
    names = ["topology", "faults", "trials", "delivery ratio", "theory", "guaranteed", "promised", "verdict"]
    assert re.findall(r"<th[^>]*>([^<]*)</th>", text) == names
    assert page.text.count("0.1235") == page.text.count("(0.1000 to 0.2000)") == 4
    for words in ("✓ holds", "? 2 undecided", "✗ 3 violated, 1 undecided", "✗ theory excluded"):
        assert page.text.count(words) == 1
    assert "delivery ratio 1, not 0.5" in page.text
    assert page.tags["td"] == 4 * len(names)
