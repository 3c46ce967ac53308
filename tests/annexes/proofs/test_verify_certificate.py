"""Certificate files are checked again: true ones verify, and each kind of forgery is refused with a line that names it."""

import json
import sys
from copy import deepcopy
from dataclasses import replace
from math import comb
from pathlib import Path
from typing import Any

import pytest

from coordinator.annexes.proofs import certify
from coordinator.annexes.proofs.certify import Certifier, MessageEngine, exhaustive_fault_sets
from coordinator.annexes.proofs.cut_certifier import CutEngine
from coordinator.annexes.proofs.subject import _digits
from coordinator.annexes.proofs.verify_certificate import verify_certificate
from coordinator.campaigns.runner import CampaignRunner
from coordinator.campaigns.trial_runner import Trial, TrialResult
from coordinator.results import conclude
from coordinator.results.claims import claims_of
from coordinator.scenario.model import make_scenario
from emunode.algorithms.claims import Claim
from tests.helpers.command_line import Call, fields
from tests.helpers.scenarios import Case
from tests.helpers.support import GOLDEN

Data = dict[str, Any]


def made(folder: Path, line: str, *faults: str, runs: bool = False) -> Path:
    """Return the file of a certificate."""
    engine = MessageEngine if runs else CutEngine
    certifier = Certifier(Case(line).scenario, 1, sys.stderr, lambda *_: None, engine)
    path = folder / "certificate.json"
    certifier.certify(exhaustive_fault_sets(faults)).save(path)
    return path


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Data:
    """Provide a certificate of Q_3 with three trees: two nodes are tolerated, and three are not."""
    path = made(tmp_path_factory.mktemp("certificate"), "hypercube:3 broadcast nesbt x=3", "nodes<=3")
    data: Data = json.loads(path.read_text())
    return data


@pytest.mark.parametrize(("line", "faults"), [
    ("star:4 broadcast edt x=3", "nodes<=3"), ("star:4 broadcast edt x=3 fault=crash:2134@2", "any<=2"),
    ("star:4 broadcast edt x=2 messages=2", "links<=1@2-3 nodes<=1@3"),
    ("hypercube:3 broadcast nesbt x=3 fault=byzantine:111", "byzantine<=2"),
    ("hypercube:3 broadcast nesbt x=3", "equivocate=1;silent=1"), ("ej:1+2 broadcast independent-trees x=6", "nodes<=4"),
    ("petersen:5,2 broadcast edge-disjoint-trees", "nodes<=1"), ("star:3 alltoall edt", "nodes<=1"),
])  # fmt: skip
def test_true_certificates_verify(tmp_path: Path, line: str, faults: str) -> None:
    found = verify_certificate(made(tmp_path, line, *faults.split()))
    assert (found.findings, found.undecided) == ([], False)


def test_certificates_by_runs_verify(tmp_path: Path) -> None:
    path = made(tmp_path, "hypercube:3 broadcast nesbt x=3", "nodes<=2", runs=True)
    assert verify_certificate(path).findings == []
    data = json.loads(path.read_text())
    data["levels"][2]["histories"][0]["journal_hash"] = "0" * 32
    path.write_text(json.dumps(data))
    (finding,) = verify_certificate(path).findings
    assert "the history under" in finding


@pytest.mark.parametrize(("line", "faults"), [
    ("star:4 broadcast edt x=3 fault=crash:2134@1", "nodes<=1"), ("star:4 broadcast edt x=3 fault=crash:2134@1", ""),
    ("hypercube:3 broadcast nesbt x=3 fault_knowledge=all", "nodes<=1"),
    ("hypercube:3 broadcast nesbt x=3", "loss<=1:0.5"), ("hypercube:3 reduce sbt", "links<=1"),
    ("hypercube:3 broadcast sbt reliable=true", "links<=1@2-3"), ("hypercube:3 broadcast flood", "links<=1"),
])  # fmt: skip
def test_certificates_by_runs_verify_where_paths_decide_nothing(tmp_path: Path, line: str, faults: str) -> None:
    found = verify_certificate(made(tmp_path, line, *faults.split(), runs=True))
    assert (found.findings, found.undecided) == ([], False)


