"""Archives of runs, and their checkers: programs of their own that share no code."""

import json
import sys
import tomllib
import zipfile
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import tomli_w

import coordinator as tb
from coordinator.annexes.proofs.archive import archive_of, files_of, with_manifest, zipped
from emunode.errors import ScenarioError
from tests.annexes.proofs.archives_support import CHECKER, PATH_CHECKER, disagreements, judge
from tests.contract.cases import CASES
from tests.helpers.command_line import Call
from tests.helpers.mutation_support import MUTATIONS
from tests.helpers.recorded_runs import recorded
from tests.helpers.scenarios import Case
from tests.helpers.support import GOLDEN

CHECKERS = sorted(CHECKER.parent.glob("check_*.py"))
FORGED = [case for case in CASES[::41] if len(case.history) < 300]
LOSSES = Case("star:4 broadcast edt redundancy=3 messages=2", "byzantine:4231", "loss:1234~2134:0.4")


def write(folder: Path, files: Mapping[str, bytes]) -> Path:
    (path := folder / "run.zip").write_bytes(zipped(files))
    return path


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return files_of(archive_of(LOSSES.run))


def test_checkers_are_short_and_import_only_the_standard_library() -> None:
    for checker in CHECKERS:
        lines = checker.read_text().splitlines()
        assert len(lines) <= 700, checker
        imported = {line.split()[1].partition(".")[0] for line in lines if line.startswith(("import ", "from "))}
        assert imported <= sys.stdlib_module_names, checker
        assert not {"eval", "exec", "pickle", "subprocess", "__import__"} & set(checker.read_text().split()), checker


def test_both_judges_agree_on_recorded_runs(tmp_path: Path) -> None:
    lines = [each["scenario"] for each in recorded() if "clock=timed" not in each["scenario"]]
    runs = {line: Case(line) for line in [*lines[::90], *(line for line in lines if "on_failure=shrink" in line)][:14]}
    histories: dict[Path, str] = {}
    for line, case in runs.items():
        path = tmp_path / f"{len(histories)}.zip"
        path.write_bytes(zipped(files_of(archive_of(case.run))))
        histories[path] = line
    ended = judge(CHECKER, *histories)
    assert (ended.status, ended.err) == (0, ""), ended.out


def test_both_judges_agree_on_histories_with_one_wrong_row(tmp_path: Path) -> None:
    changes: dict[str, Any] = {}
    for number, case in enumerate(FORGED):
        plan, records = case.plan, case.history
        # The other half of the mutations in the next case.
        for name, mutation in list(MUTATIONS.items())[number % 2 :: 2]:
            changed = mutation(plan, records, number * 7919 % len(records))
            if changed is not None:
                changes[f"{case.name} {name}"] = plan, changed, ()
    assert len(changes) > 40
    assert disagreements(changes, tmp_path) == []


@pytest.mark.parametrize(
    "scenario",
    [
        "hypercube:3 gather sbnt seed=1 fault=crash:010@3",
        "star:4 broadcast greedy-tree fault_knowledge=detect:2 on_failure=agree messages=2 seed=8 fault=crash:3421@3",
    ],
    ids=["crashes", "reports"],
)
def test_an_altered_segment_needs_a_fault_that_alters(scenario: str, tmp_path: Path) -> None:
    """Found by the second judge: crashes, and rows between nodes without a link, excused altered segments."""
    from coordinator.history.journal import records_of_rows

    case = Case(scenario)
    records = records_of_rows(case.journal.lazy())
    for place in (2, len(records) - 1):
        changed = MUTATIONS["now corrupt"](case.plan, records, place)
        assert changed is not None
        found = disagreements({"changed": (case.run.plan, changed, ())}, tmp_path)
        assert found == []


