"""Command lines that are refused: exit status 2, the reason on standard error, and nothing left in the folder."""

import re
import time
from pathlib import Path

import pytest

from coordinator.cli.app import CORE_COMMANDS
from coordinator.cli.invoke import WITH_OPTIONS
from tests.helpers.command_line import Call


def broadcast(topology: str = "star:4", algorithm: str = "greedy-tree") -> str:
    """Return flags of a broadcast."""
    return f"--topology {topology} --collective broadcast --algorithm {algorithm}"


STAR = f"{broadcast()} --driver memory"
RUN = f"run {STAR}"
SERVE = f"serve {broadcast('star:3', 'flood')}"
EDT = "--topology star:4 --algorithm edt --redundancy 2"
GRID = f"campaign {EDT}"
POINT = f"{GRID} --faults nodes=1"
CERTIFY = f"certify {EDT}"

REFUSED = [
    # commands and flags
    (f"rum {STAR}", "rum"),
    ("list colours", "colours"),
    (f"{RUN} --sead 1", "--seed"),
    (f"{RUN} --seed", "--seed"),
    ("clean --seed 1", "--seed"),
    (f"{RUN} --topology star:5", "--topology specified multiple times"),
    ("run a.toml b.toml", "a.toml is a scenario file; flags change its keys: --option VALUE"),
    ("run star:4", "these are required: collective (collective operation); algorithm (see"),
    ("run star:4 broadcast", "algorithm: it is required"),
    ("run star:4 broadcast edt flood", "after topology, collective, algorithm options have names: --option VALUE"),
    (
        "run star:4 broadcast edt --algorithm flood",
        "invalid algorithm 'edt': --algorithm says 'flood'; give one of the two",
    ),
    ("sweep star:4 --topology star:5", "invalid topology 'star:4': --topology says ['star:5']; give one of the two"),
    ("sweep scenario.toml", "a sweep has no scenario file; name its networks"),
    ("run star4 broadcast edt", "invalid topology 'star4': did you mean star:4?"),
    ("run star:4 broadcast edt,flood", "one algorithm at a time"),
    ("run star:4 broadcast edt --fault crsh:4231@2", "did you mean 'crash:4231@2'?"),
    ("campaign star:4 broadcast edt --faults nods=2", "did you mean 'nodes=2'?"),
    ("run --alg edt", "Did you mean --algorithm?"),
    ("run --message 1", "Did you mean --message-bytes or --messages?"),
    ("run --verbose", "Unknown option: --verbose.\n  see `coordinator run --help`"),
    ("rum", "see `coordinator --help`"),
    ("list algorithms --verbose", "see `coordinator list algorithms --help`"),
    (
        "run --topology star:4 --collective brodcast --algorithm edt",
        "invalid collective 'brodcast': did you mean 'broadcast'?",
    ),
    (f"{RUN} --port-model al-port", "did you mean 'all-port'?"),
    ("list algorithms ed", "did you mean 'edt'?"),
    ("list algorithms --topology lattice", "expected a network such as star:5, or one of star, hypercube, ej"),
    ("compose other.yaml", "expected one of compose.yaml, stack.yaml, Dockerfile"),
    # scenarios
    ("run nothing.toml", "the file cannot be read: No such file or directory"),
    (
        "run --collective broadcast",
        "scenario: these are required: topology (network such as star:5, torus:4x4 or file:NET.graphml; see",
    ),
    ("plan", "scenario: these are required: topology (network such as star:5"),
    (f"run {broadcast('lattice:5')}", "invalid topology 'lattice:5': `coordinator list topologies` lists"),
    (f"run {broadcast('hypercubes:4')}", "did you mean hypercube:4?"),
    (f"run {broadcast('starr:99')}", "did you mean star:5?"),
    (f"run {broadcast(algorithm='gredy-tree')}", "did you mean 'greedy-tree'?"),
    (f"run {broadcast(algorithm='sbt')}", "it does broadcast, scatter, "),
    ("run --topology star:4 --collective gossip --algorithm flood", "invalid collective 'gossip'"),
    (f"{RUN} --ranks-per-host 2", "the memory driver has no hosts; leave it out"),
    (f"{RUN} --out /", "it exists and is not an empty directory"),
    (f"{RUN} --out /dev/null/run", "it cannot be created: Not a directory"),
    # joining hosts
    (f"run {broadcast()} --driver join", "only available with `coordinator serve`"),
    (f"{RUN} --join-seconds 5s", "the memory driver has no hosts"),
    (f"run {broadcast()} --join-seconds 0s", "more than 0s"),
    (f"run {broadcast()} --join-seconds soon", "invalid join_seconds 'soon'"),
    (f"{SERVE} --join-seconds soon", "invalid join_seconds 'soon'"),
    (f"{SERVE} --listen nowhere", "invalid listen 'nowhere'"),
    (f"{SERVE} --hosts 7", "invalid hosts 7: from 1 to 6"),
    (f"{SERVE} --token-file no/such/folder/token", "invalid token_file 'no/such/folder/token'"),
    # campaigns
    (f"{POINT} --fault loss:1234~2134:1e-20", "too small to be drawn"),
    (f"{POINT} --workers 0", "invalid workers 0: a number of processes from 1 to 256"),
    (f"{POINT} --workers 999999 --out campaign", "a number of processes from 1 to 256"),
    (f"{POINT} --vary redundancy", "expected FIELD=VALUE"),
    (f"{POINT} --vary redundancy=", "expected at least one value"),
    (f"{POINT} --clock timed --driver local", "trials under the timed clock are computed: use --driver memory"),
    (f"{POINT} --resume somewhere", "give no other flag of the grid"),
    ("campaign --resume .", "no campaign to resume"),
    # certificates
    (f"{CERTIFY} --faults random:nodes=2", "every set of faults"),
    (f"{CERTIFY} --faults 'nodes<=2' --workers 1000", "a number of processes"),
    (f"{CERTIFY} --faults nodes=1 --clock timed", "certificates are about lock-step: use --clock steps"),
    # sizes have bounds
    (f"{RUN} --messages 2147483647", "a whole number from 1 to 1000000"),
    (f"{RUN} --name {'a' * 300}", "at most 128 characters"),
    (f"{RUN} --startup 1e300s", "a time from 0 to 1e+09s"),
    (f"plan {broadcast('star:999999999')}", "n is at most 20"),
    (f"plan {broadcast('hypercube:999999999')}", "n is at most 62"),
    (f"plan {broadcast('ej:3+999999999999')}", "at most 9223372036854775807 can be addressed"),
    (f"plan {broadcast('ej:3+4^999999')}", "the number of dimensions is 1..22"),
    (f"{POINT} --vary seed=1..999999999", "a range holds at most 10,000 values"),
    (f"{POINT} --vary seed=1..{'9' * 4000}", "a range holds at most 10,000 values"),
    (f"{POINT} --vary seed=1..5000 --vary messages=1..5000", "at most 10,000 combinations of values"),
    (f"{POINT} --trials 99999999999", "a number from 1 to 100,000,000"),
]


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(("line", "message"), REFUSED, ids=[line[:150] for line, _ in REFUSED])
def test_refused_command_lines_give_the_reason_and_leave_nothing(
    call: Call, tmp_path: Path, line: str, message: str
) -> None:
    began = time.process_time()
    ended = call(line)
    assert (ended.status, ended.out) == (2, "")
    assert ended.err.startswith("coordinator: ")
    assert message in ended.err
    assert list(tmp_path.iterdir()) == []
    assert time.process_time() - began < 10


@pytest.mark.parametrize("command", WITH_OPTIONS)
def test_a_command_alone_names_what_it_needs(call: Call, command: str) -> None:
    ended = call(command)
    assert (ended.status, ended.out) == (2, "")
    assert re.match(r"coordinator: .*(these are required: topology|give)", ended.err), ended.err


def test_the_error_of_a_field_has_its_name_in_json(call: Call) -> None:
    error = call("run --json", *broadcast("star:99").split()).data["error"]
    assert (error["kind"], error["field"], error["value"]) == ("ScenarioError", "topology", "star:99")
    assert error["allowed"]


@pytest.mark.parametrize("command", CORE_COMMANDS)
def test_every_command_prints_errors_as_json(call: Call, command: str) -> None:
    ended = call(f"{command} --json --no-such-flag")
    assert ended.status == ended.data["exit_status"] == 2
    assert "--no-such-flag" in ended.data["error"]["message"]
    assert ended.err.startswith("coordinator: ")
