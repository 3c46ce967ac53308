"""Everything that is stored names its version, and other minor versions refuse to read it."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import coordinator as tb
from coordinator.history.run_index import read_runs
from coordinator.history.stored.reading import RefusedError
from coordinator.history.stored.version import is_readable, minor_version, require_version, version_of
from coordinator.reports.index_page import index_page
from emunode import __version__
from emunode.errors import ScenarioError
from tests.helpers.annex_support import needs_every_annex
from tests.helpers.command_line import Call

pytestmark = needs_every_annex  # every kind of stored thing

MAJOR, MINOR, PATCH = (int(number) for number in __version__.split("."))
LATER = f"{MAJOR}.{MINOR + 1}.0"
OF_THIS_MINOR = f"{MAJOR}.{MINOR}.{PATCH + 1}"
FORMER: dict[str, object] = {"software": "0.2.0"}
"""How campaigns, sweeps and certificates of version 0.2 name it."""
MAKE = {
    "run": "run --topology star:3 --collective broadcast --algorithm edt --driver memory --out",
    "campaign": "campaign --topology star:3 --algorithm edt --faults nodes=1 --trials 6 --workers 1 --engine messages --out",
    "sweep": "sweep --topology star:3 --algorithm edt --out",
    "certificate": "certify --topology star:3 --algorithm edt --redundancy 2 --faults nodes=1 --out",
}
NAMES = {"run": "run", "campaign": "campaign", "sweep": "sweep", "certificate": "certificate.json"}
FILES = {"run": "summary.json", "campaign": "campaign.toml", "sweep": "sweep.toml", "certificate": ""}
"""The file of each stored thing that names its version; a certificate is a file itself."""
READ = {
    "run": (
        "report {0}", "verify {0}", "compare {0} {1}", "compare {1} {0}", "export {0} --goal run.goal",
        "export {0} --graphml run.graphml", "export {0} --trace run.json",
    ),
    "campaign": ("verify {0}", "campaign --resume {0}", MAKE["campaign"] + " {0}", "export {0} --pgfplots curves.tex"),
    "sweep": ("verify {0}", MAKE["sweep"] + " {0}"),
    "certificate": ("verify {0}",),
}  # fmt: skip
"""By kind, the commands that read a stored thing; {1} is an unchanged one."""


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One thing of each kind, as this version stores it."""
    from coordinator.cli.invoke import main

    folder = tmp_path_factory.mktemp("stored")
    for kind, line in MAKE.items():
        assert main([*line.split(), str(folder / NAMES[kind])]) == 0, kind
    return {kind: folder / name for kind, name in NAMES.items()}


@pytest.fixture
def copy(stored: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    """A copy of a stored thing for changes."""

    def make(kind: str) -> Path:
        found = stored[kind]
        return Path((shutil.copytree if found.is_dir() else shutil.copy)(found, tmp_path / NAMES[kind]))

    return make


def file_of(kind: str, path: Path) -> Path:
    return path / FILES[kind] if FILES[kind] else path


def rewrite(kind: str, path: Path, version: object, **more: object) -> None:
    """Name another version in a stored thing, or none, and add further keys."""
    file = file_of(kind, path)
    if file.suffix == ".toml":
        line = re.escape(f'version = "{__version__}"\n')
        named = {**({} if version is None else {"version": version}), **more}
        lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in named.items())
        text, count = re.subn(f"^{line}", lambda _: lines, file.read_text(), flags=re.MULTILINE)
        assert count == 1
        file.write_text(text)
    else:
        values = json.loads(file.read_text())
        assert values.pop("version") == __version__
        file.write_text(json.dumps({**values, **({} if version is None else {"version": version}), **more}))


def contents(path: Path) -> dict[str, bytes]:
    files = path.rglob("*") if path.is_dir() else [path]
    return {str(file.relative_to(path)): file.read_bytes() for file in files if file.is_file()}


# --- the version itself ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["0.2.0", "0.3.17", "10.0.0", "9999.9999.9999"])
def test_a_version_is_three_numbers(version: str) -> None:
    assert version_of({"version": version}) == version
    assert version.startswith(f"{minor_version(version)}.")


ABSURD: tuple[object, ...] = (
    *(
        "",
        "0.3",
        "0.3.0.0",
        "v0.3.0",
        "0.3.0rc1",
        "00.3.0",
        "0.3.0\n",
        "\u0660.\u0663.\u0660",
        "99999.0.0",
        "9" * 10_000,
    ),
    *("a.b.c", "../0.3.0", 0.3, 3, True, [], {}),
)


@pytest.mark.parametrize("version", ABSURD, ids=lambda version: repr(version)[:20])
def test_an_absurd_version_is_refused_in_one_short_line(version: object) -> None:
    with pytest.raises(RefusedError, match=r"^version is .*, expected three numbers such as \d+\.\d+\.\d+$") as refused:
        version_of({"version": version})
    assert len(str(refused.value)) < 110
    assert "\n" not in str(refused.value)


def test_only_the_first_two_numbers_decide() -> None:
    assert is_readable(__version__)
    assert is_readable(OF_THIS_MINOR)
    assert not any(map(is_readable, (LATER, f"{MAJOR + 1}.{MINOR}.{PATCH}", "0.2.0", "0.2")))


