"""No key of a foreign file starts a program, reaches a machine, or reads or writes a file elsewhere."""

import json
import os
import shutil
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
import tomli_w

import coordinator as tb
from coordinator.scenario.drivers import DRIVERS
from coordinator.scenario.model import OPTIONS, make_scenario
from coordinator.scenario.named import name_values, require_named, values_of_file
from coordinator.scenario.reach import DATA, HARMLESS_DRIVERS
from emunode.errors import EmulatorError, ScenarioError
from tests.helpers.command_line import Call
from tests.helpers.support import run_scenario

BASE: Final = {"topology": "star:3", "collective": "broadcast", "algorithm": "greedy-tree", "driver": "memory"}
STARTED: Final = ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system", "os.fork", "os.forkpty", "pty.spawn")
REACHED: Final = ("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo")
SUFFIX: Final = {"data": "npy", "topology": "graphml", "schedule": "xml", "plugin": "py", "trees": "py"}
"""The suffixes of files that options read; all others take `.csv`."""
WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT

# --- watching --------------------------------------------------------------------------------------------------------


class Watch:
    """Notes what this process starts, reaches and opens, by the audit events of Python; hooks can never be removed."""

    def __init__(self) -> None:
        self.inside: Path | None = None
        """The folder that may be written to; None while nothing is noted."""
        self.secrets: Path | None = None
        self.noted: list[str] = []
        sys.addaudithook(self._event)

    def _event(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.inside is None:
            return
        if event in STARTED or event in REACHED:
            self.noted.append(f"{event} {arguments!r:.200}")
        elif event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
            path = os.path.realpath(os.fsdecode(arguments[0]))
            mode, flags = str(arguments[1] or ""), arguments[2] if isinstance(arguments[2], int) else 0
            writes = any(letter in mode for letter in "wax+") or bool(flags & WRITING)
            if path.startswith(str(self.secrets)) or (writes and not self._may_write(path)):
                self.noted.append(f"open {path} {mode}")

    def _may_write(self, path: str) -> bool:
        # Compiled modules, notes of partial folders, and what the tests themselves keep.
        return (
            path.startswith((f"{self.inside}", "/dev/null"))
            or path.endswith((".pyc", ".lock"))
            or "__pycache__" in path
        )


WATCH: Final = Watch()


@pytest.fixture
def watch(empty_folder: Path) -> Iterator[Watch]:
    """Watch a test that may write to its folder and its state folder, and may not open the secrets beside them."""
    secrets = empty_folder.with_name(f"{empty_folder.name}-secrets")
    secrets.mkdir()
    for suffix in {"csv", *SUFFIX.values()}:
        (secrets / f"file.{suffix}").write_text("secret\n")
    WATCH.inside, WATCH.secrets, WATCH.noted = empty_folder, secrets, []
    yield WATCH
    WATCH.inside = None


# --- a foreign files ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a run, a campaign and a certificate that are all right."""
    folder = tmp_path_factory.mktemp("made")
    run_scenario(folder / "run", **BASE)
    network = tb.network("star:3")
    tb.campaign(network, "broadcast", "greedy-tree", faults="nodes=1", trials=2, workers=1, out=folder / "campaign")
    tb.certify(network, "broadcast", "greedy-tree", faults="nodes<=1").save(folder / "certificate.json")
    return folder


def edit_toml(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    values = tomllib.loads(path.read_text())
    change(values)
    path.write_text(tomli_w.dumps(values))


def forge(made: Path, key: str, value: object) -> None:
    """Put copies of all files, with one key of their scenarios set, into the current folder."""
    Path("scenario.toml").write_text(tomli_w.dumps({**BASE, key: value}))
    Path("grid.toml").write_text(tomli_w.dumps({**BASE, "vary": {key: [value]}, "faults": ["nodes=1"], "trials": 2}))
    for name in ("run", "campaign"):
        shutil.copytree(made / name, name)
    edit_toml(Path("run/scenario.toml"), lambda values: values.update({key: value}))
    edit_toml(Path("campaign/campaign.toml"), lambda values: values["scenario"].update({key: value}))
    certificate = json.loads((made / "certificate.json").read_text())
    certificate["scenario"][key] = value
    Path("certificate.json").write_text(json.dumps(certificate))


COMMANDS: Final = (
    "run scenario.toml",
    "plan scenario.toml",
    "certify scenario.toml --faults nodes<=1",
    "campaign scenario.toml --faults nodes=1 --trials 2 --workers 1",
    "campaign grid.toml --workers 1",
    "campaign --resume campaign --workers 1",
    "run --from run@1",
    "verify run",
    "verify campaign",
    "verify certificate.json",
    "report run",
    "compare run run",
    "export run --figures figures",
    "pack run run.zip",
    "pack certificate.json certificate.zip",
    "manifest compose scenario.toml",
)
USES: Final[tuple[Callable[[], object], ...]] = (
    lambda: tb.branch("run", 1),
    lambda: tb.verify("run"),
    lambda: tb.Run.read("run").report(),
)
"""Uses of a stored run from Python."""


def harmful(key: str, secrets: Path) -> list[object]:
    """Return values of an option that would start or read something if the option let them."""
    option = OPTIONS[key]
    if key == "driver":
        return [name for name in DRIVERS if name not in HARMLESS_DRIVERS]
    path = secrets / f"file.{SUFFIX.get(key, 'csv')}"
    texts = [f"sh -c 'touch {secrets}/touched'", str(path), f"file:{path}", 'sh "unclosed']
    if option.reach is DATA:
        texts = texts[:1]
    return [[text] if option.is_repeatable else text for text in texts]


REACHING: Final = [name for name, option in OPTIONS.items() if option.reach is not DATA]


@pytest.mark.parametrize("key", sorted(REACHING))
def test_no_key_that_reaches_out_counts_alone(
    key: str, made: Path, watch: Watch, call: Call, pytestconfig: pytest.Config
) -> None:
    check(key, made, watch, call, 1 if pytestconfig.getoption("--all") else 3)


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize("key", sorted(set(OPTIONS) - set(REACHING)))
def test_no_other_key_reaches_out(key: str, made: Path, watch: Watch, call: Call) -> None:
    check(key, made, watch, call, 1)


def check(key: str, made: Path, watch: Watch, call: Call, one_in: int) -> None:
    """Give every harmful value to every use, or the values in turn to one use in `one_in`: each use meets every key."""
    assert watch.secrets is not None
    assert watch.inside is not None
    for number, value in enumerate(harmful(key, watch.secrets)):
        for left in watch.inside.iterdir():
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        forge(made, key, value)
        for command in COMMANDS[number % one_in :: one_in]:
            ended = call(command)
            assert watch.noted == [], (command, value)
            assert ended.status in (0, 1, 2, 3), (command, value, ended.err)
            assert not list(watch.secrets.glob("touched"))
        for use in USES:
            with suppress(EmulatorError):
                use()
            assert watch.noted == [], (use, value)


# --- what a user names -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("driver", "mpi", "it starts other programs or reaches other machines"),
        ("launcher", "sh -c id", "it starts programs"),
        ("host_file", "hosts", "it names machines that receive the token of the run"),
    ],
)
def test_the_error_says_what_to_add(key: str, value: str, reason: str) -> None:
    scenario = make_scenario({**BASE, key: value})
    with pytest.raises(ScenarioError) as refused:
        require_named(scenario)
    assert refused.value.field == key
    assert reason in str(refused.value)
    assert f"add --{key.replace('_', '-')} " in str(refused.value)
    name_values({key: value.upper() if key == "driver" else value})
    require_named(scenario)


