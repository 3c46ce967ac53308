"""Help, shell completion and the table of commands."""

import importlib
import resource
import shlex
import statistics
import subprocess
import sys
from inspect import getdoc
from pathlib import Path

import pytest
from rich.console import Console

from coordinator.cli.app import COMMANDS, LISTS, app, main
from coordinator.cli.options import GROUPS
from coordinator.scenario.model import Scenario

ROOT = Path(__file__).resolve().parents[3]
ALL: dict[tuple[str, ...], tuple[str, str]] = {
    **{(name,): entry for name, entry in COMMANDS.items()},
    **{("list", name): entry for name, entry in LISTS.items()},
}
SCENARIO_COMMANDS = ("run", "plan", "serve", "campaign", "certify")
HELP_SECONDS = 0.15
"""CPU time that `coordinator --help` may take beyond starting Python."""


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    # every command keeps the console of its first use in this process, with the width of that time; this one comes first
    monkeypatch.setattr(app, "_console", Console(width=400))


def help_of(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> str:
    assert main([*command, "--help"]) == 0
    return capsys.readouterr().out


def examples(command: tuple[str, ...]) -> list[list[str]]:
    """The command lines below "Examples:" in the docstring of a command."""
    module, _, attribute = ALL[command][0].partition(":")
    function = getattr(importlib.import_module(f"coordinator.cli.{module}"), attribute).default_command
    _, _, text = (getdoc(function) or "").partition("Examples:\n")
    return [shlex.split(line) for line in text.replace("\\\n", "").splitlines() if line.strip()]


@pytest.mark.parametrize("command", ALL, ids=" ".join)
def test_the_table_repeats_the_first_line_of_the_docstring(command: tuple[str, ...]) -> None:
    target, summary = ALL[command]
    module, _, attribute = target.partition(":")
    function = getattr(importlib.import_module(f"coordinator.cli.{module}"), attribute).default_command
    assert summary == (getdoc(function) or "").splitlines()[0]


@pytest.mark.parametrize("command", ALL, ids=" ".join)
def test_every_command_has_two_examples_that_parse(command: tuple[str, ...]) -> None:
    lines = examples(command)
    assert len(lines) == 2
    for program, *arguments in lines:
        assert program == "coordinator"
        assert tuple(arguments[: len(command)]) == command
        redirection = arguments.index(">") if ">" in arguments else len(arguments)
        app.parse_args(arguments[:redirection], exit_on_error=False, print_error=False)


@pytest.mark.parametrize("command", ALL, ids=" ".join)
def test_every_flag_has_a_description(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    text = help_of(command, capsys)
    flags = [line.strip("│ ") for line in text.splitlines() if line.startswith("│")]
    assert flags
    for line in flags:
        _, _, description = line.partition("  ")
        assert description.strip(), line


@pytest.mark.parametrize("name", SCENARIO_COMMANDS)
def test_scenario_flags_show_types_defaults_and_allowed_values(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = help_of((name,), capsys)
    shown = {
        "--collective CHOICE": "[choices: broadcast, scatter, gather, reduce, allgather, alltoall]",
        "--port-model CHOICE": "[choices: all-port, one-port, exchange, send-or-receive] [default: all-port]",
        "--message-bytes INT": "(1 to 33,554,432) [default: 64]",
        "--segments INT|auto": "[default: 1]",
        "--startup TIME": "[default: 1ms]",
        "--lateness-limit FLOAT": "(above 0 to 1) [default: 0.05]",
        "--topology TEXT": "required, here or in the file",
        "--fault TEXT": "(repeatable)",
    }
    for flag, words in shown.items():
        (line,) = (line for line in text.splitlines() if f"{flag} " in line)
        assert words in line
    for title in GROUPS:
        assert f"─ {title} ─" in text


def test_campaigns_and_certificates_show_their_own_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    for name, default in (("run", "local"), ("campaign", "memory"), ("certify", "memory")):
        (line,) = (line for line in help_of((name,), capsys).splitlines() if "--driver CHOICE" in line)
        assert f"[default: {default}]" in line


def test_every_field_of_a_scenario_is_in_one_group() -> None:
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(Scenario.model_fields)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_commands_flags_and_values(shell: str, tmp_path: Path) -> None:
    script = tmp_path / "completion"
    assert main(["--install-completion", "--shell", shell, "--out", str(script)]) == 0
    text = script.read_text()
    for word in ("reproduce", "algorithms", "redundancy", "send-or-receive"):
        assert word in text


def seconds(*arguments: str) -> float:
    """CPU time of a Python process, median of five."""
    measured = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        measured.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(measured)


def test_help_imports_no_command() -> None:
    code = "import sys; from coordinator.cli.app import main; main(['--help']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    assert not {"pydantic", "polars", "numpy", "trio", "coordinator.cli.run"} & set(done.stdout.split())


@pytest.mark.slow
def test_help_is_quick() -> None:
    assert seconds("-m", "coordinator", "--help") - seconds("-c", "pass") <= HELP_SECONDS