def test_a_violated_claim_alone_refutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Claim("steps", 1, "==", "a claim that is wrong")
    with monkeypatch.context() as patched:
        patched.setattr(
            conclude, "claims_of", lambda plan: claims_of(plan)._replace(kept=[*claims_of(plan).kept, wrong])
        )
        path = made(tmp_path, "hypercube:3 broadcast nesbt x=3", "nodes<=1", runs=True)
        assert json.loads(path.read_text())["verdict"] == "violated"
        assert verify_certificate(path).findings == []
    (finding,) = verify_certificate(path).findings
    assert "violates no claim" in finding


def test_different_histories_of_two_drivers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Altered(CampaignRunner):
        """Trials over TCP have another history than they had."""

        def carry_out(self, rounds: Any, sink: Any, total: int) -> None:
            def altered(place: int, trial: Trial, result: TrialResult) -> None:
                sink(
                    place,
                    trial,
                    replace(result, journal_hash="0" * 32) if self._scenarios[0].driver == "local" else result,
                )

            super().carry_out(rounds, altered, total)

    monkeypatch.setattr(certify, "CampaignRunner", Altered)
    scenario = make_scenario(fields("star:3 broadcast edt redundancy=2 driver=local"))
    path = tmp_path / "certificate.json"
    certificate = Certifier(scenario, 1, sys.stderr, lambda *_: None).certify(
        exhaustive_fault_sets(["nodes=1"]), sample=0
    )
    assert certificate.different is not None
    certificate.save(path)
    data = json.loads(path.read_text())
    assert data["verdict"] == "violated"
    found = verify_certificate(path)
    # What happened over TCP is not run again.
    assert (found.findings, found.undecided) == ([], True)
    for change, words in (
        ({"memory": "1" * 32}, "different: the history under"), ({"memory": "0" * 32}, "both histories are the same"),
        ({"faults": ["crash:9"]}, "different: the history under crash:9 is None"),
        ({"driver": 3}, "different: driver is 3, expected text"),
    ):  # fmt: skip
        path.write_text(json.dumps(data | {"different": data["different"] | change}))
        assert any(words in finding for finding in verify_certificate(path).findings)
    path.write_text(json.dumps({name: value for name, value in data.items() if name != "different"}))
    assert verify_certificate(path).findings == ["verdict is violated, and it should be holds"]


def test_sets_that_are_too_many_to_run_again_are_undecided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(tmp_path, "hypercube:3 broadcast flood", "links<=2", runs=True)
    assert not verify_certificate(path).undecided
    monkeypatch.setattr("coordinator.annexes.proofs.certificate_archive.MOST_SETS", 20)
    found = verify_certificate(path)
    assert (found.findings, found.undecided) == ([], True)
    assert found.unchecked == ["links=2: the sets whose runs are not in the archive"]


def test_a_violated_certificate_does_not_pass_as_undecided(tmp_path: Path) -> None:
    path = made(tmp_path, "hypercube:3 broadcast nesbt x=3", "nodes<=3", runs=True)
    assert verify_certificate(path).findings == []
    data = json.loads(path.read_text())
    forget(data)
    for survived in (data["levels"][3]["survived"], [0, 35]):
        data["levels"][3]["survived"] = survived
        path.write_text(json.dumps(data))
        findings = verify_certificate(path).findings
        assert any("there is no counterexample, and some sets fail: nodes=3" in finding for finding in findings)
        assert "verdict is undecided, and it should be violated" in findings


