"""The table of commands. A command's module is imported when the command is used, by cyclopts, from the name given here.

Exit status: 0 every claim holds; 1 a claim, a certificate or a stored run is wrong, and nothing else; 2 usage or scenario
error; 3 undecided; 4 the command could not run on this machine; 130 interrupted.
"""

from cyclopts import App

from emunode import __version__

app = App(
    name="coordinator",
    version=__version__,
    help="Bring up an interconnection network, run a collective on it, and judge the result.",
    help_format="plaintext",
    help_epilogue="`coordinator COMMAND --help` lists the flags of a command, with types, defaults and examples.",
    suppress_keyboard_interrupt=False,
)
lister = App(name="list", help="List the topologies, the algorithms, the kinds of fault, and stored runs.")
judges = App(name="judge", help="Judge what other software sent: an MPI library, a program, a table of traffic.")
manifests = App(name="manifest", help="Print a file that a cluster starts a run from.")
maker = App(name="new", help="Write a file to start from: an algorithm or a network of your own.")

# Each summary repeats the first line of the command's docstring: reading it would import the module of the command.
COMMANDS = {
    "run": ("run:run_command", "Run a scenario."),
    "plan": ("plan:plan_command", "Print what a scenario needs and what theory predicts, without running it."),
    "graph": ("graph:graph_command", "Print the properties of a network as a graph, and draw it."),
    "serve": ("serve:serve_command", "Wait for hosts that are started elsewhere, then run a scenario on them."),
    "campaign": ("campaign:campaign_command", "Run many trials over a grid of scenarios and faults."),
    "sweep": ("sweep:sweep_command", "Run algorithms over networks and sizes, and draw a metric with its lower bound."),
    "certify": ("certify:certify_command", "Decide every set of faults up to symmetry, or find a smallest counterexample."),
    "verify": ("verify:verify_command", "Check stored runs, campaigns, sweeps and certificate files."),
    "check": ("check:check_command", "Grade a submission, an algorithm, a network or trees, or judge schedules from files."),
    "report": ("report:report_command", "Draw the report of a stored run again."),
    "open": ("runs:open_command", "Show the report of a run in the browser, and print its path."),
    "compare": ("compare:compare_command", "Compare stored runs: what differs in their scenarios, metrics and claims."),
    "pack": ("pack:pack_command", "Write a run or a certificate into one archive that others can judge."),
    "export": ("export:export_command", "Write a network, its trees, a schedule or figures for papers and other programs."),
    "reproduce": ("reproduce:reproduce_command", "Re-run a paper's experiments: published, predicted and measured values."),
    "doctor": ("doctor:doctor_command", "Check what this machine offers: limits, loopback, disk, clock, containers."),
    "clean": ("clean:clean_command", "Remove what killed runs left behind."),
    "image": ("image:image_command", "Build the container images with Docker."),
    "compose": ("image:compose_command", "Print a compose file."),
}  # fmt: skip
LISTS = {
    "topologies": (
        "listing:topologies_command",
        "List the families of networks, with the form of their names.",
    ),
    "algorithms": ("listing:algorithms_command", "List the algorithms, or describe one in full."),
    "faults": ("listing:faults_command", "List the kinds of fault and their syntax, and the sets of faults."),
    "placements": ("listing:placements_command", "List the placements: the nodes that share a host."),
    "runs": ("runs:runs_command", "List the stored runs, newest first."),
}
NEW = {
    "algorithm": (
        "new:algorithm_command",
        "Write an algorithm to start from: flooding, or for a reduce a tree. `coordinator check` accepts it.",
    ),
    "topology": (
        "new:topology_command",
        "Write a family of networks to start from: a ring. `coordinator check` accepts it.",
    ),
}
JUDGES = {
    "mpi": (
        "judge:mpi_command",
        "Judge the collectives of the MPI library on this machine: who sent how much to whom.",
    ),
    "traffic": (
        "traffic:traffic_command",
        "Show a table of traffic that another tool measured, and compare it with a rule.",
    ),
}

MANIFESTS = {
    "compose": ("manifest:compose_command", "Print a file that runs a scenario on Docker Compose."),
    "kubernetes": ("manifest:kubernetes_command", "Print a manifest that runs a scenario on Kubernetes."),
    "swarm": ("manifest:swarm_command", "Print a file that runs a scenario on a Docker swarm."),
}

app.command(lister)
app.command(judges)
app.command(manifests)
app.command(maker)
for parent, table in ((app, COMMANDS), (lister, LISTS), (judges, JUDGES), (manifests, MANIFESTS), (maker, NEW)):
    for name, (target, summary) in table.items():
        parent.command(f"coordinator.cli.{target}", name=name, help=summary)
app.command(
    "coordinator.cli.completion:install_completion", name="--install-completion", help="Install shell completion."
)
