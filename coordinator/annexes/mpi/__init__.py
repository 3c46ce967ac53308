"""Judge of MPI libraries: the messages of their collectives, held against the rule of each algorithm."""

from coordinator.annexes import Annex


def register() -> Annex:
    """Return what this annex adds to the core."""
    return Annex(
        needs=("numbers",),
        commands={
            "judge mpi": (
                "coordinator.annexes.mpi.commands:MpiCommand",
                "Judge the collectives of the MPI library on this machine: who sent how much to whom.",
            ),
            "judge traffic": (
                "coordinator.annexes.mpi.traffic_command:TrafficCommand",
                "Show a table of traffic that another tool measured, and compare it with a rule.",
            ),
        },
        groups={"judge": "Judge what other software sent: an MPI library, a program, a table of traffic."},
        names={"judge": "coordinator.annexes.mpi.api:judge"},
        calls={"verify the history of other software": "coordinator.annexes.mpi.history:verify_history"},
    )
