"""Plug-ins: loaded only when named, in one piece or not at all, and with one history on every driver."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.campaigns.worker_pool import read_greeting, write_greeting
from coordinator.execution.sinks import RunResult
from coordinator.execution.verify import verify
from coordinator.scenario.model import make_scenario, read_scenario
from coordinator.scenario.networks import with_absolute_network
from coordinator.scenario.plugins import load_plugins
from emunode.algorithms.base import ALGORITHMS
from emunode.errors import RunError, ScenarioError
from emunode.faults.kinds import KINDS
from emunode.model import Plugin
from emunode.plugins import LOADED, MAX_BYTES, MAX_PLUGINS
from emunode.testing import check_topology
from emunode.topologies.base import FAMILIES
from emunode.topologies.registry import parse_topology
from tests.helpers.annex_support import needs_every_annex
from tests.helpers.command_line import ROOT, Call, Start, fields, free_port
from tests.helpers.scenarios import Case
from tests.helpers.support import failures, forget_plugins, run_scenario

CYCLE = ROOT / "tests" / "plugins" / "cycle.py"
FLOOD = fields("cycle:6 broadcast flood")
ONE_WAY = fields("cycle:6 broadcast one-way source=4")
RUN = "run --topology cycle:6 --collective broadcast --algorithm one-way --driver memory"


@pytest.fixture(autouse=True)
def unloaded() -> Iterator[None]:
    """Nothing is registered before a test, and what it loads is withdrawn after it."""
    before = [dict(registry) for registry in (FAMILIES, ALGORITHMS, KINDS)]
    assert not LOADED
    yield
    forget_plugins()
    assert [dict(registry) for registry in (FAMILIES, ALGORITHMS, KINDS)] == before


def written(folder: Path, text: str, name: str = "mine.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def refused(*entries: object) -> ScenarioError:
    """Return the error of plug-ins that cannot be loaded."""
    with pytest.raises(ScenarioError) as caught:
        load_plugins([str(entry) for entry in entries])
    assert caught.value.field == "plugin"
    return caught.value


# --- one history -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [FLOOD, ONE_WAY, {**ONE_WAY, "fault": ["drop-every:1>2:1"]}, {**FLOOD, "topology": "cycle:7", "segments": 5}],
    ids=["topology", "algorithm", "fault kind", "odd cycle"],
)
def test_one_history_on_every_driver(values: dict[str, object], tmp_path: Path) -> None:
    values = {**values, "plugin": load_plugins([str(CYCLE)])}
    places: list[dict[str, object]] = [{"driver": "memory"}, {"driver": "local", "ranks_per_host": 1}]
    if values["topology"] == "cycle:7":
        places.append({"driver": "local"})
    runs = [run_scenario(tmp_path / str(number), **(values | place)) for number, place in enumerate(places)]
    assert len({each.summary["journal_hash"] for each in runs}) == 1
    assert {each.verdict for each in runs} == {"undecided" if "fault" in values else "holds"}, failures(runs[0])
    delivered = 5 if "fault" not in values else 3
    assert runs[0].summary["intact_deliveries"] == (6 if values["topology"] == "cycle:7" else delivered)


def test_the_network_of_a_plug_in_keeps_its_promises() -> None:
    load_plugins([str(CYCLE)])
    for name in ("cycle:3", "cycle:4", "cycle:9"):
        check_topology(parse_topology(name))


def test_joined_hosts_run_a_plug_in_only_if_they_allow_it(start: Start, tmp_path: Path) -> None:
    endpoint = f"127.0.0.1:{free_port()}"
    serve = "coordinator serve --topology cycle:6 --collective broadcast --algorithm one-way --hosts 2 --json"
    for flag, status in (("--allow-plugins", 0), ("", 4)):
        out = f"out{flag}"
        hosts = [start(f"emunode --token-file token --join-seconds 120 {flag} --coordinator", endpoint) for _ in "12"]
        served = start(serve, "--listen", endpoint, "--plugin", CYCLE, "--out", out).end()
        assert served.status == status, served.err
        for host in hosts:
            assert host.end().status == status
        assert (tmp_path / out).exists() == (status == 0)
        if status:
            assert "does not accept plug-ins (cycle.py); start it with emunode --allow-plugins" in served.err
        else:
            load_plugins([str(CYCLE)])
            memory = run_scenario(tmp_path / "memory", **fields("cycle:6 broadcast one-way"))
            assert served.data["journal_hash"] == memory.summary["journal_hash"]


# --- stored runs -----------------------------------------------------------------------------------------------------


@pytest.fixture
def stored(tmp_path: Path) -> RunResult:
    """Provide a run with a plug-in that is not loaded any more."""
    result = run_scenario(tmp_path / "stored", **ONE_WAY, plugin=load_plugins([str(CYCLE)]))
    forget_plugins()
    return result


def test_a_run_directory_holds_its_plug_in_and_can_be_repeated(stored: RunResult, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(stored.path, moved)
    file = moved / "plugins" / "cycle.py"
    assert file.read_bytes() == CYCLE.read_bytes()
    load_plugins([str(file)])
    values = with_absolute_network(read_scenario(moved / "scenario.toml"), moved)
    again = run_scenario(tmp_path / "again", **{**values, "driver": "local"})
    assert again.summary["journal_hash"] == stored.summary["journal_hash"]
    assert verify(moved).verified
    file.write_text("# altered\n")
    assert verify(moved).findings == ["plugins/cycle.py: it has another digest than the scenario says"]
    file.unlink()
    assert verify(moved).findings == ["plugins/cycle.py: the file cannot be read: No such file or directory"]


@pytest.mark.parametrize(
    "line",
    [
        "run stored/scenario.toml",
        "plan stored/scenario.toml",
        "certify stored/scenario.toml",
        "verify stored",
        "report stored",
        "compare stored stored",
        "export stored --graphml x",
    ],
)
def test_what_a_stored_run_names_is_not_executed(line: str, stored: RunResult, call: Call) -> None:
    ended = call(line)
    assert ended.status == 2
    assert "'plugins/cycle.py'" in ended.err or f"'{stored.path}/plugins/cycle.py'" in ended.err
    assert "add --plugin stored/plugins/cycle.py" in ended.err
    assert not LOADED
    assert call(f"{line} --plugin stored/plugins/cycle.py").status == 0


def test_another_text_of_the_same_name_is_refused(stored: RunResult, call: Call, tmp_path: Path) -> None:
    other = written(tmp_path, CYCLE.read_text() + "# altered\n", "cycle.py")
    ended = call("verify stored --plugin cycle.py")
    assert ended.status == 2
    assert "digest mismatch" in ended.err
    shutil.copy(other, stored.path / "plugins")
    assert call("verify stored --plugin stored/plugins/cycle.py").status == 2


def test_a_scenario_file_names_plug_ins_relative_to_itself(call: Call, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    shutil.copy(CYCLE, tmp_path / "sub")
    (tmp_path / "sub" / "one.toml").write_text(
        'topology = "cycle:5"\ncollective = "broadcast"\nalgorithm = "flood"\nplugin = ["cycle.py"]\ndriver = "memory"\n'
    )
    ended = call("run sub/one.toml")
    assert (ended.status, "add --plugin sub/cycle.py" in ended.err) == (2, True)
    assert call("run sub/one.toml --plugin", CYCLE).status == 0  # the same text
    (tmp_path / "sub" / "one.toml").write_text('topology = "star:3"\nplugin = "cycle.py"\n')
    assert "expected a list of texts" in call("run sub/one.toml").err


# --- campaigns and certificates --------------------------------------------------------------------------------------


def test_campaigns_with_workers_run_and_resume(call: Call) -> None:
    line = (
        "campaign --topology cycle:6 --algorithm flood --faults nodes=0..1 --trials 3 --workers 2 --out camp --plugin"
    )
    first = call(line, CYCLE, "--json")
    assert first.status == 0, first.err
    assert [row["trials"] for row in first.data["rows"]] == [1, 3]
    forget_plugins()
    ended = call("campaign --resume camp")
    assert (ended.status, "add --plugin camp/plugins/cycle.py" in ended.err) == (2, True)
    assert call("campaign --resume camp --plugin camp/plugins/cycle.py --json").data["rows"] == first.data["rows"]


def test_a_worker_checks_the_digest_of_what_it_receives() -> None:
    scenario = make_scenario({**ONE_WAY, "plugin": load_plugins([str(CYCLE)])})
    greeting = write_greeting([scenario])
    forget_plugins()
    with pytest.raises(ScenarioError, match="digest mismatch"):
        read_greeting(greeting.replace(b"N - 1 steps", b"N + 1 steps"))
    assert not LOADED
    assert read_greeting(greeting) == [scenario]


def test_a_counterexample_names_the_plug_in(call: Call, tmp_path: Path) -> None:
    ended = call("certify --topology cycle:5 --algorithm flood --faults nodes=2 --out cex.toml --json --plugin", CYCLE)
    assert ended.status == 1
    repeat = ended.data["counterexample"]["repeat"]
    assert repeat == f"coordinator certify cex.toml --plugin {CYCLE}"
    assert call(repeat.removeprefix("coordinator ")).status == 1
    assert (tmp_path / "plugins" / "cycle.py").read_bytes() == CYCLE.read_bytes()


# --- other commands --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("list topologies", "cycle:N"),
        ("list algorithms --topology cycle", "one-way"),
        ("list faults", "drop-every"),
        ("graph cycle:6", "vertex"),
        ("sweep --topology cycle:4..6 --algorithm flood --json", '"topology": "cycle:6"'),
        ("plan --topology cycle:6 --collective broadcast --algorithm one-way", "cycle C_6"),
        ("export --topology cycle:6 --algorithm one-way --graphml cycle.graphml", "wrote graphml"),
    ],
)
def test_commands_accept_plug_ins(line: str, words: str, call: Call) -> None:
    ended = call(f"{line} --plugin", CYCLE)
    assert ended.status == 0, ended.err
    assert words in ended.out or words == "vertex"


DRIVER = """
from coordinator.networks.launchers.base import Launch
from coordinator.networks.launchers.local import LocalLaunch
from coordinator.scenario.drivers import Driver
from emunode.registry import register

