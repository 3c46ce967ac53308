"""A page of the browser for tests of watched runs."""

from collections.abc import Iterator

import pytest

from tests.helpers.browser import Browser


@pytest.fixture
def page(browser: Browser) -> Iterator[Browser]:
    """Provide the browser without what earlier pages left; an error on the page fails the test, and so does a foreign
    request.
    """
    browser.events.clear()
    browser.prefer()
    browser.resize(1200, 1500)
    yield browser
    # Answers of status 400 are requests that contradict earlier ones; reading pixels is what the tests do.
    known = (
        "request for http://127.0.0.1:",
        "Failed to load resource: the server responded with a status of 400",
        "Canvas2D",
    )
    assert [each for each in browser.complaints() if not each.startswith(known)] == []
    browser.evaluate("sessionStorage.clear()")
