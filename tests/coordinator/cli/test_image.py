"""`coordinator image` and `coordinator compose`: the files for containers."""

from pathlib import Path

import pytest

from coordinator.cli.image import container_files
from emunode.errors import RunError
from tests.helpers.command_line import ROOT, Call


def test_the_files_for_containers_are_found() -> None:
    assert container_files() == ROOT


def test_a_package_without_these_files_names_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.__file__", str(tmp_path / "coordinator" / "__init__.py"))
    with pytest.raises(RunError, match="has no files for containers; install the wheel, or use a source tree"):
        container_files()
    packaged = tmp_path / "coordinator" / "container"
    (packaged / "compose").mkdir(parents=True)
    (packaged / "compose" / "Dockerfile").touch()
    assert container_files() == packaged  # as a wheel has them


@pytest.mark.parametrize("name", ["compose.yaml", "stack.yaml", "Dockerfile"])
def test_a_file_is_printed_as_it_is(call: Call, name: str) -> None:
    content = (ROOT / "compose" / name).read_text()
    assert call(f"compose {name}").out == content
    assert call(f"compose {name} --json").data == {"file": name, "content": content}


def test_images_that_cannot_be_built_are_an_error(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The script of a package that fails, in place of the one that builds."""
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    monkeypatch.setattr("coordinator.cli.image.container_files", lambda: tmp_path)
    (scripts / "image").write_text('[[ "${1:-}" == --debian ]]\n')
    ended = call("image")
    assert (ended.status, ended.err) == (4, "coordinator: the images were not built\n")
    assert call("image --debian --json").data["images"][1].startswith("collective-testbench-host:")
