"""Help, and the table of commands."""

import re
import shlex
import subprocess
import sys
from inspect import getdoc

import pytest

from coordinator.cli.app import COMMANDS, USES, app
from emunode import __version__
from emunode.annexes import load
from tests.coordinator.cli.conftest import help_of
from tests.helpers.annex_support import needs_every_annex
from tests.helpers.command_line import ROOT, Call

pytestmark = pytest.mark.usefixtures("wide_terminal")


def examples(command: str) -> list[list[str]]:
    """Return the command lines below "Examples:" in the docstring of a command."""
    _, _, text = (getdoc(load(COMMANDS[command][0]).default_command) or "").partition("Examples:\n")
    return [shlex.split(line) for line in text.replace("\\\n", "").splitlines() if line.strip()]


@needs_every_annex
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


@needs_every_annex
def test_the_help_has_a_box_for_each_use(call: Call) -> None:
    text = help_of(call)
    places = [text.index(f"╭─ {use} ─") for use in (*USES, "Commands")]
    assert places == sorted(places)
    for example, _ in USES.values():
        assert f"for example: {example}" in text
        app.parse_args(example.split()[1:], exit_on_error=False, print_error=False)


def test_short_help_has_examples_and_no_flags(call: Call) -> None:
    text = call("run star:4 -h").out
    assert text.startswith("coordinator run: Run a scenario.\n\n")
    assert "  coordinator run star:4 broadcast edt\n" in text
    assert text.endswith("`coordinator run --help` lists its flags\n")
    assert call("list -h").out == call("list --help").out


@needs_every_annex
@pytest.mark.parametrize("command", COMMANDS)
def test_no_help_shows_words_of_the_argument_library(call: Call, command: str) -> None:
    text = help_of(call, *command.split())
    assert not re.search(r"\bSTR\b|\bFLOAT\b|--empty-|default: (\(\)|None|False|True|\[\])", text)


def test_the_version(call: Call) -> None:
    assert call("--version").out.strip() == __version__


def modules_after(code: str) -> set[str]:
    """Return the modules that a process has imported after it executed `code`."""
    code = f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["run", "--help"],
        ["plan", "--topology", "star:3", "--collective", "broadcast", "--algorithm", "flood"],
    ],
)
def test_what_starts_no_run_imports_no_polars(words: list[str]) -> None:
    """Polars starts threads, after which a process cannot move to a network of its own."""
    assert not {"polars", "numpy", "trio"} & modules_after(f"from coordinator.cli.invoke import main; main({words})")
