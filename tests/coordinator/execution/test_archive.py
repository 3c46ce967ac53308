"""Archives of runs, and the checkers of the documentation: programs of their own that share no code."""

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

import coordinator as tb
from coordinator.execution.archive import archive_of, files_of, zipped
from emunode.errors import ScenarioError
from tests.command_line import Call, Ended
from tests.contract.cases import CASES
from tests.mutation_support import CHECKER, MUTATIONS, PATH_CHECKER, disagreements
from tests.recorded_runs import recorded
from tests.scenarios import Case

CHECKERS = sorted(CHECKER.parent.glob("*.py"))
FORGED = [case for case in CASES[::41] if len(case.history) < 300]
LOSSES = Case("star:4 broadcast edt redundancy=3 messages=2", "byzantine:4231", "loss:1234~2134:0.4")


def judge(*paths: Path, checker: Path = CHECKER) -> Ended:
    done = subprocess.run([sys.executable, "-I", checker, *paths], capture_output=True, text=True, check=False)
    return Ended(done.returncode, done.stdout, done.stderr)


def write(folder: Path, files: Mapping[str, bytes]) -> Path:
    (path := folder / "run.zip").write_bytes(zipped(files))
    return path


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return files_of(archive_of(LOSSES.run))


def test_checkers_are_short_and_import_only_the_standard_library() -> None:
    for checker in CHECKERS:
        lines = checker.read_text().splitlines()
        assert len(lines) <= 400, checker
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
    ended = judge(*histories)
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
    ended = judge(write(tmp_path, files))
    assert ended.status == 0
    assert "from the archive: predictions, effects of faults drawn at random" in ended.out
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
    ended = judge(write(tmp_path, change(dict(files))))
    assert ended.status == status
    assert line in ended.out
    assert ended.err == ""


def test_a_bomb_is_refused_before_it_is_read(files: dict[str, bytes], tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "run.zip", "w") as packed:
        for name, data in files.items():
            packed.writestr(name, data)
        packed.getinfo("journal.csv").file_size = 300 << 20  # written when the archive is closed
    ended = judge(tmp_path / "run.zip")
    assert (ended.status, "it has more than 268435456 bytes" in ended.out) == (2, True)


def test_claims_about_paths_have_a_checker_of_their_own(tmp_path: Path) -> None:
    files = files_of(archive_of(Case("star:4 scatter replicated-balanced-tree messages=3").run))
    path = write(tmp_path, files)
    assert judge(path, checker=PATH_CHECKER).status == 0
    summary = json.loads(files["summary.json"])
    name = json.loads(files["run.json"])["structure"][0]
    summary[name] += 1
    changed = files | {"summary.json": json.dumps(summary).encode()}
    assert judge(write(tmp_path, changed), checker=PATH_CHECKER).status == 2  # the digest
    from hashlib import sha256

    manifest = json.loads(files["manifest.json"])
    manifest["sha256"]["summary.json"] = sha256(changed["summary.json"]).hexdigest()
    ended = judge(write(tmp_path, changed | {"manifest.json": json.dumps(manifest).encode()}), checker=PATH_CHECKER)
    assert (ended.status, f"{name} is {summary[name] - 1}, not {summary[name]}" in ended.out) == (1, True)


def test_runs_under_the_timed_clock_are_not_judged(tmp_path: Path) -> None:
    ended = judge(write(tmp_path, files_of(archive_of(Case("hypercube:2 broadcast sbt clock=timed").run))))
    assert (ended.status, "not judged: a run under the timed clock" in ended.out) == (3, True)


def test_pack_writes_an_archive_of_a_stored_run(tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Case("star:3 broadcast greedy-tree").stored(tmp_path / "run")
    assert call("pack run run.zip").out == "run.zip\n"
    assert call("pack run other.zip --json").data == {"written": "other.zip"}
    assert (tmp_path / "run.zip").read_bytes() == (tmp_path / "other.zip").read_bytes()
    assert judge(tmp_path / "run.zip").status == 0
    refused = call("pack run missing/run.zip")
    assert (refused.status, refused.err.count("\n")) == (2, 1)
    (tmp_path / "run" / "journal.parquet").unlink()
    refused = call("pack run run.zip")
    assert (refused.status, "it cannot be packed: journal.parquet: no such file" in refused.err) == (2, True)


def test_runs_in_memory_are_packed_too(tmp_path: Path) -> None:
    run = tb.network("star:3").broadcast("greedy-tree", step_limit=1)
    assert judge(run.pack(tmp_path / "a.zip")).out.endswith("right: undecided\n")
    import pickle

    with pytest.raises(ScenarioError, match="comes from a pickle"):
        pickle.loads(pickle.dumps(run)).pack(tmp_path / "b.zip")