class Nice(LocalLaunch):
    def __init__(self, plan, log):
        super().__init__(log, plan.topology)

class Incomplete(Launch):
    def check(self):
        pass

register(Driver(NAME, CLASS, local_processes=True))
"""


@needs_every_annex
def test_a_driver_of_a_plug_in(call: Call, tmp_path: Path) -> None:
    written(tmp_path, DRIVER.replace("NAME", "'nice'").replace("CLASS", "Nice"))
    line = "run --topology star:3 --collective broadcast --algorithm flood --json --driver"
    ended = call(f"{line} nice --plugin mine.py")  # it is not sent: these hosts would refuse it
    assert ended.status == 0, ended.err
    assert (ended.data["driver"], ended.data["links_opened"]) == ("nice", 6)
    assert ended.data["journal_hash"] == call(f"{line} memory").data["journal_hash"]
    forget_plugins()
    assert "input should be 'memory', 'local', 'docker', 'join', 'ssh', 'mpi' or 'slurm'" in call(f"{line} nice").err
    for name, launcher, words in (
        ("'local'", "Nice", "'local', a name already taken by coordinator.scenario.drivers.Driver 'local'"),
        ("'less'", "Incomplete", "the launcher of driver 'less' does not define start, stop"),
        ("'a b'", "Nice", "not a lower-case word"),
        ("'none'", "3", "neither a class"),
    ):
        written(tmp_path, DRIVER.replace("NAME", name).replace("CLASS", launcher))
        ended = call(f"{line} local --plugin mine.py")
        assert ended.status == 2
        assert "line 15: " in ended.err
        assert words in ended.err


# --- refusals --------------------------------------------------------------------------------------------------------

HEAD = "from emunode.registry import register\nfrom emunode.algorithms.flooding import Flood\n"
GOOD = HEAD + "@register\nclass Mine(Flood):\n    name = 'mine'\n    family = 'star'\n"
BROKEN = {
    "syntax": ("x = 1\ndef f(:\n", "line 2: SyntaxError: "),
    "import": ("import os\nimport no_such_module\n", "line 2: ModuleNotFoundError: No module named 'no_such_module'"),
    "exception": (GOOD + "1 / 0\n", "line 7: ZeroDivisionError: division by zero"),
    "exit": (GOOD + "raise SystemExit(0)\n", "line 7: SystemExit: 0"),
    "nothing": ("x = 1\n", "it registers nothing"),
    "incomplete": (
        GOOD + "from emunode.algorithms.base import Algorithm\n@register\nclass Less(Algorithm):\n    name = 'less'\n",
        "line 8: algorithm testbench_plugin_mine_",
    ),
    "built-in family": (
        HEAD + "from emunode.topologies.star import StarGraph\n@register\nclass Mine(StarGraph):\n    pass\n",
        "line 4: topology",
    ),
    "built-in algorithm": (HEAD + "@register\nclass Mine(Flood):\n    pass\n", "line 3: algorithm"),
    "hidden algorithm": (GOOD + "@register\nclass Hiding(Flood):\n    family = 'star'\n", "line 7: algorithm Hiding"),
    "unknown metric": (
        GOOD + "from emunode.algorithms.base import Claim\n@register\nclass Odd(Mine):\n    name = 'odd'\n"
        "    def claims(self):\n        return [Claim('stepz', 1, '==', 'x')]\n",
        "unknown metric 'stepz'",
    ),
    "no trees": (
        (
            "from emunode.registry import register\nfrom emunode.algorithms.tree_collective import TreeCollective\n"
            "from emunode.model import Collective, PortModel\n@register\nclass Bare(TreeCollective):\n    name = 'bare'\n"
            "    family = 'star'\n    collective = Collective.BROADCAST\n    port_models = (PortModel.ALL_PORT,)\n"
            "    citation = 'none'\n"
        ),
        "algorithm Bare defines neither make_trees nor trees_class",
    ),
    "the name of programs": (
        HEAD + "@register\nclass Mine(Flood):\n    family = 'star'\n    name = 'program'\n",
        "line 3: algorithm Mine is called 'program', a name already taken",
    ),
    "no entry": (GOOD + "register(3)\n", "line 7: builtins.int ''"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_plug_in_is_one_error_and_leaves_nothing(case: str, call: Call, tmp_path: Path) -> None:
    text, words = BROKEN[case]
    path = written(tmp_path, text)
    before = [dict(registry) for registry in (FAMILIES, ALGORITHMS, KINDS)]
    ended = call(f"{RUN} --plugin mine.py")
    assert ended.status == 2
    (line,) = ended.err.splitlines()
    assert line.startswith(f"coordinator: invalid plugin '{path}': ")
    assert words in line
    assert not LOADED
    assert [dict(registry) for registry in (FAMILIES, ALGORITHMS, KINDS)] == before


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    load_plugins([str(written(tmp_path, "\ufeff" + GOOD))])
    assert ("star", "broadcast", "mine") in ALGORITHMS


def test_files_that_are_no_plug_ins(tmp_path: Path) -> None:
    assert "cannot be read: No such file" in refused(tmp_path / "missing.py").allowed
    assert "not a regular file" in refused(tmp_path).allowed
    (tmp_path / "bytes.py").write_bytes(b"\xff\xfe")
    assert "not UTF-8" in refused(tmp_path / "bytes.py").allowed
    for text in ("", "#" * (MAX_BYTES + 1)):
        assert f"1 to {MAX_BYTES:,} bytes" in refused(written(tmp_path, text)).allowed
    many = [written(tmp_path, GOOD + f"# {number}\n", f"p{number}.py") for number in range(MAX_PLUGINS + 1)]
    assert f"at most {MAX_PLUGINS}" in refused(*many).allowed
    (tmp_path / "sub").mkdir()
    same = [written(tmp_path, GOOD), written(tmp_path / "sub", GOOD + "#\n")]
    assert "two plug-ins have this name" in refused(*same).allowed


def test_plug_ins_that_clash_with_one_another(tmp_path: Path) -> None:
    first, second = written(tmp_path, GOOD, "first.py"), written(tmp_path, GOOD + "#\n", "second.py")
    error = refused(first, second)
    assert error.value == str(second)
    assert "'star broadcast mine', a name already taken by testbench_plugin_first_" in error.allowed
    assert [loaded.plugin.name for loaded in LOADED.values()] == ["first.py"]


def test_a_changed_file_replaces_itself_unless_it_is_broken(tmp_path: Path) -> None:
    load_plugins([str(written(tmp_path, GOOD))])
    older = ALGORITHMS["star", "broadcast", "mine"]
    assert load_plugins([str(tmp_path / "mine.py")]) == load_plugins([str(tmp_path / "mine.py")])
    assert ALGORITHMS["star", "broadcast", "mine"] is older
    refused(written(tmp_path, GOOD + "1 / 0\n"))
    assert ALGORITHMS["star", "broadcast", "mine"] is older
    load_plugins([str(written(tmp_path, GOOD.replace("'mine'", "'yours'")))])
    assert ("star", "broadcast", "mine") not in ALGORITHMS
    assert ("star", "broadcast", "yours") in ALGORITHMS
    assert len(LOADED) == 1


def test_output_of_a_plug_in_does_not_mix_with_json(call: Call, tmp_path: Path) -> None:
    written(tmp_path, GOOD + "print('hello')\n")
    ended = call("list algorithms mine --json --plugin mine.py")
    assert [row["algorithm"] for row in ended.data] == ["mine"]
    assert ended.err == "hello\n"


# --- installed modules -----------------------------------------------------------------------------------------------


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Provide an installed package `their_cycles` with the plug-in `their_cycles.cycle` and an entry point
    `cycles`.
    """
    site = tmp_path / "site"
    (site / "their_cycles").mkdir(parents=True)
    (site / "their_cycles" / "__init__.py").write_text("")
    shutil.copy(CYCLE, site / "their_cycles")
    info = site / "their_cycles-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-cycles\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[collective_testbench.plugins]\ncycles = their_cycles.cycle\n")
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{site}")
    yield site / "their_cycles"
    for name in ("their_cycles", "their_cycles.cycle"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", ["their_cycles.cycle", "cycles"])
@pytest.mark.usefixtures("package")
def test_an_installed_plug_in_is_found_by_two_names(name: str) -> None:
    entries = load_plugins([name])
    ((digest, loaded),) = LOADED.items()
    assert entries == (f"their_cycles.cycle@sha256:{digest}",)
    assert loaded.plugin == Plugin("their_cycles.cycle", digest, "")


def test_an_installed_plug_in_runs_and_is_not_sent(package: Path, tmp_path: Path) -> None:
    entries = load_plugins(["cycles"])
    runs = [run_scenario(tmp_path / driver, **ONE_WAY, driver=driver, plugin=entries) for driver in ("memory", "local")]
    assert runs[0].summary["journal_hash"] == runs[1].summary["journal_hash"]
    assert verify(runs[1].path).verified
    assert not (runs[1].path / "plugins").exists()
    assert read_scenario(runs[1].path / "scenario.toml")["plugin"] == list(entries)
    # Any source file of the package counts, because the plug-in may import it.
    (package / "other.py").write_text("x = 1\n")
    with pytest.raises(RunError, match=r"plugin 'their_cycles\.cycle': digest mismatch: the coordinator has"):
        run_scenario(tmp_path / "changed", **ONE_WAY, driver="local", plugin=entries)


def test_modules_that_are_no_plug_ins() -> None:
    assert "no module 'no_such_module' is installed" in refused("no_such_module.part").allowed
    assert "it registers nothing" in refused("this").allowed
    assert "No module named 'emunode.nothing'" in refused("emunode.nothing").allowed


def test_a_plan_of_a_plug_in_that_is_not_loaded() -> None:
    with pytest.raises(ScenarioError, match=r"add --plugin tests/plugins/cycle\.py"):
        _ = Case(ONE_WAY, plugin=["tests/plugins/cycle.py"]).plan
