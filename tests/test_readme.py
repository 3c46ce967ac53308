"""The README: sample output, flags, files and terms are current. `test_docs.py` runs its commands."""

import re
from functools import reduce
from operator import getitem
from pathlib import Path

from coordinator.cli.app import COMMANDS, app
from coordinator.cli.render import JUDGED
from coordinator.scenario.model import OPTIONS
from tests.helpers.annex_support import needs_every_annex
from tests.helpers.command_line import ROOT, Call, command, run_process

pytestmark = needs_every_annex

README = (ROOT / "README.md").read_text()


def flags() -> set[str]:
    """Return every flag of every command."""
    commands = [reduce(getitem, words.split(), app) for words in COMMANDS]
    return {name for command in commands for each in command.assemble_argument_collection() for name in each.names}


def test_flags_that_are_shown_exist() -> None:
    shown = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", README))
    assert shown <= flags() | {"--help", "--install-completion", "--coordinator"}  # the last is a flag of emunode


def test_files_that_are_shown_exist() -> None:
    for name in set(re.findall(r"`((?:scripts|emunode|coordinator|tests|docs|\.ci)/[\w./-]*)`", README)):
        assert (ROOT / name).exists(), name


def test_picture_and_first_command_are_on_the_first_screen() -> None:
    lines = README.splitlines()
    assert len(lines) <= 120
    assert next(number for number, line in enumerate(lines) if line.startswith("![")) < 12
    assert lines.index("uvx --from . coordinator run star:4 broadcast greedy-tree --watch") < 20
    assert "<!-- bench" not in README


# --- the sample output -----------------------------------------------------------------------------------------------

TIMES = (r"\d+\.\d\d s\b", r"\d{4}-\d\d-\d\dT[\d.-]+Z")


def masked(text: str) -> list[str]:
    """Return the lines of an output without what differs from run to run."""
    for pattern in TIMES:
        text = re.sub(pattern, "TIME", text)
    return [line.rstrip() for line in text.strip().splitlines()]


def test_the_sample_output_is_what_the_demo_prints(tmp_path: Path) -> None:
    (sample,) = re.findall(r"^```text\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    (line,) = re.findall(r"^coordinator (run .*) \"\$@\"$", (ROOT / "scripts" / "demo").read_text(), re.MULTILINE)
    demo = run_process(tmp_path, command(f"coordinator {line}"))
    assert demo.status == 0, demo.err
    assert masked(sample) == masked(demo.out)


# --- the glossary ----------------------------------------------------------------------------------------------------


def explained() -> set[str]:
    """Return the terms of docs/reference/glossary.md, several of them in one row apart."""
    rows = re.findall(r"^\| (.+?) \| ", (ROOT / "docs" / "reference" / "glossary.md").read_text(), re.MULTILINE)
    return {term.strip() for row in rows for term in re.sub(r"\(.*?\)", "", row).split(",")}


def test_every_term_that_is_printed_is_in_the_glossary(call: Call) -> None:
    scenario = "--topology star:3 --collective broadcast --json --algorithm"
    printed: set[str] = set()
    for line in (
        f"run {scenario} edt --redundancy 2 --fault byzantine:213 --driver memory",
        f"run {scenario} flood",
        f"run {scenario} flood --driver memory --clock timed",
        f"plan {scenario} flood",
    ):
        data = call(line).data
        printed |= set(data) | {claim["name"] for claim in data["claims"]}
    few = "--topology star:3 --algorithm flood --json --faults"
    printed |= set(call(f"campaign {few} nodes=0..1 --trials 2").data["rows"][0])
    printed |= set(call(f"certify {few} 'nodes<=1'").data["levels"][0])
    printed -= {*OPTIONS, "claims", "path", "faults", "redundancy", "predicted"}
    terms = {term.removesuffix("_bytes").replace("_", " ") for term in printed - {"transfer_bytes", "bytes"}}
    assert terms <= explained()


def test_columns_that_are_printed_are_in_the_glossary() -> None:
    campaign_columns = {"delivery ratio", "guaranteed", "nodes lost", "theory"}
    assert {*JUDGED, *campaign_columns} - {"measured"} <= explained()
