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
    "run": ("run:RunCommand", "Run a scenario."),
    "plan": ("plan:plan", "Print what a scenario needs and what theory predicts, without running it."),
    "serve": ("serve:serve", "Wait for hosts that are started elsewhere, then run a scenario on them."),
    "campaign": ("campaign:campaign_command", "Run many trials over a grid of scenarios and faults."),
    "sweep": ("sweep:SweepCommand", "Run algorithms over networks and sizes, and draw a metric with its lower bound."),
    "verify": ("verify:verify", "Check stored runs, campaigns, sweeps and certificate files."),
    "report": ("report:report", "Draw the report of a stored run again."),
    "open": ("runs:open_run", "Show the report of a run in the browser, and print its path."),
    "compare": ("compare:compare_runs", "Compare stored runs: what differs in their scenarios, metrics and claims."),
    "doctor": ("doctor:doctor", "Check what this machine offers: limits, loopback, disk, clock, containers."),
    "clean": ("clean:clean", "Remove what killed runs of this folder have left."),
    "image": ("image:image", "Build the container images with Docker."),
    "compose": ("image:compose", "Print a compose file."),
    "list topologies": ("listing:TopologiesCommand", "List the families of networks, with the form of their names."),
    "list algorithms": ("listing:algorithms_command", "List the algorithms, or describe one in full."),
    "list faults": ("listing:FaultsCommand", "List the kinds of fault and their syntax, and the sets of faults."),
    "list placements": ("listing:PlacementsCommand", "List the placements: the nodes that share a host."),
    "list runs": ("runs:RunsCommand", "List the stored runs, newest first."),
}
CORE_GROUPS = {
    "list": "List the topologies, the algorithms, the kinds of fault, and stored runs.",
}
groups = {name: App(name=name, help=text) for name, text in {**CORE_GROUPS, **merged("groups")}.items()}
_core = {words: (f"coordinator.cli.{target}", summary) for words, (target, summary) in CORE_COMMANDS.items()}
_all = _core | merged("commands")
COMMANDS = {words: each for words, each in _all.items() if words.split()[0] in {*_all, *groups}}
"""The target and the summary of every command, by its words; without those below the command of a missing annex."""

for group in groups.values():
    app.command(group)
for words, (target, summary) in COMMANDS.items():
    *parents, name = words.split()
    parent = groups.get(parents[0]) if parents else app
    if parent is not None:  # a command adds the commands below it
        parent.command(target, name=name, help=summary)
app.command(
    "coordinator.cli.completion:install_completion", name="--install-completion", help="Install shell completion."
)
