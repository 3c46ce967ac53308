"""Moved modules: the old name warns, and is the same module."""

import sys
import warnings
from importlib import import_module

import pytest

from emunode.annexes import is_installed
from emunode.moved_modules import MOVED, new_name
from tests.helpers.command_line import Call


@pytest.mark.parametrize(
    "old",
    [
        "coordinator.papers.base",
        "coordinator.schedules.base",
        "coordinator.mpi.rules.base",
        "coordinator.additions.probe",
        "emunode.algorithms.repair",
        "emunode.protocols.repair.pull",
        "emunode.values.float_types",
    ],
)
def test_the_old_name_warns_and_is_the_same_module(old: str) -> None:
    new = new_name(old)
    assert new is not None
    package, _, annex = ".".join(new.split(".")[:3]).rpartition(".annexes.")
    if not is_installed(package, annex):
        pytest.skip("its annex is not installed")
    module = import_module(new)
    spec = module.__spec__
    for name in [name for name in sys.modules if name.startswith(tuple(MOVED))]:
        del sys.modules[name]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert import_module(old) is module
    assert f"{old} is now {new}; the old name goes with version 0.5" in [str(each.message) for each in caught]
    assert module.__spec__ is spec
    assert module.__name__ == new


@pytest.mark.parametrize(
    "name", ["coordinator", "coordinator.papersx", "emunode.valuesx.y", "coordinator.annexes.papers"]
)
def test_other_names_are_as_before(name: str) -> None:
    assert new_name(name) is None


def test_a_plug_in_of_version_0_3_runs(call: Call) -> None:
    if not is_installed("coordinator", "papers"):
        pytest.skip("its annex is not installed")
    with open("old.py", "w") as file:  # noqa: PTH123
        file.write(
            "from coordinator.papers.base import Reproduction\n"
            "from coordinator.papers.tables import Table\n"
            "from emunode.registry import register\n"
            "register(Reproduction('old', 'Old', 'a paper', 'nothing', lambda runs: [Table('t', [])], range(3, 4)))\n"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        ended = call("reproduce --plugin old.py --json")
    assert ended.data[-1]["name"] == "old"