def test_too_many_sets_are_searched_for_one_that_fails(
    stored: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the sets of a level are not counted again, a smallest cut still refutes."""
    monkeypatch.setattr("coordinator.annexes.proofs.checkers.check_certificate.MOST_COUNTED", 30)
    data = deepcopy(stored)
    forget(data)
    data["levels"][3].update(survived=[0, 35], lost=None)
    path = tmp_path / "undecided.json"
    path.write_text(json.dumps(data))
    assert "verdict is undecided, and it should be violated" in verify_certificate(path).findings


def test_the_work_is_bounded_before_it_begins(stored: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(tmp_path, "hypercube:3 broadcast nesbt x=3", "nodes<=1", runs=True)
    data = json.loads(path.read_text())
    one = data["levels"][1]
    data["levels"] = [{**one, "faults": f"nodes=1@{step}"} for step in range(1, 5000)]
    path.write_text(json.dumps(data))

    def refuse(*_: object) -> None:
        raise AssertionError

    with monkeypatch.context() as patched:
        patched.setattr("coordinator.annexes.proofs.set_runs.MOST_RUN_HOPS", 1000)
        patched.setattr("coordinator.annexes.proofs.set_runs.SetRuns.run", refuse)
        found = verify_certificate(path)
    histories = 4999 * len(one["histories"])
    assert (found.findings, found.undecided) == ([], True)
    assert found.unchecked == [f"{histories} histories are too many to run again; at most 100 are"]
    monkeypatch.setattr("coordinator.annexes.proofs.checkers.check_certificate.MOST_SEARCHED", 20)
    monkeypatch.setattr("coordinator.annexes.proofs.checkers.check_certificate.fewest", refuse)
    path.write_text(json.dumps(stored))
    found = verify_certificate(path)
    assert (found.findings, found.undecided) == ([], True)
    assert found.unchecked == ["too many combinations of kinds and copies"]


@pytest.mark.parametrize(("places", "count", "digits"), [(23, 2, 3), (5039, 2500, 1515), (10, 11, 1), (6, 0, 1)])
def test_digits_of_binomial_coefficients(places: int, count: int, digits: int) -> None:
    exact = len(str(comb(places, count)))
    assert exact == digits
    assert abs(_digits(places, count) - exact) <= 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("star:4 broadcast edt x=3", "nodes<=2"), "holds: S_4 edt x=3, nodes <= 2: 277 sets of faults"),
        (("star:4 broadcast edt x=3", "any<=1"), "holds: S_4 edt x=3, nodes + links <= 1: 60 sets of faults"),
        (("star:4 broadcast edt x=3", "links=1@2-3"), "holds: S_4 edt x=3, links=1 in steps 2-3: 36 sets of faults"),
        (("star:4 broadcast edt x=3", "nodes<=1", "links<=1@3"),
         "holds: S_4 edt x=3, nodes <= 1 and links <= 1 from step 3: 61 sets of faults"),
        (("star:4 broadcast edt", "nodes=1;links=1"),
         "violated: S_4 edt x=1, nodes=1;links=1: 828 sets of faults; violated by "),
        (("petersen:5,2 broadcast edge-disjoint-trees", "nodes<=0"),
         "holds: petersen:5,2 edge-disjoint-trees x=1, nodes <= 0: 1 set"),
    ],
)  # fmt: skip
def test_the_verified_statement_is_named(tmp_path: Path, call: Call, arguments: tuple[str, ...], expected: str) -> None:
    path = made(tmp_path, *arguments)
    ended = call("verify", path)
    assert ended.status == 0
    assert ended.out.splitlines()[-1].startswith(f"{path}: verified: {expected}")


def test_the_smallest_set_of_mixed_faults_has_its_kinds(tmp_path: Path, call: Call) -> None:
    """With two disjoint paths, the cheapest of them is cut by a link where a node costs as much."""
    line = "certify --topology star:3 --algorithm edt --redundancy 2 --faults nodes=1;links=1 --out"
    ended = call(line, tmp_path / "mixed.json")
    data = json.loads((tmp_path / "mixed.json").read_text())
    cut = min((each["cut"] for each in data["threats"][0]["classes"]), key=len)
    words = []
    for kind, name in (("crash", "node"), ("down", "link")):
        count = sum(spec.startswith(kind) for spec in cut)
        words += [f"{count} {name}{'s' * (count > 1)}"] if count else []
    assert len(cut) == 2
    assert f"it takes 2 faults ({' and '.join(words)}) to stop one; tolerance 1" in ended.out
    verified = call("verify", tmp_path / "mixed.json")
    assert f"a smallest set that defeats a message has {' and '.join(words)}" in verified.out
    record = call(line, tmp_path / "mixed.json", "--json").data["tolerances"][0]
    assert sum(record["smallest"].values()) == 2


def change(data: Any, kind: str, place: list[str | int], *value: Any) -> None:
    """Change what stands at a place, given by keys: set, drop, insert, or repeat it at the end."""
    *above, last = place
    for key in above:
        data = data[key]
    match kind:
        case "set":
            data[last] = value[0]
        case "drop":
            data.pop(last)
        case "insert":
            data.insert(last, value[0])
        case "repeat":
            data.append(deepcopy(data[last]))


def forget(data: Data) -> None:
    """Say that nothing was decided, without the counterexample."""
    data["counterexample"], data["verdict"] = None, "undecided"


FORGERIES = [json.loads(line) for line in (GOLDEN / "certificate_forgeries.jsonl").read_text().splitlines()]
"""Changes to the certificate `stored`, and words of the finding that they lead to."""


@pytest.mark.parametrize("forgery", FORGERIES, ids=lambda forgery: forgery["name"])
def test_forgeries_are_refused(stored: Data, tmp_path: Path, forgery: Data) -> None:
    data = deepcopy(stored)
    for each in forgery["changes"]:
        change(data, *each)
    assert json.dumps(data) != json.dumps(stored)
    path = tmp_path / "forged.json"
    path.write_text(json.dumps(data))
    findings = verify_certificate(path).findings
    assert findings
    assert any(forgery["finding"] in finding for finding in findings), findings
    assert all("\n" not in finding and len(finding) < 400 for finding in findings)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "not a certificate"),
        (b"{}", "not a certificate"),
        (b"[1, 2]", "not a certificate"),
        (b"\xff\xfe\x00", "not a certificate"),
        (b"[" * 100_000, "not a certificate"),
        (b'{"format": ' + b'{"a":' * 50_000, "not a certificate"),
        (b'{"format": "coordinator-certificate", "format": "x"}', "repeated"),
        (b'{"format": "coordinator-certificate", "version": 1' + b"0" * 5000 + b"}", "not a certificate"),
        (b'{"format": "coordinator-certificate", "version": Infinity}', "not a number"),
    ],
)
def test_files_that_are_no_certificates(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)
    (finding,) = verify_certificate(path).findings
    assert expected in finding


def test_a_network_that_is_too_large_to_check_is_undecided(stored: Data, tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    path.write_text(json.dumps(stored | {"scenario": stored["scenario"] | {"topology": "hypercube:28"}}))
    found = verify_certificate(path)
    assert (found.findings, found.undecided) == ([], True)
    assert found.unchecked == ["scenario: a network of 268435456 nodes; at most 500000 are read"]


def test_unknown_keys_are_noted(stored: Data, tmp_path: Path) -> None:
    path = tmp_path / "later.json"
    levels = [{**level, "seconds": 3} for level in stored["levels"]]
    path.write_text(json.dumps({**stored, "note": "true", "levels": levels}))
    found = verify_certificate(path)
    assert (found.findings, found.undecided) == ([], False)
    assert found.unchecked == [
        "certificate: unknown key 'note'", *(f"level {at}: unknown key 'seconds'" for at in range(len(levels)))
    ]  # fmt: skip


def test_truncated_and_huge_files(stored: Data, tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    text = json.dumps(stored)
    for length in range(1, len(text), len(text) // 20):
        path.write_text(text[:length])
        (finding,) = verify_certificate(path).findings
        assert finding.startswith("not a certificate")
    with path.open("wb") as file:
        file.truncate(2**30)
    (finding,) = verify_certificate(path).findings
    assert "it has more than 67108864 bytes" in finding
    (finding,) = verify_certificate(tmp_path / "missing.json").findings
    assert "it cannot be read" in finding
