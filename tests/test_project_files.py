"""Files for contributors: workflow, hooks, editor settings, citation, and what they repeat from one another."""

import re
import shlex
import subprocess
import tomllib
from configparser import ConfigParser
from fnmatch import fnmatch
from typing import Any, Final

import pytest
import yaml

from emunode import __version__
from tests.helpers.command_line import ROOT

PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BYTES: Final = ("tests/corpus/", "tests/golden/")
TEXT: Final = {".cff", ".css", ".js", ".md", ".py", ".rst", ".sh", ".toml", ".yaml", ""}


def read_yaml(name: str) -> Any:  # each file has its own structure
    return yaml.safe_load((ROOT / name).read_text())


def tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this source tree is under no version control")
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


# --- versions of Python ----------------------------------------------------------------------------------------------


def test_a_workflow_tries_a_fresh_machine_every_week() -> None:
    workflow = read_yaml(".github/workflows/fresh.yaml")
    (schedule,) = workflow[True]["schedule"]  # YAML 1.1 reads `on` as true
    assert re.fullmatch(r"\d+ \d+ \* \* [0-6]", schedule["cron"])
    (job,) = workflow["jobs"].values()
    assert shlex.split(job["steps"][-1]["run"]) == ["sudo", "scripts/test-fresh", "-q", "-rs"]


