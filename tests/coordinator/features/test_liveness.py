"""Liveness: everything due finishes within its bound once the faults are over, or the run says what waits for what."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import pytest

from coordinator.results.claims import Verdict
from coordinator.scenario.fault_ends import ended
from emunode.annexes import RELIABLE_LAYER, from_annex
from emunode.errors import ScenarioError
from emunode.topologies.registry import parse_topology
from tests.helpers.annex_support import needs_annex
from tests.helpers.command_line import Call
from tests.helpers.feature_support import give_links_up
from tests.helpers.scenarios import Case
from tests.helpers.stop_and_wait import LONGEST_BACK_OFF, arrivals

RELIABLE = "hypercube:3 broadcast sbt reliable=true"
TREE = {"001": "000", "010": "000", "100": "000", "011": "001", "101": "001", "110": "010", "111": "011"}
"""The tree of sbt on Q_3, by hand: the parent of each node."""
NAMES = ("waiting_nodes", "settling_steps", "settling_seconds")


def verdicts(case: Case) -> dict[str, Verdict]:
    """Return the verdicts on the claims about liveness."""
    return {each.claim.name: each.verdict for each in case.run.judgements if each.claim.name in NAMES}


def because(case: Case) -> list[str]:
    """Return what waits, in words: nodes, and the reason."""
    waiting: Any = case.summary.get("waiting", [])
    return [f"{' '.join(each['nodes'])}: {each['because']}" for each in waiting]


# --- reliable links, against stop and wait computed by hand -----------------------------------------------------------


OUTAGES = [(first, last) for first, last in product(range(1, 5), range(1, 9)) if first <= last]
"""The first and last step of outages: before, during and after the tree uses a link."""


def settling(child: str, outage: tuple[int, int], after: int, back_off: bool) -> int:
    """Run with an outage of the link into a node; return the steps from its end to the last receipt, as computed by hand."""
    first, last = outage
    link = (TREE[child], child)
    expected = max(0, max(arrivals(TREE, {link: range(first, last + 1)}, after, back_off=back_off).values()) - last)
    case = Case(RELIABLE, f"down:{'>'.join(link)}@{first}-{last}", retransmit_after=after, back_off=back_off)
    assert (case.summary["waiting_nodes"], case.summary["settling_steps"]) == (0, expected)
    assert verdicts(case) == dict.fromkeys(NAMES[:2], Verdict.HOLDS)
    # Three levels without faults, and the longest time-out: 20 attempts with back-off reach 64 times the first.
    assert case.predictions["settling_steps", "<="] == 3 + (LONGEST_BACK_OFF if back_off else 1) * after
    return expected


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize("outage", OUTAGES, ids=str)
@pytest.mark.parametrize(("after", "back_off"), [(2, False), (3, False), (2, True)])
def test_every_outage_of_a_link_ends_within_the_bound(after: int, back_off: bool, outage: tuple[int, int]) -> None:
    """Every other link, a different half of them for each first step."""
    for child in list(TREE)[outage[0] % 2 :: 2]:
        settling(child, outage, after, back_off)


@pytest.mark.parametrize(("after", "back_off"), [(2, False), (3, False), (2, True)])
def test_everything_but_the_time_out_follows_the_end(after: int, back_off: bool) -> None:
    measured = {settling("001", (1, last), after, back_off) for last in range(1, 9)}
    assert max(measured) >= 3 + (after - 1)


def test_links_that_resend_nothing_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    give_links_up(monkeypatch)
    case = Case(RELIABLE, "down:000>001@1-2")
    assert verdicts(case)["waiting_nodes"] is Verdict.VIOLATED
    assert case.run.verdict is Verdict.VIOLATED
    assert because(case) == ["001 011 101 111: 000 sent it once in step 1, in vain, to 001"]


def test_links_that_resend_late_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from_annex(*RELIABLE_LAYER)
    monkeypatch.setattr("emunode.annexes.reliable.layer.time_out", lambda after, _attempt, _back_off: 5 * after)
    case = Case(RELIABLE, "down:000>001@1-2")
    assert verdicts(case) == {"waiting_nodes": Verdict.HOLDS, "settling_steps": Verdict.VIOLATED}


def test_too_few_attempts_promise_nothing_and_are_named() -> None:
    case = Case(RELIABLE, "down:000>001@1-4", attempts=2)
    assert verdicts(case) == {}
    assert because(case) == ["001 011 101 111: 000 gave it up after 2 attempts, the last in step 3, to 001"]


def test_a_crashed_node_forgets_what_others_wait_for() -> None:
    case = Case(RELIABLE, "crash:001@3", "down:001>011@2-5", heal_at=6)
    assert verdicts(case) == {}
    (line,) = because(case)
    assert line.startswith("011 111: 001 sent it once in step 2, in vain, to 011, after it crashed and forgot")


def test_reliable_links_keep_times_under_the_timed_clock() -> None:
    case = Case(RELIABLE, "down:000>001@0ms-4.5ms", clock="timed", startup="1ms", per_byte="0s", retransmit_after="4ms")
    # Attempts at 0, 4 and 8 ms, each of 1 ms; then three links in a row.
    assert case.summary["settling_seconds"] == pytest.approx(8e-3 + 3e-3 - 4.5e-3)
    assert verdicts(case) == {"waiting_nodes": Verdict.HOLDS, "settling_seconds": Verdict.HOLDS}


# --- repair and shrinking ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("after", "worst"), [(1, 7), (2, 8)])
def test_repair_of_any_single_crash_ends_within_the_bound(after: int, worst: int) -> None:
    cases = [
        Case(f"hypercube:3 broadcast sbt repair=next-port repair_after={after}", f"crash:{node}@1") for node in TREE
    ]
    assert all(verdicts(case) == dict.fromkeys(NAMES[:2], Verdict.HOLDS) for case in cases)
    # Known from a simulation of its own: the worst last step of any single crash on Q_3.
    assert max(case.summary["settling_steps"] for case in cases) == worst
    assert min(case.predictions["settling_steps", "<="] for case in cases) >= worst


def test_nodes_that_never_ask_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = from_annex("--repair", "repair", "emunode.annexes.repair.pull:PullLayer")

    def forget(layer: Any, _now: int) -> None:
        for each in layer._awaited:
            each.advance()

    monkeypatch.setattr(layers, "wake", forget)
    case = Case("hypercube:3 broadcast sbt repair=next-port", "crash:001@1")
    assert verdicts(case)["waiting_nodes"] is Verdict.VIOLATED
    assert because(case)[0].startswith("011 101 111: 000 sent it once in step 1, in vain, to 001")


@pytest.mark.parametrize(
    ("collective", "steps"), [("broadcast", (1, 2, 3)), ("reduce", (2, 3, 1)), ("allgather", (3, 1, 2))]
)
def test_shrinking_ends_within_the_bound(collective: str, steps: Sequence[int]) -> None:
    """Each node of a path crashes in each of three steps, over all collectives."""
    for node, step in zip(("001", "011", "111"), steps, strict=True):
        line = f"hypercube:3 {collective} sbt fault_knowledge=detect:1 on_failure=shrink"
        case = Case(line, f"crash:{node}@{step}")
        assert verdicts(case) == dict.fromkeys(NAMES[:2], Verdict.HOLDS)


def test_crashed_nodes_that_seem_the_largest_part_are_no_promise() -> None:
    line = "complete:5 gather edge-disjoint-trees source=1 fault_knowledge=detect:2 on_failure=shrink"
    case = Case(line, *(f"crash:{node}@1" for node in "024"))
    # The two others do not know whether these three still reach each other, and exclude themselves.
    assert case.summary["excluded_nodes"] == 2
    assert verdicts(case) == {}
    assert because(case) == ["1: no decision stands by which it runs again for them"]
    assert verdicts(Case(line, "crash:0@1", "crash:2@1")) == dict.fromkeys(NAMES[:2], Verdict.HOLDS)


# --- the end of all faults ---------------------------------------------------------------------------------------------

Q3 = parse_topology("hypercube:3")


def texts(at: int | str, *specs: str) -> list[str]:
    return list(ended(specs, Q3, at))


def test_faults_end_at_the_beginning_of_a_step() -> None:
    given = (
        "crash:001@2",
        "down:000~010@3",
        "loss:*:0.5",
        "hang:100@2-9",
        "hang:110@2-3",
        "down:000~001@7",
        "crash:111@6",
    )
    expected = ["crash:001@2", "down:000~010@3-5", "loss:*:0.5@1-5", "hang:100@2-5", "hang:110@2-3", "recover:001@6"]
    assert texts(6, *given) == expected
    assert texts(6, *expected) == expected


def test_repairs_that_come_later_come_at_the_end() -> None:
    assert texts(6, "crash:001@2", "recover:001@9") == ["crash:001@2", "recover:001@6"]
    assert texts(6, "crash:001@2", "recover:001@4") == ["crash:001@2", "recover:001@4"]


def test_faults_with_times_end_at_a_time() -> None:
    assert texts("5ms", "down:000>001@1ms", "loss:*:0.5", "crash:001@2ms", "down:000>001@7ms") == [
        "down:000>001@1ms-5ms", "loss:*:0.5@0ns-5ms", "crash:001@2ms", "recover:001@5ms",
    ]  # fmt: skip


@needs_annex("reliable")
@pytest.mark.parametrize(
    ("values", "faults", "words"),
    [
        ({"reliable": False}, (), "add --reliable"),
        ({"heal_at": "5ms"}, (), "in lock-step a step"),
        ({"heal_at": 0}, (), "a step, counted from 1"),
        ({"heal_at": True}, (), "a step, counted from 1"),
        ({"clock": "timed"}, ("down:000>001@1ms",), "is given by times"),
        ({"clock": "timed", "heal_at": "5ms"}, ("down:000>001@2",), "is given by steps"),
        ({"clock": "timed", "heal_at": "5ms"}, ("drift:001:0.1",), "never ends"),
    ],
)
def test_what_cannot_end_is_refused(values: Mapping[str, object], faults: tuple[str, ...], words: str) -> None:
    case = Case(RELIABLE, *faults, **{"heal_at": 5, **values})
    with pytest.raises(ScenarioError, match=words):
        _ = case.plan


def test_the_command_says_which_rule_waits_for_what(call: Call) -> None:
    command = (
        "run --topology hypercube:3 --collective broadcast --algorithm sbt --driver memory --reliable --attempts 2"
    )
    done = call(f"{command} --fault down:000>001@1 --heal-at 5")
    words = " ".join(done.out.split())
    assert "waiting: 001, 011, 101, 111 (rule sbt) for segment 0 of 000: 000 gave it up after 2 attempts" in words
