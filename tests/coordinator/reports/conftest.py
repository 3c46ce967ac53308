"""A page of the browser for tests of reports."""

from collections.abc import Iterator

import pytest

from tests.browser import Browser


@pytest.fixture
def page(browser: Browser) -> Iterator[Browser]:
    """Provide the browser without events of earlier pages, in light colours; errors on the page fail the test."""
    browser.events.clear()
    browser.prefer(prefers_color_scheme="light")
    browser.resize(1400)
    yield browser
    assert browser.complaints() == []
