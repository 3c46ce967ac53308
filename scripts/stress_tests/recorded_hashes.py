"""Run scenarios, and print the hash of each journal: a program of its own, for other interpreters, users and locales.

Standard input is a JSON list of [scenario, further fields]; standard output a JSON list of hashes. With a number as its
argument the program becomes this user once all is imported: another user may not be allowed to read this folder.
"""

import json
import os
import sys

from coordinator.execution.run import run
from coordinator.execution.sinks import MemorySink
from coordinator.planning.plan import make_plan
from coordinator.scenario.model import make_scenario
from stress_tests.common import preload
from tests.helpers.command_line import fields


def main() -> None:
    """Run all scenarios of the standard input."""
    cases = json.load(sys.stdin)
    if len(sys.argv) > 1:
        preload()
        for line, more in cases:  # for what is imported on first use
            hash_of(line, more)
        user = int(sys.argv[1])
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    json.dump([hash_of(line, more) for line, more in cases], sys.stdout)


def hash_of(line: str, more: dict[str, object]) -> object:
    """Run a scenario, and return the hash of its journal."""
    plan = make_plan(make_scenario({"driver": "memory", **fields(line), **more}))
    return run(plan, MemorySink()).summary["journal_hash"]


if __name__ == "__main__":
    main()
