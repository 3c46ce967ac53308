"""Before a watched run: its plan, and the socket at which its page will be served.

This imports nothing that starts threads: a process that moves to a network namespace of its own may have only one.
"""

import socket
from typing import Final

from coordinator.planning.plan import Plan, make_plan
from coordinator.scenario.model import Scenario
from emunode.errors import RunError, ScenarioError
from emunode.model import FaultKnowledge

ADDRESS: Final = "127.0.0.1"
WATCH_SECONDS: Final = 1800.0
"""How long a run may be paused, by default."""
LARGEST_WATCHED: Final = 60_000
"""The largest network, in nodes, that a page draws."""


def watched_plan(scenario: Scenario) -> Plan:
    """The plan of a run to which faults may be added.

    ScenarioError (field `watch`) if it cannot be watched; other errors as of `make_plan`.
    """
    if scenario.clock != "steps":
        raise ScenarioError("watch", True, "the timed clock does not stop between steps; use --clock steps")
    if scenario.fault_knowledge is FaultKnowledge.ALL:
        raise ScenarioError(
            "watch", True, "nodes that know all faults beforehand cannot know added ones; use none or neighbours"
        )
    plan = make_plan(scenario, faults_may_come=True)
    if plan.topology.order > LARGEST_WATCHED:
        raise ScenarioError(
            "watch", True, f"{plan.topology.order:,} nodes are too many to draw; at most {LARGEST_WATCHED:,}"
        )
    return plan


def open_listener(port: int = 0) -> socket.socket:
    """A socket that listens on the loopback, at a free port if `port` is 0; RunError if the port is in use.

    It stays in the network namespace in which it was made, where browsers can reach it.
    """
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((ADDRESS, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise RunError(
            f"the page cannot be served at {ADDRESS}:{port}: {error.strerror}; use another --watch-port, or leave it out"
        ) from None
    return listener
