"""`coordinator manifest`: files for Kubernetes, Docker Compose or a Docker swarm to start a run from."""

import secrets
from typing import Annotated

from cyclopts import Parameter

from coordinator.annexes.clusters.containers import compose_file, swarm_file
from coordinator.annexes.clusters.kubernetes import kubernetes_manifest, needs_comment
from coordinator.cli.documents import print_json
from coordinator.cli.given import values_from
from coordinator.cli.options import ScenarioFile, ScenarioFlags
from coordinator.cli.output import JsonFlag, as_command
from coordinator.planning.plan import Plan, make_plan
from coordinator.scenario.command import scenario_flags
from coordinator.scenario.model import make_scenario
from emunode.errors import ScenarioError
from emunode.terminal import say

Hosts = Annotated[int | None, Parameter(help="number of hosts; default: as --ranks-per-host requires")]
JobName = Annotated[str, Parameter(help="name of the run in the cluster")]


def kubernetes(
    scenario: ScenarioFile = None,
    *,
    flags: ScenarioFlags = None,
    hosts: Hosts = None,
    job_name: JobName = "testbench",
    namespace: Annotated[str, Parameter(help="namespace of all objects")] = "default",
    token: Annotated[str | None, Parameter(help="secret of the run, as hexadecimal digits; default: a new one")] = None,
    json: JsonFlag = False,
) -> int:
    """Print a manifest that runs a scenario on Kubernetes.

    The coordinator and its hosts are pods of two jobs. The images have to be where the nodes of the cluster find them.

    Examples:
      coordinator manifest kubernetes --topology star:5 --collective broadcast \\
          --algorithm edt --hosts 12
      coordinator manifest kubernetes scenario.toml --job-name demo --namespace lab
    """
    plan, arguments = _served(scenario, flags, hosts)
    content = kubernetes_manifest(plan, arguments, job_name, token or secrets.token_hex(32), namespace)
    return _print(needs_comment(plan) + content, plan, json)


def compose(
    scenario: ScenarioFile = None,
    *,
    flags: ScenarioFlags = None,
    hosts: Hosts = None,
    job_name: JobName = "testbench",
    json: JsonFlag = False,
) -> int:
    """Print a file that runs a scenario on Docker Compose.

    The coordinator creates the secret of the run in a volume that its hosts read.

    Examples:
      coordinator manifest compose --topology star:5 --collective broadcast \\
          --algorithm edt --hosts 12
      coordinator manifest compose scenario.toml --job-name demo
    """
    plan, arguments = _served(scenario, flags, hosts)
    return _print(compose_file(plan, arguments, job_name), plan, json)


def swarm(
    scenario: ScenarioFile = None,
    *,
    flags: ScenarioFlags = None,
    hosts: Hosts = None,
    job_name: JobName = "testbench",
    json: JsonFlag = False,
) -> int:
    """Print a file that runs a scenario on a Docker swarm.

    The swarm has to have the secret JOB-NAME-token, as the first lines of the file say.

    Examples:
      coordinator manifest swarm --topology star:5 --collective broadcast \\
          --algorithm edt --hosts 12
      coordinator manifest swarm scenario.toml --job-name demo
    """
    plan, arguments = _served(scenario, flags, hosts)
    return _print(swarm_file(plan, arguments, job_name), plan, json)


def _served(scenario: ScenarioFile, flags: ScenarioFlags, hosts: int | None) -> tuple[Plan, list[str]]:
    """Return the plan of a scenario and its flags for `coordinator serve`; ScenarioError if it needs files from here."""
    wanted = make_scenario(values_from(scenario, flags) | {"driver": "join"})
    if wanted.plugin or wanted.topology.startswith("file:"):
        raise ScenarioError("scenario", wanted.topology, "its files are on this machine; pods have only the image")
    plan = make_plan(wanted, hosts)
    # `coordinator serve` has no other driver.
    return plan, scenario_flags(wanted.model_copy(update={"driver": "local"}))


def _print(text: str, plan: Plan, json: bool) -> int:
    if json:
        print_json({"content": text, "hosts": plan.hosts})
    else:
        say(text, end="")
    return 0


kubernetes_command = as_command(kubernetes)
compose_command = as_command(compose)
swarm_command = as_command(swarm)
