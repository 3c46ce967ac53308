"""The brief result of a run: the figures that matter, and the files."""

from pathlib import Path

from tests.helpers.command_line import Call

GREEDY = "--topology star:4 --collective broadcast --algorithm greedy-tree"


STAR = f"{GREEDY} --driver memory"


FLOOD = "--topology star:3 --collective broadcast --algorithm flood --driver memory"


def test_a_run_prints_a_brief_result_and_its_directory(call: Call, tmp_path: Path) -> None:
    ended = call(f"run {STAR} --source 1234")
    assert (ended.status, ended.err) == (0, "")
    (folder,) = (tmp_path / "runs" / "star-4-broadcast-greedy-tree").glob("2*")
    for part in (
        "permutation star graph S_4, 24 nodes, in memory",
        "broadcast from 1234 by greedy-tree, all-port, 1 message of 64 bytes",
        " deliveries  23 of 23  23                holds   ",
        " steps       4         4          >= 4   holds   ",
        " segments    23        23         >= 23  holds   ",
        "all 14 claims hold; --claims lists them",
        "23 packets; set up in ",
        "verdict: holds",
        f"run directory: {folder.relative_to(tmp_path)}\n",
        f"report: {folder.relative_to(tmp_path)}/report.html\n",
    ):
        assert part in ended.out
    assert not any(words in ended.out for words in ("Tseng-Sheu", "cut off", "links.parquet"))
    names = {path.name for path in folder.iterdir()}
    assert names >= {"scenario.toml", "summary.json", "faults.json", "log.jsonl"}
    assert names >= {f"{table}.parquet" for table in ("journal", "nodes", "links", "steps")}
    assert (folder.parent / "latest").readlink() == Path(folder.name)


def test_deliveries_under_faults_are_those_to_healthy_nodes(call: Call) -> None:
    ended = call(f"run {FLOOD.replace('flood', 'edt')} --fault crash:231@1 --redundancy 2")
    (row,) = [line for line in ended.out.splitlines() if line.startswith(" deliveries")]
    assert row.split() == ["deliveries", "4", "of", "4", "4", "holds"]
