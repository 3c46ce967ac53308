"""`coordinator run --from RUN@STEP`: branches, and flags that none may have."""

import json
from pathlib import Path

import pytest

import coordinator as tb
from coordinator.cli.branch import place_from
from coordinator.execution.branch import BRANCH_HASH, BRANCH_OF, BRANCH_STEP
from emunode.errors import ScenarioError
from tests.helpers.branch_support import EARLY, stored_origin, up_to
from tests.helpers.command_line import Call


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a run with a fault early and a fault late."""
    return stored_origin(tmp_path_factory.mktemp("runs"))


@pytest.mark.parametrize("driver", ["memory", "local"])
def test_the_command_runs_a_branch(origin: Path, call: Call, driver: str) -> None:
    out = origin.parent / driver
    done = call(f"run --from {origin}@3 --fault crash:4231@4 --driver {driver} --out", out)
    assert "continues the run origin after step 3 with other faults" in done.out
    summary = json.loads((out / "summary.json").read_text())
    theirs = json.loads((origin / "summary.json").read_text())
    assert (summary[BRANCH_OF], summary[BRANCH_STEP], summary[BRANCH_HASH]) == ("origin", 3, theirs["journal_hash"])
    assert summary["faults"] == [EARLY, "crash:4231@4"]
    assert up_to(tb.Run.read(out).journal, 3).equals(up_to(tb.Run.read(origin).journal, 3))
    assert call("verify", out).out.startswith(f"{out}: verified: ")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--from {0}", "expected RUN@STEP"),
        ("--from {0}@x", "expected RUN@STEP"),
        ("--from {0}@2 --seed 3", "a branch has the options of its run"),
        ("{0}/scenario.toml --from {0}@2", "leave it out"),
        ("--from nowhere@2", "no such run"),
    ],
)
def test_wrong_flags_of_a_branch_are_refused(origin: Path, call: Call, flags: str, words: str) -> None:
    assert words in call(f"run {flags.format(origin)}").err


def test_a_place_is_a_run_and_a_step() -> None:
    assert place_from("runs/a@b/c@12") == (Path("runs/a@b/c"), 12)


@pytest.mark.parametrize(
    "text", ["", "runs/a", "@2", "runs/a@", "runs/a@-1", "runs/a@x", "runs/a@12345678", "runs/a@²"]
)
def test_other_places_are_refused(text: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        place_from(text)
    assert (caught.value.field, caught.value.value) == ("from", text)
