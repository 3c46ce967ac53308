"""Dependence: which hops every hop of a collective needs, and what faults therefore cost."""

from typing import Final

MOST_HOPS: Final = 4_000_000
"""Hops of the largest schedule that is traced: about a minute, and more than a gigabyte."""
