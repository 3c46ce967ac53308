"""`coordinator manifest`: secrets, and files of this machine."""

from pathlib import Path

from tests.annexes.clusters.support import RUN, documents
from tests.helpers.command_line import Call


def test_two_manifests_have_different_secrets(call: Call) -> None:
    one, other = (documents(call(RUN).out)["Secret", "testbench-token"]["stringData"]["token"] for _ in range(2))
    assert one != other
    assert len(one) == 64


def test_a_refused_secret_is_not_repeated(call: Call) -> None:
    assert "xyz" not in call(f"{RUN} --token xyz").err


def test_a_scenario_with_files_of_this_machine_is_refused(call: Call, tmp_path: Path) -> None:
    (tmp_path / "net.edges").write_text("a b\nb c\n")
    ended = call(f"manifest kubernetes --topology file:{tmp_path}/net.edges --collective broadcast --algorithm flood")
    assert ended.status == 2
    assert "pods have only the image" in ended.err
