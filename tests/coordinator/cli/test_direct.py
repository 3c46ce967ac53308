"""Command lines that are called without cyclopts, against the calls that cyclopts makes of them."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coordinator.cli import execute, plan_output
from coordinator.cli.app import app
from coordinator.cli.direct import COMMANDS, SWITCH, direct_call
from coordinator.cli.given import texts_of
from coordinator.scenario.model import OPTIONS
from tests.assembled_commands import assemble_once

FLAGS = sorted({*OPTIONS, *(name for own in COMMANDS.values() for name in own)})
VALUES = st.sampled_from(["star:4", "3", "a=b", "a b", "{}", "[1]", "~/x", ".", "1e3", "TRUE", "é", "a,b"])


def words_of(name: str, value: str, joined: bool) -> list[str]:
    """Return a flag with a value, or a switch, as words of a command line."""
    flag = f"--{name.replace('_', '-')}"
    switch = OPTIONS[name].is_switch if name in OPTIONS else {**COMMANDS["run"], **COMMANDS["plan"]}[name] == SWITCH
    return [flag] if switch else [f"{flag}={value}"] if joined else [flag, value]


GIVEN = st.builds(words_of, st.sampled_from(FLAGS), VALUES, st.booleans())
ODD = st.sampled_from(
    [
        ["--"],
        ["-1"],
        ["--seed", "-1"],
        ["--seed="],
        ["--reliable=true"],
        ["--source", "-1,2"],
        ["--no-json"],
        ["--fau=x"],
    ]
)
LINES = st.lists(GIVEN | VALUES.map(lambda value: [value]) | ODD, max_size=6).map(lambda parts: [*chain(*parts)])


def call_of(patch: pytest.MonkeyPatch, command: str, words: Sequence[str], direct: bool) -> Any:
    """Return the call that a command line leads to; None if cyclopts refuses it, or has to parse it."""
    calls: list[Any] = []

    def called(file: Any, flags: Any, *others: Any) -> int:
        calls.append((file, texts_of(flags), *others))
        return 0

    patch.setattr(execute, "run_scenario", called)
    patch.setattr(plan_output, "print_plan", called)
    if direct:
        call = direct_call([command, *words])
        if call is not None:
            call()
    else:
        assemble_once(patch)
        app([command, *words], exit_on_error=False, print_error=False, result_action="return_value")
    return calls[0] if calls else None


def as_values(call: Any) -> list[Any]:
    """Return the parts of a call without the classes of records, since cyclopts gets subclasses of them."""
    return [vars(part) if hasattr(part, "__dataclass_fields__") else part for part in call]


@given(command=st.sampled_from(sorted(COMMANDS)), words=LINES)
@example(command="run", words=["a.toml", "--fault", "x", "--fault=y", "--out", "a", "--join-seconds", "3s", "--watch"])
@example(command="plan", words=["--json", "--topology", "star:4"])
def test_direct_calls_are_the_calls_of_cyclopts(command: str, words: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        direct = call_of(patch, command, words, direct=True)
        if direct is not None:
            assert as_values(direct) == as_values(call_of(patch, command, words, direct=False))


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_flag_has_a_direct_call(command: str) -> None:
    for name in {*OPTIONS, *COMMANDS[command]}:
        assert direct_call([command, *words_of(name, "1", joined=False)]) is not None, name


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--help",
        "run --help",
        "run -h",
        "list runs",
        "run a b",
        "run --topolgy x",
        "run --seed",
        "run --seed 1 --seed 2",
    ],
)
def test_all_else_is_for_cyclopts(line: str) -> None:
    assert direct_call(line.split()) is None
