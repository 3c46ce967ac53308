"""Archives of certificates, and their checker, a program of its own that `verify` calls."""

import json
import zipfile
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import coordinator as tb
from coordinator.annexes.proofs.archive import with_manifest, zipped
from coordinator.annexes.proofs.verify_certificate import verify_certificate
from tests.annexes.proofs.archives_support import (
    CERTIFICATE_CHECKER,
    CHECKER,
    judge,
    misjudged_forgeries,
    one_value_forgeries,
)
from tests.helpers.command_line import ROOT, Call, Start, fields

Data = dict[str, Any]
CERTIFICATES: dict[str, tuple[str, Data]] = {
    "cuts": ("hypercube:3 broadcast nesbt redundancy=3", {"faults": "nodes<=3"}),
    "mixed kinds": ("star:4 broadcast edt redundancy=2", {"faults": "nodes=1;links<=1@2"}),
    "votes": (
        "hypercube:3 broadcast nesbt redundancy=3 fault=byzantine:111", {"faults": "byzantine<=2"}
    ),
    "fixed paths": (
        "hypercube:3 broadcast nesbt redundancy=3", {"faults": "nodes<=2", "method": "runs"}
    ),
    "bit rows": (
        "star:3 broadcast edt redundancy=2", {"faults": "nodes<=2", "method": "runs", "engine": "exact"}
    ),
    "a sample": (
        "star:3 broadcast edt redundancy=2 driver=local", {"faults": "nodes<=1", "method": "runs", "sample": 1}
    ),
    "repair": ("hypercube:2 broadcast sbt repair=next-port", {"faults": "links<=1"}),
    "reliable links": ("hypercube:2 broadcast sbt reliable=true", {"faults": "links<=1@2-3"}),
    "nodes that choose": ("hypercube:2 broadcast flood", {"faults": "links<=1"}),
    "sums": ("hypercube:2 reduce sbt", {"faults": "links<=1"}),
    "no receiver": ("hypercube:2 broadcast flood", {"faults": "nodes=3"}),
    "no receiver on fixed paths": (
        "hypercube:2 broadcast sbt", {"faults": ["nodes=3", "nodes=1"], "method": "runs"}
    ),
    "two rates": ("hypercube:2 broadcast sbt", {"faults": "loss=1:0;loss=1:1"}),
    "chance": ("hypercube:2 broadcast sbt", {"faults": "loss<=1:1"}),
}  # fmt: skip
"""By kind of certificate: a scenario and the sets."""


@cache
def certificate(name: str) -> tb.Certificate:
    line, options = CERTIFICATES[name]
    values: Data = {"driver": "memory", **fields(line)}
    network = tb.network(values.pop("topology"))
    return tb.certify(network, values.pop("collective"), values.pop("algorithm"), workers=1, **values, **options)


@cache
def stored(name: str) -> Data:
    """Return the content of the file of a certificate."""
    with TemporaryDirectory() as folder:
        data: Data = json.loads(certificate(name).save(Path(folder) / "certificate.json").read_text())
    return data


