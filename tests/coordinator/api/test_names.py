"""`import coordinator`: what it exports, and what importing it costs."""

import ast
import inspect
import subprocess
import sys
from importlib import import_module
from typing import Final, get_type_hints

import pytest

import coordinator
from coordinator import aio
from coordinator.api.networks import CollectiveMethods, Network
from coordinator.api.option_types import Options
from coordinator.api.options import NOT_OPTIONS
from coordinator.scenario.model import OPTIONS
from emunode import errors
from emunode.model import Collective
from tests.helpers.annex_support import needs_every_annex

HEAVY: Final = ("polars", "numpy", "trio", "pydantic", "networkx", "rich", "asyncio")


def test_importing_loads_nothing_heavy() -> None:
    code = f"import sys, coordinator; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_is_found_and_nothing_else() -> None:
    assert dir(coordinator) == sorted(coordinator.__all__)
    for name in coordinator.__all__:
        found = getattr(coordinator, name)
        assert inspect.getdoc(found), name
        assert found.__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Networks'"):
        coordinator.Networks  # type: ignore[attr-defined]  # noqa: B018


def test_every_exception_is_public() -> None:
    ours = {name for name, value in vars(errors).items() if inspect.isclass(value) and issubclass(value, Exception)}
    assert ours <= set(coordinator.__all__)


@needs_every_annex
def test_type_checkers_see_names_resolved_at_run_time() -> None:
    guarded = next(node for node in ast.parse(inspect.getsource(coordinator)).body if isinstance(node, ast.If))
    imports = [node for node in guarded.body if isinstance(node, ast.ImportFrom)]
    declared = {
        alias.name: getattr(import_module(str(node.module)), alias.name) for node in imports for alias in node.names
    }
    assert declared == {name: getattr(coordinator, name) for name in coordinator.__all__}


@needs_every_annex
@pytest.mark.parametrize("network", [Network, aio.Network], ids=["blocking", "async"])
def test_a_network_has_a_declared_method_per_collective(network: type) -> None:
    # Messages come from schedule files alone.
    methods = {collective.replace("-", "_") for collective in Collective if collective is not Collective.MESSAGES}
    assert methods <= get_type_hints(CollectiveMethods).keys()
    assert issubclass(network, CollectiveMethods)
    for name in methods:
        parameters = inspect.signature(getattr(network, name)).parameters
        assert {"algorithm", "faults", "out", "progress"} <= set(parameters)
        assert set(Options.__annotations__) <= set(parameters)
        assert "redundancy: trees that carry each message" in (inspect.getdoc(getattr(network, name)) or "")


@needs_every_annex
def test_options_are_the_fields_of_a_scenario() -> None:
    assert set(Options.__annotations__) | set(NOT_OPTIONS) == set(OPTIONS)


@needs_every_annex
def test_the_async_form_has_the_same_functions() -> None:
    assert {"campaign", "certify", "compare", "network", "reproduce", "sweep", "verify"} <= set(aio.__all__)
    functions = {name for name in coordinator.__all__ if inspect.isfunction(getattr(coordinator, name))}
    assert functions <= set(aio.__all__)
    for name in functions - {"network"}:
        assert inspect.iscoroutinefunction(getattr(aio, name))
        assert inspect.signature(getattr(aio, name)) == inspect.signature(getattr(coordinator, name))
