"""The kinds of rows of a journal: data, acknowledgements, requests and arrivals, told apart row by row."""

import polars as pl
import pytest

from coordinator.features.journals.rows import ARRIVED, IS_ANSWER, IS_DATA, IS_REQUEST, data_hops
from emunode.model import AGAIN_TREE, CONTROL_TREE
from tests.helpers.feature_support import CUBE, RELIABLE, REPAIR, SHRINK
from tests.helpers.scenarios import Case


@pytest.mark.parametrize("case", [Case(CUBE), Case(RELIABLE), Case(REPAIR, "crash:001@1")], ids=str)
def test_each_row_is_data_an_answer_or_a_request(case: Case) -> None:
    kinds = case.journal.select(data=IS_DATA, answer=IS_ANSWER, request=IS_REQUEST)
    assert kinds.select(pl.sum_horizontal(pl.all().cast(pl.Int8))).to_series().unique().to_list() == [1]
    trees = case.journal["tree"].to_list()
    assert kinds["data"].to_list() == [tree < CONTROL_TREE for tree in trees]


def test_an_acknowledgement_answers_every_arrival_of_data() -> None:
    case = Case(RELIABLE)
    arrived = case.journal.filter(IS_DATA, ARRIVED)
    answers = case.journal.filter(IS_ANSWER)
    links = {(row["sender"], row["receiver"], row["step"]) for row in arrived.iter_rows(named=True)}
    assert len(links) == arrived.height == 7
    assert {(row["receiver"], row["sender"], row["step"] - 1) for row in answers.iter_rows(named=True)} == links


def test_data_hops_leave_out_control_and_repetitions() -> None:
    case = Case(CUBE | SHRINK, "crash:001@2")
    hops = data_hops(case.plan, case.journal.lazy()).collect()
    trees = case.journal["tree"].to_list()
    assert max(trees) >= CONTROL_TREE
    assert any(AGAIN_TREE <= tree < CONTROL_TREE for tree in trees)
    assert hops.height == sum(tree < AGAIN_TREE for tree in trees) > 0
    assert hops["tree"].max() < AGAIN_TREE  # type: ignore[operator]


def test_a_run_without_control_keeps_every_hop() -> None:
    case = Case(CUBE)
    assert data_hops(case.plan, case.journal.lazy()).collect().equals(case.journal)
