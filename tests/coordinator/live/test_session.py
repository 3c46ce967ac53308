"""Requests of pages: which faults they become, when, and that the same run follows from the command that is shown."""

import re
import shlex
import tomllib

import psutil
import pytest
import trio

from coordinator.live.session import MOST_CLICKS, WatchState, fault_kinds
from coordinator.networks.base import StepResult
from coordinator.planning.plan import make_plan
from coordinator.results.claims import Verdict
from coordinator.scenario.command import run_command
from coordinator.scenario.model import make_scenario
from emunode.errors import ScenarioError
from emunode.faults.kinds import KINDS
from emunode.model import Step
from tests.helpers.command_line import Call
from tests.helpers.support import golden_rows
from tests.helpers.watch_support import Script, random_clicks, run_quietly, star_plan

CASES = (
    {"messages": 3},
    {"topology": "star:4", "algorithm": "edt", "redundancy": 3, "messages": 6},
    {"topology": "hypercube:3", "collective": "allgather", "algorithm": "sbt"},
    {"collective": "gather", "algorithm": "balanced-tree"},
    {"topology": "star:4", "messages": 5, "fault_knowledge": "neighbours"},
)


def of_step(step: Step, *clicks: dict[str, object]) -> Script:
    """A script of a run in S_3 with these requests before one step."""
    return Script(star_plan(), lambda now: list(clicks) if now == step else [])


def fault(kind: str, rank: int = 1, **more: object) -> dict[str, object]:
    """The request for a fault."""
    return {"do": "fault", "kind": kind, "rank": rank, **more}


@pytest.mark.parametrize("row", golden_rows("", "watched_requests"), ids=lambda row: row["request"])
def test_a_request_is_a_fault_of_the_next_step_or_refused(row: dict[str, str]) -> None:
    click = tomllib.loads(f"click = {{{row['request']}}}")["click"]
    script = of_step(2, click)
    run_quietly(script.plan, script)
    assert script.plan.scenario.fault == (row["fault"],) * bool(row["fault"])
    assert [row["refused"] in reason for reason in script.refused] == [True] * bool(row["refused"])
    session = WatchState(star_plan())
    before = session.status()
    if row["refused"]:
        with pytest.raises(ScenarioError, match=re.escape(row["refused"])):
            session.request(click)
        assert session.status() == before


def test_an_added_fault_can_be_undone_before_its_step() -> None:
    session = WatchState(star_plan(fault=["crash:231@2"]))
    session.request(fault("crash"))
    with pytest.raises(ScenarioError, match="crashed already"):
        session.request(fault("crash"))
    assert list(session.plan.scenario.fault) == ["crash:231@2", "crash:213@1"]
    session.request({"do": "undo"})
    assert list(session.plan.scenario.fault) == ["crash:231@2"]
    session.request(fault("crash"))
    session.begin(1)
    assert not session.status().undoable
    with pytest.raises(ScenarioError, match="no added fault"):
        session.request({"do": "undo"})


def test_a_fault_without_a_step_to_take_effect_in_is_forgotten() -> None:
    session = WatchState(star_plan())
    session.begin(1)
    session.request(fault("crash", rank=0))
    assert session.after(1, StepResult([], busy=False))
    assert session.plan.scenario.fault == ()
    with pytest.raises(ScenarioError, match="the run is over"):
        session.request(fault("crash"))


def test_a_source_that_recovers_at_once_keeps_the_run_going() -> None:
    session = WatchState(star_plan(fault=["crash:123@1"]))
    session.begin(1)
    session.request(fault("recover", rank=0))
    assert not session.after(1, StepResult([], busy=False))
    assert session.plan.scenario.fault == ("crash:123@1", "recover:123@2")


def test_nobody_has_to_ask_for_a_step_that_sends_nothing() -> None:
    session = WatchState(star_plan())
    session.expect((), 1)
    assert not session.ready()[0]
    session.request({"do": "step"})
    session.begin(1)
    assert session.ready()[0]
    session.request(fault("crash"))
    assert not session.ready()[0], "with another fault the run may have another length"
    session.expect(("crash:213@2",), 2)
    assert not session.ready()[0]


def test_faults_are_bounded_in_number() -> None:
    session = WatchState(star_plan())
    session._added = [(1, "loss:123~213:0@1")] * MOST_CLICKS
    with pytest.raises(ScenarioError, match="at most 1,000 faults"):
        session.request(fault("crash"))


def test_pages_offer_every_kind_of_fault_that_lock_step_has() -> None:
    left_out = {"slow", "slow-link", "jitter", "drift"}
    assert [kind["kind"] for kind in fault_kinds()] == [kind for kind in KINDS if kind not in left_out]
    nodes = {kind["kind"] for kind in fault_kinds() if kind["on"] == "node"}
    assert {"crash", "hang", "recover", "byzantine"} <= nodes
    assert nodes.isdisjoint({"down", "up", "heal", "loss", "corrupt", "duplicate", "delay", "drop"})


# --- the same run again ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [*range(15), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(15, 25))])
def test_random_clicks_make_a_run_that_its_scenario_repeats(seed: int) -> None:
    plan = star_plan(**CASES[seed % len(CASES)], seed=seed)
    script = Script(plan, random_clicks(seed, plan.topology))
    watched = run_quietly(plan, script)
    again = run_quietly(make_plan(script.plan.scenario))
    assert watched.summary["journal_hash"] == again.summary["journal_hash"]
    assert watched.summary["claims"] == again.summary["claims"]
    assert watched.summary["illegal_hops"] == 0


