"""Programs and plug-ins that add by themselves: their order is read from results, and every wrong answer is one error."""

import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import which

import numpy as np
import pytest

import coordinator
from coordinator.annexes.proofs.archive import archive_of, files_of, zipped
from coordinator.execution.verify import verify
from coordinator.scenario.programs import allow_program
from emunode.annexes.numbers.float_types import sum_in_order
from emunode.errors import RuleError
from emunode.programs import ALLOWED
from tests.annexes.numbers.support import ELEMENTS, TREES, chain, results_of
from tests.annexes.programs.support import golden_answers
from tests.annexes.proofs.archives_support import CHECKER
from tests.helpers.command_line import ROOT
from tests.helpers.scenarios import Case
from tests.helpers.support import golden_rows, loaded

PLUGINS = ROOT / "tests" / "plugins"
PYTHON = f"{shlex.quote(sys.executable)} -SE"
"""A Python without packages: it starts in half of the time."""
DOUBLING = f"{PYTHON} {PLUGINS / 'doubling.py'}"
DIRECT = f"{PYTHON} {PLUGINS / 'direct_adding.py'}"
SQUARE = "hypercube:2 allreduce program port_model=exchange values=probe segments=2"
FLOATS = {"values": "float32", "message_bytes": 4 * ELEMENTS, "seed": 1}


@pytest.fixture(autouse=True)
def not_allowed() -> Iterator[None]:
    yield
    ALLOWED.clear()


def played(line: str, program: str, **more: object) -> Case:
    """Return a case whose nodes are played by a program."""
    return Case(line, program=allow_program(program), program_deadline="60s", **more)


def because(case: Case, claim: str = "results_reveal_their_order") -> tuple[str, str]:
    """Return what is measured of a claim on bits, and the reason."""
    return next((row["measured"], row["because"]) for row in case.summary["bits"] if row["claim"] == claim)


# --- the order, read from results


@pytest.mark.parametrize("driver", ["memory", "local"])
def test_a_probe_reads_the_order_of_a_program(driver: str) -> None:
    case = played(SQUARE, DOUBLING, driver=driver)
    assert case.run.verdict == "holds"
    tree = TREES["recursive-doubling"](4, 0).canonical
    assert because(case)[0] == "yes"
    assert [case.summary[name] for name in ("distinct_trees", "tree_depth", "trees_per_element")] == [1, 2, 1]
    (digest,) = case.summary["tree_digests"]
    assert digest == TREES["recursive-doubling"](4, 0).digest
    assert tree == "((0+1)+(2+3))"


def test_a_program_has_the_bits_of_the_built_in_rule() -> None:
    own = Case("hypercube:3 allreduce recursive-doubling port_model=exchange", **FLOATS)
    cube = SQUARE.replace("hypercube:2", "hypercube:3")
    assert played(cube, DOUBLING, **FLOATS).summary["results_hash"] == own.summary["results_hash"]


def test_sums_that_are_rounded_only_when_sent_have_no_order() -> None:
    case = played(SQUARE, f"{DOUBLING} double")
    assert case.run.verdict == "violated"
    assert case.summary["probe_contradictions"] == 8
    assert because(case) == ("no", "element 0 at 00: the results do not come from one order of additions")
    # The same program is right about numbers that it does not round.
    assert played(SQUARE, f"{DOUBLING} double", values="probe-float64").run.verdict == "holds"
    assert played(SQUARE, f"{DOUBLING} double", **FLOATS).summary["distinct_results"] > 1


@pytest.mark.skipif(not which("cc"), reason="there is no C compiler here")
def test_a_probe_reads_the_order_of_a_program_in_c(tmp_path: Path) -> None:
    program = tmp_path / "last-first"
    subprocess.run(["cc", "-O1", "-Wall", "-Werror", "-o", program, PLUGINS / "last_first.c"], check=True)
    case = played("complete:5 reduce program values=probe", str(program))
    assert because(case) == ("yes", "the results reveal (0+(1+(2+(3+4))))")
    numbers = played("complete:5 reduce program", str(program), **FLOATS)
    vectors = [numbers.plan.algorithm.payloads.numbers(rank, range(ELEMENTS)) for rank in range(5)]  # type: ignore[attr-defined]
    results = results_of(numbers)
    expected = vectors[4]
    for rank in (3, 2, 1, 0):
        expected = expected + vectors[rank]
    np.testing.assert_array_equal(results.numbers, [expected])
    assert numbers.run.verdict == "holds"


def test_a_reduce_scatter_has_a_chain_for_each_block() -> None:
    case = played("complete:4 reduce-scatter program values=probe segments=2", DIRECT)
    assert case.run.verdict == "holds"
    rows = {
        (row["rank"], row["segment"]): row["tree"]
        for row in coordinator.network("complete:4")
        .reduce_scatter("program", values="probe", segments=2, program=DIRECT)
        .additions()
        .to_dicts()
    }
    trees = {rank: chain([rank, *(other for other in range(4) if other != rank)]).canonical for rank in range(4)}
    assert rows == {(rank, segment): trees[rank] for rank in range(4) for segment in range(2)}
    assert case.summary["deliveries"] == 4


