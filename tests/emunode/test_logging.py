"""The log: an event is a line, whole, however many processes write at once."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.helpers.command_line import ROOT

CHATTER = """
import os
from emunode.logging import log

children = []
while len(children) < 3:
    children.append(os.fork())
    if not children[-1]:
        children.clear()
        break
for number in range(3000):
    log("chatter", number=number, filler="x" * 200)
for child in children:
    os.waitpid(child, 0)
"""


def test_lines_of_many_processes_stay_whole_without_a_buffer(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with path.open("a") as log:
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(ROOT)}
        subprocess.run([sys.executable, "-c", CHATTER], stderr=log, env=environment, check=True, timeout=240)
    events = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(events) == 4 * 3000
    assert len({event["pid"] for event in events}) == 4