@pytest.mark.parametrize("seed", [1, 3, 4, 7])
def test_random_clicks_on_processes_make_the_run_of_memory(seed: int) -> None:
    hosts = {"driver": "local", "ranks_per_host": 1 + seed % 2}
    plan = star_plan(**CASES[(0, 3)[seed % 2]], **hosts, seed=seed)
    script = Script(plan, random_clicks(seed, plan.topology))
    watched = run_quietly(plan, script)
    values = {"driver": "memory", "ranks_per_host": "auto"}
    again = run_quietly(make_plan(script.plan.scenario.model_copy(update=values)))
    assert script.plan.scenario.fault
    assert watched.summary["journal_hash"] == again.summary["journal_hash"]
    assert watched.summary["replay_mismatches"] == 0


CRASHES = "crash:213@2", "recover:213@4", "crash:321@2"
COUNTED = "drop:213>123:2@1", "crash:213@2", "recover:213@4"
IN_A_HANG = "hang:213@2", "hang:321@2", "crash:213@3", "recover:213@5"


@pytest.mark.parametrize("specs", [CRASHES, COUNTED, IN_A_HANG], ids=["crashes", "counted packets", "in a hang"])
def test_a_killed_or_stopped_process_recovers_by_a_click(specs: tuple[str, ...]) -> None:
    """The process was killed or stopped before anybody knew that its node would recover."""
    plan = star_plan(messages=9, driver="local", ranks_per_host=2 if specs is IN_A_HANG else 1)

    def clicks(step: Step) -> list[dict[str, object]]:
        due = [make_plan(plan.scenario.model_copy(update={"fault": specs})).faults_at(step)]
        return [
            fault(type(each).__name__.lower(), getattr(each, "rank", getattr(each, "sender", 0)),
                  port=getattr(each, "port", 0), both=False, value=str(getattr(each, "packet", "")))
            for faults in due for each in faults
        ]  # fmt: skip

    script = Script(plan, clicks)
    watched = run_quietly(plan, script)
    assert script.refused == []
    assert sorted(script.plan.scenario.fault) == sorted(specs)
    assert watched.summary["replay_mismatches"] == 0


class PausedForever(Script):
    """Ends a host before step 2, and never lets that step begin."""

    async def before_step(self, step: Step) -> str | None:
        if step == 2:
            psutil.Process().children(recursive=True)[-1].kill()
            await trio.sleep_forever()
        return await super().before_step(step)


def test_host_that_dies_in_a_pause_ends_the_run() -> None:
    plan = star_plan(driver="local", ranks_per_host=2)
    watched = run_quietly(plan, PausedForever(plan, lambda _: []))
    assert watched.verdict is Verdict.UNDECIDED
    assert re.fullmatch(r"host \d \(process \d+ on .*\) disconnected: .*", str(watched.summary["undecided_because"]))


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"fault": ["crash:213@2", "loss:123>213:0.25@3-4"], "seed": 7, "startup": "5ms"},
        {"topology": "ej:1+2", "source": "-1,1", "relabel": False, "packet_limit": 100},
        {"topology": "star:4", "algorithm": "edt", "segments": 2, "redundancy": 2, "name": "mine"},
    ],
)
def test_the_command_names_every_value_that_is_not_a_default(call: Call, values: dict[str, object]) -> None:
    plan = make_plan(star_plan(**values).scenario)
    words = shlex.split(run_command(plan.scenario))
    assert words[:2] == ["coordinator", "run"]
    ended = call("plan --json", *words[2:])
    assert ended.status == 0, ended.err
    run = call("run --json", *words[2:])
    assert run.data["journal_hash"] == run_quietly(plan).summary["journal_hash"]


def test_a_value_that_looks_like_a_flag_is_joined_to_its_flag() -> None:
    scenario = make_scenario(
        {"topology": "ej:1+2", "collective": "broadcast", "algorithm": "flood", "source": "-1,1", "relabel": True}
    )
    command = "coordinator run ej:1+2 broadcast flood --source=-1,1 --relabel"
    assert run_command(scenario) == command


def test_a_branch_begins_after_the_step_in_the_picture() -> None:
    plan = star_plan()
    state = WatchState(plan)
    state.request({"do": "step", "steps": 3})
    for step in (1, 2, 3):
        assert state.ready()[0]
        state.begin(step)
    for wrong in (4, -1, None, "2"):
        with pytest.raises(ScenarioError, match="from 0 to 3"):
            state.request({"do": "branch", "step": wrong})
    state.request({"do": "branch", "step": 2})
    assert (state.branch, state.ready()) == (2, (True, 0.0))
    with pytest.raises(ScenarioError, match="then another one begins"):
        state.request({"do": "pause"})
    with pytest.raises(ScenarioError, match="as many runs as it can show"):
        WatchState(plan, may_branch=False).request({"do": "branch", "step": 0})
    later = WatchState(plan, until=2, version=7)
    assert later.status().version == 7
    for step in (1, 2):
        assert later.ready()[0]
        later.begin(step)
    assert not later.ready()[0]
