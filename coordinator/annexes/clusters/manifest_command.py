"""`coordinator manifest`: files for Kubernetes, Docker Compose or a Docker swarm to start a run from."""

import secrets
from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Annotated

from cyclopts import Parameter

from coordinator.annexes.clusters.containers import compose_file, swarm_file
from coordinator.annexes.clusters.kubernetes import kubernetes_manifest, needs_comment
from coordinator.cli.given import values_from
from coordinator.cli.options import ScenarioFlags, ScenarioWords
from coordinator.cli.output import Command, as_command
from coordinator.planning.plan import Plan, make_plan
from coordinator.scenario.command import scenario_flags
from coordinator.scenario.model import make_scenario
from emunode.errors import ScenarioError
from emunode.terminal import print_json, say


@dataclass
class ManifestCommand(Command, ABC):
    """A command that prints a file to start a run from."""

    scenario: ScenarioWords = ()
    _: KW_ONLY
    flags: ScenarioFlags = None
    hosts: Annotated[int | None, Parameter(help="number of hosts; default: as --ranks-per-host requires")] = None
    job_name: Annotated[str, Parameter(help="name of the run in the cluster")] = "testbench"

    def __call__(self) -> int:
        wanted = make_scenario(values_from(self.scenario, self.flags) | {"driver": "join"})
        if wanted.plugin or wanted.topology.startswith("file:"):
            raise ScenarioError("scenario", wanted.topology, "its files are on this machine; pods have only the image")
        plan = make_plan(wanted, self.hosts)
        # `coordinator serve` has no other driver.
        text = self.text(plan, scenario_flags(wanted.model_copy(update={"driver": "local"})))
        if self.json:
            print_json({"content": text, "hosts": plan.hosts})
        else:
            say(text, end="")
        return 0

    @abstractmethod
    def text(self, plan: Plan, arguments: list[str]) -> str:
        """Return the file for a plan; `arguments` are the flags of its scenario for `coordinator serve`."""


@as_command
@dataclass(kw_only=True)
class KubernetesCommand(ManifestCommand):
    """Print a manifest that runs a scenario on Kubernetes.

    The coordinator and its hosts are pods of two jobs. The images have to be where the nodes of the cluster find them.

    Examples:
      coordinator manifest kubernetes --topology star:5 --collective broadcast \\
          --algorithm edt --hosts 12
      coordinator manifest kubernetes scenario.toml --job-name demo --namespace lab
    """

    namespace: Annotated[str, Parameter(help="namespace of all objects")] = "default"
    token: Annotated[str | None, Parameter(help="secret of the run, as hexadecimal digits; default: a new one")] = None

    def text(self, plan: Plan, arguments: list[str]) -> str:
        token = self.token or secrets.token_hex(32)
        return needs_comment(plan) + kubernetes_manifest(plan, arguments, self.job_name, token, self.namespace)


@as_command
class ComposeCommand(ManifestCommand):
    """Print a file that runs a scenario on Docker Compose.

    The coordinator creates the secret of the run in a volume that its hosts read.

    Examples:
      coordinator manifest compose --topology star:5 --collective broadcast \\
          --algorithm edt --hosts 12
      coordinator manifest compose scenario.toml --job-name demo
    """

    def text(self, plan: Plan, arguments: list[str]) -> str:
        return compose_file(plan, arguments, self.job_name)


@as_command
class SwarmCommand(ManifestCommand):
    """Print a file that runs a scenario on a Docker swarm.

    The swarm has to have the secret JOB-NAME-token, as the first lines of the file say.

    Examples:
      coordinator manifest swarm --topology star:5 --collective broadcast \\
          --algorithm edt --hosts 12
      coordinator manifest swarm scenario.toml --job-name demo
    """

    def text(self, plan: Plan, arguments: list[str]) -> str:
        return swarm_file(plan, arguments, self.job_name)