def test_the_workflow_runs_everything_with_each_supported_python() -> None:
    (job,) = read_yaml(".github/workflows/checks.yaml")["jobs"].values()
    classified = [
        found[1]
        for classifier in PROJECT["classifiers"]
        if (found := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", classifier))
    ]
    assert job["strategy"]["matrix"]["python"] == classified
    assert PROJECT["requires-python"] == f">={classified[0]}"
    (command,) = (step["run"] for step in job["steps"] if "run" in step)
    assert shlex.split(command)[-1] == ".ci/run"
    for version in classified:
        assert f"python{version}" in (ROOT / "scripts" / "common.sh").read_text()


# --- hooks and templates ---------------------------------------------------------------------------------------------


def test_hooks_run_the_tools_of_the_project_and_fetch_nothing() -> None:
    (repository,) = read_yaml(".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    for hook in repository["hooks"]:
        program, *checks = shlex.split(hook["entry"])
        assert hook["language"] == "system"
        assert (ROOT / program).is_file()
        assert all(f"[{check}]=" in (ROOT / program).read_text() for check in checks)


def test_an_unknown_check_is_refused() -> None:
    done = subprocess.run(
        [ROOT / "scripts" / "check", "spelling"], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "scripts/check: unknown check 'spelling': expected lint, format, types, imports or news\n"


@pytest.mark.parametrize("form", ["bug", "proposal"])
def test_issue_forms_have_unique_fields_with_labels(form: str) -> None:
    template = read_yaml(f".github/ISSUE_TEMPLATE/{form}.yaml")
    assert {"name", "description", "body"} <= template.keys()
    identifiers = [field["id"] for field in template["body"]]
    assert len(identifiers) == len(set(identifiers))
    for field in template["body"]:
        assert field["type"] in {"textarea", "input", "dropdown", "checkboxes"}
        assert field["attributes"]["label"]
    assert any(field.get("validations", {}).get("required") for field in template["body"])


# --- citation --------------------------------------------------------------------------------------------------------

REQUIRED: Final = {"cff-version", "message", "title", "authors"}
"""Keys that the Citation File Format 1.2.0 requires."""
KNOWN: Final = REQUIRED | {"abstract", "date-released", "keywords", "license", "type", "version"}
"""The keys used here, of the format's."""


def test_the_citation_file_keeps_to_its_format() -> None:
    citation = read_yaml("CITATION.cff")
    assert citation.keys() >= REQUIRED
    assert citation.keys() <= KNOWN
    assert citation["cff-version"] == "1.2.0"
    assert citation["type"] in {"software", "dataset"}
    assert citation["authors"]
    for author in citation["authors"]:
        assert author.keys() & {"name", "family-names"}
    assert len(citation["keywords"]) == len(set(citation["keywords"]))
    assert all(isinstance(citation[key], str) for key in ("message", "title", "abstract", "version", "license"))


def test_the_citation_file_agrees_with_the_project() -> None:
    citation = read_yaml("CITATION.cff")
    released = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert (citation["version"], citation["date-released"].isoformat()) == released[0]
    assert citation["version"] == __version__
    assert citation["license"] == PROJECT["license"]
    assert citation["keywords"] == PROJECT["keywords"]
    (holder,) = re.findall(r"^Copyright \(c\) \d+ (.+)$", (ROOT / "LICENSE").read_text(), re.MULTILINE)
    assert [author["name"] for author in citation["authors"]] == [holder]


# --- what pages name ---

ELSEWHERE: Final = {
    "coordinator/cli/count.py", "tests/coordinator/cli/test_count.py",  # files that a reader adds
    "emunode/algorithms/hypercube/gray_path.py",
    "examples/allstack/algos", "examples/system/custom_collectives", "examples/workload", "examples/xml",  # elsewhere
}  # fmt: skip
"""Paths on pages that do not exist in this project."""


def test_every_path_on_a_page_exists() -> None:
    pages = [name for name in tracked() if name.endswith(".md") and name != "CHANGELOG.md"]
    path = re.compile(r"`((?:coordinator|emunode|compose|docs|examples|scripts|tests)/[\w./-]+)")
    named = {(page, found) for page in pages for found in path.findall((ROOT / page).read_text())}
    assert len(named) > 50
    assert [where for where in sorted(named) if where[1] not in ELSEWHERE and not (ROOT / where[1]).exists()] == []


# --- editor settings -------------------------------------------------------------------------------------------------


def settings() -> dict[str, dict[str, str]]:
    """Read the sections of .editorconfig."""
    parser = ConfigParser()
    parser.read_string("[top]\n" + (ROOT / ".editorconfig").read_text())
    return {name: dict(parser[name]) for name in parser.sections()}


def test_editors_leave_bytes_alone_that_tests_compare() -> None:
    found = settings()
    assert found["top"]["root"] == "true"
    exempt = found["tests/{corpus,golden}/**"]
    assert exempt.keys() == found["*"].keys()
    assert set(exempt.values()) == {"unset"}


def test_tracked_text_keeps_to_the_editor_settings() -> None:
    broken = []
    for name in tracked():
        path = ROOT / name
        if path.suffix not in TEXT or name.startswith(BYTES):
            continue
        content = path.read_bytes()
        if content and not content.endswith(b"\n"):
            broken.append(f"{name}: no end of the last line")
        if b"\r" in content:
            broken.append(f"{name}: carriage return")
        if re.search(rb"[ \t]$", content, re.MULTILINE) and not fnmatch(name, "*.md"):
            broken.append(f"{name}: space at the end of a line")
        if path.suffix == ".py" and re.search(rb"^ *\t", content, re.MULTILINE):
            broken.append(f"{name}: indented by a tab")
    assert broken == []


# --- size ------------------------------------------------------------------------------------------------------------


def test_no_download_is_tracked() -> None:
    """Keep archives and large files out of every clone."""
    for name in tracked():
        assert not name.endswith((".whl", ".tar.gz", ".zip")), name
        assert (ROOT / name).stat().st_size < 1_000_000, name


def test_the_top_level_holds_only_named_folders_and_files() -> None:
    code = {"coordinator", "emunode", "compose", "tests", "scripts", "pyproject.toml"}
    beside = {
        "README.md",
        "CHANGELOG.md",
        "LICENSE",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "CITATION.cff",
        "requirements.lock",
    }
    folders = {"docs", "examples", "changes"}
    top = {name.split("/")[0] for name in tracked()}
    assert {name for name in top if not name.startswith(".")} <= code | beside | folders
