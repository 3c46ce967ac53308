"""A stored scenario that a stranger made huge stops no command: each ends within 4 GB and 10 seconds of processor time."""

import json
import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
import tomli_w

from coordinator.history.stored.reading import read_toml
from coordinator.reports.run_report import write_report
from tests.helpers.annex_support import needs_every_annex
from tests.helpers.command_line import Ended, command, run_process
from tests.helpers.support import run_and_draw

pytestmark = needs_every_annex  # files of every kind
GIGABYTES: Final = 4
SECONDS: Final = 10
FLOOD: Final = {"algorithm": "flood"}
SIZES: Final[Mapping[str, Mapping[str, object]]] = {
    "star:9": {"topology": "star:9"},
    "star:12": {"topology": "star:12"},
    "star of 60 digits": {"topology": f"star:{'9' * 60}"},
    "hypercube:18": {"topology": "hypercube:18"},
    "hypercube:23": {"topology": "hypercube:23"},
    "hypercube:60": {"topology": "hypercube:60", "algorithm": "edt", "redundancy": 60},
    "ring": {"topology": "ring:999999999", **FLOOD},
    "long ring": {"topology": "ring:400000", **FLOOD},
    "complete": {"topology": "complete:20000", **FLOOD},
    "fat tree": {"topology": "fat-tree:3000000", **FLOOD},
    "torus": {"topology": f"torus:{'x'.join(['2'] * 60)}", **FLOOD},
    "mesh": {"topology": "mesh:700x700", **FLOOD},
    "tree": {"topology": f"transposition-tree:{','.join(f'1-{leaf}' for leaf in range(2, 12))}", **FLOOD},
    "circulant": {"topology": f"circulant:400000:{','.join(map(str, range(1, 3000)))}", **FLOOD},
    "xor": {"topology": f"xor:18:{','.join(map(str, range(1, 2**13)))}", **FLOOD},
    "slim fly": {"topology": "slimfly:9973", **FLOOD},
    "dragonfly": {"topology": "dragonfly:30,30", **FLOOD},
    "jellyfish": {"topology": "jellyfish:4096,32,1", **FLOOD},
    "eisenstein-jacobi": {"topology": "ej:1+2^20", **FLOOD},
    "alltoall": {"topology": "hypercube:12", "collective": "alltoall", "algorithm": "dimension-order"},
    "messages": {"messages": 1_000_000},
    "pieces": {"messages": 800, "segments": 1000, "message_bytes": 1000},
    "bytes": {"segments": 2**25, "message_bytes": 2**25},
    "redundancy": {"algorithm": "edt", "redundancy": 1024},
    "faults": {"fault": ["crash:231@1"] * 20_000},
    "drawn faults": {"topology": "hypercube:18", "fault": ["nodes=200000"], **FLOOD},
    "detection": {"topology": "hypercube:18", "fault_knowledge": "detect:2", "on_failure": "agree", **FLOOD},
    "clock": {"topology": "hypercube:18", "clock": "timed", **FLOOD},
}
LINES: Final = (
    "report run",
    "open run --json",
    "export run --figures figures",
    "export run --gif run.gif",
    "export run --goal run.goal",
    "export run --graphml run.graphml",
    "export run --trace run.json",
    "export run --msccl run.xml",
    "export run --chakra run",
    "compare run plain --out page.html",
    "pack run run.zip",
    "verify run",
    "verify run --explain 231@2",
    "run --from run@1 --driver memory --out branch",
    "campaign --resume campaign",
    "verify campaign",
    "verify sweep",
    "verify certificate.json",
    "pack certificate.json certificate.zip",
    "run --order order.json",
)
ANSWERED: Final[Mapping[tuple[str, int], str]] = {
    ("report", 0): "does not verify|is not verified",
    ("export", 0): "does not verify|is not verified",
    ("compare", 0): "does not verify|is not verified",
    ("pack", 0): "does not verify",
    ("open", 0): '"page": ',  # it shows the page that `report` has drawn
    ("verify", 1): "does not verify",
    ("verify", 3): "not checked: .*undecided",
    ("run", 3): "verdict: undecided",
}
"""Statuses beside 2 and 4, with what the command or its page says then: it does without the scenario, or judges it."""
PROGRAM: Final = """
import json, os, resource, shlex, sys, tempfile
from coordinator.api.runs import Run
from coordinator.cli.app import app
from coordinator.cli.invoke import main
results = []
for line in sys.argv[3:]:
    streams = [tempfile.TemporaryFile() for _ in range(2)]
    if not (child := os.fork()):
        resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]),) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[2]),) * 2)
        for number, stream in enumerate(streams, 1):
            os.dup2(stream.fileno(), number)
        status = main(shlex.split(line))
        sys.stdout.flush()
        os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    results.append([status, *(os.pread(stream.fileno(), 2**20, 0).decode() for stream in streams)])
print(json.dumps(results))
"""
"""Runs each of its last arguments as a command in a child with limits: importing takes most of the time of a short one."""


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, a campaign, a sweep, a certificate and an order of events, all small."""
    folder = tmp_path_factory.mktemp("small")
    broadcast = "--topology star:3 --collective broadcast --algorithm"
    for line in (
        f"run {broadcast} greedy-tree --driver memory --fault crash:231@2 --out run",
        f"campaign {broadcast} edt --redundancy 2 --driver memory --faults nodes=0..1 --trials 2 --out campaign",
        "sweep --topology star:3 --algorithm greedy-tree --out sweep",
        f"certify {broadcast} edt --redundancy 2 --driver memory --faults nodes<=1 --out certificate.json",
    ):
        assert run_process(folder, command(f"coordinator {line}")).status == 0
    scenario = {"topology": "star:3", "collective": "broadcast", "algorithm": "greedy-tree"}
    version = read_toml(folder / "sweep" / "sweep.toml")["version"]
    order = {"version": version, "scenario": scenario, "place": 0, "time": 0, "events": []}
    (folder / "order.json").write_text(json.dumps(order))
    return folder


def forge(folder: Path, changed: Mapping[str, object], *, everywhere: bool) -> None:
    """Change the scenarios in a folder, and with `everywhere` what the summary says of the network too."""
    for name in ("run/scenario.toml", "campaign/campaign.toml", "sweep/sweep.toml"):
        values = read_toml(folder / name)
        inner = values if name.startswith("run") else values["scenario"]
        inner.update(changed)
        if name.startswith("sweep"):
            values |= {key: inner.pop(key) for key in ("collective",) if key in inner}
            values |= {f"{key[:-1]}ies" if key == "topology" else f"{key}s": [inner.pop(key)] for key in _listed(inner)}
        (folder / name).write_text(tomli_w.dumps(values))
    for name in ("certificate.json", "order.json"):
        content = json.loads((folder / name).read_text())
        content["scenario"] |= changed
        (folder / name).write_text(json.dumps(content))
    if everywhere and "topology" in changed:
        summary = json.loads((folder / "run" / "summary.json").read_text())
        (folder / "run" / "summary.json").write_text(json.dumps(summary | {"topology": changed["topology"]}))


def _listed(scenario: Mapping[str, Any]) -> list[str]:
    return [key for key in ("topology", "algorithm") if key in scenario]


def limited(folder: Path, lines: Iterable[str]) -> list[Ended]:
    """Run commands whose address space and processor time the kernel bounds."""
    program = ["env", sys.executable, "-c", PROGRAM, GIGABYTES * 2**30, SECONDS, *lines]
    ended = run_process(folder, program)
    assert ended.status == 0, ended.err
    return [Ended(*each) for each in json.loads(ended.out)]


@pytest.mark.exhaustive(one_in=9)
@pytest.mark.parametrize("everywhere", [True, False], ids=["with its summary", "scenario alone"])
@pytest.mark.parametrize(
    "size", [pytest.param(size, marks=pytest.mark.slow if size == "jellyfish" else ()) for size in SIZES]
)
def test_a_forged_size_is_refused_at_once(
    size: str, everywhere: bool, stored: Path, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    lines = LINES if pytestconfig.getoption("--all") else Random(size).sample(LINES, 6)
    shutil.copytree(stored, tmp_path / "w")
    shutil.copytree(stored / "run", tmp_path / "w" / "plain")
    forge(tmp_path / "w", SIZES[size], everywhere=everywhere)
    for line, ended in zip(lines, limited(tmp_path / "w", lines), strict=True):
        assert "Traceback" not in ended.err
        if ended.status not in (2, 4):
            says = ANSWERED.get((line.split()[0], ended.status))
            assert says, (line, ended)
            assert re.search(says, ended.out + ended.err, re.DOTALL), (line, ended)
            continue
        sentences = [text for text in ended.err.splitlines() if text.startswith("coordinator: ")]
        refused = [text for text in sentences if "does not verify" not in text]
        assert len(refused) == 1, (line, ended.err)
        assert "MemoryError" not in ended.err


@pytest.mark.parametrize("line", ["export run --msccl run.xml", "campaign --resume campaign", "run --order order.json"])
def test_what_needs_the_plan_names_the_size(line: str, stored: Path, tmp_path: Path) -> None:
    shutil.copytree(stored, tmp_path / "w")
    forge(tmp_path / "w", SIZES["star:12"], everywhere=False)
    (ended,) = limited(tmp_path / "w", [line])
    assert ended.status == 2
    assert "a network of 479001600 nodes; at most 500000 are read" in ended.err


def test_a_run_of_its_own_may_be_larger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.planning.bounds.MOST_NODES", 5)
    run_and_draw(tmp_path / "run", topology="star:3", collective="broadcast", algorithm="greedy-tree")
    assert "scenario.toml is not used" not in (tmp_path / "run" / "report.html").read_text()
    write_report(tmp_path / "run")
    assert "scenario.toml is not used: a network of 6 nodes" in (tmp_path / "run" / "report.html").read_text()
