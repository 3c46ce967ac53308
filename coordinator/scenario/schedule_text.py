"""The key `schedule` of a scenario: the text of a schedule, or the path of a file that the annex schedules reads."""

from collections.abc import Mapping

from coordinator.annexes import annex_function


def is_text(schedule: str) -> bool:
    """Return whether the value of `schedule` is the text itself, as in the scenario of a stored run."""
    return schedule.startswith("{")


def with_schedule(values: Mapping[str, object]) -> dict[str, object]:
    """Return the values of a scenario with the schedule file that they name as text, and with all that the file decides.

    Raises ScenarioError for a file that cannot run (exit status 2), for one whose judgement is `violated` (1), and for
    values that contradict it.
    """
    named = values.get("schedule")
    if not isinstance(named, str) or is_text(named):
        return dict(values)
    found: dict[str, object] = annex_function("--schedule")(values, named)
    return found
