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

from tests.command_line import SECONDS, Running, free_port

INDEX_PATH: Final = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
KNOWN: Final = {"Secret": "v1", "Service": "v1", "Job": "batch/v1"}


@dataclass
class Pod:
    """A pod and its process."""

    name: str
    job: str
    index: int | None
    folder: Path
    running: Running

    @property
    def phase(self) -> str:
        """The phase of the pod, as Kubernetes names it."""
        status = self.running.process.poll()
        return "Running" if status is None else "Succeeded" if status == 0 else "Failed"


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
                if pod.phase == "Running":
                    pod.running.process.send_signal(signal.SIGTERM)
            deadline = time.monotonic() + 10
            for pod in pods:
                try:
                    pod.running.process.wait(max(deadline - time.monotonic(), 0))
                except subprocess.TimeoutExpired:
                    pod.running.process.kill()
                    pod.running.process.wait()

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

    def output(self, name: str) -> str:
        """Return the output of the pods of a job."""
        return "\n".join(pod.running.out + pod.running.err for pod in self.pods if pod.job == name)

    def close(self) -> None:
        """Kill everything that runs."""
        for pod in self.pods:
            pod.running.close()

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
        (container,) = spec["containers"]
        mounts = self._mount(folder, spec["volumes"], container["volumeMounts"])
        variables = self._variables(container.get("env", ()), index)
        words = [self._translated(self._expanded(word, variables), mounts) for word in container["command"]]
        running = Running(folder, [sys.executable, "-m", *words], **variables, XDG_STATE_HOME=folder / "state")
        self.pods.append(Pod(name, job, index, folder, running))

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
        name, separator, path = word.partition("=")
        for mounted, folder in mounts.items():
            if path == mounted or path.startswith(f"{mounted}/"):
                return f"{name}{separator}{folder}{path.removeprefix(mounted)}"
        return word
