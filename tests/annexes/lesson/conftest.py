"""The browser, and the lessons that several tests look at."""

from collections.abc import Callable
from functools import cache

import pytest

from tests.annexes.lesson.lessons import Made
from tests.coordinator.reports.conftest import page

__all__ = ["lessons", "page"]


@pytest.fixture(scope="session")
def lessons(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Made]:
    """Provide the lesson of a scenario, made once."""
    return cache(lambda scenario: Made(tmp_path_factory.mktemp("lesson"), scenario))
