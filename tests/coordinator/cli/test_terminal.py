"""Control characters of stored runs, networks, scenarios and folders in the output of every command."""

import json
import shutil
from io import StringIO
from pathlib import Path

import pytest

from coordinator.api.console import PlainConsole
from tests.helpers.command_line import Call, fields
from tests.helpers.support import run_scenario

HARMFUL = "\x1b]0;owned\x07\x1b[1A\x1b[2K\x9b\u202e\u2066verdict: holds\r\x7f"
ESCAPED = "\\x1b]0;owned\\x07\\x1b[1A\\x1b[2K\\x9b\\u202e\\u2066verdict: holds\\r\\x7f"


def clean(text: str) -> bool:
    return all(char.isprintable() or char == "\n" for char in text)


@pytest.fixture
def spoilt(tmp_path: Path) -> Path:
    """Provide a run with harmful text in each place that may hold text, in a folder with a harmful name."""
    run = run_scenario(tmp_path / "run", **fields("star:3 broadcast edt fault=crash:213@2")).path
    path = tmp_path / f"folder {HARMFUL.replace('/', '')}"
    shutil.copytree(run, path)
    summary = json.loads((path / "summary.json").read_text())
    for key, value in summary.items():
        if isinstance(value, str) and key != "verdict":
            summary[key] = value + HARMFUL
    summary["faults"] = [HARMFUL]
    summary["undecided_because"] = HARMFUL + "\nforged line"
    summary["claims"] = [
        {**claim, "name": claim["name"] + HARMFUL, "source": HARMFUL, "relation": HARMFUL}
        for claim in summary["claims"]
    ]
    summary[HARMFUL] = 1
    (path / "summary.json").write_text(json.dumps(summary))
    faults = json.loads((path / "faults.json").read_text())
    (path / "faults.json").write_text(json.dumps([{**fault, "label": HARMFUL, "kind": HARMFUL} for fault in faults]))
    return path


def test_every_command_escapes_stored_text(
    spoilt: Path, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    other = tmp_path / "run"
    seen = ""
    for words in (
        ["verify", spoilt], ["report", spoilt], ["compare", spoilt, other], ["compare", spoilt, other, "--csv"],
        ["compare", spoilt, other, "--markdown"], ["compare", spoilt, other, "--json"], ["verify", spoilt, "--json"],
        ["export", spoilt, "--goal", "a"], ["export", spoilt, "--graphml", "b"], ["export", spoilt, "--trace", "c"],
        ["list runs", tmp_path], ["list runs --json", tmp_path], ["open", spoilt],
        ["run", spoilt / "scenario.toml", "--out", spoilt],
        ["campaign --resume", spoilt], ["report", spoilt / HARMFUL.replace("/", "")], ["graph", f"file:{HARMFUL}.graphml"],
        ["plan --topology", HARMFUL], ["export --topology star:3 --collective", HARMFUL, "--algorithm edt --graphml x"],
    ):  # fmt: skip
        ended = call(str(words[0]), *words[1:])
        assert clean(ended.out), (words, ended.out)
        assert clean(ended.err), (words, ended.err)
        assert "Traceback" not in ended.err
        # A quoted value of comma-separated values may have several lines.
        seen += ended.err if "--csv" in words else ended.out + ended.err
    assert ESCAPED in seen
    assert "\nforged line" not in seen


def test_labels_of_a_network_are_escaped(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    nodes = [{"id": f"{number}{HARMFUL}"} for number in range(3)]
    edges = [{"source": nodes[at]["id"], "target": nodes[at + 1]["id"]} for at in range(2)]
    Path("net.json").write_text(json.dumps({"nodes": nodes, "edges": edges, "directed": False, "multigraph": False}))
    for line in (
        "graph net.json", "plan --topology file:net.json --collective broadcast --algorithm flood --driver memory",
        "run --topology file:net.json --collective broadcast --algorithm flood --driver memory --out done",
        "run --topology file:net.json --relabel --collective broadcast --algorithm flood --driver memory --out done2",
        "verify done", "compare done done", "list algorithms --topology file:net.json",
    ):  # fmt: skip
        ended = call(line)
        assert ended.status in (0, 2)
        assert clean(ended.out + ended.err), (line, ended)


def test_a_campaign_and_a_certificate_are_escaped(call: Call, tmp_path: Path) -> None:
    folder = tmp_path / "campaign"
    line = "campaign --topology star:3 --algorithm edt --faults nodes=1 --trials 4 --engine messages --out"
    assert call(line, folder).status == 0
    records = folder / "trials.jsonl"
    lines = [json.loads(line) for line in records.read_text().splitlines()]
    lines[0] |= {"unserved": [HARMFUL], "violated": [HARMFUL], "faults": [HARMFUL]}
    records.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    ended = call("campaign --resume", folder)
    assert clean(ended.out + ended.err)
    assert "Traceback" not in ended.err
    (tmp_path / "certificate.json").write_text(json.dumps({"format": "coordinator-certificate", "version": HARMFUL}))
    ended = call("verify", tmp_path / "certificate.json")
    assert ESCAPED[:20] in ended.out
    assert clean(ended.out)


def test_tables_stay_aligned() -> None:
    out = StringIO()
    console = PlainConsole(file=out, width=80, force_terminal=True, color_system="standard")
    console.print("[red]x\x1b[31m\u202e[/]", soft_wrap=True)
    assert out.getvalue() == "\x1b[31mx\\x1b[31m\\u202e\x1b[0m\n"
