"""`coordinator certify`: certificates and counterexamples."""

from pathlib import Path

from tests.helpers.command_line import Call

STAR = "--topology star:4 --algorithm edt --redundancy 2"


THREE = "--topology star:4 --algorithm edt --redundancy 3"


def test_a_certificate_counts_sets_orbits_and_symmetries(call: Call) -> None:
    line = f"certify {THREE} --faults 'nodes<=1' --method runs"
    certificate = call(f"{line} --json").data
    expected = {"verdict": "holds", "sets": 24, "orbits": 10, "symmetries": 3, "counterexample": None}
    assert {name: certificate[name] for name in expected} == expected
    printed = call(line)
    assert printed.status == 0
    assert "verdict: holds   24 sets of faults in 10 orbits, each one run" in printed.out
    assert "3 symmetries fix the source and keep the trees" in printed.out


def test_a_counterexample_is_saved_and_can_be_repeated(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "counterexample.toml"
    ended = call(f"certify {STAR} --message-bytes 1000 --faults 'links<=2' --json --out", file)
    assert (ended.status, ended.data["verdict"]) == (1, "violated")
    found = ended.data["counterexample"]
    assert found["repeat"] == f"coordinator certify {file}"
    assert len(found["smallest"]) == 2
    again = call(f"{found['repeat'].removeprefix('coordinator ')} --json")
    assert (again.status, again.data["verdict"]) == (1, "violated")
    printed = call("certify", file)
    assert printed.status == 1
    assert "healthy and not served" in printed.out
    assert call("run --json", file).data["delivery_ratio"] < 1
