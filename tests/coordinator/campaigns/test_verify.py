"""Verification of stored campaigns and sweeps: true ones verify, and each forged table, record and page is named."""

import json
import re
import shutil
from collections.abc import Callable
from html import unescape
from pathlib import Path

import polars as pl
import pytest

import coordinator as tb
from coordinator.campaigns.grid import Grid
from coordinator.cli.invoke import main
from emunode import __version__
from tests.helpers.annex_support import needs_every_annex
from tests.helpers.command_line import ROOT, Call
from tests.helpers.spoilt_files import Spoil, column, edited, record
from tests.helpers.support import forget_plugins

EIGHT_FAULTS = ROOT / "tests" / "plugins" / "eight_faults.py"

LINES = {
    "messages": "campaign --topology star:3 --algorithm edt --vary redundancy=1,2 --faults nodes=0..1 "
    "--faults bernoulli:nodes=0.3 --trials 12 --engine messages",
    "exact": "campaign --topology star:4 --algorithm edt --faults nodes=1..2 --trials 300 --engine auto",
    "sweep": "sweep --topology star:3..4 --algorithm edt,flood --metric packets",
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("folders")
    for name, line in LINES.items():
        assert main([*line.split(), "--out", str(folder / name)]) == 0
    return {name: folder / name for name in LINES}


@pytest.fixture
def copy(folders: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    return lambda name: Path(shutil.copytree(folders[name], tmp_path / name))


MAJOR, MINOR, PATCH = (int(number) for number in __version__.split("."))
OF_THIS_MINOR = f"{MAJOR}.{MINOR}.{PATCH + 1}"
STATEMENTS = {
    "messages": "50 trials with messages, 50 of them run again; 10 files made again",
    "exact": "trials evaluated exactly, 2 of 2 blocks again; 8 files made again",
    "sweep": "4 runs, 4 of them made again; 4 files made again",
}


@needs_every_annex
@pytest.mark.parametrize("name", LINES)
def test_true_campaigns_and_sweeps_verify(name: str, folders: dict[str, Path], call: Call) -> None:
    ended = call("verify", folders[name])
    assert ended.status == 0
    verdict, _, statement = ended.out.splitlines()[-1].removeprefix(f"{folders[name]}: ").partition(": ")
    assert verdict == "verified"
    assert STATEMENTS[name] in statement


def test_seeds_that_an_earlier_version_gave_verify(tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials under a fault with a value had seeds of their own, also where nothing is drawn."""
    monkeypatch.setattr(Grid, "is_random", lambda *_: True)
    line = "campaign --topology hypercube:3 --algorithm sbt --faults delay=1:2 --trials 6 --workers 1 --engine messages"
    assert call(f"{line} --out {tmp_path / 'one'}").status == 0
    monkeypatch.undo()
    seeds = [json.loads(line)["seed"] for line in (tmp_path / "one" / TRIALS).read_text().splitlines()]
    assert sorted(seeds) == list(range(6))
    assert call("verify", tmp_path / "one").status == 0
    record(TRIALS, -1, seed=17)(tmp_path / "one")
    ended = call("verify", tmp_path / "one")
    assert ended.status == 1
    assert "its seed is 17, and the draw gives 0" in ended.out


# --- forgeries -------------------------------------------------------------------------------------------------------

TRIALS, ROWS = "trials.jsonl", "rows.jsonl"


def repeat(folder: Path) -> None:
    """Count the first trial twice."""
    lines = (folder / TRIALS).read_text().splitlines()
    (folder / TRIALS).write_text("".join(f"{line}\n" for line in [*lines, lines[0]]))


def harmless(folder: Path) -> None:
    """Add a scenario that is said to violate a claim, and does not."""
    (folder / "violated-1.toml").write_text(
        'topology = "star:3"\ncollective = "broadcast"\nalgorithm = "edt"\ndriver = "memory"\n'
    )


def linked(folder: Path) -> None:
    (folder / "page.html").symlink_to(folder / "campaign.html")


FORGERIES: dict[str, tuple[Spoil, str]] = {
    "messages: steps": (record(TRIALS, 0, steps=7), "trials.jsonl: x=1 under nodes=0, draw 0: steps is 7, and a run gives"),
    "messages: hash": (record(TRIALS, -1, journal_hash="0" * 32), "journal_hash is 00000000000000000000000000000000, and"),
    "messages: a claim": (record(TRIALS, 3, violated=["steps == 2"]), "violated is steps == 2, and a run gives empty"),
    "messages: faults": (record(TRIALS, -1, faults=[]), "its faults are empty, and the draw gives crash:"),
    "messages: seed": (record(TRIALS, -1, seed=5), "its seed is 5, and the draw gives"),
    "messages: draw": (record(TRIALS, -1, number=100_000_000), "draw 100000000: there is no such draw"),
    "messages: set": (record(TRIALS, 1, point=0, number=7), "draw 7: there is no such draw"),
    "messages: twice": (repeat, "it is recorded 2 times"),
    "messages: grid": (edited("campaign.toml", "nodes=0..1", "nodes=0..2"), "its fingerprint is not the one of its grid"),
    "messages: table": (edited("table.csv", "bernoulli", "worst"), "table.csv: differs from the records"),
    "messages: table in Markdown": (edited("table.md", "1", "2"), "table.md: differs from the records"),
    "messages: losses": (edited("losses.csv", "1", "2"), "losses.csv: differs from the records"),
    "messages: curves": (edited("curves.csv", "1.0", "0.9"), "curves.csv: differs from the records"),
    "messages: page": (edited("campaign.html", "</table>", "<tr></tr></table>"), "campaign.html: differs from the records"),
    "messages: trials": (column("trials", "intact", pl.col("intact") + 1), "trials.parquet: differs from the records"),
    "messages: violation": (harmless, "violated-1.toml: a run of it violates no claim"),
    "messages: link": (linked, "page.html: it is a symbolic link"),
    "exact: block": (
        record(TRIALS, 0, lambda line: line["due"][0].__setitem__(2, line["due"][0][2] - 1)), "block 0: due is ["
    ),
    "exact: steps": (record(TRIALS, 0, steps=1), "block 0: steps is 1, and the draws give"),
    "exact: lost": (record(TRIALS, 0, lambda line: line["lost"][0].__setitem__(0, 2)), "block 0: lost is ["),
    "exact: a trial": (record(TRIALS, -1, packets=1), "packets is 1, and a run gives"),
    "sweep: measured": (
        record(ROWS, 1, lambda line: line["measured"].update(packets=3)), "flood on star:3: packets is 3, and a run gives"
    ),
    "sweep: hash": (record(ROWS, 0, journal_hash="0" * 32), "edt on star:3: journal_hash is 000"),
    "sweep: verdict": (record(ROWS, 0, verdict="violated"), "verdict is violated, and a run gives holds"),
    "sweep: claims": (record(ROWS, 0, claims=[]), "edt on star:3: claims is (), and"),
    "sweep: table": (edited("table.csv", "edt", "EDT"), "table.csv: differs from the records"),
    "sweep: chart": (edited("sweep.svg", "</svg>", "<g/></svg>"), "sweep.svg: differs from the records"),
    "sweep: page": (edited("sweep.html", "</table>", "</table> "), "sweep.html: differs from the records"),
    "sweep: settings": (edited("sweep.toml", "star:3..4", "starr:3..4"), "sweep.toml: invalid topology 'starr:3'"),
    "sweep: metric": (edited("sweep.toml", '"packets"', '"segments"'), "table.csv: differs from the records"),
}  # fmt: skip


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("name", FORGERIES)
def test_forgeries_are_named(name: str, copy: Callable[[str], Path], call: Call) -> None:
    forge, words = FORGERIES[name]
    folder = copy(name.partition(":")[0])
    forge(folder)
    ended = call("verify", folder)
    assert ended.status == 1
    assert any(words in line for line in ended.out.splitlines()), ended.out
    assert ended.out.splitlines()[-1] == f"{folder}: does not verify"


def test_any_picture_that_differs_is_named(copy: Callable[[str], Path]) -> None:
    folder = copy("messages")
    pictures = sorted(folder.glob("*.svg"))
    assert pictures
    for picture in pictures:
        picture.write_text("<svg/>")
    findings = tb.verify(folder).findings
    assert sorted(findings) == sorted(f"{picture.name}: differs from the records" for picture in pictures)


def test_rounding_of_another_machine_is_no_forgery(copy: Callable[[str], Path]) -> None:
    folder = copy("messages")
    lines = (folder / "table.csv").read_text().splitlines()
    cells = lines[-1].split(",")
    at = next(
        at for at, cell in enumerate(cells) if "." in cell and cell.replace(".", "").isdigit() and float(cell) > 0
    )
    for factor, expected in ((1 + 1e-12, []), (1 + 1e-6, ["table.csv: differs from the records"])):
        changed = [*cells[:at], repr(float(cells[at]) * factor), *cells[at + 1 :]]
        (folder / "table.csv").write_text("".join(f"{line}\n" for line in [*lines[:-1], ",".join(changed)]))
        assert tb.verify(folder).findings == expected


def test_tables_of_earlier_versions_may_have_fewer_columns(copy: Callable[[str], Path]) -> None:
    """What is in them still has to agree with the records."""
    folder = copy("messages")
    table = pl.read_csv(folder / "table.csv").drop("fraction")
    table.write_csv(folder / "table.csv")
    (folder / "campaign.html").write_text("an earlier page")
    verification = tb.verify(folder)
    assert verification.findings == []
    assert [f"{name}: its version writes less of the records" for name in ("campaign.html", "table.csv")] == (
        verification.unchecked
    )
    table.with_columns(pl.col("steps") + 1).write_csv(folder / "table.csv")
    assert sorted(tb.verify(folder).findings) == [
        f"{name}: differs from the records" for name in ("campaign.html", "table.csv")
    ]


# --- what cannot be decided ------------------------------------------------------------------------------------------


def test_an_unfinished_campaign_with_older_tables_is_undecided(copy: Callable[[str], Path], call: Call) -> None:
    """As a kill leaves it between its last record and its tables."""
    folder = copy("messages")
    lines = (folder / TRIALS).read_text().splitlines(keepends=True)
    (folder / TRIALS).write_text("".join(lines[:-3]))
    ended = call("verify", folder)
    assert ended.status == 3
    assert "the campaign is not finished: `coordinator campaign --resume` runs the other trials" in ended.out
    assert "table.csv: differs from the records, and the campaign is not finished" in ended.out
    assert call("campaign --resume", folder).status == 0
    assert call("verify", folder).status == 0


def test_pages_of_another_version_are_not_checked(copy: Callable[[str], Path], call: Call) -> None:
    for name, page in (("messages", "campaign.html"), ("sweep", "sweep.html")):
        folder = copy(name)
        settings = folder / ("campaign.toml" if name == "messages" else "sweep.toml")
        lines = [
            line if not line.startswith("version") else f'version = "{OF_THIS_MINOR}"'
            for line in settings.read_text().splitlines()
        ]
        settings.write_text("\n".join(lines))
        edited(page, "</table>", "</table> ")(folder)
        ended = call("verify", folder)
        assert ended.status == 0
        assert f"not checked: {page}: differs from the records, and another version drew it" in ended.out
        edited("table.csv", "edt" if name == "sweep" else "bernoulli", "x")(folder)
        assert call("verify", folder).status == 1


@needs_every_annex
def test_runs_of_a_smaller_sweep_in_the_same_folder_are_noted(copy: Callable[[str], Path], call: Call) -> None:
    folder = copy("sweep")
    assert call("sweep --topology star:4 --algorithm edt --out", folder).status == 0
    ended = call("verify", folder)
    assert ended.status == 0
    assert "rows.jsonl: 3 runs of other sweeps in this folder" in ended.out
    assert "verified: 1 run, 1 of them made again; 4 files made again" in ended.out


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('topology = "star:3"', 'topology = "star:12"', "a network of 479001600 nodes; at most 500000 are read"),
        ("redundancy = [", f"messages = {list(range(1, 600))}\nredundancy = [", "more than 1,000 variants or points"),
    ],
)
def test_a_grid_that_is_too_large_is_not_built(
    old: str, new: str, words: str, copy: Callable[[str], Path], call: Call
) -> None:
    folder = copy("messages")
    edited("campaign.toml", old, new)(folder)
    ended = call("verify", folder)
    assert ended.status == 3
    assert words in ended.out


def test_missing_files(copy: Callable[[str], Path], call: Call) -> None:
    folder = copy("messages")
    (folder / "table.csv").unlink()
    ended = call("verify", folder)
    assert ended.status == 0
    assert "not checked: table.csv: no such file" in ended.out
    (folder / TRIALS).unlink()
    ended = call("verify", folder)
    assert ended.status == 1
    assert "trials.jsonl: it cannot be read: No such file or directory" in ended.out


@pytest.mark.parametrize(
    "scenario",
    [
        "--topology file:square.edges --algorithm bfs-tree",
        "--vary topology=file:square.edges,ring:4 --algorithm bfs-tree",
        f"--topology cycle:6 --algorithm one-way --plugin {ROOT / 'tests' / 'plugins' / 'cycle.py'}",
        f"--topology hypercube:2 --algorithm sbt --fault haze:00~01@1 --plugin {EIGHT_FAULTS}",
    ],
)
def test_pages_name_files_wherever_they_are_verified(
    scenario: str, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands of a page name the copies in its folder, and run there."""
    Path("square.edges").write_text("a b\nb c\nc d\nd a\n")
    flag = f"--plugin {scenario.partition('--plugin ')[2]}" if "--plugin" in scenario else ""
    done = call(f"campaign {scenario} --faults nodes=1 --trials 120 --out made")
    assert done.status == 0, done
    for folder, above in ((Path("made"), "."), (Path(), "made")):
        if above == "made":
            monkeypatch.chdir(above)
        checked = call(f"verify {folder} {flag}")
        assert checked.status == 0, checked
    command = unescape(re.findall(r"<code>coordinator (run [^<]*)</code>", Path("campaign.html").read_text())[0])
    assert call(command, "--out", "again").status in (0, 3)
    forget_plugins()


def test_sweeps_of_files_verify_wherever_they_are(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("square.edges").write_text("a b\nb c\nc d\nd a\n")
    line = "sweep --collective broadcast --algorithm bfs-tree"
    for name in ("square.edges", Path("square.edges").absolute()):
        assert call(f"{line} --topology file:{name},ring:4 --out made").status == 0
        assert call("verify made").out.startswith("made: verified: 2 runs, 2 of them made again")
    monkeypatch.chdir("made")
    assert call("verify .").status == 0
