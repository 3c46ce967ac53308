"""A manifest for Kubernetes: the coordinator in a pod of its own, and its hosts as the pods of an Indexed Job.

Hosts find the coordinator by the name of a headless service and give their address when they join; peers dial that address,
so pods must reach each other directly, as in every cluster without a network policy that forbids it. Nothing restarts: a new
host would not have the state of a lost one.
"""

import re
from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any, Final

from coordinator.annexes.clusters.yaml_text import yaml_text
from coordinator.planning.plan import Plan
from coordinator.planning.resources import descriptors_per_host, memory_bytes
from emunode import __version__
from emunode.errors import ScenarioError

PORT: Final = 7000
NAME: Final = re.compile(r"[a-z]([-a-z0-9]{0,40}[a-z0-9])?")
"""A name of Kubernetes, short enough for the suffixes that it adds to it."""
TOKEN: Final = re.compile(r"[0-9a-f]{32,128}")
MEBIBYTE: Final = 1 << 20
HOST_MEBIBYTES: Final = 64
"""An interpreter with everything imported, without ranks and links."""
COORDINATOR_MEBIBYTES: Final = 256
RESULTS: Final = "results"
"""The container beside the coordinator that keeps the pod, and with it the run directory, until the directory is fetched."""
KEEP: Final = "trap exit TERM; until [ -e /runs/fetched ]; do sleep 1; done"
"""Its command: `kubectl exec` needs a container that runs, and the coordinator has ended by then."""
USER: Final = 65532
"""The user of the images."""
TOKEN_FOLDER: Final = "/run/testbench"
INDEX: Final = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
"""Where Kubernetes writes the index of a pod of an Indexed Job."""


def kubernetes_manifest(plan: Plan, arguments: Sequence[str], name: str, token: str, namespace: str) -> str:
    """Return the manifest of a run as YAML: a secret, a headless service, and the jobs of the coordinator and of the hosts.

    `arguments` are the flags of the scenario for `coordinator serve`. ScenarioError if a name or the token is malformed.
    """
    check_name("job_name", name)
    check_name("namespace", namespace)
    if not TOKEN.fullmatch(token):
        raise ScenarioError("token", None, "expected 32 to 128 hexadecimal digits")
    labels = {"app.kubernetes.io/name": "collective-testbench", "app.kubernetes.io/instance": name}

    def described(kind: str, version: str, suffix: str, **parts: object) -> dict[str, object]:
        metadata = {"name": f"{name}{suffix}", "namespace": namespace, "labels": labels}
        return {"apiVersion": version, "kind": kind, "metadata": metadata, **parts}

    coordinator = {**labels, "app.kubernetes.io/component": "coordinator"}
    hosts = {**labels, "app.kubernetes.io/component": "host"}
    serve = serve_command(plan, arguments, f"{TOKEN_FOLDER}/token")
    join = [*join_command(f"{name}-coordinator", f"{TOKEN_FOLDER}/token"), "--index=$(HOST_INDEX)"]
    mebibytes = host_mebibytes(plan)
    index = {"name": "HOST_INDEX", "valueFrom": {"fieldRef": {"fieldPath": INDEX}}}
    return yaml_text(
        [
            described("Secret", "v1", "-token", type="Opaque", stringData={"token": token}),
            described(
                "Service",
                "v1",
                "-coordinator",
                spec={
                    "clusterIP": "None",
                    "selector": coordinator,
                    # Hosts look the name up before the coordinator has passed any check.
                    "publishNotReadyAddresses": True,
                    "ports": [{"name": "join", "port": PORT}],
                },
            ),
            described(
                "Job",
                "batch/v1",
                "-coordinator",
                spec=_job(
                    _kept(_pod("coordinator", "", serve, COORDINATOR_MEBIBYTES + mebibytes, (), name)), coordinator
                ),
            ),
            described(
                "Job",
                "batch/v1",
                "-host",
                spec={
                    "completionMode": "Indexed",
                    "completions": plan.hosts,
                    "parallelism": plan.hosts,
                    **_job(_pod("host", "-host", join, mebibytes, (index,), name), hosts),
                },
            ),
        ]
    )


