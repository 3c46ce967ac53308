"""Options of a plug-in: stated in its file, known to flags, keys, help, the Python API and hosts, and gone with it."""

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

import coordinator
from coordinator.cli.app import app
from coordinator.cli.invoke import WITH_OPTIONS
from coordinator.planning.plan import make_plan
from coordinator.scenario.added_options import ADDED, MODULES, TAKEN, AddedOptions
from coordinator.scenario.command import run_command
from coordinator.scenario.model import OPTIONS, Scenario, make_scenario, plain_values, scenario_model
from coordinator.scenario.option import Option
from coordinator.scenario.plugins import load_plugins
from emunode.errors import RegistrationError, ScenarioError
from emunode.registry import recorded, register, withdraw
from tests.helpers.annex_support import needs_every_annex
from tests.helpers.command_line import ROOT, Ended, command, fields, fresh, run_process
from tests.helpers.support import forget_plugins

PLUGIN = ROOT / "tests" / "plugins" / "either_end.py"
BASE = fields("hypercube:3 broadcast either-end", driver="memory")
RUN = f"run --topology hypercube:3 --collective broadcast --algorithm either-end --plugin {PLUGIN} --json"
NUMBER = Annotated[int, Option("Numbers")]


@pytest.fixture(autouse=True)
def unloaded() -> Iterator[None]:
    """Withdraw the plug-ins of a test."""
    before = list(scenario_model().model_fields)
    yield
    forget_plugins()
    assert list(scenario_model().model_fields) == before


def loaded(**values: object) -> Scenario:
    """Return a scenario of the plug-in."""
    return make_scenario({**BASE, "plugin": load_plugins([str(PLUGIN)]), **values})


def test_hosts_receive_an_added_option(tmp_path: Path) -> None:
    def call(line: str) -> Ended:  # a process reads the flags of plug-ins before it parses its own
        return run_process(tmp_path, fresh(command(f"coordinator {line}")))

    both = f"{RUN} --end low"
    here = call(f"{both} --driver memory").data
    sockets = call(f"{both} --driver local --ranks-per-host 4 --out there").data
    assert here["journal_hash"] == sockets["journal_hash"] != call(f"{RUN} --driver memory").data["journal_hash"]
    assert tomllib.loads((tmp_path / "there" / "scenario.toml").read_text())["end"] == "low"
    assert call("verify there --plugin there/plugins/either_end.py").status == 0
    assert call("run there/scenario.toml --json").status == 2
    again = call("run there/scenario.toml --plugin there/plugins/either_end.py --end low --json").data
    assert again["journal_hash"] == here["journal_hash"]


def test_help_shows_added_options_in_their_group(tmp_path: Path) -> None:
    ended = run_process(tmp_path, fresh(command(f"coordinator run --plugin {PLUGIN} --help")))
    shown = " ".join(ended.out.replace("│", " ").split())
    group = shown[shown.index("─ Ends ─") :]
    assert "--end CHOICE bit of a relative address that leads to its parent [choices: low, high]" in group
    assert "--end-pause TIME" in shown[: shown.index("─ Ends ─")]
    ended = run_process(tmp_path, command("coordinator plan --end low"))
    assert (ended.status, "Unknown option: --end" in ended.err) == (2, True)


def test_campaigns_send_added_options_to_their_workers(tmp_path: Path) -> None:
    line = "coordinator campaign --topology hypercube:3 --algorithm either-end --faults nodes=1 --trials 8 --workers 2"
    ended = run_process(tmp_path, fresh(command(f"{line} --plugin {PLUGIN} --end low --engine messages --json")))
    assert ended.status in (0, 3), ended.err
    assert ended.data["rows"][0]["trials"] == 8


def test_the_python_api_takes_added_options() -> None:
    cube: Any = coordinator.network("hypercube:3", plugin=str(PLUGIN))
    assert cube.broadcast("either-end", end="low").scenario["end"] == "low"
    with pytest.raises(ScenarioError, match="invalid end 'middle': it is one of low, high"):
        cube.broadcast("either-end", end="middle")
    with pytest.raises(ScenarioError, match=r"invalid end_pause 3\.0: only with --reliable"):
        cube.broadcast("either-end", end_pause=3)


def test_added_options_are_written_behind_all_others() -> None:
    before = list(OPTIONS)
    assert [name for name in before if name in Scenario.model_fields] == list(Scenario.model_fields)
    scenario = loaded(end="low", end_pause="2ms", reliable=True)
    assert list(type(scenario).model_fields) == list(OPTIONS) == [*before, "end", "end_budget", "end_pause"]
    assert "--end low --end-pause 2ms" in run_command(scenario)


