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


GROWING = "it has more than"


FILES = {
    "check {file}": ("mine.py", 2**26, GROWING),
    "check {file} --topology star:3": ("trees.csv", 2**30, GROWING),
    "graph {file}": ("net.graphml", 2**28 + 1, "it has more than 268435456 bytes"),
    "run {file}": ("scenario.toml", 2**24 + 1, "it has more than 16777216 bytes"),
    "plan {file}": ("scenario.toml", 2**24 + 1, "it has more than 16777216 bytes"),
    "plan --plugin {file}": ("mine.py", 2**20 + 1, "expected a file of 1 to 1,048,576 bytes"),
    "certify {file}": ("counterexample.toml", 2**24 + 1, "it has more than 16777216 bytes"),
    "campaign {file}": ("campaign.toml", 2**24 + 1, "it has more than 16777216 bytes"),
    "plan hypercube:3 unicast minimal --permutation {file}": ("moves.csv", 2**40, GROWING),
    "serve star:3 broadcast edt --token-file {file}": ("token", 4097, "it has more than 4096 bytes"),
    "run star:3 broadcast program --program {file}": ("node", 2**28 + 1, "has more than 268,435,456 bytes"),
    "verify {file}": ("certificate.json", 2**26 + 1, "it has more than"),
}
"""By command: the name of a file that it reads, a size that is too large, and the words about it."""


def hollow(path: Path, size: int) -> None:
    """Make a file of this size that takes no room."""
    with path.open("wb") as file:
        file.truncate(size)
    path.chmod(0o755)


@pytest.mark.parametrize("line", FILES)
@pytest.mark.parametrize("make", [a_pipe, a_device, hollow])
def test_every_file_a_command_reads_is_bounded_and_regular(
    line: str, make: Callable[..., None], call: Call, tmp_path: Path
) -> None:
    name, size, words = FILES[line]
    make(tmp_path / name, *[size] * (make is hollow))
    ended = call(line.format(file=tmp_path / name))
    if (line, make) != ("verify {file}", hollow):  # a certificate that is too large is a finding
        assert (ended.status, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert words in ended.out + ended.err or make is not hollow


def test_the_null_device_is_an_empty_scenario() -> None:
    """Compose mounts it where the user names no scenario."""
    assert read_bytes(Path(os.devnull)) == b""
    assert read_toml(Path(os.devnull)) == {}
    assert main(["plan", os.devnull, *SCENARIO, "broadcast", "--algorithm", "flood"]) == 0