def check_name(field: str, name: str) -> None:
    """Raise ScenarioError unless a name is one that Kubernetes and Docker allow."""
    if not NAME.fullmatch(name):
        raise ScenarioError(field, name, "expected lower-case letters, digits and hyphens, at most 42, a letter first")


def serve_command(plan: Plan, arguments: Sequence[str], token_file: str) -> list[str]:
    """Return the command of the coordinator in a container, for a scenario with these flags."""
    serve = ["coordinator", "serve", *arguments, f"--hosts={plan.hosts}", f"--listen=0.0.0.0:{PORT}"]
    return [*serve, f"--token-file={token_file}", "--join-seconds=600s", "--out=/runs/run"]


def join_command(coordinator: str, token_file: str) -> list[str]:
    """Return the command of a host in a container; the host finds the coordinator by this name."""
    return ["emunode", f"--coordinator={coordinator}:{PORT}", f"--token-file={token_file}", "--join-seconds=600"]


def host_mebibytes(plan: Plan) -> int:
    """Return the memory of a host that a cluster sets aside."""
    return HOST_MEBIBYTES + ceil(2 * memory_bytes(plan) / plan.hosts / MEBIBYTE)


def image_of(suffix: str) -> str:
    """Return the name of an image of this version."""
    return f"collective-testbench{suffix}:{__version__}"


def needs_comment(plan: Plan) -> str:
    """Return the comment at the top of the manifest: what the pods need, and where the run directory is."""
    return (
        f"# {plan.topology.name}: {plan.hosts} hosts, {descriptors_per_host(plan)} open files each; pods dial each other.\n"
        f"# The run directory is in the pod of the coordinator, in /runs/run; from the container {RESULTS} it is fetched:\n"
        f"# kubectl exec job/NAME-coordinator -c {RESULTS} -- tar -C /runs -c run | tar -x\n"
        f"# kubectl exec job/NAME-coordinator -c {RESULTS} -- touch /runs/fetched\n"
    )


def _job(pod: Mapping[str, object], labels: Mapping[str, str]) -> dict[str, object]:
    return {"backoffLimit": 0, "template": {"metadata": {"labels": labels}, "spec": pod}}


def _kept(pod: dict[str, Any]) -> dict[str, Any]:
    """Return a pod whose second container runs until the run directory is fetched."""
    (main,) = pod["containers"]
    small = {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}}
    keeper = {**main, "name": RESULTS, "command": ["sh", "-c", KEEP], "resources": small}
    return {**pod, "containers": [main, keeper]}


def _pod(
    container: str, image: str, command: Sequence[str], mebibytes: int, variables: Sequence[Any], name: str
) -> dict[str, Any]:
    """Return a pod with one container, without rights, on a read-only root."""
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": container,
                "image": image_of(image),
                "command": list(command),
                **({"env": list(variables)} if variables else {}),
                "resources": {
                    "requests": {"cpu": "500m", "memory": f"{mebibytes}Mi"},
                    "limits": {"memory": f"{2 * mebibytes}Mi"},
                },
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
                "volumeMounts": [
                    {"name": "token", "mountPath": TOKEN_FOLDER, "readOnly": True},
                    {"name": "tmp", "mountPath": "/tmp"},
                    {"name": "runs", "mountPath": "/runs"},
                ],
            }
        ],
        "volumes": [
            {"name": "token", "secret": {"secretName": f"{name}-token", "defaultMode": 0o440}},
            {"name": "tmp", "emptyDir": {"sizeLimit": "256Mi"}},
            {"name": "runs", "emptyDir": {"sizeLimit": "4Gi"}},
        ],
    }
