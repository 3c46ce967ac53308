"""The run directory is created aside, renamed when complete, and removed when a run fails."""

import errno
import os
import re
from pathlib import Path
from resource import RLIMIT_AS, getrlimit, setrlimit

import pytest

from coordinator.cli.leftovers import leftovers
from coordinator.history.run_directory import TAIL_BYTES, RunDirectory
from emunode.errors import ScenarioError
from tests.helpers.process_support import ended_process

pytestmark = pytest.mark.usefixtures("empty_folder")


def open_directory(name: str, seed: int, out: Path | None) -> RunDirectory:
    """An open run directory."""
    directory = RunDirectory(name, seed, out)
    directory.make()
    return directory


def everything(folder: Path) -> set[str]:
    """Every path below a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def abandoned() -> list[Path]:
    """Everything that `clean` would remove."""
    return [path for each in leftovers() for path in each.files]


def test_run_appears_atomically() -> None:
    directory = open_directory("net-broadcast", 7, None)
    directory.write_text("scenario.toml", "seed = 7\n")
    directory.write_json("summary.json", {"steps": 3})
    assert not directory.final.exists()
    assert directory.path.parent == directory.final.parent
    directory.finish()
    assert not directory.path.exists()
    assert re.fullmatch(r"runs/net-broadcast/\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}Z-7", str(directory.final))
    assert (directory.final / "scenario.toml").read_text() == "seed = 7\n"
    assert (directory.final / "summary.json").read_text() == '{\n  "steps": 3\n}\n'
    directory.discard()
    assert everything(directory.final) == {"scenario.toml", "summary.json"}


def test_latest_points_at_the_newest(tmp_path: Path) -> None:
    for seed in (1, 2):
        directory = open_directory("net", seed, None)
        directory.write_text("seed", str(seed))
        directory.finish()
        latest = tmp_path / "runs" / "net" / "latest"
        assert latest.is_symlink()
        assert not latest.readlink().is_absolute()
        assert (latest / "seed").read_text() == str(seed)
    assert len(list((tmp_path / "runs" / "net").iterdir())) == 3


@pytest.mark.parametrize("exists", [False, True])
def test_out_is_the_exact_path_without_a_link(tmp_path: Path, exists: bool) -> None:
    out = tmp_path / "some" / "where"
    if exists:
        out.mkdir(parents=True)
    directory = open_directory("net", 0, Path("some/where"))
    directory.write_text("file", "x")
    directory.finish()
    assert everything(tmp_path) == {"some", "some/where", "some/where/file"}


@pytest.mark.parametrize("out", [None, Path("there"), Path("deep/down/there")])
def test_a_discarded_run_leaves_nothing(tmp_path: Path, out: Path | None) -> None:
    directory = open_directory("net", 0, out)
    directory.write_text("file", "x")
    directory.discard()
    assert everything(tmp_path) == set()


def test_a_discarded_run_leaves_others_alone() -> None:
    assert abandoned() == []
    kept, other, lost = (open_directory("net", seed, None) for seed in (1, 2, 3))
    kept.finish()
    lost.discard()
    assert other.path.is_dir()
    other.finish()
    kept.discard()
    assert kept.final.is_dir()
    assert other.final.is_dir()
    assert abandoned() == []


def test_a_discarded_run_leaves_an_empty_out_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    open_directory("net", 0, tmp_path / "mine").discard()
    assert everything(tmp_path) == {"mine"}


def refused(out: Path) -> ScenarioError:
    """How an `--out` is refused."""
    directory = RunDirectory("net", 0, out)
    with pytest.raises(ScenarioError) as caught:
        directory.make()
    directory.discard()
    assert (caught.value.field, caught.value.value) == ("out", str(out))
    return caught.value


LONG = "long" * 100
INVALID_OUT = {
    "full": "it exists and is not an empty directory",
    "file": "it exists and is not an empty directory",
    ".": "it exists and is not an empty directory",
    "/": "it exists and is not an empty directory",
    "file/below": "it cannot be created: Not a directory",
    "file/deep/below": "it cannot be created: Not a directory",
    LONG: "it cannot be created: File name too long",
    f"new/{LONG}": "it cannot be created: File name too long",
    "/proc/nowhere/run": "it cannot be created: ",
}


@pytest.mark.parametrize("out", INVALID_OUT)
def test_an_invalid_out_is_refused_and_nothing_is_removed(tmp_path: Path, out: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("years of work")
    (tmp_path / "file").write_text("x")
    before = everything(tmp_path)
    assert refused(Path(out)).allowed.startswith(INVALID_OUT[out])
    assert everything(tmp_path) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
@pytest.mark.parametrize("mode", [0o500, 0o000])
def test_out_must_be_permitted(tmp_path: Path, mode: int) -> None:
    (tmp_path / "locked").mkdir(mode=mode)
    assert refused(Path("locked/run")).allowed == "it cannot be created: Permission denied"


@pytest.mark.parametrize("method", ["exists", "mkdir"])
def test_operating_system_errors_are_reported(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, method, refuse)
    assert refused(Path("locked/run")).allowed == "it cannot be created: Permission denied"


def test_unfinished_latest_link_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = ended_process()
    monkeypatch.setattr(os, "getpid", lambda: gone)
    monkeypatch.setattr(Path, "replace", lambda *_: None)  # killed just before
    open_directory("net", 0, None).finish()
    (link,) = abandoned()
    assert link.is_symlink()


def test_only_the_end_of_a_long_log_is_read() -> None:
    directory = open_directory("net", 1, None)
    assert directory.log_tail() == ""
    directory.write_text("log.jsonl", "".join(f'{{"event": "number {number}"}}\n' for number in range(TAIL_BYTES)))
    last = [f'\n  {{"event": "number {TAIL_BYTES - back}"}}' for back in (3, 2, 1)]
    assert directory.log_tail(2) == "".join(last[1:])
    assert directory.log_tail() == "".join(last)


def test_endless_log_has_no_tail() -> None:
    """A log that is an endless device was once read until memory ran out."""
    directory = open_directory("net", 1, None)
    (directory.path / "log.jsonl").symlink_to("/dev/full")
    before = getrlimit(RLIMIT_AS)
    setrlimit(RLIMIT_AS, (2**34, before[1]))
    try:
        assert directory.log_tail() == ""
    finally:
        setrlimit(RLIMIT_AS, before)
