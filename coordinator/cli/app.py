"""The table of commands. A command's module is imported when the command is used, by cyclopts, from the name given here.

Exit status: 0 every claim holds; 1 a claim, a certificate or a stored run is wrong, and nothing else; 2 usage or scenario
error; 3 undecided; 4 the command could not run on this machine; 130 interrupted.
"""

from cyclopts import App

from coordinator.annexes import merged
from emunode import __version__

app = App(
    name="coordinator",
    version=__version__,
    help="Bring up an interconnection network, run a collective on it, and judge the result.",
    help_format="plaintext",
    help_epilogue="`coordinator COMMAND --help` lists the flags of a command, with types, defaults and examples.",
    suppress_keyboard_interrupt=False,
)
# Each summary repeats the first line of the command's docstring: reading it would import the module of the command.
CORE_COMMANDS = {
    "run": ("run:run_command", "Run a scenario."),
    "plan": ("plan:plan_command", "Print what a scenario needs and what theory predicts, without running it."),
    "serve": ("serve:serve_command", "Wait for hosts that are started elsewhere, then run a scenario on them."),
    "campaign": ("campaign:campaign_command", "Run many trials over a grid of scenarios and faults."),
    "sweep": ("sweep:sweep_command", "Run algorithms over networks and sizes, and draw a metric with its lower bound."),
    "verify": ("verify:verify_command", "Check stored runs, campaigns, sweeps and certificate files."),
    "report": ("report:report_command", "Draw the report of a stored run again."),
    "open": ("runs:open_command", "Show the report of a run in the browser, and print its path."),
    "compare": ("compare:compare_command", "Compare stored runs: what differs in their scenarios, metrics and claims."),
    "doctor": ("doctor:doctor_command", "Check what this machine offers: limits, loopback, disk, clock, containers."),
    "clean": ("clean:clean_command", "Remove what killed runs of this folder have left."),
    "image": ("image:image_command", "Build the container images with Docker."),
    "compose": ("image:compose_command", "Print a compose file."),
    "list topologies": ("listing:topologies_command", "List the families of networks, with the form of their names."),
    "list algorithms": ("listing:algorithms_command", "List the algorithms, or describe one in full."),
    "list faults": ("listing:faults_command", "List the kinds of fault and their syntax, and the sets of faults."),
    "list placements": ("listing:placements_command", "List the placements: the nodes that share a host."),
    "list runs": ("runs:runs_command", "List the stored runs, newest first."),
}
CORE_GROUPS = {
    "list": "List the topologies, the algorithms, the kinds of fault, and stored runs.",
}
COMMANDS = {words: (f"coordinator.cli.{target}", summary) for words, (target, summary) in CORE_COMMANDS.items()}
COMMANDS |= merged("commands")
"""The target and the summary of every command, by its words."""

groups = {name: App(name=name, help=text) for name, text in {**CORE_GROUPS, **merged("groups")}.items()}
for group in groups.values():
    app.command(group)
for words, (target, summary) in COMMANDS.items():
    *parents, name = words.split()
    (groups[parents[0]] if parents else app).command(target, name=name, help=summary)
app.command(
    "coordinator.cli.completion:install_completion", name="--install-completion", help="Install shell completion."
)
