"""The work of `coordinator run`: the files that flags ask for, and options that do not go together."""

from tests.helpers.command_line import Call

FLOOD = "run --topology star:3 --collective broadcast --algorithm flood --driver memory"


def test_a_quiet_run_shows_its_result_alone(call: Call) -> None:
    quiet, usual = call(f"{FLOOD} --quiet --out one"), call(f"{FLOOD} --out other")
    assert (quiet.status, quiet.err) == (0, "")
    assert quiet.out.splitlines()[:2] == usual.out.splitlines()[:2]
