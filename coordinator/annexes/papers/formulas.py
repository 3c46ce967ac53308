"""Formulas as a paper prints them, such as `(N-1)/n` or `sqrt(2/pi)*N/n^1.5`; rational values are exact."""

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, comb, isclose, log2, pi, sqrt

from emunode.algorithms.claims import Value

Number = int | float | Fraction


def _quotient(dividend: Number, divisor: Number) -> Number:
    """Return an exact quotient of exact numbers, and an int if it is whole, so that it may be an exponent."""
    if isinstance(dividend, float) or isinstance(divisor, float):
        return float(dividend) / float(divisor)
    quotient = Fraction(dividend) / Fraction(divisor)
    return quotient.numerator if quotient.denominator == 1 else quotient


def _upper_row(n: int, i: int) -> int:
    """Return the sum over j >= i of C(n, j)."""
    return sum(comb(n, j) for j in range(i, n + 1))


OPERATORS: Mapping[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _quotient,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}
FUNCTIONS: Mapping[str, Callable[..., Number]] = {
    "C": comb,
    "ceil": ceil,
    "equal": lambda value, other: int(value == other),
    "less": lambda value, other: int(value < other),
    "log2": log2,
    "sqrt": sqrt,
    "upper_row": _upper_row,
}


@lru_cache(1024)
def _parsed(text: str) -> ast.expr:
    return ast.parse(text.strip().replace("^", "**"), mode="eval").body


def evaluate(text: str, **names: Number) -> Number:
    """Return the value of a formula; raises ValueError for anything but arithmetic on `names`, pi and `FUNCTIONS`."""
    return _value(_parsed(text), {"pi": pi, **names}, text)


def evaluate_value(text: str, **names: Value) -> Value:
    """Return the value of a name, of a formula of whole numbers, or of several formulas in parentheses."""
    if text in names:
        return names[text]
    numbers = {name: value for name, value in names.items() if not isinstance(value, tuple)}
    parsed = _parsed(text)
    if isinstance(parsed, ast.Tuple):
        return tuple(int(evaluate(ast.unparse(part), **numbers)) for part in parsed.elts)
    value = evaluate(text, **numbers)
    return value if isinstance(value, bool) else int(value)


def _value(node: ast.expr, names: Mapping[str, Number], text: str) -> Number:
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, names, text)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return OPERATORS[type(op)](_value(left, names, text), _value(right, names, text))
        case ast.Call(func=ast.Name(id=name), args=arguments) if name in FUNCTIONS:
            return FUNCTIONS[name](*(_value(argument, names, text) for argument in arguments))
    raise ValueError(f"formula {text!r}: unsupported {ast.unparse(node)!r}")


def evaluate_terms(text: str, **names: Number) -> list[Number]:
    """Return the terms of sums such as `2^i, i = 0..n-1; N/n`: every term of each sum, sums separated by semicolons."""
    terms: list[Number] = []
    for part in text.split(";"):
        term, _, limits = part.partition(", i =")
        if not limits:
            terms.append(evaluate(term, **names))
            continue
        first, last = (int(evaluate(limit, **names)) for limit in limits.split(".."))
        terms += [evaluate(term, i=i, **names) for i in range(first, last + 1)]
    return terms


def same(value: Number, other: Number) -> bool:
    """Compare two numbers up to the rounding of roots and logarithms."""
    return isclose(value, other)


@dataclass(frozen=True)
class Cost:
    """The linear cost of a collective: T = startups x startup time + transfer x transfer time.

    `transfer` is in bytes or in messages, as the paper counts.
    """

    startups: Number
    transfer: Number

    def time(self, startup: float, per_unit: float) -> float:
        """Return T for these times of one start-up and one unit of transfer."""
        return float(self.startups) * startup + float(self.transfer) * per_unit

    def equals(self, other: "Cost") -> bool:
        """Return both parts, up to the rounding of roots and logarithms."""
        return same(self.startups, other.startups) and same(self.transfer, other.transfer)