def test_equal_runs_give_equal_archives(files: dict[str, bytes], tmp_path: Path) -> None:
    manifest = json.loads(files["manifest.json"])
    assert manifest["format"] == 1
    assert set(manifest["sha256"]) == set(files) - {"manifest.json"}
    assert len(files["journal.csv"].splitlines()) == len(LOSSES.journal) + 1
    again = zipped({**files_of(archive_of(LOSSES.but().run)), "summary.json": files["summary.json"]})
    with zipfile.ZipFile(BytesIO(again)) as other:
        timed = ("manifest.json", "summary.json")  # the summary has the times of its run
        assert {name: other.read(name) for name in other.namelist() if name not in timed} == {
            name: data for name, data in files.items() if name not in timed
        }
    ended = judge(CHECKER, write(tmp_path, files))
    assert ended.status == 0
    taken = "predictions, algorithm, facts about the collective, effects of faults drawn at random"
    assert f"from the archive: {taken}\n" in ended.out
    assert ended.out.endswith("right: holds\n")


def replaced(name: str, old: bytes, new: bytes) -> Callable[[dict[str, bytes]], dict[str, bytes]]:
    def change(files: dict[str, bytes]) -> dict[str, bytes]:
        assert old in files[name]
        return files | {name: files[name].replace(old, new, 1)}

    return change


@pytest.mark.parametrize(
    ("change", "status", "line"),
    [
        (replaced("summary.json", b'"verdict": "holds"', b'"verdict": "violated"'), 1, "is holds, not violated"),
        (replaced("summary.json", b'"packets": 116', b'"packets": 115'), 1, "packets is 115, and the journal says 116"),
        (replaced("journal.csv", b"64,first\n", b"64,duplicate\n"), 1, "journal.csv: its digest is not the one"),
        (replaced("manifest.json", b'"format": 1', b'"format": 9'), 2, "wrote format 9; this is for 1"),
        (replaced("journal.csv", b"64,first\n", b"64,x\n"), 2, "unreadable"),
        (replaced("run.json", b"{", b"["), 2, "unreadable"),
        (lambda files: files | {"../more": b""}, 2, "expected the files"),
        (lambda files: files | {"run.json": b"[" * 100_000}, 2, "unreadable"),
    ],
    ids=["verdict", "metric", "row", "format", "outcome", "braces", "name", "depth"],
)
def test_altered_archives_are_wrong_or_unreadable(
    change: Callable[[dict[str, bytes]], dict[str, bytes]],
    status: int,
    line: str,
    files: dict[str, bytes],
    tmp_path: Path,
) -> None:
    ended = judge(CHECKER, write(tmp_path, change(dict(files))))
    assert ended.status == status
    assert line in ended.out
    assert ended.err == ""


Files = dict[str, bytes]
Forgery = Callable[[Files], Files]


def renewed(files: Files) -> Files:
    """The files with the digests that they have now."""
    return with_manifest({name: data for name, data in files.items() if name != "manifest.json"})


def with_fields(name: str, **values: object) -> Forgery:
    """Change fields of scenario.toml, summary.json or run.json; None takes a field away."""

    def forge(files: Files) -> Files:
        text = files[name].decode()
        data = (tomllib.loads(text) if name == "scenario.toml" else json.loads(text)) | values
        kept = {key: value for key, value in data.items() if value is not None or name != "scenario.toml"}
        return files | {name: (tomli_w if name == "scenario.toml" else json).dumps(kept).encode()}

    return forge


def with_rows(name: str, *added: bytes, without: bytes = b"") -> Forgery:
    """Add rows to a table, and take one away."""

    def forge(files: Files) -> Files:
        kept = [line for line in files[name].splitlines() if line != without]
        assert not without or len(kept) < len(files[name].splitlines()), without
        return files | {name: b"\n".join([*kept, *added, b""])}

    return forge


def both(*forgeries: Forgery) -> Forgery:
    def forge(files: Files) -> Files:
        for each in forgeries:
            files = each(files)
        return files

    return forge