@pytest.mark.parametrize("name", CERTIFICATES)
def test_each_kind_of_certificate_is_judged(name: str, tmp_path: Path, call: Call) -> None:
    path, archive = tmp_path / "certificate.json", tmp_path / "certificate.zip"
    path.write_text(json.dumps(stored(name)))
    assert verify_certificate(path).findings == []
    assert call("pack", path, archive).out == f"{archive}\n"
    ended = judge(CERTIFICATE_CHECKER, archive)
    assert (ended.status, ended.err) == (0, ""), ended.out
    assert f"{archive}: right: {stored(name)['verdict']}" in ended.out


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize("name", CERTIFICATES)
def test_forged_certificates_are_refused(name: str, tmp_path: Path) -> None:
    forgeries = list(one_value_forgeries(stored(name)))
    assert len(forgeries) > 100
    # Evenly spaced: scripts/stress oracle_mutation judges all of them.
    chosen = dict(forgeries[:: max(1, len(forgeries) // 25)])
    assert misjudged_forgeries(name, chosen, tmp_path) == []


def test_the_second_judge_found_numbers_that_were_not_verified(tmp_path: Path) -> None:
    """Sums of lost nodes, and histories of sets that are not of their level, passed as verified."""
    path = tmp_path / "forged.json"
    for name, level in (("fixed paths", 1), ("nodes that choose", 0)):
        data = json.loads(json.dumps(stored(name)))
        data["levels"][level]["lost"] += 1
        path.write_text(json.dumps(data))
        assert any("lost is" in line for line in verify_certificate(path).findings)
        data = json.loads(json.dumps(stored(name)))
        data["levels"][1]["histories"][0] = data["levels"][0]["histories"][0]
        path.write_text(json.dumps(data))
        assert any("not one of its sets" in line for line in verify_certificate(path).findings)


def test_altered_archives_of_certificates(tmp_path: Path, call: Call) -> None:
    path, archive = tmp_path / "certificate.json", tmp_path / "certificate.zip"
    path.write_text(json.dumps(stored("cuts")))
    call("pack", path, archive)
    with zipfile.ZipFile(archive) as packed:
        files = {name: packed.read(name) for name in packed.namelist()}
    for name, old, new, status in (
        ("journal.csv", b"1,0,0,1,0,-1,", b"1,0,0,2,0,-1,", 1), ("network.csv", b"0,0,1,0\n", b"0,0,1,1\n", 2),
        ("nodes.csv", b"0,000,", b"0,001,", 1), ("manifest.json", b'"format": 1', b'"format": 2', 2),
        ("facts.json", b"{", b"[", 2),
    ):  # fmt: skip
        assert old in files[name], name
        with zipfile.ZipFile(archive, "w") as packed:
            for each, data in files.items():
                packed.writestr(each, data.replace(old, new, 1) if each == name else data)
        ended = judge(CERTIFICATE_CHECKER, archive)
        assert (ended.status, ended.err) == (status, ""), (name, ended.out)


def scenario(**values: object) -> dict[str, Any]:
    return {"certificate.json": values}


FORGERIES: dict[str, tuple[dict[str, Any], str]] = {
    **{f"scenario {name}": (scenario(**{name: value}), f"certificate.json: scenario: {name} is {value}, and facts.json: ")
       for name, value in {
           "topology": "hypercube:4", "collective": "gather", "algorithm": "sbt", "redundancy": 2, "source": "110"}.items()},
    "scenario clock": (scenario(clock="timed"), "certificate.json: scenario: clock is steps is False, and facts.json: "),
    "scenario with a base fault": (
        scenario(fault=["byzantine:111", "crash:011@1"]), "faults.csv: place 3 has 0 times stops and forgets from 1"),
    "scenario without its fault": (scenario(fault=[]), "faults.csv: place 7 has 1 times alters from 1"),
    **{f"facts {name}": ({"facts.json": {name: value}}, "facts.json: ") for name, value in {
        "topology": "hypercube:4", "collective": "gather", "algorithm": "sbt", "redundancy": 2, "source": 6, "rooted": False,
        "in_steps": False, "faulty": [], "broken": [[0, 1]]}.items()},
    "another algorithm and redundancy": (
        scenario(algorithm="sbt", redundancy=1), "scenario: redundancy is 1, and facts.json"),
    "another redundancy everywhere": (
        {**scenario(redundancy=2), "facts.json": {"redundancy": 2}},
        "journal.csv: a message has 3 copies, and facts.json: redundancy is 2"),
    "another source everywhere": (
        {**scenario(source="110"), "facts.json": {"source": 6}},
        "journal.csv: rank 0 sends a message, and facts.json: source is 6"),
    "a crash in faults.csv": (
        {"faults.csv": b"2,1,4611686018427387904,stops and forgets\n"}, "faults.csv: place 2 has 1 times stops and forgets"),
    "a link that Q_3 has not": (
        {"network.csv": b"0,3,7,3\n7,3,0,3\n"}, "rank and port (0, 3) are joined with (7, 3), and in hypercube:3 with None"),
    "a node that Q_3 has not": ({"nodes.csv": b'8,1000,0,""\n'}, "nodes.csv: '1000' is no node of hypercube:3"),
}  # fmt: skip
"""Fields of the scenario of a certificate or of its facts, and rows; words of the sentence that names both places."""


def packed(path: Path, call: Call, name: str) -> dict[str, bytes]:
    """The files of the archive of a certificate."""
    path.write_text(json.dumps(stored(name)))
    call("pack", path, archive := path.with_suffix(".zip"))
    with zipfile.ZipFile(archive) as files:
        return {each: files.read(each) for each in files.namelist() if each != "manifest.json"}


def test_a_certificate_belongs_to_its_scenario(tmp_path: Path, call: Call) -> None:
    sound = packed(path := tmp_path / "certificate.json", call, "votes")
    for number, (name, (changes, words)) in enumerate(FORGERIES.items()):
        files = dict(sound)
        for file, change in changes.items():
            if isinstance(change, bytes):
                files[file] += change
                continue
            data = json.loads(files[file])
            (data["scenario"] if file == "certificate.json" else data).update(change)
            files[file] = json.dumps(data).encode()
        archive = tmp_path / f"{number}.zip"
        archive.write_bytes(zipped(with_manifest(files)))
        ended = judge(CERTIFICATE_CHECKER, archive)
        assert (ended.status, words in ended.out) == (1, True), (name, ended.out)
        if files["certificate.json"] != sound["certificate.json"]:
            path.write_bytes(files["certificate.json"])
            assert call("verify", path).status == 1, name


def test_archives_of_versions_without_the_algorithm_are_judged(tmp_path: Path, call: Call) -> None:
    files = packed(tmp_path / "certificate.json", call, "votes")
    facts = json.loads(files["facts.json"])
    del facts["algorithm"]
    (archive := tmp_path / "a.zip").write_bytes(
        zipped(with_manifest({**files, "facts.json": json.dumps(facts).encode()}))
    )
    assert judge(CERTIFICATE_CHECKER, archive).status == 0


@pytest.mark.parametrize(
    ("options", "expected"),
    [("--faults nap<=1", (0, "right: holds; from the archive: algorithm, facts about the collective, effects of nap")),
     ("--fault wall:000~001 --faults nodes<=1", (3, "not judged: the argument by cuts beside wall"))],
    ids=["of a level", "of the scenario"],
)  # fmt: skip
def test_kinds_of_plug_ins_are_like_others(
    options: str, expected: tuple[int, str], tmp_path: Path, start: Start
) -> None:
    plugin, path, archive = ROOT / "tests/plugins/eight_faults.py", tmp_path / "c.json", tmp_path / "c.zip"
    line = f"coordinator certify --topology hypercube:3 --algorithm nesbt --redundancy 3 {options} --plugin"
    assert start(line, plugin, "--out", path).end().status == 0
    assert start("coordinator pack", path, archive, "--plugin", plugin).end().status == 0
    ended = judge(CERTIFICATE_CHECKER, archive)
    assert (ended.status, ended.out) == (expected[0], f"{archive}: {expected[1]}\n")


def test_what_two_checkers_share_is_the_same_text() -> None:
    parts = [path.read_text().split("# From here")[1].split("# To here.")[0] for path in (CHECKER, CERTIFICATE_CHECKER)]
    assert parts[0] == parts[1]


def test_certificates_are_packed_from_python(tmp_path: Path) -> None:
    assert "right: violated" in judge(CERTIFICATE_CHECKER, certificate("cuts").pack(tmp_path / "a.zip")).out
