"""A small kubelet: it accepts a manifest, starts a process for each pod, reports states and kills on delete.

Pods share this machine, so names of services become 127.0.0.1, the port of the coordinator becomes a free one, and paths of
mounts become folders below the folder of the pod. Everything else is taken from the manifest as Kubernetes would.
"""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from tests.helpers.command_line import SECONDS, Running, free_port

INDEX_PATH: Final = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
KNOWN: Final = {"Secret": "v1", "Service": "v1", "Job": "batch/v1"}


@dataclass
class Pod:
    """A pod and the processes of its containers."""

    name: str
    job: str
    index: int | None
    folder: Path
    containers: dict[str, Running]
    mounts: dict[str, Path]

    @property
    def phase(self) -> str:
        """The phase of the pod, as Kubernetes names it."""
        statuses = [running.process.poll() for running in self.containers.values()]
        return "Running" if None in statuses else "Failed" if any(statuses) else "Succeeded"


@dataclass
class FakeKubelet:
    """Objects of one cluster, and the pods that its jobs have started."""

    folder: Path
    objects: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    pods: list[Pod] = field(default_factory=list)
    _ports: dict[int, int] = field(default_factory=dict)

    # --- objects -----------------------------------------------------------------------------------------------------

    def apply(self, manifest: str) -> None:
        """Accept the objects of a manifest, and start the pods of its jobs."""
        documents = [document for document in yaml.safe_load_all(manifest) if document]
        for document in documents:
            kind, name = document["kind"], document["metadata"]["name"]
            assert KNOWN[kind] == document["apiVersion"], f"{kind} {document['apiVersion']} is not known"
            assert (kind, name) not in self.objects, f"{kind} {name} exists"
            self.objects[kind, name] = document
        for document in documents:
            if document["kind"] == "Job":
                self._start_job(document)

    def delete(self, kind: str, name: str) -> None:
        """Delete an object; the pods of a job get SIGTERM, and SIGKILL after the grace period."""
        document = self.objects.pop((kind, name))
        if kind == "Job":
            pods = [pod for pod in self.pods if pod.job == document["metadata"]["name"]]
            for pod in pods:
                for running in pod.containers.values():
                    if running.process.poll() is None:
                        running.process.send_signal(signal.SIGTERM)
            deadline = time.monotonic() + 10
            for process in (running.process for pod in pods for running in pod.containers.values()):
                try:
                    process.wait(max(deadline - time.monotonic(), 0))
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    def job_state(self, name: str) -> Mapping[str, int]:
        """Return the number of pods of a job by phase."""
        phases = [pod.phase for pod in self.pods if pod.job == name]
        return {phase: phases.count(phase) for phase in sorted(set(phases))}

    def wait_for_job(self, name: str) -> Mapping[str, int]:
        """Wait until no pod of a job runs; return their number by phase."""
        deadline = time.monotonic() + SECONDS
        while "Running" in self.job_state(name):
            assert time.monotonic() < deadline, self.output(name)
            time.sleep(0.05)
        return self.job_state(name)

    def wait_for_container(self, job: str, name: str) -> None:
        """Wait until a container of the only pod of a job has ended."""
        (pod,) = (pod for pod in self.pods if pod.job == job)
        pod.containers[name].process.wait(SECONDS)

    def execute(self, job: str, name: str, line: str) -> bytes:
        """Execute a command in a container of the only pod of a job, as `kubectl exec`; the container has to run."""
        (pod,) = (pod for pod in self.pods if pod.job == job)
        assert pod.containers[name].process.poll() is None, "cannot execute a command in a container that has ended"
        words = [self._translated(word, pod.mounts) for word in line.split()]
        return subprocess.run(words, stdout=subprocess.PIPE, check=True, timeout=SECONDS).stdout

    def output(self, name: str) -> str:
        """Return the output of the pods of a job."""
        found = (running for pod in self.pods if pod.job == name for running in pod.containers.values())
        return "\n".join(running.out + running.err for running in found)

    def close(self) -> None:
        """Kill everything that runs."""
        for pod in self.pods:
            for running in pod.containers.values():
                running.close()

    # --- pods --------------------------------------------------------------------------------------------------------

    def _start_job(self, job: Mapping[str, Any]) -> None:
        spec, name = job["spec"], job["metadata"]["name"]
        assert spec["backoffLimit"] == 0
        indexed = spec.get("completionMode") == "Indexed"
        assert spec.get("parallelism", 1) == spec.get("completions", 1), "all pods are needed at once"
        for index in range(spec.get("completions", 1)):
            template = spec["template"]
            assert template["spec"]["restartPolicy"] == "Never"
            self._start_pod(name, index if indexed else None, template["spec"])

    def _start_pod(self, job: str, index: int | None, spec: Mapping[str, Any]) -> None:
        name = job if index is None else f"{job}-{index}"
        folder = self.folder / name
        folder.mkdir()
        containers = spec["containers"]
        mounts = self._mount(folder, spec["volumes"], containers[0]["volumeMounts"])
        pod = Pod(name, job, index, folder, {}, mounts)
        for container in containers:
            assert container["volumeMounts"] == containers[0]["volumeMounts"]
            variables = self._variables(container.get("env", ()), index)
            words = [self._translated(self._expanded(word, variables), mounts) for word in container["command"]]
            program = words if words[0] == "sh" else [sys.executable, "-m", *words]
            pod.containers[container["name"]] = Running(folder, program, **variables, XDG_STATE_HOME=folder / "state")
        self.pods.append(pod)

    def _mount(
        self, folder: Path, volumes: Sequence[Mapping[str, Any]], mounts: Sequence[Mapping[str, Any]]
    ) -> dict[str, Path]:
        """Create the volumes of a pod; return the folder by path in the container."""
        found = {}
        for mount in mounts:
            volume = next(each for each in volumes if each["name"] == mount["name"])
            place = folder / "volumes" / volume["name"]
            place.mkdir(parents=True)
            if "secret" in volume:
                secret = self.objects["Secret", volume["secret"]["secretName"]]
                for key, text in secret["stringData"].items():
                    (place / key).write_text(text)
                    (place / key).chmod(volume["secret"]["defaultMode"])
                assert mount["readOnly"]
            else:
                assert "emptyDir" in volume
            found[mount["mountPath"]] = place
        return found

    @staticmethod
    def _variables(declared: Sequence[Mapping[str, Any]], index: int | None) -> dict[str, str]:
        found = {}
        for each in declared:
            path = each["valueFrom"]["fieldRef"]["fieldPath"]
            assert path == INDEX_PATH, f"the field {path} is not known"
            assert index is not None, "only pods of an indexed job have an index"
            found[each["name"]] = str(index)
        return found

    @staticmethod
    def _expanded(word: str, variables: Mapping[str, str]) -> str:
        """Replace `$(NAME)` by the variable of that name, as Kubernetes does in commands."""
        return re.sub(r"\$\((\w+)\)", lambda match: variables.get(match[1], match[0]), word)

    def _translated(self, word: str, mounts: Mapping[str, Path]) -> str:
        """Replace what one machine cannot have many of: names of services, ports, and paths of containers."""
        for kind, name in self.objects:
            if kind == "Service":
                service = self.objects[kind, name]
                assert service["spec"]["clusterIP"] == "None"
                (port,) = (each["port"] for each in service["spec"]["ports"])
                free = self._ports.setdefault(port, free_port())
                word = re.sub(rf"\b{re.escape(name)}:{port}\b", f"127.0.0.1:{free}", word)
                word = word.replace(f"0.0.0.0:{port}", f"127.0.0.1:{free}")
        if " " in word:  # a script
            for mounted, folder in mounts.items():
                word = word.replace(f" {mounted}/", f" {folder}/")
            return word
        name, separator, path = word.rpartition("=")
        for mounted, folder in mounts.items():
            if path == mounted or path.startswith(f"{mounted}/"):
                return f"{name}{separator}{folder}{path.removeprefix(mounted)}"
        return word
