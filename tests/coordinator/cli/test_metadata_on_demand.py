"""The stand-in for `importlib.metadata`: a command does without the module, and code that needs the module gets it."""

import json
import sys
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import fresh, run_process

CODE = """
import json, sys
from coordinator.cli.metadata_on_demand import import_metadata_on_demand
import_metadata_on_demand()
{code}
print(json.dumps([value, type(sys.modules["importlib.metadata"]).__name__, "email" in sys.modules]))
"""


def outcome(folder: Path, code: str) -> list[Any]:
    """Return `value` after the code, the type of the module in a new process, and whether the module took others along."""
    ended = run_process(folder, fresh([sys.executable, "-c", CODE.format(code=code)]))
    assert ended.status == 0, ended.err
    found: list[Any] = json.loads(ended.out)
    return found


def test_importing_pydantic_leaves_the_module_unused(tmp_path: Path) -> None:
    code = "import os; os.environ['PYDANTIC_DISABLE_PLUGINS'] = '__all__'\nfrom coordinator.scenario.model import OPTIONS\n"
    assert outcome(tmp_path, f"{code}value = 'seed' in OPTIONS") == [True, "MetadataOnDemand", False]


@pytest.mark.parametrize(
    "code",
    [
        "from importlib.metadata import version\nvalue = version('pytest')",
        "import importlib.metadata\nvalue = importlib.metadata.version('pytest')",
        "import importlib.metadata as metadata\nvalue = metadata.version('pytest')",
        "import importlib.metadata\nvalue = sys.modules['importlib.metadata'].version('pytest')",
        "from importlib.metadata import _meta\nfrom importlib.metadata import version\nvalue = version('pytest')",
    ],
)
def test_a_function_of_the_module_gives_its_result(tmp_path: Path, code: str) -> None:
    assert outcome(tmp_path, code) == [version("pytest"), "module", True]


def test_entry_points_are_found_when_they_are_asked_for(tmp_path: Path) -> None:
    code = "from importlib.metadata import entry_points\nvalue = len(entry_points(group='console_scripts'))"
    assert outcome(tmp_path, code) == [len(entry_points(group="console_scripts")), "module", True]


def test_a_module_that_is_imported_already_stays(tmp_path: Path) -> None:
    code = "del sys.modules['importlib.metadata']\nimport importlib.metadata as real\nimport_metadata_on_demand()\n"
    assert outcome(tmp_path, f"{code}value = sys.modules['importlib.metadata'] is real") == [True, "module", True]


def test_threads_that_use_the_module_first_at_once_find_it(tmp_path: Path) -> None:
    code = """
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
sys.setswitchinterval(1e-6)
together, found = Barrier(4), set()
def use(module):
    together.wait(60)
    return module.version("pytest")
with ThreadPoolExecutor(4) as pool:
    for _ in range(300):
        del sys.modules["importlib.metadata"]
        import_metadata_on_demand()
        found.update(pool.map(use, [sys.modules["importlib.metadata"]] * 4))
value = sorted(found)
"""
    assert outcome(tmp_path, code) == [[version("pytest")], "module", True]
