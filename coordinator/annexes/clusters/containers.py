"""Files for Docker Compose and for a Docker swarm, from the same parts as the manifest for Kubernetes.

With Compose the coordinator creates the secret of the run in a volume that hosts read. A swarm has the secret already,
and the file names it. Nothing restarts: a new host would not have the state of a lost one.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from coordinator.annexes.clusters.kubernetes import (
    COORDINATOR_MEBIBYTES,
    PORT,
    USER,
    check_name,
    host_mebibytes,
    image_of,
    join_command,
    serve_command,
)
from coordinator.annexes.clusters.yaml_text import yaml_text
from coordinator.planning.plan import Plan
from coordinator.planning.resources import descriptors_per_host

COORDINATOR_PROCESSES: Final = 256
HOST_PROCESSES: Final = 64
TMPFS: Final = {"type": "tmpfs", "target": "/tmp"}
LOGGING: Final = {"driver": "json-file", "options": {"max-size": "1m"}}


def compose_file(plan: Plan, arguments: Sequence[str], name: str) -> str:
    """Return the file for Docker Compose of a run; ScenarioError if the name is malformed.

    `arguments` are the flags of the scenario for `coordinator serve`.
    """
    check_name("job_name", name)
    common = {
        "user": f"{USER}:{USER}",
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "tmpfs": ["/tmp"],
        "networks": ["links"],
        "restart": "no",
        "logging": LOGGING,
    }
    mebibytes = host_mebibytes(plan)
    coordinator = {
        **common,
        "image": image_of(""),
        "command": serve_command(plan, arguments, "/token/token"),
        "pids_limit": COORDINATOR_PROCESSES,
        "mem_limit": f"{2 * (COORDINATOR_MEBIBYTES + mebibytes)}m",
        # A host that ends early ends all. The coordinator then has this time to write its results.
        "stop_grace_period": "60s",
        "volumes": ["runs:/runs", "token:/token"],
        "depends_on": ["host"],
    }
    host = {
        **common,
        "image": image_of("-host"),
        "command": join_command("coordinator", "/token/token"),
        "pids_limit": HOST_PROCESSES,
        "mem_limit": f"{2 * mebibytes}m",
        "ulimits": {"nofile": _descriptors(plan)},
        "volumes": ["token:/token:ro"],
        "deploy": {"replicas": plan.hosts},
    }
    parts = {
        "services": {"coordinator": coordinator, "host": host},
        "networks": {"links": {"internal": True}},
        "volumes": {"runs": {}, "token": {}},
    }
    heading = (
        f"# {_about(plan)}\n# docker-compose --project-name {name} --file FILE up --exit-code-from coordinator\n"
        "# The run directory is in the volume `runs`.\n"
    )
    return heading + yaml_text([parts])


def swarm_file(plan: Plan, arguments: Sequence[str], name: str) -> str:
    """Return the stack file of a run for a Docker swarm, as `compose_file`. The secret NAME-token has to exist."""
    check_name("job_name", name)
    secret = f"{name}-token"
    token = f"/run/secrets/{secret}"
    common = {
        "read_only": True,
        "cap_drop": ["ALL"],
        "secrets": [secret],
        "networks": ["links"],
        "logging": LOGGING,
        # A task with a health check gets its name on the network only after the first check.
        "healthcheck": {"disable": True},
    }

    def deployed(mebibytes: int, processes: int, **more: object) -> Mapping[str, object]:
        limits = {"memory": f"{2 * mebibytes}M", "pids": processes}
        none = {"condition": "none"}
        return {"endpoint_mode": "dnsrr", "restart_policy": none, "resources": {"limits": limits}, **more}

    mebibytes = host_mebibytes(plan)
    coordinator = {
        **common,
        "image": image_of(""),
        "command": serve_command(plan, arguments, token),
        "volumes": ["runs:/runs", TMPFS],
        "deploy": deployed(
            COORDINATOR_MEBIBYTES + mebibytes,
            COORDINATOR_PROCESSES,
            placement={"constraints": ["node.role == manager"]},
        ),
    }
    descriptors = _descriptors(plan)
    host = {
        **common,
        "image": image_of("-host"),
        "command": join_command("coordinator", token),
        "ulimits": {"nofile": {"soft": descriptors, "hard": descriptors}},
        "volumes": [TMPFS],
        "deploy": deployed(
            mebibytes, HOST_PROCESSES, replicas=plan.hosts, placement={"preferences": [{"spread": "node.id"}]}
        ),
    }
    parts = {
        "version": "3.9",
        "services": {"coordinator": coordinator, "host": host},
        "networks": {"links": {"driver": "overlay", "internal": True}},
        "volumes": {"runs": {}},
        "secrets": {secret: {"external": True}},
    }
    heading = (
        f"# {_about(plan)}\n# head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \\n' | docker secret create {secret} -\n"
        f"# docker stack deploy --compose-file FILE {name}\n"
    )
    return heading + yaml_text([parts])


def _about(plan: Plan) -> str:
    return f"{plan.topology.name}: {plan.hosts} hosts, which dial each other and port {PORT} of the coordinator."


def _descriptors(plan: Plan) -> int:
    """Return the limit of open files of a host, with room for what is not a link."""
    return 2 * descriptors_per_host(plan) + 64
