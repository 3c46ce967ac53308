"""The browser and the runs of the tests of reports."""

from tests.coordinator.reports.conftest import page, runs

__all__ = ["page", "runs"]