UNDRAWN = "journal.csv: no fault in faults.csv explains draws: 1 times"
SOUND = Case("star:4 broadcast edt redundancy=3 messages=2", "crash:2134@3", "byzantine:4231", "loss:1234~3214:0.4")
FIELDS = json.loads((GOLDEN / "archive_fields.json").read_text())
"""Other values of fields of summary.json, scenario.toml and run.json."""
FORGERIES: dict[str, tuple[Forgery, tuple[str, ...]]] = {
    **{f"heading {name}": (with_fields("summary.json", **{name: value}), (".json: ", ", and "))
       for name, value in FIELDS["heading"].items()},
    **{f"scenario {name}": (with_fields("scenario.toml", **{name: value}), ("scenario.toml: ", ".json: "))
       for name, value in FIELDS["scenario"].items()},
    **{f"scenario without {name}": (with_fields("scenario.toml", **{name: None}), (f"scenario.toml: {name}", "run.json"))
       for name in ("redundancy", "messages")},
    **{f"facts {name}": (with_fields("run.json", **{name: value}), (": ",)) for name, value in FIELDS["facts"].items()},
    "scenario without faults": (
        with_fields("scenario.toml", fault=[]), ("scenario.toml: fault is []", "summary.json: faults")),
    "no faults in scenario and heading": (
        both(with_fields("scenario.toml", fault=[]), with_fields("summary.json", faults=[])),
        ("faults.csv: place 1 has 1 times stops and forgets from 3", "by the faults of the scenario 0 times")),
    "another heading": (
        with_fields("summary.json", topology="star:5", algorithm="flood", redundancy=2, faults=[]),
        ("scenario.toml: algorithm is edt, and summary.json: algorithm is flood",)),
    "another network everywhere": (
        both(with_fields("summary.json", topology="star:5"), with_fields("scenario.toml", topology="star:5")),
        ("nodes.csv: '1234' is no node of star:5",)),
    "a hypercube": (
        both(with_fields("summary.json", topology="hypercube:4"), with_fields("scenario.toml", topology="hypercube:4")),
        ("nodes.csv: '1234' is no node of hypercube:4",)),
    "a link that S_4 has not": (
        with_rows("network.csv", b"0,3,23,3", b"23,3,0,3"),
        ("network.csv: rank and port (0, 3) are joined with (23, 3), and in star:4 with None",)),
    "a link that leads elsewhere": (
        with_rows("network.csv", b"0,0,2,1", without=b"0,0,1,0"), ("network.csv: rank and port (0, 0)", "in star:4")),
    "a label twice": (
        lambda files: files | {"nodes.csv": files["nodes.csv"].replace(b"2134", b"1234")}, ("nodes.csv", "star:4")),
    "a switch": (replaced("nodes.csv", b"2,1324,0", b"2,1324,1"), ("nodes.csv", "star:4")),
    "a crash in faults.csv": (
        with_rows("faults.csv", b"5,2,4611686018427387904,stops and forgets"),
        ("faults.csv: place 5 has 1 times stops and forgets from 2", "by the faults of the scenario 0 times")),
    "a crash in both tables": (
        both(with_rows("faults.csv", b"5,2,4611686018427387904,stops and forgets"),
             replaced("nodes.csv", b'5,3214,0,""', b"5,3214,0,crashed")),
        ("nodes.csv: rank 5 is crashed, and by the faults of the scenario healthy",)),
    "a crash in no table": (
        with_rows("faults.csv", without=b"1,3,4611686018427387904,stops and forgets"),
        ("faults.csv: place 1 has 0 times stops and forgets from 3", "1 times")),
    "an earlier crash": (
        replaced("faults.csv", b"1,3,", b"1,2,"), ("faults.csv", "the scenario")),
    "a byzantine node that is healthy": (
        replaced("nodes.csv", b"21,4231,0,byzantine", b'21,4231,0,""'),
        ("nodes.csv: rank 21 is healthy, and by the faults of the scenario byzantine",)),
    "a loss that nothing draws": (
        with_rows("draws.csv", b"2,4,0,0,1,1,0"), (UNDRAWN,)),
    "a draw without a packet": (
        with_rows("draws.csv", b"99,0,1,0,1,0,0"), (UNDRAWN,)),
    "an altered copy without its hop": (
        with_rows("altered.csv", b"99,0,1,0,1,0,0"), (UNDRAWN,)),
    "a copy withheld by a healthy rank": (
        with_rows("withheld.csv", b"2,4,0,0,-1,0,1"), (UNDRAWN,)),
}  # fmt: skip
"""Changes to the files of an archive that another file contradicts, and words of the sentence that says so."""


