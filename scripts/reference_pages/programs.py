"""The commands with their flags, and the keys of a scenario file with types and defaults."""

import re
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from coordinator.cli.app import app, in_words
from coordinator.scenario.model import OPTIONS, scenario_model
from reference_pages.markdown import page, table


def commands_page() -> str:
    """Return every command and flag of `coordinator`, then the help text of `emunode`."""
    commands = app.generate_docs(output_format="markdown", heading_level=2)
    commands = in_words(commands)
    commands = re.sub(
        r" -m \S+", "", commands
    )  # groups of commands take the name of the running program into their usage
    # cyclopts drops the hyphens of this command from its links, but not from the anchor of its heading.
    commands = commands.replace("(#coordinator-install-completion)", "(#coordinator---install-completion)")
    hosts = subprocess.run(
        [sys.executable, "-m", "emunode", "--help"],
        capture_output=True,
        text=True,
        check=True,
        env={"COLUMNS": "100", "PATH": "/usr/bin:/bin"},
    ).stdout
    introduction = (
        "The flags that describe a scenario are the keys of a scenario file, with hyphens in place of underscores: "
        "[scenario.md](scenario.md) has their types and defaults."
    )
    return page("Commands", introduction, commands, "## emunode", f"```text\n{hosts.rstrip()}\n```")


def scenario_page() -> str:
    """Return the keys of a scenario, from the model that validates them."""
    schema = scenario_model().model_json_schema()
    definitions = schema.get("$defs", {})
    rows = [
        (f"`{key}`", _kind(key, described, definitions), _default(key, described), described.get("description"))
        for key, described in schema["properties"].items()
    ]
    introduction = (
        "A scenario file is TOML with these keys; `coordinator run FILE --seed 7` overrides a key by its flag. Every run "
        "directory contains the complete scenario as `scenario.toml`."
    )
    return page("Scenario", introduction, table(("key", "allowed", "default", "meaning"), rows))


def _kind(key: str, described: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """Return the allowed values of one key; a duration has the bounds of its seconds."""
    allowed = _allowed(described, definitions)
    return allowed.replace("number", "duration", 1) if OPTIONS[key].is_duration else allowed


def _allowed(described: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """Return the allowed values of one key, as far as the JSON schema has them."""
    if "$ref" in described:
        return _allowed(definitions[described["$ref"].rpartition("/")[2]], definitions)
    for several in ("anyOf", "allOf"):
        if several in described:
            options = [_allowed(option, definitions) for option in described[several]]
            return " or ".join(option for option in options if option != "null")
    if "enum" in described:
        return ", ".join(f"`{value}`" for value in described["enum"])
    if "const" in described:
        return f"`{described['const']}`"
    return str(described.get("type", "duration")) + _bounds(described)


def _bounds(described: Mapping[str, Any]) -> str:
    names = (("minimum", ">="), ("exclusiveMinimum", ">"), ("maximum", "<="), ("exclusiveMaximum", "<"))
    bounds = [f"{relation} {described[name]:,}" for name, relation in names if name in described]
    return f" ({', '.join(bounds)})" if bounds else ""


def _default(key: str, described: Mapping[str, Any]) -> str:
    if "default" not in described:
        return "required"
    value = described["default"]
    return "none" if value in (None, [], ()) else f"`{OPTIONS[key].written(value)}`"
