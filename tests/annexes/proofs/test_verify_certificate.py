"""Certificate files are checked again: true ones verify, and each kind of forgery is refused with a line that names it."""

import json
import sys
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from math import comb
from pathlib import Path
from typing import Any

import pytest

from coordinator.annexes.proofs import certify
from coordinator.annexes.proofs.certify import Certifier, MessageEngine, exhaustive_fault_sets
from coordinator.annexes.proofs.checker.check import verify_certificate
from coordinator.annexes.proofs.checker.subject import _digits
from coordinator.annexes.proofs.cut_certifier import CutEngine
from coordinator.campaigns.runner import CampaignRunner
from coordinator.campaigns.trial_runner import Trial, TrialResult
from coordinator.results import conclude
from coordinator.results.claims import claims_of
from coordinator.scenario.model import make_scenario
from emunode.algorithms.claims import Claim
from tests.command_line import Call, fields

Data = dict[str, Any]


def made(
    folder: Path, topology: str, algorithm: str, redundancy: int, *faults: str, runs: bool = False, **values: object
) -> Path:
    """Return the file of a certificate."""
    base = fields(f"{topology} broadcast {algorithm} redundancy={redundancy} driver=memory")
    engine = MessageEngine if runs else CutEngine
    certifier = Certifier(make_scenario(base | values), 1, sys.stderr, lambda *_: None, engine)
    path = folder / "certificate.json"
    certifier.certify(exhaustive_fault_sets(faults)).save(path)
    return path


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Data:
    """Provide a certificate of Q_3 with three trees: two nodes are tolerated, and three are not."""
    path = made(tmp_path_factory.mktemp("certificate"), "hypercube:3", "nesbt", 3, "nodes<=3")
    data: Data = json.loads(path.read_text())
    return data


@pytest.mark.parametrize(
    ("topology", "algorithm", "redundancy", "faults", "values"),
    [
        ("star:4", "edt", 3, ["nodes<=3"], {}),
        ("star:4", "edt", 3, ["any<=2"], {"fault": ["crash:2134@2"]}),
        ("star:4", "edt", 2, ["links<=1@2-3", "nodes<=1@3"], {"messages": 2}),
        ("hypercube:3", "nesbt", 3, ["byzantine<=2"], {"fault": ["byzantine:111"]}),
        ("hypercube:3", "nesbt", 3, ["equivocate=1;silent=1"], {}),
        ("ej:1+2", "independent-trees", 6, ["nodes<=4"], {}),
        ("petersen:5,2", "edge-disjoint-trees", 1, ["nodes<=1"], {}),
        ("star:3", "edt", 1, ["nodes<=1"], {"collective": "alltoall"}),
    ],
)
def test_true_certificates_verify(
    tmp_path: Path, topology: str, algorithm: str, redundancy: int, faults: list[str], values: dict[str, Any]
) -> None:
    found = verify_certificate(made(tmp_path, topology, algorithm, redundancy, *faults, **values))
    assert (found.findings, found.undecided) == ([], False)


def test_certificates_by_runs_verify(tmp_path: Path) -> None:
    path = made(tmp_path, "hypercube:3", "nesbt", 3, "nodes<=2", runs=True)
    assert verify_certificate(path).findings == []
    data = json.loads(path.read_text())
    data["levels"][2]["histories"][0]["journal_hash"] = "0" * 32
    path.write_text(json.dumps(data))
    (finding,) = verify_certificate(path).findings
    assert "the history is" in finding


@pytest.mark.parametrize(
    ("topology", "algorithm", "redundancy", "faults", "values"),
    [
        ("star:4", "edt", 3, ["nodes<=1"], {"fault": ["crash:2134@1"]}),
        ("star:4", "edt", 3, [], {"fault": ["crash:2134@1"]}),
        ("hypercube:3", "nesbt", 3, ["nodes<=1"], {"fault_knowledge": "all"}),
        ("hypercube:3", "nesbt", 3, ["loss<=1:0.5"], {}),
        ("hypercube:3", "sbt", 1, ["links<=1"], {"collective": "reduce"}),
        ("hypercube:3", "sbt", 1, ["links<=1@2-3"], {"reliable": True}),
        ("hypercube:3", "flood", 1, ["links<=1"], {}),
    ],
)
def test_certificates_by_runs_verify_where_paths_decide_nothing(
    tmp_path: Path, topology: str, algorithm: str, redundancy: int, faults: list[str], values: dict[str, Any]
) -> None:
    found = verify_certificate(made(tmp_path, topology, algorithm, redundancy, *faults, runs=True, **values))
    assert (found.findings, found.undecided) == ([], False)