SOUND_TOO: dict[str, tuple[Forgery, tuple[str, ...]]] = {
    "as it is": (dict, ()),
    "of a version that gave no reason": (replaced("summary.json", b' "reason": null,\n', b""), ()),
    "with its defaults left out": (
        with_fields("scenario.toml", port_model=None, clock=None, seed=None, reliable=None),
        (),
    ),
}


def test_an_archive_belongs_to_its_scenario(tmp_path: Path) -> None:
    sound = files_of(archive_of(SOUND.run))
    paths = {}
    for number, (name, (forge, _)) in enumerate({**SOUND_TOO, **FORGERIES}.items()):
        paths[str(path := tmp_path / f"{number}.zip")] = name
        path.write_bytes(zipped(renewed(forge(dict(sound)))))
    lines: dict[str, list[str]] = {name: [] for name in paths.values()}
    for line in judge(CHECKER, *map(Path, paths)).out.splitlines():
        archive, _, words = line.partition(".zip: ")
        lines[paths[f"{archive}.zip"]].append(words)
    assert [lines.pop(name)[-1] for name in SOUND_TOO] == ["right: holds"] * len(SOUND_TOO)
    for name, said in lines.items():
        assert not any(line.startswith("right") for line in said), (name, said)
        assert any(all(word in line for word in FORGERIES[name][1]) for line in said), (name, said)


def test_a_stored_run_belongs_to_its_scenario(tmp_path: Path, call: Call) -> None:
    """`verify` finds every forgery that changes files which a stored run has too."""
    SOUND.stored(run := tmp_path / "run")
    sound = {name: (run / name).read_bytes() for name in ("scenario.toml", "summary.json")}
    forgeries = [f"{part} {name}" for part in ("heading", "scenario") for name in FIELDS[part]]
    for name in (*forgeries, "no faults in scenario and heading", "another heading", "another network everywhere"):
        for file, data in FORGERIES[name][0](dict(sound)).items():
            (run / file).write_bytes(data)
        assert call("verify", run).status == 1, name


def test_a_bomb_is_refused_before_it_is_read(files: dict[str, bytes], tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "run.zip", "w") as packed:
        for name, data in files.items():
            packed.writestr(name, data)
        packed.getinfo("journal.csv").file_size = 300 << 20  # written when the archive is closed
    ended = judge(CHECKER, tmp_path / "run.zip")
    assert (ended.status, "it has more than 268435456 bytes" in ended.out) == (2, True)


def test_claims_about_paths_have_a_checker_of_their_own(tmp_path: Path) -> None:
    files = files_of(archive_of(Case("star:4 scatter replicated-balanced-tree messages=3").run))
    path = write(tmp_path, files)
    assert judge(PATH_CHECKER, path).status == 0
    summary = json.loads(files["summary.json"])
    name = json.loads(files["run.json"])["structure"][0]
    summary[name] += 1
    changed = files | {"summary.json": json.dumps(summary).encode()}
    assert judge(PATH_CHECKER, write(tmp_path, changed)).status == 2  # the digest
    from hashlib import sha256

    manifest = json.loads(files["manifest.json"])
    manifest["sha256"]["summary.json"] = sha256(changed["summary.json"]).hexdigest()
    ended = judge(PATH_CHECKER, write(tmp_path, changed | {"manifest.json": json.dumps(manifest).encode()}))
    assert (ended.status, f"{name} is {summary[name] - 1}, not {summary[name]}" in ended.out) == (1, True)


def test_runs_under_the_timed_clock_are_not_judged(tmp_path: Path) -> None:
    ended = judge(CHECKER, write(tmp_path, files_of(archive_of(Case("hypercube:2 broadcast sbt clock=timed").run))))
    assert (ended.status, "not judged: a run under the timed clock" in ended.out) == (3, True)


def test_runs_in_memory_are_packed_too(tmp_path: Path) -> None:
    run = tb.network("star:3").broadcast("greedy-tree", step_limit=1)
    assert judge(CHECKER, run.pack(tmp_path / "a.zip")).out.endswith("right: undecided\n")
    import pickle

    with pytest.raises(ScenarioError, match="comes from a pickle"):
        pickle.loads(pickle.dumps(run)).pack(tmp_path / "b.zip")
