"""The judge, over a played library with one flaw each, and over the real one where it is installed."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from coordinator.annexes.mpi.judge import WITHOUT_RULES, JudgeSettings, MpiJudgement, judge, judged_collectives
from coordinator.annexes.mpi.rules.base import MpiCall, PairCount, known_names
from coordinator.annexes.mpi.verdicts import CallVerdict
from coordinator.results.claims import Verdict
from tests.annexes.mpi.support import WITHOUT_END, needs_library, played_library, wrong_program


def played(
    folder: Path, flaw: str = "", collective: str = "allreduce", algorithms: Sequence[str] = ("ring",), ranks: int = 5
) -> MpiJudgement:
    """Judge a played library with a flaw."""
    library = played_library(folder, flaw)
    settings = JudgeSettings(
        [collective], algorithms, [ranks], mpirun=library, open_ports=True, time_limit=3 if flaw in WITHOUT_END else 60
    )
    return judge(settings)


def only(judgement: MpiJudgement) -> CallVerdict:
    """Return the one verdict of a judgement."""
    (verdict,) = judgement.verdicts
    return verdict


def test_a_library_that_follows_the_rules_holds(tmp_path: Path) -> None:
    judgement = played(tmp_path, algorithms=())
    assert [(each.verdict, each.reason) for each in judgement.verdicts if each.verdict != "holds"] == []
    assert (judgement.verdict, judgement.exit_status, judgement.library) == (Verdict.HOLDS, 0, "Played MPI 1")
    assert len(judgement.verdicts) == 7


@pytest.mark.parametrize(
    ("flaw", "reason"),
    [
        ("crash at start", "mpirun ended with status 1: the library is not in the mood"),
        ("crash", "mpirun ended with status 7"),
        ("hang", "no progress for 3 s"),
        ("nonsense", "malformed report: rank-0.jsonl"),
        ("other run", "malformed report: rank-1.jsonl, line 1: it belongs to another run"),
        ("world of one", "the world has 1 ranks, expected 5"),
        ("static", "coll_tuned_use_dynamic_rules is off"),
        ("counts nothing", "the library counts no messages"),
        ("ignores", "the library made its own choice instead, basic_linear"),
        ("refuses", "unexpectedly refused: always"),
        ("old", "the library has no algorithm of that name"),
        ("negative", "expected 5 whole numbers from 0 to 2^48"),
        ("bytes without messages", "bytes in no message"),
        ("twice", "is out of order"),
        ("linked", "it is a symbolic link"),
    ],
)
def test_an_invalid_measurement_is_undecided_with_its_reason(tmp_path: Path, flaw: str, reason: str) -> None:
    judgement = played(tmp_path, flaw)
    assert only(judgement).verdict is Verdict.UNDECIDED
    assert reason in only(judgement).reason
    assert judgement.exit_status == 3


@pytest.mark.parametrize(
    ("flaw", "reason"),
    [
        ("one more", "rank 2 to 0: 1 message of 0 bytes, by the rule nothing"),
        ("ignores, one more", "rank 0 to 1: 1 message of 1,000 bytes, by the rule 8 messages of 1,600 bytes"),
        ("wrong sum", "result of rank 0: element 3 is "),
    ],
)
def test_a_difference_is_a_violation_with_both_numbers(tmp_path: Path, flaw: str, reason: str) -> None:
    judgement = played(tmp_path, flaw)
    assert (only(judgement).verdict, judgement.exit_status) == (Verdict.VIOLATED, 1)
    assert only(judgement).reason.startswith(reason)


def test_a_refusal_that_the_rule_states_holds(tmp_path: Path) -> None:
    verdict = only(played(tmp_path, collective="allgather", algorithms=["two_proc"]))
    assert (verdict.verdict, verdict.ran, verdict.messages) == (Verdict.HOLDS, "nothing", None)
    assert only(played(tmp_path, "never refuses", "allgather", ["two_proc"])).verdict is Verdict.VIOLATED


def test_a_fallback_that_the_rule_states_holds_with_its_name(tmp_path: Path) -> None:
    verdict = only(played(tmp_path, collective="allgather", algorithms=["neighbor"]))
    assert (verdict.verdict, verdict.ran, verdict.reason) == (Verdict.HOLDS, "ring", "falls back to ring")


def test_a_crash_costs_only_its_own_call(tmp_path: Path) -> None:
    found = {each.algorithm: each.verdict for each in played(tmp_path, "crash", algorithms=()).verdicts}
    assert {name for name, verdict in found.items() if verdict is not Verdict.HOLDS} == {"ring"}


def test_a_call_where_one_rank_hangs_costs_only_itself(tmp_path: Path) -> None:
    """Rank 0 has completed the ring and begun the next call: the ring is to blame."""
    found = played(tmp_path, "one rank hangs", algorithms=["ring", "recursive_doubling", "auto"]).verdicts
    assert [(each.algorithm, each.verdict) for each in found] == [
        ("ring", Verdict.UNDECIDED), ("recursive_doubling", Verdict.HOLDS), ("auto", Verdict.HOLDS),
    ]  # fmt: skip
    assert found[0].reason == "no progress for 3 s"


def test_a_wrong_default_is_no_ignored_choice(tmp_path: Path) -> None:
    """The played default is basic_linear. With one message more it is no known algorithm, and yet no other choice."""
    wrong = only(played(tmp_path, "one more", algorithms=["basic_linear"]))
    assert (wrong.verdict, wrong.reason[:47]) == (Verdict.VIOLATED, "rank 2 to 0: 2 messages of 1,000 bytes, by the ")
    found = played(tmp_path, "ignores, one more", algorithms=["ring", "recursive_doubling"]).verdicts
    assert [each.verdict for each in found] == [Verdict.UNDECIDED] * 2
    assert found[0].reason.startswith(
        "the library made its own choice instead, no known algorithm, the same for recurs"
    )


@pytest.mark.parametrize("collective", sorted({*judged_collectives()} - {"barrier", *WITHOUT_RULES}))
def test_an_empty_call_sends_nothing_and_refuses_nothing(tmp_path: Path, collective: str) -> None:
    settings = JudgeSettings([collective], ranks=[2, 5], sizes=[0], mpirun=played_library(tmp_path), open_ports=True)
    found = judge(settings).verdicts
    assert {(each.verdict, each.ran, each.messages) for each in found} == {(Verdict.HOLDS, "nothing", 0)}
    more = replace(settings, mpirun=played_library(tmp_path, "one more"), ranks=[5])
    reasons = {each.algorithm: (each.verdict, each.reason) for each in judge(more).verdicts}
    assert reasons.pop("auto") == (Verdict.UNDECIDED, "the messages are those of no known algorithm")
    starts = ("rank 2 to 0: 1 message of 0 bytes, by the rule nothing", "the calls that it is composed of")
    assert all(reason.startswith(starts) for _, reason in reasons.values())


def test_messages_of_a_rank_to_itself_do_not_count(tmp_path: Path) -> None:
    """Open MPI 5 sends some in alltoallv of two and three ranks."""
    assert only(played(tmp_path, "to itself")).verdict is Verdict.HOLDS


def test_small_own_choices_are_named_as_compositions() -> None:
    """A binary tree over 0..4: 1 and 2 below 0, 3 and 4 below 1 and 2; one element, so nothing is scattered."""
    counts = {pair: PairCount(1, 4) for pair in ((1, 0), (2, 0), (3, 1), (4, 2))}
    call = MpiCall("reduce_scatter", 5, elements=1)
    assert known_names(call, counts) == ["non-overlapping (reduce binary)"]


def test_algorithms_without_a_rule_are_listed(tmp_path: Path) -> None:
    judgement = played(tmp_path, "new")
    assert judgement.unknown == {"allreduce": ["allgather_reduce"]}
    verdict = only(played(tmp_path, "new", algorithms=["allgather-reduce"]))
    assert (verdict.verdict, verdict.reason[:28]) == (Verdict.UNDECIDED, "the library has no algorithm")


def test_two_ranks_decide_nothing_between_equal_tables(tmp_path: Path) -> None:
    verdict = only(played(tmp_path, collective="alltoall", algorithms=["pairwise"]))
    assert verdict.reason == "same messages as linear, linear_sync: decides nothing between them"


def test_sizes_that_were_never_checked_are_named(tmp_path: Path) -> None:
    assert only(played(tmp_path, ranks=11)).reason == "the rule was not checked at 11 ranks"


def test_numbers_of_the_library_stand_for_names(tmp_path: Path) -> None:
    judgement = played(tmp_path, algorithms=["4", "0", "recursive-doubling", "3"])
    assert [each.algorithm for each in judgement.verdicts] == ["ring", "auto", "recursive_doubling"]


def test_output_without_end_is_cut(tmp_path: Path) -> None:
    library = played_library(tmp_path, "print for ever")
    verdict = only(judge(JudgeSettings(["barrier"], ["tree"], [2], mpirun=library, open_ports=True, time_limit=0.5)))
    assert verdict.reason == "no progress for 0.5 s"


# --- the real library ------------------------------------------------------------------------------------------------


@needs_library
def test_open_mpi_follows_all_rules_at_five_ranks() -> None:
    judgement = judge(
        JudgeSettings(judged_collectives()[:10], ranks=[5], sizes=[1000], segments=[0, 256], roots=[0, 4])
    )
    assert [(each.call, each.algorithm, each.reason) for each in judgement.verdicts if each.verdict != "holds"] == []
    assert judgement.library.startswith("Open MPI v5")
    assert len(judgement.verdicts) >= 100


@needs_library
@pytest.mark.parametrize("ranks", [3, *(pytest.param(ranks, marks=pytest.mark.slow) for ranks in (2, 4, 5, 6))])
def test_open_mpi_follows_all_rules_for_empty_and_small_calls(ranks: int) -> None:
    """Every algorithm with no element, and with fewer elements than ranks up to one more than them."""
    settings = JudgeSettings(
        judged_collectives(), ranks=[ranks], sizes=range(0, 4 * (ranks + 2), 4), roots=[0, ranks - 1], segments=[0, 4]
    )
    found = judge(settings).verdicts
    others = {(each.call.collective, each.reason) for each in found if each.verdict is not Verdict.HOLDS}
    assert others == {(each, "the messages are those of no known algorithm") for each in WITHOUT_RULES}
    empty = [each for each in found if each.call.is_empty]
    assert {(each.verdict, each.messages) for each in empty} == {(Verdict.HOLDS, 0)}


WRONG = {
    "        if self.rank < 2:\n"
    "            self.comm.Sendrecv(bytes(4), 1 - self.rank, 9, bytearray(4), 1 - self.rank, 9)\n"
    "        return super().perform(call)": "rank 0 to 1: ",
    "        self.prepare({**call, 'root': 1})\n"
    "        return super().perform({**call, 'root': 1})": "result of rank 0: element 0 is 29533, by arithmetic 12345",
    "        if self.rank == 1:\n"
    "            self.own[:] = self.own[:0] + type(self.own)('i', bytes(4 * len(self.own)))\n"
    "        return super().perform(call)": "result of rank 0: element 0 is 59066, by arithmetic 88599",
}


@needs_library
@pytest.mark.parametrize("body", WRONG, ids=["sends twice", "wrong root", "lacks a contribution"])
def test_a_wrong_program_is_violated(tmp_path: Path, body: str) -> None:
    collective = "bcast" if "root" in body else "allreduce"
    # Recursive doubling is also the library's own choice here.
    names = ["binomial"] if "root" in body else ["ring", "recursive_doubling"]
    judgement = judge(JudgeSettings([collective], names, [3]), program=wrong_program(tmp_path, body))
    assert [each.verdict for each in judgement.verdicts] == [Verdict.VIOLATED] * len(names)
    assert all(WRONG[body] in each.reason for each in judgement.verdicts)


@needs_library
def test_a_rank_that_never_calls_is_undecided(tmp_path: Path) -> None:
    body = "        import time\n        time.sleep(3600 * (self.rank == 1))\n        return super().perform(call)"
    settings = JudgeSettings(["barrier"], ["linear"], [2], time_limit=1)
    verdict = only(judge(settings, program=wrong_program(tmp_path, body)))
    assert (verdict.verdict, verdict.reason) == (Verdict.UNDECIDED, "no progress for 1 s")