def test_options_with_a_place_stand_before_the_option_they_name() -> None:
    class Early(AddedOptions):
        before = "seed"
        early: Annotated[bool, Option("Numbers")] = Field(False, description="a switch")
        earlier: NUMBER = Field(1, description="a number")

    values = fields("hypercube:3 broadcast sbt")
    register(Early)
    try:
        written = plain_values(make_scenario(values))
        assert [*written][[*written].index("early") :][:3] == ["early", "earlier", "seed"]
    finally:
        ADDED.remove(Early)


def test_records_are_in_the_order_of_their_declaration() -> None:
    assert list(ADDED)[: len(MODULES)] == [name for name, _ in MODULES]
    # However a process begins: here with a module that registers one of them.
    code = "import coordinator.scenario.programs; from coordinator.scenario.added_options import ADDED; print(*ADDED)"
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stdout.split() == list(ADDED)


def test_only_options_for_hosts_with_a_value_are_sent() -> None:
    assert make_plan(loaded()).spec.settings == (("end", "high"),)
    spec = make_plan(loaded(end_budget=-7)).spec
    assert [spec.setting(name) for name in ("end", "end_budget", "end_pause")] == ["high", -7, None]
    with pytest.raises(ScenarioError, match=r"invalid end_budget .*: hosts receive whole numbers from -2\*\*63"):
        make_plan(loaded(end_budget=2**63))


def test_a_scenario_from_before_has_the_defaults() -> None:
    before = make_scenario(fields("hypercube:3 broadcast sbt", driver="memory"))
    after = loaded(end="low")
    *_, record = ADDED.values()
    options: Any = record
    assert (options.of(before).end, options.of(after).end) == ("high", "low")
    assert make_plan(before).spec.settings == ()
    assert make_plan(after.on_driver("local")).spec.setting("end") == "low"


def test_a_withdrawn_option_is_unknown() -> None:
    loaded(end="low")
    forget_plugins()
    with pytest.raises(ScenarioError, match="invalid scenario 'end': there is no such key"):
        make_scenario({**BASE, "end": "low"})


def refused(annotation: Any, default: Any, name: str = "depth") -> str:
    """Return why a record with one option cannot be registered."""
    namespace = {"__annotations__": {name: annotation}, "__module__": __name__, name: default}
    record = type("Wrong", (AddedOptions,), namespace)
    with pytest.raises(RegistrationError) as caught:
        register(record)
    assert list(ADDED) == list(dict(MODULES))
    return str(caught.value)


GOOD = Field(1, description="a number")


@pytest.mark.parametrize(
    ("annotation", "default", "name", "reason"),
    [
        (NUMBER, GOOD, "seed", "the name is already taken"),
        (NUMBER, GOOD, "on_driver", "the name is already taken"),
        (NUMBER, GOOD, "steps", "the name is already taken"),
        (NUMBER, GOOD, "trials", "the name is already taken"),
        (NUMBER, GOOD, "Depth", "expected a name of small letters, digits and _"),
        (NUMBER, Field(description="a number"), "depth", "it has no default"),
        (NUMBER, 1, "depth", "it has no description"),
        (int, GOOD, "depth", "its annotation has no Option, which states its group"),
        (
            Annotated[dict[str, int], Option("Numbers")],
            Field({}, description="?"),
            "depth",
            "expected a number, a text",
        ),
        (
            Annotated[tuple[int, ...], Option("Numbers", for_hosts=True)],
            Field((), description="?"),
            "depth",
            "hosts receive single values",
        ),
    ],
)
def test_a_field_that_cannot_be_an_option_is_refused(annotation: Any, default: Any, name: str, reason: str) -> None:
    assert refused(annotation, default, name).startswith(f"option '{name}' of Wrong: {reason}")


def test_two_records_have_no_option_in_common() -> None:
    class First(AddedOptions):
        depth: NUMBER = GOOD

    class Second(AddedOptions):
        depth: Annotated[Literal["a", "b"], Option("Numbers")] = Field("a", description="a letter")

    with recorded() as additions:
        register(First)
        with pytest.raises(RegistrationError, match="option 'depth' of Second: the name is already taken"):
            register(Second)
    withdraw(additions)


@needs_every_annex
def test_added_options_hide_no_flag_of_a_command() -> None:
    root = app.default_parameter
    collections = [app[name].assemble_argument_collection(default_parameter=root) for name in WITH_OPTIONS]
    shown = {name for arguments in collections for argument in arguments for name in argument.names}
    flags = {name.removeprefix("--").replace("-", "_") for name in shown if name.startswith("--")}
    assert flags <= TAKEN | set(OPTIONS)