def test_a_violated_claim_alone_refutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Claim("steps", 1, "==", "a claim that is wrong")
    with monkeypatch.context() as patched:
        patched.setattr(
            conclude, "claims_of", lambda plan: claims_of(plan)._replace(kept=[*claims_of(plan).kept, wrong])
        )
        path = made(tmp_path, "hypercube:3", "nesbt", 3, "nodes<=1", runs=True)
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
        ({"memory": "1" * 32}, "different: memory"), ({"memory": "0" * 32}, "both histories are the same"),
        ({"faults": ["crash:9"]}, "scenario"), ({"driver": 3}, "wrong type"),
    ):  # fmt: skip
        path.write_text(json.dumps(data | {"different": data["different"] | change}))
        assert any(words in finding for finding in verify_certificate(path).findings)
    path.write_text(json.dumps({name: value for name, value in data.items() if name != "different"}))
    assert verify_certificate(path).findings == ["verdict is violated, and it should be holds"]


def test_sets_that_are_too_many_to_run_again_are_undecided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.annexes.proofs.checker.judged.MOST_RUN_HOPS", 100)
    found = verify_certificate(made(tmp_path, "hypercube:3", "nesbt", 3, "nodes<=2", runs=True))
    assert (found.findings, found.undecided) == ([], True)


def test_a_violated_certificate_does_not_pass_as_undecided(tmp_path: Path) -> None:
    path = made(tmp_path, "hypercube:3", "nesbt", 3, "nodes<=3", runs=True)
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
    monkeypatch.setattr("coordinator.annexes.proofs.checker.cuts.RECOUNTED_SETS", 30)
    data = deepcopy(stored)
    forget(data)
    data["levels"][3].update(survived=[0, 35], lost=None)
    path = tmp_path / "undecided.json"
    path.write_text(json.dumps(data))
    assert "verdict is undecided, and it should be violated" in verify_certificate(path).findings


def test_the_work_is_bounded_before_it_begins(stored: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(tmp_path, "hypercube:3", "nesbt", 3, "nodes<=1", runs=True)
    data = json.loads(path.read_text())
    one = data["levels"][1]
    data["levels"] = [{**one, "faults": f"nodes=1@{step}"} for step in range(1, 5000)]
    path.write_text(json.dumps(data))

    def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("coordinator.annexes.proofs.checker.judged.MOST_RUN_HOPS", 1000)
    monkeypatch.setattr("coordinator.annexes.proofs.checker.judged.JudgedRuns.run", refuse)
    found = verify_certificate(path)
    histories = 4999 * len(one["histories"])
    assert (found.findings, found.undecided) == ([], True)
    assert found.unchecked == [f"{histories} histories are too many to run again; at most 100 are"]
    monkeypatch.setattr("coordinator.annexes.proofs.checker.cuts.MOST_SEARCHED", 20)
    monkeypatch.setattr("coordinator.annexes.proofs.checker.cuts.fewest", refuse)
    path.write_text(json.dumps(stored))
    found = verify_certificate(path)
    assert (found.findings, found.undecided) == ([], True)
    assert found.unchecked == ["1 combinations of kinds for 7 pieces are too many to search"]


@pytest.mark.parametrize(("places", "count", "digits"), [(23, 2, 3), (5039, 2500, 1515), (10, 11, 1), (6, 0, 1)])
def test_digits_of_binomial_coefficients(places: int, count: int, digits: int) -> None:
    exact = len(str(comb(places, count)))
    assert exact == digits
    assert abs(_digits(places, count) - exact) <= 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("star:4", "edt", 3, "nodes<=2"), "holds: S_4 edt x=3, nodes <= 2: 277 sets of faults"),
        (("star:4", "edt", 3, "any<=1"), "holds: S_4 edt x=3, nodes + links <= 1: 60 sets of faults"),
        (("star:4", "edt", 3, "links=1@2-3"), "holds: S_4 edt x=3, links=1 in steps 2-3: 36 sets of faults"),
        (("star:4", "edt", 3, "nodes<=1", "links<=1@3"),
         "holds: S_4 edt x=3, nodes <= 1 and links <= 1 from step 3: 61 sets of faults"),
        (("star:4", "edt", 1, "nodes=1;links=1"),
         "violated: S_4 edt x=1, nodes=1;links=1: 828 sets of faults; violated by "),
        (("petersen:5,2", "edge-disjoint-trees", 1, "nodes<=0"),
         "holds: petersen:5,2 edge-disjoint-trees x=1, nodes <= 0: 1 set"),
    ],
)  # fmt: skip
def test_the_verified_statement_is_named(tmp_path: Path, call: Call, arguments: tuple[Any, ...], expected: str) -> None:
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
    assert f"the smallest set that defeats one has 2 faults ({' and '.join(words)}); tolerance 1" in ended.out
    verified = call("verify", tmp_path / "mixed.json")
    assert f"a smallest set that defeats a message has {' and '.join(words)}" in verified.out
    record = call(line, tmp_path / "mixed.json", "--json").data["tolerances"][0]
    assert sum(record["smallest"].values()) == 2


