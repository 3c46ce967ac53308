"""A page of the browser for tests of reports, and the runs that several files of tests share."""

import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from coordinator.reports.layout import Layout
from tests.helpers.browser import Browser
from tests.helpers.report_runs import Run, Runs


@pytest.fixture
def page(browser: Browser) -> Iterator[Browser]:
    """Provide the browser without events of earlier pages, in light colours; errors on the page fail the test."""
    browser.events.clear()
    browser.prefer(prefers_color_scheme="light")
    browser.resize(1400)
    yield browser
    assert browser.complaints() == []


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Provide the run of a scenario, made once; tests do not modify its directory."""
    return cache(lambda scenario: Run(tmp_path_factory.mktemp("runs") / "run", scenario))


@pytest.fixture
def copied(runs: Runs, tmp_path: Path) -> Path:
    """Provide a copy of a run directory, to be damaged."""
    return shutil.copytree(runs("star:4 broadcast greedy-tree source=1234 fault=crash:2134@2").path, tmp_path / "run")


def distances_of(layout: Layout) -> NDArray[np.float64]:
    """Return the distances of nodes, which lie within the picture and do not overlap."""
    for positions, size in ((layout.x, 1000), (layout.y, layout.height)):
        assert np.isfinite(positions).all()
        assert layout.radius < positions.min()
        assert positions.max() < size - layout.radius
    distance = np.hypot(layout.x[:, None] - layout.x, layout.y[:, None] - layout.y)
    np.fill_diagonal(distance, np.inf)
    assert distance.min() >= 0.999 * layout.spacing
    assert distance.min() > 2 * layout.radius
    return distance
