"""Formulas as printed: exact fractions, sums of terms, and nothing but arithmetic."""

from fractions import Fraction
from math import comb, sqrt

import pytest

from coordinator.annexes.papers.formulas import Number, evaluate, evaluate_terms


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("(N-1)/n", Fraction(7, 3)),
        ("N/2", 4),
        ("2^(n-1)", 4),
        ("-n + (n-1)//2", -2),
        ("sqrt(2)*N/n^1.5", sqrt(2) * 8 / 3**1.5),
        ("C(n, 2)", 3),
        ("upper_row(n, 1)/n", Fraction(7, 3)),
    ],
)
def test_a_formula_is_evaluated_exactly_where_it_is_rational(text: str, value: Number) -> None:
    found = evaluate(text, n=3, N=8)
    assert (found, type(found)) == (value, type(value))


def test_the_terms_of_sums_are_listed_in_order() -> None:
    assert evaluate_terms("2^i, i = 0..n-1; N/n", n=3, N=8) == [1, 2, 4, Fraction(8, 3)]
    assert evaluate_terms("C(n,i), i = 1..n", n=4) == [comb(4, i) for i in range(1, 5)]
    assert evaluate_terms("i, i = 2..1") == []


@pytest.mark.parametrize("text", ["M", "n.real", "open('x')", "[n]", "n < 2", "__import__('os')"])
def test_anything_but_arithmetic_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="unsupported"):
        evaluate(text, n=3)