def nodes(data: Data) -> list[Data]:
    """Return the classes of the only threat."""
    classes: list[Data] = data["threats"][0]["classes"]
    return classes


def put(*keys: object) -> Callable[[Data], None]:
    """Return a mutation that sets the value at a path of keys; the last of `keys` is the value."""

    def mutate(data: Data) -> None:
        place: Any = data
        for key in keys[:-2]:
            place = place[key]
        place[keys[-2]] = keys[-1]

    return mutate


def swap_path(data: Data) -> None:
    """Exchange two inner nodes of a path."""
    path = max((path for each in nodes(data) for path in each["paths"]), key=len)
    path[1], path[2] = path[2], path[1]


def same_path_twice(data: Data) -> None:
    """Copy a path over another one of the same message, so that they are not disjoint."""
    nodes(data)[0]["paths"][1] = nodes(data)[0]["paths"][0]


def other_path(data: Data) -> None:
    """Replace a path by another one of the network, from the source to the same node."""
    for each in nodes(data):
        for at, path in enumerate(each["paths"]):
            if len(path) == 3:
                each["paths"][at] = [path[0], path[1] ^ path[2] ^ path[0], path[2]]
                return


def hollow(data: Data) -> None:
    """Claim that three nodes are tolerated, without the counterexample."""
    data["counterexample"], data["verdict"] = None, "holds"
    data["levels"][3]["survived"] = [35, 35]
    data["levels"][3]["lost"] = 0
    data["threats"][0]["tolerated"] = 3


def forget(data: Data) -> None:
    """Say that nothing was decided, without the counterexample."""
    data["counterexample"], data["verdict"] = None, "undecided"


def forget_numbers(data: Data) -> None:
    """Say besides that all sets may be survived."""
    forget(data)
    data["levels"][3].update(survived=[24, 35], lost=None)


