"""Before a run that is watched or measured: the plan, and the sockets that will serve its page and its metrics.

This imports nothing that starts threads: a process that moves to a network namespace of its own may have only one.
"""

import os
import re
import socket
from pathlib import Path
from typing import Final

from coordinator.planning.plan import Plan, make_plan
from coordinator.scenario.model import Scenario
from emunode.errors import RunError, ScenarioError
from emunode.model import FaultKnowledge

ADDRESS: Final = "127.0.0.1"
ENDPOINT: Final = re.compile(r"(?P<host>[\w.-]*|\[[0-9a-fA-F:.]+\]):(?P<port>\d{1,9})")
WATCH_SECONDS: Final = 1800.0
"""How long a run may be paused, by default."""
LARGEST_WATCHED: Final = 60_000
"""The largest network, in nodes, that a page draws."""


def watched_plan(scenario: Scenario) -> Plan:
    """Return the plan of a run that faults may be added to.

    ScenarioError (field `watch`) if it cannot be watched; other errors as of `make_plan`.
    """
    if scenario.clock != "steps":
        raise ScenarioError("watch", None, "the timed clock does not stop between steps; use --clock steps")
    if scenario.fault_knowledge is FaultKnowledge.ALL:
        raise ScenarioError(
            "watch", None, "nodes that know all faults beforehand cannot know added ones; use none or neighbours"
        )
    plan = make_plan(scenario, faults_may_come=True)
    if plan.topology.order > LARGEST_WATCHED:
        raise ScenarioError(
            "watch", None, f"{plan.topology.order:,} nodes are too many to draw; at most {LARGEST_WATCHED:,}"
        )
    return plan


def open_listener(port: int = 0) -> socket.socket:
    """Return the socket of a page, on the loopback, at a free port if `port` is 0; RunError if the port is in use."""
    try:
        return _listen(ADDRESS, port)
    except OSError as error:
        raise RunError(
            f"the page cannot be served at {ADDRESS}:{port}: {error.strerror}; use another --watch-port, or leave it out"
        ) from None


def metrics_target(text: str) -> socket.socket | Path:
    """Return where metrics go: HOST:PORT, with a socket that listens there from now on, or a file.

    ScenarioError (field `metrics`) if the address is not one of this machine, or if the file cannot be written there;
    RunError if the port is in use.
    """
    endpoint = ENDPOINT.fullmatch(text)
    if endpoint is None:
        path = Path(text)
        if not path.name or path.is_dir() or not os.access(path.parent, os.W_OK):
            raise ScenarioError("metrics", text, "expected HOST:PORT, or a file in a folder that can be written to")
        return path
    host, port = endpoint["host"].strip("[]") or ADDRESS, int(endpoint["port"])
    if port > 65535:
        raise ScenarioError("metrics", text, "expected a port from 0 to 65535; 0 stands for a free one")
    try:
        return _listen(host, port)
    except socket.gaierror as error:
        raise ScenarioError("metrics", text, f"unknown host: {error.strerror}") from None
    except OSError as error:
        raise RunError(f"metrics cannot be served at {host}:{port}: {error.strerror}; use another port") from None


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens. It stays in the network namespace where it was made, and where others can reach it."""
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener
