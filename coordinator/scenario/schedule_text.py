"""Tells the text of a schedule from the path of a schedule file."""


def is_text(schedule: str) -> bool:
    """Return whether the value of `schedule` is the text itself, as in the scenario of a stored run."""
    return schedule.startswith("{")