FORGERIES: dict[str, tuple[Callable[[Data], object], str]] = {
    "another format": (put("format", "certificate"), "not a certificate"),
    "a version without numbers": (put("version", "new"), "version is 'new', expected three numbers"),
    "version true": (put("version", True), "version is True, expected three numbers"),
    "a key less": (lambda data: data.pop("levels"), "expected an object with the keys"),
    "levels as an object": (put("levels", {}), "wrong type"),
    "no levels": (put("levels", []), "0 levels"),
    "network digest": (put("network", "sha256", "0" * 64), "network: sha256"),
    "network order": (put("network", "order", 9), "network: order"),
    "network name": (put("network", "name", "hypercube:4"), "network: name"),
    "network of the scenario": (put("scenario", "topology", "hypercube:4"), "network: order"),
    "links as text": (put("network", "links", "12"), "wrong type"),
    "schedule digest": (put("schedule", "sha256", "0" * 64), "schedule: sha256"),
    "schedule hops": (put("schedule", "hops", 1), "schedule: hops"),
    "fewer trees": (put("scenario", "redundancy", 2), "schedule: hops"),
    "another algorithm": (put("scenario", "algorithm", "sbt"), "scenario"),
    "unknown algorithm": (put("scenario", "algorithm", "best"), "scenario"),
    "unknown field": (put("scenario", "speed", 1), "scenario"),
    "huge message": (put("scenario", "messages", 10**9), "scenario"),
    "another source": (put("scenario", "source", "001"), "schedule: sha256"),
    "a fault more in the scenario": (put("scenario", "fault", ["crash:111@1"]), "it should be"),
    "unknown method": (put("method", "faith"), "expected cuts or runs"),
    "runs with an argument": (put("method", "runs"), "threats of a certificate by runs"),
    "verdict": (put("verdict", "holds"), "verdict is holds"),
    "a tolerance more": (put("threats", 0, "tolerated", 3), "tolerated is 3"),
    "negative tolerance": (put("threats", 0, "tolerated", -5), "tolerated is -5"),
    "no limit": (put("threats", 0, "tolerated", None), "tolerated is None"),
    "tolerance NaN": (put("threats", 0, "tolerated", float("nan")), "NaN is not a number"),
    "tolerance as a fraction": (put("threats", 0, "tolerated", 2.0), "wrong type"),
    "three nodes are tolerated": (hollow, "nodes=3"),
    "no threats": (put("threats", []), "no threat of the certificate"),
    "a threat twice": (lambda data: data["threats"].append(deepcopy(data["threats"][0])), "it is repeated"),
    "another kind": (put("threats", 0, "kinds", ["down"]), "no threat of the certificate"),
    "unknown kind": (put("threats", 0, "kinds", ["gossip"]), "kinds of faults"),
    "another step": (put("threats", 0, "when", "2"), "crash"),
    "no step": (put("threats", 0, "when", "soon"), "expected a step"),
    "a class less": (lambda data: nodes(data).pop(), "no class has the message"),
    "a class twice": (lambda data: nodes(data).append(deepcopy(nodes(data)[0])), "that another class has"),
    "a message to the source": (lambda data: nodes(data)[0]["members"].append([0, 0]), "not due"),
    "no members": (lambda data: nodes(data)[0].update(members=[]), "at least one"),
    "members of three": (lambda data: nodes(data)[0].update(members=[[0, 1, 2]]), "pairs of ranks"),
    "another piece": (lambda data: nodes(data)[0].update(piece=[0, -1, 7]), "is not one of this message"),
    "a path with a jump": (lambda data: nodes(data)[0]["paths"][0].pop(1), "rank"),
    "a path to a strange rank": (lambda data: nodes(data)[0]["paths"][0].insert(1, 10**9), "no such link"),
    "a negative rank": (lambda data: nodes(data)[0]["paths"][0].insert(1, -1), "no such link"),
    "swapped nodes": (swap_path, "rank"),
    "a path twice": (same_path_twice, "not those of the algorithm"),
    "a path of another tree": (other_path, "not those of the algorithm"),
    "a path less": (lambda data: nodes(data)[0]["paths"].pop(), "not those of the algorithm"),
    "a fewest more": (lambda data: nodes(data)[0].update(least=4), "the fewest faults"),
    "a fewest less": (lambda data: nodes(data)[0].update(least=2), "the fewest faults"),
    "no cut": (lambda data: nodes(data)[0].update(cut=None), "exactly if some faults defeat it"),
    "a cut beside the paths": (
        lambda data: nodes(data)[0]["cut"].__setitem__(0, "crash:999@1"),
        "not a fault on its paths",
    ),
    "a cut with a fault twice": (
        lambda data: nodes(data)[0]["cut"].__setitem__(0, nodes(data)[0]["cut"][1]),
        "different",
    ),
    "another argument": (lambda data: nodes(data)[0].update(argument="search"), "argument is search"),
    "more sets": (put("levels", 2, "sets", 22), "sets is 22"),
    "negative sets": (put("levels", 2, "sets", -21), "sets is -21"),
    "more survived": (put("levels", 3, "survived", [25, 25]), "24 sets are survived"),
    "survived in disorder": (put("levels", 3, "survived", [25, 24]), "expected two numbers"),
    "survived is negative": (put("levels", 3, "survived", [-1, 24]), "expected two numbers"),
    "fewer lost": (put("levels", 3, "lost", 16), "lost is 16"),
    "undecided": (put("levels", 1, "undecided", 1), "undecided is 1"),
    "another level": (put("levels", 1, "faults", "links=1"), "links=1"),
    "a level that draws": (put("levels", 1, "faults", "random:nodes=1;sources"), "draws at random"),
    "a level that cannot be read": (put("levels", 1, "faults", "x" * 1000), "level"),
    "a range of levels": (put("levels", 1, "faults", "nodes<=9"), "level"),
    "no counterexample": (put("counterexample", None), "there is no counterexample, and some sets fail: nodes=3"),
    "undecided in place of violated": (forget, "verdict is undecided, and it should be violated"),
    "undecided, with wide bounds": (
        forget_numbers,
        "there is no counterexample, and some sets fail: nodes=3",
    ),
    "a level twice": (lambda data: data["levels"].append(deepcopy(data["levels"][1])), "level nodes=1: it is repeated"),
    "a level twice in other words": (
        lambda data: data["levels"].append({**data["levels"][1], "faults": "crash=1@1"}),
        "level crash=1@1: it is repeated",
    ),
    "a harmless counterexample": (
        lambda data: data["counterexample"].update(faults=["crash:111@1", "crash:110@1", "crash:101@1"]),
        "counterexample",
    ),
    "a counterexample with fewer faults": (lambda data: data["counterexample"]["faults"].pop(), "no healthy node"),
    "a counterexample at the source": (
        lambda data: data["counterexample"]["faults"].__setitem__(0, "crash:000@1"),
        "where nothing may fail",
    ),
    "a counterexample of another kind": (
        lambda data: data["counterexample"]["faults"].__setitem__(0, "hang:001@1"),
        "not a set of any level",
    ),
    "others are unserved": (lambda data: data["counterexample"].update(unserved=["111"]), "unserved"),
    "a fault that cannot be read": (lambda data: data["counterexample"].update(faults=["crash"]), "counterexample"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forgeries_are_refused(stored: Data, tmp_path: Path, name: str) -> None:
    mutate, expected = FORGERIES[name]
    data = deepcopy(stored)
    mutate(data)
    assert json.dumps(data) != json.dumps(stored)
    path = tmp_path / "forged.json"
    path.write_text(json.dumps(data))
    findings = verify_certificate(path).findings
    assert findings
    assert any(expected in finding for finding in findings), findings
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