def test_the_refusal_names_the_version_that_reads_it() -> None:
    require_version({"version": __version__}, "run", Path("runs/x"))
    with pytest.raises(ScenarioError) as refused:
        require_version({"version": "12.7.3"}, "run", Path("runs/x"))
    reason = "version 12.7.3 wrote it; read it with collective-testbench 12.7"
    assert str(refused.value) == f"invalid run 'runs/x': {reason}"
    for values in ({}, {"version": None}, FORMER, {"version": 1, **FORMER}):
        with pytest.raises(
            ScenarioError, match=r"version 0\.2 or earlier wrote it; read it with collective-testbench 0\.2$"
        ):
            require_version(values, "run", Path("runs/x"))


# --- what is stored --------------------------------------------------------------------------------------------------


def test_everything_that_is_stored_names_its_version(stored: dict[str, Path]) -> None:
    for kind, path in stored.items():
        text = file_of(kind, path).read_text()
        assert text.count(__version__) == 1, kind
        assert re.search(rf'\bversion"?\W+"{re.escape(__version__)}"', text, re.MULTILINE), kind
    assert tb.Run.read(stored["run"]).summary["version"] == __version__


OTHERS: dict[str, tuple[object, dict[str, object]]] = {
    "none": (None, {}), "0.2": (None, FORMER), "0.1": ("0.1.0", {}), "later": (LATER, {}), "99": ("99.0.0", {}),
}  # fmt: skip


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("kind", READ)
def test_every_command_refuses_another_minor_version(
    kind: str, other: str, copy: Callable[[str], Path], stored: dict[str, Path], call: Call
) -> None:
    path = copy(kind)
    version, more = OTHERS[other]
    if kind == "certificate" and more:
        version = 1  # the number of the format
    rewrite(kind, path, version, **more)
    before = contents(path)
    reader = ".".join(version.split(".")[:2]) if isinstance(version, str) else "0.2"
    wrote = version if isinstance(version, str) else "0.2 or earlier"
    expected = (
        f"coordinator: invalid {kind} '{path}': version {wrote} wrote it; read it with collective-testbench {reader}\n"
    )
    for command in READ[kind]:
        ended = call(command.format(path, stored[kind]))
        assert (ended.status, ended.out, ended.err) == (2, "", expected), command
    with pytest.raises(tb.ScenarioError, match="wrote it; read it with collective-testbench"):
        tb.verify(path)
    if kind == "run":
        with pytest.raises(tb.ScenarioError, match="wrote it; read it with collective-testbench"):
            tb.Run.read(path)
    assert contents(path) == before


def test_a_sweep_without_its_arguments_is_of_an_early_version(copy: Callable[[str], Path], call: Call) -> None:
    folder = copy("sweep")
    (folder / "sweep.toml").unlink()
    for command in READ["sweep"]:
        ended = call(command.format(folder))
        assert (ended.status, ended.out) == (2, "")
        assert "version 0.2 or earlier wrote it" in ended.err
    # A kill may leave a folder without any run, and without its arguments.
    (folder / "rows.jsonl").write_text("")
    assert call(MAKE["sweep"], folder).status == 0
    assert call("verify", folder).status == 0


@pytest.mark.parametrize("kind", READ)
def test_every_command_reads_another_patch_version(
    kind: str, copy: Callable[[str], Path], stored: dict[str, Path], call: Call
) -> None:
    path = copy(kind)
    rewrite(kind, path, OF_THIS_MINOR)
    for command in READ[kind]:
        assert call(command.format(path, stored[kind])).status == 0, command


@pytest.mark.parametrize("version", ["new", 7, "9" * 5_000], ids=("word", "number", "long"))
@pytest.mark.parametrize("kind", READ)
def test_a_forged_version_is_named(
    kind: str, version: object, copy: Callable[[str], Path], stored: dict[str, Path], call: Call
) -> None:
    path = copy(kind)
    rewrite(kind, path, version)
    before = contents(path)
    for command in READ[kind]:
        ended = call(command.format(path, stored[kind]))
        verifies = command.startswith("verify")
        assert ended.status == (1 if verifies else 2), command
        assert "version is " in (ended.out if verifies else ended.err)
        assert "expected three numbers such as" in (ended.out if verifies else ended.err)
        assert len(ended.err.splitlines()) == (0 if verifies else 1)
    assert contents(path) == before


def test_runs_of_other_versions_are_listed_with_their_version(
    stored: dict[str, Path], call: Call, tmp_path: Path
) -> None:
    versions: dict[str, Any] = {"mine": __version__, "later": LATER, "early": None, "forged": "new"}
    for name, version in versions.items():
        shutil.copytree(stored["run"], tmp_path / "runs" / name)
        rewrite("run", tmp_path / "runs" / name, version)
    shown = call("list runs", tmp_path / "runs").out
    outcomes = {"mine": "holds", "later": f"version {minor_version(LATER)}", "early": "version 0.2"}
    for name, outcome in outcomes.items():
        assert re.search(rf"^ ?{name} .* {re.escape(outcome)} *$", shown, re.MULTILINE), name
    assert "forged" not in shown
    named = {Path(each["path"]).name: each["version"] for each in call("list runs --json", tmp_path / "runs").data}
    assert named == {"mine": __version__, "later": LATER, "early": "0.2"}
    page = index_page(read_runs(tmp_path / "runs"))
    assert re.findall(r'<td class="state.*</span> (.*)</td>', page).count("holds") == 1
    assert all(f"</span> {outcome}</td>" in page for outcome in outcomes.values())
