"""Calls `run` and `plan` without cyclopts, whose import and parsing take longer than the plan of a small network.

That is possible for command lines in their usual form: a command, at most one file, and complete flags with values. All
others, and so help, abbreviations and errors of usage, are for cyclopts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from coordinator.cli.run_flags import PageFlags, RunOutput

TEXT, SWITCH, LIST = "text", "switch", "list"
"""The kinds of flag: with one value, without a value, with a value each time it is given."""
OF_RECORDS = {record: [each.name for each in fields(record)] for record in (PageFlags, RunOutput)}
OF_RUN = {
    "join_seconds": TEXT,
    "from": TEXT,
    **{each.name: SWITCH if each.default is False else TEXT for record in OF_RECORDS for each in fields(record)},
}
OF_PLAN = {"json": SWITCH}
COMMANDS = {"run": OF_RUN, "plan": OF_PLAN}


def direct_call(arguments: Sequence[str]) -> Callable[[], int] | None:
    """Return the call that a command line asks for; None if it is for cyclopts."""
    own = COMMANDS.get(arguments[0]) if arguments else None
    if own is None:
        return None
    words = arguments[1:]
    # Before the options of a scenario are imported: `--help` does not need them.
    if any(word.startswith("-") and not word.startswith("--") for word in words) or "--help" in words:
        return None
    from coordinator.scenario.model import OPTIONS  # noqa: PLC0415

    options = {
        name: LIST if option.is_repeatable else SWITCH if option.is_switch else TEXT for name, option in OPTIONS.items()
    }
    parsed = parse_words(words, options | own)
    if parsed is None:
        return None
    file, values = parsed
    flags = {name: value for name, value in values.items() if name in options}
    return _call(arguments[0], file, flags, {name: value for name, value in values.items() if name in own})


def _call(command: str, file: Path | None, flags: dict[str, Any], own: Mapping[str, Any]) -> Callable[[], int]:
    if command == "plan":
        from coordinator.cli.plan_output import print_plan  # noqa: PLC0415

        return partial(print_plan, file, flags, own.get("json", False))
    from coordinator.cli.execute import run_scenario  # noqa: PLC0415

    output = {name: own[name] for name in OF_RECORDS[RunOutput] if name in own}
    if "out" in output:
        output["out"] = Path(output["out"])
    page = {name: own[name] for name in OF_RECORDS[PageFlags] if name in own}
    return partial(
        run_scenario, file, flags, own.get("join_seconds"), PageFlags(**page), RunOutput(**output), own.get("from")
    )


def parse_words(words: Sequence[str], kinds: Mapping[str, str]) -> tuple[Path | None, dict[str, Any]] | None:
    """Return the file and the values of flags by their names; None where cyclopts decides what words mean."""
    file: Path | None = None
    values: dict[str, Any] = {}
    following = iter(words)
    for word in following:
        if not word.startswith("-"):
            if file is not None or not word:
                return None
            file = Path(word)
            continue
        flag, equals, text = word.partition("=")
        name = flag.removeprefix("--").replace("-", "_")
        kind = kinds.get(name)
        if kind is None or flag != f"--{name.replace('_', '-')}" or (name in values and kind != LIST):
            return None
        if kind == SWITCH:
            if equals:
                return None
            values[name] = True
            continue
        text = text if equals else next(following, "")
        if not text or text.startswith("-"):
            return None
        if kind == LIST:
            values.setdefault(name, []).append(text)
        else:
            values[name] = text
    return file, values
