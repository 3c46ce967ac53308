"""Files of unknown origin: devices, pipes, gigabytes and deep nesting end in one message of every command."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator.cli.invoke import main
from coordinator.history.stored.reading import LEVELS, TEXT_BYTES, read_bytes, read_json, read_toml
from tests.helpers.command_line import Call

SCENARIO = ["--topology", "hypercube:3", "--driver", "memory", "--collective"]


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def too_large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(TEXT_BYTES + 1)


def too_deep(path: Path) -> None:
    opened, closed = ("[" * 100_000, "]" * 100_000)
    path.write_text(f"x = {opened}{closed}" if path.suffix == ".toml" else f"{opened}{closed}")


def a_little_too_deep(path: Path) -> None:
    opened, closed = ("[" * (LEVELS + 1), "]" * (LEVELS + 1))
    path.write_text(f"x = {opened}{closed}" if path.suffix == ".toml" else f"{opened}{closed}")


HOSTILE: dict[Callable[[Path], None], str] = {
    a_pipe: "it is not a regular file",
    a_device: "it is not a regular file",
    too_large: f"it has more than {TEXT_BYTES} bytes",
    too_deep: f"it has more than {LEVELS} levels",
    a_little_too_deep: f"it has more than {LEVELS} levels",
}


@pytest.mark.parametrize("make", HOSTILE)
@pytest.mark.parametrize(("name", "read"), [("file.json", read_json), ("file.toml", read_toml)])
def test_hostile_files_are_refused(
    make: Callable[[Path], None], name: str, read: Callable[[Path], object], tmp_path: Path
) -> None:
    make(tmp_path / name)
    with pytest.raises(ValueError, match=HOSTILE[make]):
        read(tmp_path / name)


def test_files_up_to_the_limits_are_read(tmp_path: Path) -> None:
    file = tmp_path / "file.json"
    nested = "[" * LEVELS + "]" * LEVELS
    file.write_text(nested)
    assert read_json(file) == json.loads(nested)
    assert read_bytes(file, len(nested)) == nested.encode()
    with pytest.raises(ValueError, match="more than 63 bytes"):
        read_bytes(file, len(nested) - 1)


@pytest.mark.parametrize("make", HOSTILE)
def test_commands_refuse_a_hostile_scenario(
    make: Callable[[Path], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path / "scenario.toml")
    for command in ("run", "plan"):
        assert main([command, str(tmp_path / "scenario.toml")]) == 2
        assert HOSTILE[make] in capsys.readouterr().err


@pytest.mark.parametrize("make", [a_pipe, a_device])
def test_a_hostile_permutation_is_refused(
    make: Callable[[Path], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path / "moves.csv")
    arguments = ["unicast", "--algorithm", "minimal", "--permutation", str(tmp_path / "moves.csv")]
    assert main(["plan", *SCENARIO, *arguments]) == 2
    assert HOSTILE[make] in capsys.readouterr().err


GROWING = "it has more than"


@pytest.mark.parametrize(
    ("line", "name", "size", "words"),
    [
        ("check {file}", "mine.py", 2**26, GROWING),
        ("check {file} --topology star:3", "trees.csv", 2**30, GROWING),
        ("graph {file}", "net.graphml", 2**28 + 1, "it has more than 268435456 bytes"),
        ("plan --plugin {file}", "mine.py", 2**20 + 1, "expected a file of 1 to 1,048,576 bytes"),
        ("certify {file}", "counterexample.toml", 2**24 + 1, "it has more than 16777216 bytes"),
        ("campaign {file}", "campaign.toml", 2**24 + 1, "it has more than 16777216 bytes"),
        ("plan --topology hypercube:3 --collective unicast --algorithm minimal --permutation {file}", "moves.csv", 2**40,
         GROWING),
        ("serve --topology star:3 --collective broadcast --algorithm edt --token-file {file}", "token", 4097,
         "it has more than 4096 bytes"),
        ("run --topology star:3 --collective broadcast --algorithm program --program {file}", "node", 2**28 + 1,
         "has more than 268,435,456 bytes"),
    ],
)  # fmt: skip
def test_every_file_has_a_limit_that_the_message_names(
    line: str, name: str, size: int, words: str, call: Call, tmp_path: Path
) -> None:
    file = tmp_path / name
    with file.open("wb") as hollow:
        hollow.truncate(size)
    file.chmod(0o755)
    ended = call(line.format(file=file))
    assert (ended.status, ended.out) == (2, "")
    assert words in ended.err


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("check {file}", "mine.py"),
        ("check {file} --topology star:3", "trees.csv"),
        ("graph {file}", "net.graphml"),
        ("plan --plugin {file}", "mine.py"),
        ("certify {file}", "counterexample.toml"),
        ("serve --topology star:3 --collective broadcast --algorithm edt --token-file {file}", "token"),
        ("verify {file}", "certificate.json"),
        ("run --topology star:3 --collective broadcast --algorithm program --program {file}", "node"),
    ],
)
@pytest.mark.parametrize("make", [a_pipe, a_device])
def test_every_file_that_a_command_reads_is_a_regular_one(
    line: str, name: str, make: Callable[[Path], None], call: Call, tmp_path: Path
) -> None:
    make(tmp_path / name)
    ended = call(line.format(file=tmp_path / name))
    assert ended.status == 2
    assert len(ended.err.splitlines()) == 1


def test_the_null_device_is_an_empty_scenario() -> None:
    """Compose mounts it where the user names no scenario."""
    assert read_bytes(Path(os.devnull)) == b""
    assert read_toml(Path(os.devnull)) == {}
    assert main(["plan", os.devnull, *SCENARIO, "broadcast", "--algorithm", "flood"]) == 0
