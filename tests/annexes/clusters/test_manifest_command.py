"""`coordinator manifest`: secrets, and flags that are refused."""

from pathlib import Path

import pytest

from tests.annexes.clusters.support import KINDS, RUN, SCENARIO, documents
from tests.helpers.command_line import Call


def test_two_manifests_have_different_secrets(call: Call) -> None:
    one, other = (documents(call(RUN).out)["Secret", "testbench-token"]["stringData"]["token"] for _ in range(2))
    assert one != other
    assert len(one) == 64


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--job-name Bad_Name", "expected lower-case letters"),
        (f"--job-name {'a' * 43}", "at most 42"),
        ("--namespace Lab", "expected lower-case letters"),
        ("--token xyz", "expected 32 to 128 hexadecimal digits"),
        ("--source 99", "source"),
    ],
)
def test_bad_flags_are_refused(flags: str, words: str, call: Call) -> None:
    ended = call(f"{RUN} {flags}")
    assert ended.status == 2
    assert words in ended.err
    assert "xyz" not in ended.err


def test_a_scenario_with_files_of_this_machine_is_refused(call: Call, tmp_path: Path) -> None:
    (tmp_path / "net.edges").write_text("a b\nb c\n")
    ended = call(f"manifest kubernetes --topology file:{tmp_path}/net.edges --collective broadcast --algorithm flood")
    assert ended.status == 2
    assert "pods have only the image" in ended.err


@pytest.mark.parametrize("kind", KINDS)
def test_a_bad_name_is_refused(kind: str, call: Call) -> None:
    ended = call(f"manifest {kind} {SCENARIO} --job-name Bad_Name")
    assert ended.status == 2
    assert "expected lower-case letters" in ended.err