def test_nodes_that_add_for_themselves_violate_the_claim() -> None:
    case = played("complete:4 allreduce program values=probe", DIRECT)
    assert case.run.verdict == "violated"
    assert case.summary["trees_per_element"] == 4 - 1
    reason = "element 0 is (((0+2)+1)+3) at 2, and (((0+1)+2)+3) at 0"
    assert because(case, "same_bits_on_all_ranks") == ("no", reason)


def test_runs_of_programs_are_verified_and_judged_elsewhere(tmp_path: Path) -> None:
    case = played(SQUARE, DOUBLING)
    case.stored(tmp_path / "run")
    found = verify(tmp_path / "run")
    assert (found.findings, found.unchecked) == ([], [])
    (path := tmp_path / "run.zip").write_bytes(zipped(files_of(archive_of(case.run))))
    done = subprocess.run([sys.executable, "-I", CHECKER, path], capture_output=True, text=True, check=False)
    assert "right: holds" in done.stdout, done.stdout
    ALLOWED.clear()
    assert "results.npy: it comes from a program" in verify(tmp_path / "run").unchecked


def test_a_plug_in_that_adds_bytes_is_judged_by_its_results() -> None:
    with loaded(PLUGINS / "adds_bytes.py") as plugin:
        case = Case("complete:5 reduce adds-bytes values=probe", plugin=plugin)
        assert because(case) == ("yes", "the results reveal (0+(1+(2+(3+4))))")
        assert case.run.verdict == "holds"
        numbers = Case("complete:5 reduce adds-bytes", plugin=plugin, **FLOATS)
        assert numbers.run.verdict == "holds"


def test_a_probe_contradicts_a_timetable_that_lies(monkeypatch: pytest.MonkeyPatch) -> None:

    case = Case("complete:5 allreduce bfb values=probe")
    assert case.run.verdict == "holds"
    monkeypatch.setattr(
        "emunode.annexes.numbers.payloads.sum_in_order",
        lambda kind, operands: sum_in_order(kind, [*operands][::-1]),
    )
    other = Case("complete:5 allreduce bfb values=probe")
    assert other.run.verdict == "violated"
    assert other.summary["probe_contradictions"] == 25
    assert because(other)[1].startswith("element 0 at 0: results reveal (0+(1+(2+(3+4)))) against ((((0+1)+2)+3)+4)")


RABENSEIFNER = f"{PYTHON} {PLUGINS / 'rabenseifner.py'}"


@pytest.mark.parametrize("count", [4, 5, 6, 8, 24])
def test_rabenseifner_has_the_recorded_bits(count: int) -> None:
    parts = 1 << count.bit_length() - 1
    rows = golden_rows("additions", "results", algorithm="rabenseifner", rule="rank", P=str(count))
    letters = {"float32": "f"} if count > 5 else {"float32": "f", "float64": "d"}  # 24 nodes are 24 processes
    kinds = [(row, row["values"], letters[row["values"]]) for row in rows if row["values"] in letters]
    assert {name for _, name, _ in kinds} == set(letters)
    line = f"complete:{count} allreduce program port_model=exchange segments={parts}"
    for row, name, letter in kinds:
        size = ELEMENTS * (4 if letter == "f" else 8)
        program = f"{RABENSEIFNER} {letter}"
        case = played(line, program, values=name, seed=row["seed"], message_bytes=size)
        assert case.run.verdict == "holds"
        assert case.summary["results_hash"] == row["sha256_all_ranks"]
    case = played(line, f"{RABENSEIFNER} f", values="probe")
    assert case.run.verdict == "holds"
    assert case.summary["tree_digests"] == [TREES["rabenseifner"](count, 0).digest]
    # Halving and doubling, and a step before and after them for superfluous nodes.
    assert case.summary["steps"] == 2 * (count.bit_length() - 1) + 2 * (parts < count)


# --- what programs do wrong

WRONG = golden_answers("adding_answers")


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_answer_of_an_adding_program_is_named(case: str, tmp_path: Path) -> None:
    answer, words = WRONG[case]
    (tmp_path / "answer").write_text(f"{answer}\n")
    (tmp_path / "node.sh").write_text(f"read -r line\ncat {tmp_path}/answer\nsleep 60\n")
    with pytest.raises(RuleError) as raised:
        _ = played("complete:3 allreduce program values=probe", f"sh {tmp_path / 'node.sh'}").run
    assert words in str(raised.value)


def test_a_node_that_states_no_result_is_missing(tmp_path: Path) -> None:
    (tmp_path / "silent.py").write_text("for line in open(0):\n    print('{\"sends\":[]}', flush=True)\n")
    case = played("complete:3 allreduce program values=probe", f"{PYTHON} {tmp_path / 'silent.py'}")
    assert case.summary["missing_elements"] == 9
    assert case.run.verdict == "violated"
