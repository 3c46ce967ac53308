"""`coordinator manifest kubernetes`."""

import secrets
from typing import Annotated

from cyclopts import Parameter

from coordinator.cli.documents import print_json
from coordinator.cli.given import values_from
from coordinator.cli.options import ScenarioFile, ScenarioFlags
from coordinator.cli.output import JsonFlag, as_command
from coordinator.manifests.kubernetes import kubernetes_manifest, needs_comment
from coordinator.planning.plan import make_plan
from coordinator.scenario.command import scenario_flags
from coordinator.scenario.model import make_scenario
from emunode.errors import ScenarioError
from emunode.terminal import say


def kubernetes(
    scenario: ScenarioFile = None,
    *,
    flags: ScenarioFlags = None,
    hosts: Annotated[int | None, Parameter(help="number of hosts; default: as --ranks-per-host requires")] = None,
    job_name: Annotated[str, Parameter(help="name of the run in the cluster")] = "testbench",
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
    wanted = make_scenario(values_from(scenario, flags) | {"driver": "join"})
    if wanted.plugin or wanted.topology.startswith("file:"):
        raise ScenarioError("scenario", wanted.topology, "its files are on this machine; pods have only the image")
    plan = make_plan(wanted, hosts)
    # `coordinator serve` has no other driver.
    arguments = scenario_flags(wanted.model_copy(update={"driver": "local"}))
    content = kubernetes_manifest(plan, arguments, job_name, token or secrets.token_hex(32), namespace)
    text = needs_comment(plan) + content
    if json:
        print_json({"content": text, "hosts": plan.hosts})
    else:
        say(text, end="")
    return 0


kubernetes_command = as_command(kubernetes)
