"""Reproductions of plug-ins."""

from pathlib import Path

from tests.coordinator.plugins.test_loading import unloaded, written  # noqa: F401
from tests.helpers.command_line import Call
from tests.helpers.support import forget_plugins

REPRODUCTION = """
from coordinator.annexes.papers.base import Reproduction
from coordinator.annexes.papers.tables import Table, compared
from emunode.registry import register

def build(runs):
    rows = []
    for n in runs.sizes:
        trial = runs.run(topology=f"star:{n}", collective="broadcast", algorithm="greedy-tree")
        rows.append({"n": n} | compared(3 * (n - 1) // 2, trial.number("steps"), trial))
    yield Table("Height of the greedy tree", rows)

register(Reproduction(NAME, "Height", "Tseng-Sheu 1997", "Lemma 3.", build, range(3, 5)))
"""


def test_a_reproduction_of_a_plug_in(call: Call, tmp_path: Path) -> None:
    written(tmp_path, REPRODUCTION.replace("NAME", "'height'"))
    ended = call("reproduce height --n 4 --json --plugin mine.py")
    assert ended.status == 0, ended.err
    ((row,),) = (table["rows"] for table in ended.data[0]["tables"])
    assert (row["predicted"], row["measured"], row["verdict"]) == (4, 4, "holds")
    assert call("reproduce --plugin mine.py --json").data[-1]["name"] == "height"
    forget_plugins()
    assert "known reproductions" in call("reproduce height").err
    written(tmp_path, REPRODUCTION.replace("NAME", "'tseng-sheu-1997'"), "taken.py")
    ended = call("reproduce --plugin taken.py")
    assert "line 13: reproduction " in ended.err
    assert (ended.status, "'tseng-sheu-1997', a name already taken by" in ended.err) == (2, True)
