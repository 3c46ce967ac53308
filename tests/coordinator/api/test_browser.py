"""Runs in a page of a notebook: each has its own slider, and takes the room that it needs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import coordinator as tb
from tests.helpers.browser import Browser

pytestmark = pytest.mark.browser

STEPS = (
    "[...document.querySelectorAll('iframe')].map((frame) => frame.contentDocument.getElementById('now').textContent)"
)
HIDDEN = """[...document.querySelectorAll('iframe')].map((frame) =>
  frame.contentDocument.documentElement.scrollHeight - frame.clientHeight)"""
SECOND = "document.querySelectorAll('iframe')[1].contentDocument"


@pytest.fixture
def page(browser: Browser) -> Iterator[Browser]:
    """The browser in the size of a notebook; errors on the page fail the test."""
    browser.events.clear()
    browser.prefer()
    browser.resize(1200, 1600)
    yield browser
    assert browser.complaints() == []


def test_two_runs_on_one_page_do_not_meet(page: Browser, tmp_path: Path) -> None:
    net = tb.network("star:4")
    run = net.broadcast("flood")
    outputs = [shown._repr_html_() for shown in (run, run, net.broadcast("edt", redundancy=3))]
    notebook = tmp_path / "notebook.html"
    notebook.write_text("<!doctype html><h1 id='whole'>Cells</h1>" + "".join(f"<div>{cell}</div>" for cell in outputs))
    page.open(notebook)
    assert [text.partition(":")[0] for text in page.evaluate(STEPS)] == ["whole run"] * 3
    assert max(page.evaluate(HIDDEN)) <= 0
    page.evaluate(
        f"{{const slider = {SECOND}.getElementById('slider'); slider.value = 2; slider.dispatchEvent(new Event('input'))}}"
    )
    first, second, third = page.evaluate(STEPS)
    assert second.startswith("step 2 of 4: ")
    assert first.startswith("whole run: ")
    assert third.startswith("whole run: ")
    assert page.evaluate("getComputedStyle(document.querySelector('h1')).maxWidth") == "none"
    claims = page.evaluate(f"[...{SECOND}.querySelectorAll('#claims tbody tr')].map((row) => row.cells[4].textContent)")
    assert claims == ["✓ holds"] * len(run.claims)
