"""`coordinator verify`: findings of each run, and exit statuses."""

from pathlib import Path

import pytest

from coordinator.cli.verify import warn_unverified
from tests.helpers.command_line import Call
from tests.helpers.scenarios import Case
from tests.helpers.spoilt_files import summary


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Provide a stored run."""
    return Case("star:3 broadcast edt", "crash:213@2").stored(tmp_path / "run").path


def test_one_wrong_run_among_several_decides_the_status(run: Path, call: Call, tmp_path: Path) -> None:
    wrong = Case("star:3 broadcast flood").stored(tmp_path / "wrong").path
    summary(packets=99)(wrong)
    assert call("verify", run).status == 0
    ended = call("verify", run, wrong)
    assert ended.status == 1
    assert f"{run}: verified" in ended.out
    assert f"{wrong}: summary.json: packets is 99, and the journal says" in ended.out
    records = call("verify --json", wrong, run).data
    assert [(each["run"], each["verified"]) for each in records] == [(str(wrong), False), (str(run), True)]


def test_questions_about_a_run_are_answered(run: Path, call: Call) -> None:
    ended = call("verify", run, "--explain", "312@3", "--inevitable", "312")
    assert ended.status == 0
    verified, *answers = ended.out.splitlines()
    assert verified.startswith(f"{run}: verified")
    assert answers
    (record,) = call("verify --json", run, "--explain", "312@3", "--inevitable", "312").data
    assert [*record["explained"], *record["inevitable"]] == answers


def test_a_run_that_does_not_verify_is_named_once(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    warn_unverified([run, run])
    assert capsys.readouterr().err == ""
    summary(packets=99)(run)
    warn_unverified([run, run])
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"warning: {run}")
