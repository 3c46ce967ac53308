"""Network namespaces: the same history, no other interface, and refusals that name them as the remedy."""

import sys
from pathlib import Path

import pytest

from coordinator.planning import machine, namespace
from coordinator.planning.feasibility import needs_own_network, require_possible
from coordinator.scenario.model import make_scenario
from emunode.errors import RunError
from tests.helpers.command_line import Call, command, fields, flags, run_process
from tests.helpers.scenarios import Case

FLOOD = fields("star:4 broadcast flood")
LOCAL = FLOOD | {"driver": "local"}

needs_namespace = pytest.mark.skipif(
    namespace.unavailable_reason() is not None,
    reason=f"no network namespace can be made here: {namespace.unavailable_reason()}",
)


@needs_namespace
def test_a_run_in_its_own_network_has_the_same_history(tmp_path: Path) -> None:
    small = fields("star:3 broadcast flood")
    ended = run_process(tmp_path, command("coordinator run --netns --json --out run", *flags(**small)))
    assert ended.status == 0, ended.err
    assert ended.data["journal_hash"] == Case(small).summary["journal_hash"]
    assert ended.data["links_opened"] == 6
    assert 'netns = "always"' in (tmp_path / "run" / "scenario.toml").read_text()


LOOK = """
import socket
from coordinator.planning.namespace import enter_own_network

enter_own_network()
listener = socket.create_server(("127.9.8.7", 0))
socket.create_connection(listener.getsockname())
print([name for _, name in socket.if_nameindex()])
"""


@needs_namespace
def test_the_namespace_has_only_a_loopback_interface(tmp_path: Path) -> None:
    ended = run_process(tmp_path, [sys.executable, "-c", LOOK])
    assert "'lo'" in ended.out
    assert "eth" not in ended.out


def test_more_connections_than_are_tracked_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "tracked_connections", lambda: (100, 130))
    with pytest.raises(RunError, match=r"tracks at most 130, 100 of which are taken; use --netns auto"):
        require_possible(Case(LOCAL, netns="never").plan)
    require_possible(Case(LOCAL, netns="always").plan)
    monkeypatch.setattr(namespace, "unavailable_reason", lambda: "no network namespace can be made here: no")
    with pytest.raises(RunError, match=r"130, 100 of which are taken; no network namespace can be made here: no"):
        require_possible(Case(LOCAL).plan)


@pytest.mark.parametrize(
    ("netns", "tracked", "possible", "own"),
    [
        ("auto", (100, 130), True, True),
        ("auto", (100, 130), False, False),
        ("auto", (100, 136), True, False),
        ("auto", None, True, False),
        ("never", (100, 130), True, False),
        ("always", None, True, True),
    ],
)
def test_a_run_moves_to_a_namespace_only_where_it_must_and_can(
    monkeypatch: pytest.MonkeyPatch, netns: str, tracked: tuple[int, int] | None, possible: bool, own: bool
) -> None:
    monkeypatch.setattr(machine, "tracked_connections", lambda: tracked)
    monkeypatch.setattr(namespace, "unavailable_reason", lambda: None if possible else "no")
    assert needs_own_network(Case(LOCAL, netns=netns).plan) is own
    assert not needs_own_network(Case(FLOOD, netns="auto", driver="memory").plan)


@pytest.mark.parametrize(
    ("given", "meant"), [(True, "always"), (False, "never"), ("true", "always"), ("Auto", "auto"), ("never", "never")]
)
def test_stored_scenarios_with_true_or_false_still_work(given: object, meant: str) -> None:
    assert make_scenario({**FLOOD, "netns": given}).netns == meant


def test_more_sockets_than_the_machine_has_room_for_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "system_files", lambda: (1000, 1071))
    with pytest.raises(RunError, match="needs 72 sockets and the file table of this machine has room for 71 more"):
        require_possible(Case(LOCAL).plan)


def test_a_run_that_moves_to_a_namespace_prints_the_reason(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved: list[bool] = []
    monkeypatch.setattr(machine, "tracked_connections", lambda: (100, 130))
    monkeypatch.setattr(namespace, "unavailable_reason", lambda: None)
    monkeypatch.setattr("coordinator.cli.run.enter_own_network", lambda: moved.append(True))
    ended = call("run --out run", *flags(**FLOOD))
    assert ended.status == 0
    assert moved == [True]
    assert "tracks at most 130, 100 of which are taken; moving to a network namespace of its own" in ended.err
    assert 'netns = "auto"' in (tmp_path / "run" / "scenario.toml").read_text()
