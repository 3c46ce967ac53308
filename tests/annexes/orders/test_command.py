"""`certify --every-order` and `run --order`."""

import json
from collections.abc import Iterator
from math import factorial
from pathlib import Path

import pytest

from coordinator.annexes.orders.every_order import every_order
from coordinator.execution.stop_signal import StopRequest, stopped_by
from tests.helpers.command_line import ROOT, Call
from tests.helpers.scenarios import Case
from tests.helpers.support import forget_plugins

NOTED = ROOT / "tests" / "plugins" / "noted.py"
SEARCH = f"certify --every-order --topology hypercube:2 --algorithm noted-module --plugin {NOTED}"


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    forget_plugins()


@pytest.mark.parametrize("more", ["--driver local --ranks-per-host 4", "--clock timed"])
def test_a_deviation_is_repeated_by_the_command_that_is_printed(more: str, call: Call) -> None:
    found = call(f"{SEARCH} {more}")
    assert found.status == 1
    assert "not watched in plug-ins: closures" in found.out
    (line,) = (line for line in found.out.splitlines() if "repeat it with" in line)
    again = call(line.partition("coordinator ")[2])
    assert again.status == 1
    deviation = found.out.partition("shortest deviation: ")[2].splitlines()[0]
    assert deviation in again.out
    assert "verdict: violated" in again.out
    assert call(f"{SEARCH} {more} --out here.json").status == 1
    assert call(f"run --order here.json --plugin {NOTED} --json").data["deviation"] == deviation
    values = json.loads(Path("here.json").read_text())
    turns = [["turn", 1], ["turn", 2]]
    values["events"][-1] = (
        [["order", 0], *turns, ["packet", 7], ["report", 0]] if "driver" in more else [["rank", 1], ["rank", 2]]
    )
    Path("here.json").write_text(json.dumps(values))
    plain = call(f"run --order here.json --plugin {NOTED}")
    assert "the same packets, rows and counts in both orders" in plain.out
    assert plain.status == 0


def test_memory_and_hosts_that_differ_are_two_commands(call: Call) -> None:
    found = call(f"{SEARCH} --json").data
    hashes = {call(f"{line.removeprefix('coordinator ')} --json").data["journal_hash"] for line in found["repeat"]}
    assert len(found["repeat"]) == len(hashes) == 2


def test_the_orders_can_be_counted_by_hand(call: Call) -> None:
    """In K_3 two nodes get a packet of node 0 in step 1, without work, and of each other in step 2, with work."""
    line = "certify --every-order --topology complete:3 --algorithm flood"
    found = call(f"{line} --json").data
    counts = {(row["step"], row["nodes"]): row["orders"] for row in found["orders"]}
    # One arrival without work: 1! 2. One arrival at a node with work: 1! (2^2 - 1).
    assert {node: counts[1, node] for node in "012"} == {"0": 1, "1": factorial(1) * 2, "2": factorial(1) * 2}
    assert {node: counts[2, node] for node in "12"} == {"1": factorial(1) * 3, "2": factorial(1) * 3}
    shown = call(line).out
    assert all(f" {row['step']} " in shown and f" {row['orders']} " in shown for row in found["orders"])


def test_an_interrupted_search_says_how_far_it_came() -> None:
    request, told = StopRequest(), []

    def show(phase: str, done: int, most: int) -> None:
        told.append((phase, done, most))
        if done == 20:
            request.stop()

    with stopped_by(request):
        found = every_order(Case("hypercube:3 broadcast flood").plan, progress=show)
    assert told == [("executions", number, 100_000) for number in range(1, 21)]
    assert (found.verdict, found.interrupted, found.executions, found.exceeded) == ("undecided", True, 20, False)
    assert found.record()["interrupted"] is True


@pytest.mark.parametrize("more", ["--seed 3", "--out x", "--claims", "scenario.toml"])
def test_an_order_has_its_scenario(more: str, call: Call) -> None:
    ended = call(f"run --order order.json {more}")
    assert (ended.status, "give only --json beside it" in ended.err) == (2, True), ended


def test_a_file_that_is_missing_is_refused(call: Call) -> None:
    ended = call("run --order order.json")
    assert (ended.status, "it cannot be read" in ended.err) == (2, True)
