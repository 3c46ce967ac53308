"""Schedule files of synthesisers and simulators: read, judged, run, and written."""

from coordinator.annexes import Annex


def register() -> Annex:
    """Return what this annex adds to the core."""
    return Annex(
        needs=("exports",),
        commands={
            "export goal": (
                "coordinator.annexes.exports.command:GoalExport",
                "Write a schedule in fixed steps, or what a run executed, as GOAL for LogGOPSim.",
            ),
            "export msccl": (
                "coordinator.annexes.exports.command:MscclExport",
                "Write a schedule in fixed steps as MSCCL XML.",
            ),
            "export forestcoll": (
                "coordinator.annexes.exports.command:ForestcollExport",
                "Write the trees of an allgather as ForestColl XML.",
            ),
            "export chakra": (
                "coordinator.annexes.exports.command:ChakraExport",
                "Write a schedule in fixed steps as Chakra traces, FILE.0.et and so on.",
            ),
        },
        names={
            "CollectiveSchedule": "coordinator.annexes.schedules.api:CollectiveSchedule",
            "schedule": "coordinator.annexes.schedules.api:schedule",
        },
        options={"ScheduleOptions": "coordinator.annexes.schedules.options"},
        calls={
            "--schedule": "coordinator.annexes.schedules.scenario_values:with_schedule_file",
            "judge schedule files": "coordinator.annexes.schedules.check_command:check_files",
            "recognise schedule files": "coordinator.annexes.schedules.folder:is_schedule",
            "packets as GOAL": "coordinator.annexes.schedules.goal:goal_lines",
            "schedule files": "coordinator.annexes.schedules.writing:write_schedules",
        },
    )