def test_one_error_has_all_flags(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "evil.toml"
    path.write_text(tomli_w.dumps({**BASE, "driver": "mpi", "launcher": "sh -c id"}))
    ended = call("run", path)
    assert ended.status == 2
    assert ended.err.strip().endswith("add --driver mpi --launcher 'sh -c id'")
    another = call("run", path, "--driver", "mpi", "--launcher", "sh -c true")
    assert (another.status, "neither of Open MPI nor of MPICH" in another.err) == (4, True), "the flag replaces the key"


def test_a_file_may_name_files_beside_it_only(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside.edges"
    inside.mkdir()
    outside.touch()
    (inside / "link.edges").symlink_to(outside)
    (inside / "net.edges").touch()
    (inside / "circle.edges").symlink_to("circle.edges")
    assert values_of_file({"topology": "file:net.edges"}, inside) == {"topology": f"file:{inside}/net.edges"}
    for name in ("../outside.edges", str(outside), "link.edges", "circle.edges", "a\0b.edges"):
        for values in ({"topology": f"file:{name}"}, {"vary": {"topology": [f"file:{name}"]}}):
            with pytest.raises(ScenarioError, match="a file names it, and it reads a file outside"):
                values_of_file(values, inside)
    name_values({"topology": f"file:{outside}"})
    values_of_file({"topology": f"file:{outside}"}, inside)
    values_of_file({"topology": "file:../outside.edges"}, inside, replaced=["topology"])


def test_every_option_states_its_reach() -> None:
    assert [name for name, option in OPTIONS.items() if option.reach is None] == []


def test_an_option_without_a_statement_counts_as_one_that_acts(call: Call, tmp_path: Path) -> None:
    plugin = tmp_path / "undeclared.py"
    plugin.write_text(
        "from typing import Annotated\nfrom pydantic import Field\n"
        "from coordinator.scenario.added_options import AddedOptions\n"
        "from coordinator.scenario.option import Option\nfrom emunode.registry import register\n\n\n"
        "@register\nclass Hooks(AddedOptions):\n"
        '    """An option that says nothing of its reach."""\n\n'
        '    hook: Annotated[str | None, Option("Hooks")] = Field(None, description="a command")\n'
    )
    path = tmp_path / "scenario.toml"
    path.write_text(tomli_w.dumps({**BASE, "driver": "local", "plugin": [str(plugin)], "hook": "sh"}))
    refused = call("run", path, "--plugin", plugin)
    assert refused.status == 2
    assert "invalid hook 'sh': a file names it, and it does not state that it is only data" in refused.err
