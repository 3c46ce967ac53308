"""The common parts of all LaTeX files of this program: escaped texts, colours, and comments."""

from collections.abc import Iterable, Iterator

from coordinator.reports.theme import LIGHT

SPECIAL = str.maketrans(
    {**{char: f"\\{char}" for char in "&%$#_{}"}, "\\": r"\textbackslash{}", "~": r"\textasciitilde{}"}
    | {"^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}
    | {'"': r"\texttt{\char34}", "'": r"\texttt{\char13}", "`": r"\texttt{\char18}"}
    | {"→": r"$\rightarrow$", "…": r"\dots{}", "µ": r"$\mu$", "\u00a0": "~", "\n": " ", "\t": " "}
    | {
        "\N{GREEK SMALL LETTER RHO}": r"$\rho$",
        "\N{MINUS SIGN}": "$-$",
        "\N{EN DASH}": "--",
        "\N{MULTIPLICATION SIGN}": r"$\times$",
    }
)
"""Characters that mean something to LaTeX, or that its fonts name in another way."""
PREAMBLE = (
    r"\usepackage{pgfplots} % loads TikZ",
    r"\pgfplotsset{compat=1.16}",
)
"""Lines of the preamble of a document, before it inputs a figure."""


LETTERS = frozenset(map(chr, range(32, 127))) | (
    frozenset(map(chr, range(0xC0, 0x100))) - frozenset("\xd0\xf0\xde\xfe\xd7\xf7")
)
"""The letters that every font of LaTeX has."""


def text(words: str) -> str:
    """Escape a text for LaTeX; letters that its fonts may lack become question marks."""
    return "".join(char if char in LETTERS else "?" for char in words.translate(SPECIAL))


def comments(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines as comments; a text with a line break stays one comment."""
    for line in lines:
        yield f"% {' '.join(line.split())}\n"


def definition(colour: str) -> tuple[str, str]:
    """Return the name of a colour in a figure, and the line that defines it; `colour` is #rrggbb or a name of the theme."""
    value = LIGHT.get(colour, colour).removeprefix("#").upper()
    if len(value) == 3:
        value = "".join(2 * digit for digit in value)
    name = f"bench-{colour}" if colour in LIGHT else f"bench-{value.lower()}"
    return name, f"\\definecolor{{{name}}}{{HTML}}{{{value}}}\n"
