"""Clusters: hosts that mpirun, Slurm or ssh start, and files for Compose, Kubernetes and swarms."""

from coordinator.annexes import Annex

# An interpreter on a network file system starts slowly: these drivers wait longest.
WAITING = {"most_hosts": 24, "join_seconds": 120.0, "local_memory": False}


def register() -> Annex:
    """Return what this annex adds to the core."""
    return Annex(
        commands={
            "manifest compose": (
                "coordinator.annexes.clusters.manifest_command:ComposeCommand",
                "Print a file that runs a scenario on Docker Compose.",
            ),
            "manifest kubernetes": (
                "coordinator.annexes.clusters.manifest_command:KubernetesCommand",
                "Print a manifest that runs a scenario on Kubernetes.",
            ),
            "manifest swarm": (
                "coordinator.annexes.clusters.manifest_command:SwarmCommand",
                "Print a file that runs a scenario on a Docker swarm.",
            ),
        },
        groups={"manifest": "Print a file that a cluster starts a run from."},
        options={"ClusterOptions": "coordinator.annexes.clusters.options"},
        drivers={
            "ssh": {"launcher": "coordinator.annexes.clusters.ssh", "options": ("host_file", "launcher"), **WAITING},
            "mpi": {"launcher": "coordinator.annexes.clusters.mpi", "options": ("host_file", "launcher"), **WAITING},
            "slurm": {
                "launcher": "coordinator.annexes.clusters.slurm",
                "options": ("launcher",),
                "leaves_objects": True,
                **WAITING,
            },
        },
    )
