"""Times with a unit, as scenarios have them."""

import re

MOST_SECONDS = 1e9
UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
DURATION = re.compile(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*(ns|us|ms|s)", re.ASCII)


def parse_duration(value: object) -> float:
    """Parse a text such as `5ms`, `1.5us` or `2s` into seconds; 0 needs no unit. Raises ValueError."""
    match = DURATION.fullmatch(str(value).strip())
    if match and float(match[1]) * UNITS[match[2]] <= MOST_SECONDS:
        return float(match[1]) * UNITS[match[2]]
    if value in (0, "0") and not isinstance(value, bool):
        return 0.0
    raise ValueError(f"a time from 0 to {MOST_SECONDS:g}s with its unit, such as 5ms, 1.5us or 2s")


def format_duration(seconds: float) -> str:
    """Return the inverse of `parse_duration`."""
    if not seconds:
        return "0s"
    for unit, size in UNITS.items():
        number = f"{round(seconds / size, 9):.12g}"
        if seconds >= size and float(number) * size == seconds:
            return f"{number}{unit}"
    return f"{seconds!r}s"
