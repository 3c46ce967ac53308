"""Help, and the table of commands."""

import re
import shlex
import subprocess
import sys
from inspect import getdoc
from pathlib import Path

import pytest

from coordinator.annexes import BELONGS
from coordinator.cli.app import COMMANDS, app
from emunode import __version__
from emunode.annexes import load
from tests.command_line import ROOT, Call
from tests.coordinator.cli.conftest import help_of

pytestmark = pytest.mark.usefixtures("wide_terminal")


def examples(command: str) -> list[list[str]]:
    """Return the command lines below "Examples:" in the docstring of a command."""
    _, _, text = (getdoc(load(COMMANDS[command][0]).default_command) or "").partition("Examples:\n")
    return [shlex.split(line) for line in text.replace("\\\n", "").splitlines() if line.strip()]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_two_examples_that_parse(command: str) -> None:
    lines = examples(command)
    assert len(lines) == 2
    for program, *arguments in lines:
        assert program == "coordinator"
        assert arguments[: len(command.split())] == command.split()
        redirection = arguments.index(">") if ">" in arguments else len(arguments)
        app.parse_args(arguments[:redirection], exit_on_error=False, print_error=False)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_flag_has_a_description(call: Call, command: str) -> None:
    text = help_of(call, *command.split())
    assert f"Usage: coordinator {command}" in text
    assert "--json" in text
    # A long description goes on in lines that begin with spaces.
    flags = [line.strip("│ ") for line in text.splitlines() if re.match(r"│ \S", line)]
    assert flags
    for line in flags:
        _, _, description = line.partition("  ")
        assert description.strip(), line


def test_help_without_a_command(call: Call) -> None:
    assert call("") == call("--help")
    assert "Usage: coordinator COMMAND" in help_of(call)
    assert "Usage: coordinator list" in help_of(call, "list")


def test_the_version(call: Call) -> None:
    assert call("--version").out.strip() == __version__


def modules_after(code: str) -> set[str]:
    """Return the modules that a process has imported after it executed `code`."""
    code = f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    return set(done.stdout.split())


PLAN = ["plan", "--topology", "star:3", "--collective", "broadcast", "--algorithm", "flood"]


@pytest.mark.parametrize(
    ("code", "slow"),
    [
        (
            "from coordinator.cli.invoke import main; main(['run', '--help'])",
            {"coordinator.planning", "coordinator.api"},
        ),
        (
            "from coordinator.cli.invoke import main; main(['plan', '--help'])",
            {"coordinator.planning", "emunode.faults"},
        ),
        ("from coordinator.cli.invoke import main; main(['list', 'topologies'])", {"pydantic"}),
        (f"from coordinator.cli.invoke import main; main({PLAN})", {"coordinator.execution", "cyclopts", "rich"}),
        ("from emunode.__main__ import main; main(['--help'])", {"emunode.host", "emunode.net"}),
    ],
)
def test_short_commands_import_nothing_slow_without_need(code: str, slow: set[str]) -> None:
    assert not ({"numpy", "polars", "trio", "jinja2"} | slow) & modules_after(code)


def test_a_short_run_in_memory_needs_no_event_loop(tmp_path: Path) -> None:
    run = ["run", *PLAN[1:], "--driver", "memory", "--out", str(tmp_path / "run")]
    assert not {"trio", "cyclopts", "rich"} & modules_after(f"from coordinator.cli.invoke import main; main({run})")
    assert (tmp_path / "run" / "report.html").stat().st_size


def test_help_imports_no_command() -> None:
    loaded = modules_after("from coordinator.cli.invoke import main; main(['--help'])")
    assert not {"pydantic", "polars", "numpy", "trio", "msgpack"} & loaded
    ours = {name for name in loaded if name.partition(".")[0] in ("coordinator", "emunode")}
    assert ours == {
        "coordinator",
        "coordinator.annexes",
        *(f"coordinator.annexes.{name}" for name in BELONGS),
        "coordinator.cli",
        *(
            f"coordinator.cli.{name}"
            for name in ("app", "direct", "documents", "failures", "interrupts", "invoke", "run_flags")
        ),
        "emunode",
        "emunode.annexes",
        "emunode.errors",
        "emunode.lazy_dataclass",
        "emunode.stop_signals",
        "emunode.terminal",
    }
