"""Files of unknown origin: devices, pipes, gigabytes and deep nesting end in one message of every command."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator.cli.app import main
from coordinator.stored.reading import LEVELS, TEXT_BYTES, read_bytes, read_json, read_toml
from tests.support import run_scenario

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


@pytest.mark.parametrize("make", [a_pipe, too_large, too_deep])
@pytest.mark.parametrize("name", ["summary.json", "scenario.toml", "faults.json"])
def test_stored_runs_with_a_hostile_file_cost_no_traceback(
    make: Callable[[Path], None], name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = tmp_path / "whole"
    run_scenario(
        whole, topology="hypercube:3", collective="broadcast", algorithm="sbt", driver="memory", fault=["crash:001@1"]
    )
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    for file in whole.iterdir():
        if file.name != name and file.is_file():
            (hostile / file.name).write_bytes(file.read_bytes())
    make(hostile / name)
    for command in (["report", str(hostile)], ["compare", str(whole), str(hostile)], ["verify", str(hostile)]):
        assert main(command) in (0, 1, 2, 3)
        output = capsys.readouterr()
        assert "Traceback" not in output.out + output.err


def test_the_null_device_is_an_empty_scenario() -> None:
    """Compose mounts it where the user names no scenario."""
    assert read_bytes(Path(os.devnull)) == b""
    assert read_toml(Path(os.devnull)) == {}
    assert main(["plan", os.devnull, *SCENARIO, "broadcast", "--algorithm", "flood"]) == 0
