"""Reading of reports: whatever a file holds, it is read or refused with its name."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.annexes.mpi.records import JobReport, MalformedReport, read_job_report
from coordinator.annexes.mpi.rules.base import PairCount

HEADING = {"nonce": "n", "rank": 0, "ranks": 1, "library": "L", "names": {"barrier": {"linear": 1}}, "dynamic": 1}
CALIBRATION = {"calibration": [[2], [12]]}
BEGIN = {"call": 0}
CALL = {"call": 0, "messages": [0], "bytes": [0], "result": "ab", "begin": [1, 2]}
END = {"end": "n"}


def report_of(folder: Path, *lines: object) -> JobReport:
    """Read a file of one rank with these lines."""
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    (folder / "rank-0.jsonl").write_text("".join(f"{text}\n" for text in texts))
    return read_job_report(folder, 1, "n")


def test_a_complete_report_has_all_calls(tmp_path: Path) -> None:
    report = report_of(tmp_path, HEADING, CALIBRATION, BEGIN, CALL, END)
    assert (report.ended, report.begun, report.problem, report.library) == (True, 0, "", "L")
    assert report.names == {"barrier": ["linear"]}
    (result,) = report.calls[0].results
    assert result is not None
    assert (result.digest, result.begin, report.calls[0].counts) == ("ab", (1, 2), {})


def test_pairs_are_collected_from_all_senders(tmp_path: Path) -> None:
    for rank, row in enumerate(([0, 3], [1, 0])):
        calibration = [[2 * (target != rank) for target in range(2)], [12 * (target != rank) for target in range(2)]]
        lines = [
            {**HEADING, "rank": rank, "ranks": 2}, {"calibration": calibration}, BEGIN,
            {"call": 0, "messages": row, "bytes": [4 * count for count in row], "result": None},
        ]  # fmt: skip
        (tmp_path / f"rank-{rank}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    report = read_job_report(tmp_path, 2, "n")
    assert report.calls[0].counts == {(0, 1): PairCount(3, 12), (1, 0): PairCount(1, 4)}
    assert not report.ended


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    report_of(tmp_path, HEADING, CALIBRATION, BEGIN)
    with (tmp_path / "rank-0.jsonl").open("a") as file:
        file.write('{"call": 0, "messages"')
    report = read_job_report(tmp_path, 1, "n")
    assert (report.begun, report.calls, report.ended) == (0, {}, False)


def test_a_missing_file_is_a_problem(tmp_path: Path) -> None:
    assert read_job_report(tmp_path, 1, "n").problem == "rank 0 reported nothing"


@pytest.mark.parametrize(
    "lines",
    [
        (["a"],),
        ({**HEADING, "nonce": "m"},),
        ({**HEADING, "rank": 1},),
        ({**HEADING, "library": 5},),
        ({**HEADING, "names": {"barrier": 5}},),
        (HEADING, {"calibration": [[2]]}),
        (HEADING, CALIBRATION, CALL),
        (HEADING, CALIBRATION, BEGIN, {**CALL, "bytes": [2**50]}),
        (HEADING, CALIBRATION, BEGIN, {**CALL, "bytes": [True]}),
        (HEADING, CALIBRATION, BEGIN, {**CALL, "result": 5}),
        (HEADING, CALIBRATION, BEGIN, {**CALL, "begin": [[]]}),
        (HEADING, CALIBRATION, BEGIN, {"call": 0, "error": 5}),
        (HEADING, CALIBRATION, BEGIN, CALL, CALL),
        (HEADING, CALIBRATION, BEGIN, {"call": 2}),
        (HEADING, CALIBRATION, END, BEGIN),
        (HEADING, CALIBRATION, "{" * 50),
    ],
)
def test_lines_that_the_program_never_writes_are_refused(tmp_path: Path, lines: tuple[object, ...]) -> None:
    with pytest.raises(MalformedReport, match=r"rank-0.jsonl"):
        report_of(tmp_path, *lines)


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*HEADING, *CALL]), inner, max_size=4),
    max_leaves=8,
)


@given(lines=st.lists(ANY | st.sampled_from([HEADING, CALIBRATION, BEGIN, CALL, END]), max_size=6))
def test_no_content_raises_anything_else(tmp_path_factory: pytest.TempPathFactory, lines: list[object]) -> None:
    folder = tmp_path_factory.mktemp("report")
    try:
        report = report_of(folder, *[json.dumps(line) for line in lines])
    except MalformedReport:
        return
    assert report.problem or report.ended in (True, False)
