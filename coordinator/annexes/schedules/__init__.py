"""Schedule files of synthesisers and simulators: read, judged, run, and written."""

from coordinator.annexes import Annex


def register() -> Annex:
    """Return what this annex adds to the core."""
    return Annex(
        names={
            "CollectiveSchedule": "coordinator.annexes.schedules.api:CollectiveSchedule",
            "schedule": "coordinator.annexes.schedules.api:schedule",
        },
        calls={
            "--schedule": "coordinator.annexes.schedules.scenario_values:with_schedule_file",
            "judge schedule files": "coordinator.annexes.schedules.check_command:check_files",
            "recognise schedule files": "coordinator.annexes.schedules.folder:is_schedule",
            "packets as GOAL": "coordinator.annexes.schedules.goal:goal_lines",
            "schedule files": "coordinator.annexes.schedules.writing:write_schedules",
        },
    )
